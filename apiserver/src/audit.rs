//! The audit: who changed what, and who was refused what, as `audit.k8s.io/v1` events.
//!
//! ```text
//!   begin ──► RequestReceived ──► (the request runs) ──► answered ──► ResponseComplete ──► the answer goes out
//!     │ policy: level, stages            │                  └─► of what lasts: ResponseStarted, and ResponseComplete at its end
//!     ├ None: nothing more costs         └─► dropped before: Panic, or ResponseComplete with 499
//!     └ only some answers are recorded ──► begin_late
//! ```
//!
//! Without a policy a request that only reads is recorded for its answer's sake alone (refused, or switched to a stream), and
//! has no record before: what is answered as it should be costs nothing.
//!
//! # Invariants
//! - A request that changed something or was refused has its last event in the log before the last byte of its answer goes
//!   out: a crash of the process loses none (in the modes `blocking` and `blocking-strict` of any request, in `batch` of none).
//! - Exactly one last event per request: [`Record`] is written once, by `answered`, or when it is dropped.
//! - Credentials and the causes of refusals are in no event.
//!
//! Source: `apiserver/pkg/endpoints/filters/{audit,authn_audit}.go`.

mod counts;
mod document;
mod event;
mod log;
mod policy;
mod webhook;

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use api::{
    growth::{TREE_BYTES_MAX, tree_bytes_of_json, tree_bytes_of_text},
    status::Status,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use jiff::Timestamp;
use serde_json::Value;
use tasks::Tasks;
use tokio::time::Instant;

pub(crate) use counts::Metrics;
pub use log::LogError;
pub use policy::PolicyError;
pub use webhook::{Batching, WebhookError};

use crate::{
    negotiate::MediaType,
    protobuf,
    refusal::Refusal,
    request::{
        DOCUMENT_BYTES_MAX, Decided, Level, ManagedFields, RequestContext, RequestInfo, Trail,
        UserInfo, Verb,
    },
    respond::Response,
};
use counts::{Counts, add};
use event::{Asked, Outcome, Target};
use log::{Late, Log, Lost, Receipt, Rotation, When};
use policy::{Policy, Stage, Stages, Treatment};
use webhook::{Queue, Sender};

/// Longest id that is taken over from a client.
const ID_BYTES_MAX: usize = 64;
/// The code of an answer after which both sides say what they like.
const CODE_SWITCHED: u16 = 101;
/// The code of an event whose client went away before the answer. Nobody has seen it; what the request has changed stays.
const CODE_CLIENT_GONE: u16 = 499;
/// How the names of all headers begin that make a request somebody else's.
const IMPERSONATION_PREFIX: &str = "impersonate-";
/// The largest body that may be a `Status` which tells of success.
const STATUS_BYTES_MAX: usize = 4096;

/// What is recorded, and where.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The policy, as kube-apiserver reads it. Without one, changes, refusals, impersonations and streams are recorded, at
    /// level Metadata.
    pub policy_file: Option<PathBuf>,
    /// The log.
    pub log: Option<LogConfig>,
    /// The webhook.
    pub webhook: Option<WebhookConfig>,
}

/// How the log is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The file; `-` is standard output.
    pub path: String,
    /// Whether requests wait for their events.
    pub mode: LogMode,
    /// Mebibytes of a file; 0 sets no limit.
    pub max_size_mib: u32,
    /// Days that full files are kept; 0 sets no limit.
    pub max_age_days: u32,
    /// Full files that are kept; 0 sets no limit.
    pub max_backups: usize,
    /// Whether full files are compressed.
    pub compresses: bool,
}

/// Whether requests wait for their events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogMode {
    /// Those that change something, read Secrets, act as somebody else, become a stream or are refused do, for a second at
    /// most; events that cannot be written are lost. The events of others are written within a moment, together.
    #[default]
    BlockingChanges,
    /// All of them do.
    Blocking,
    /// A request whose first event cannot be written is refused.
    BlockingStrict,
    /// They do not.
    Batch,
}

/// How the webhook is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookConfig {
    /// A kubeconfig that names its server.
    pub kubeconfig: PathBuf,
    /// In which batches.
    pub batching: Batching,
}

/// Why there is no audit.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The policy file cannot be read.
    #[error("{} (--audit-policy-file) cannot be read", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The policy file is none.
    #[error("{} (--audit-policy-file) is no policy", path.display())]
    Policy {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: PolicyError,
    },
    /// The mode `blocking-strict` would refuse nothing.
    #[error("--audit-log-mode=blocking-strict needs events of the stage RequestReceived: {0}")]
    NotStrict(&'static str),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The webhook.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
}

/// Records requests.
#[derive(Debug)]
pub(crate) struct Audit {
    selection: Selection,
    /// `None` where nothing is recorded.
    backends: Option<Arc<Backends>>,
    counts: Arc<Counts>,
}

/// Which requests are recorded.
#[derive(Debug)]
enum Selection {
    /// Those that change something, are refused, act as somebody else, or become a stream.
    Changes,
    /// What a policy says.
    Policy(Policy),
}

#[derive(Debug)]
struct Backends {
    log: Option<(Log, LogMode)>,
    webhook: Option<Arc<Queue>>,
    counts: Arc<Counts>,
}

/// What is known of a request when it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a> {
    pub(crate) audit_id: &'a HeaderValue,
    pub(crate) parts: &'a Parts,
    /// What its path says, if it says anything.
    pub(crate) info: Option<&'a RequestInfo>,
    /// Who sends it, before impersonation; `None` where nobody knows.
    pub(crate) user: Option<&'a Arc<UserInfo>>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) at: Timestamp,
}

/// The events of one request. Dropped before it was answered, by a client that went away or by a panic, it is written then: the
/// request may have changed something.
#[derive(Debug)]
pub(crate) struct Record {
    backends: Arc<Backends>,
    trail: Arc<Trail>,
    asked: Asked,
    omitted: Stages,
    /// Whether a request that only reads leaves no event if all goes well.
    is_selective: bool,
    /// Whether it asks for nothing that must be in the log before its answer, unless it is refused.
    is_harmless: bool,
    outcome: Option<Outcome>,
    /// Whether the last event is written.
    is_over: bool,
    /// What the last event is of, where it is made a line of later.
    last: Option<(Stage, Timestamp)>,
}

/// How long an answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// It is there.
    Whole,
    /// It may go on for as long as it likes.
    LongRunning,
    /// Its sender is not known, or its deadline makes no sense: nothing was recorded of it before.
    Early,
}

/// The id of a request: the client's `Audit-ID`, or a fresh UUID.
pub(crate) fn id_of(headers: &HeaderMap) -> HeaderValue {
    let is_good =
        |id: &&HeaderValue| !id.is_empty() && id.len() <= ID_BYTES_MAX && id.to_str().is_ok();
    headers
        .get("audit-id")
        .filter(is_good)
        .map_or_else(fresh_id, Clone::clone)
}

fn fresh_id() -> HeaderValue {
    let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    let mut buffer = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut buffer);
    HeaderValue::from_str(text).expect("a UUID is digits, letters and hyphens")
}

// === impl Lasting ===

impl Lasting {
    /// The answer of a request whose sender is known.
    pub(crate) const fn of(is_long_running: bool) -> Self {
        if is_long_running {
            Self::LongRunning
        } else {
            Self::Whole
        }
    }
}

// === impl Audit ===

impl Audit {
    /// Opens what events are written to, and reads which they are.
    ///
    /// # Errors
    /// [`AuditError`].
    pub(crate) async fn open(config: &Config, tasks: &Tasks) -> Result<Self, AuditError> {
        let counts = Arc::new(Counts::default());
        let selection = match &config.policy_file {
            None => Selection::Changes,
            Some(path) => Selection::Policy(read_policy(path)?),
        };
        if let Some(log) = &config.log
            && log.mode == LogMode::BlockingStrict
        {
            selection.check_strict()?;
        }
        let log = match &config.log {
            None => None,
            Some(config) => {
                let rotation = Rotation {
                    bytes_max: u64::from(config.max_size_mib) << 20,
                    count_max: config.max_backups,
                    age_days_max: config.max_age_days,
                    compresses: config.compresses,
                };
                let log = Log::open(&config.path, rotation, Arc::clone(&counts))?;
                Some((log, config.mode))
            }
        };
        let webhook = match &config.webhook {
            None => None,
            Some(config) => {
                let queue = Arc::new(Queue::new(config.batching, Arc::clone(&counts)));
                let sender = Sender::open(&config.kubeconfig, Arc::clone(&queue)).await?;
                tasks.spawn("audit webhook", sender.run(tasks.child_token()));
                Some(queue)
            }
        };
        let has_any = log.is_some() || webhook.is_some();
        let backends = Backends {
            log,
            webhook,
            counts: Arc::clone(&counts),
        };
        Ok(Self {
            selection,
            backends: has_any.then(|| Arc::new(backends)),
            counts,
        })
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> Metrics {
        Metrics(Arc::clone(&self.counts))
    }

    /// Begins the record of a request; `None` where it is not recorded, or only if its answer says so.
    pub(crate) fn begin(&self, arrived: Arrived<'_>) -> Option<Box<Record>> {
        let (backends, treatment) = self.treatment(&arrived)?;
        let is_for_its_answer =
            matches!(self.selection, Selection::Changes) && arrived.only_reads();
        (!is_for_its_answer).then(|| self.record(backends, treatment, arrived))
    }

    /// Begins the record of a request that is refused before it is known who sends it.
    pub(crate) fn begin_refused(&self, arrived: Arrived<'_>) -> Option<Box<Record>> {
        let (backends, treatment) = self.treatment(&arrived)?;
        Some(self.record(backends, treatment, arrived))
    }

    /// Begins the record of a request that had none yet, once it is answered with `code`; `None` where that is no reason to record
    /// it.
    pub(crate) fn begin_late(
        &self,
        arrived: Arrived<'_>,
        context: &RequestContext,
        code: StatusCode,
    ) -> Option<Box<Record>> {
        let Selection::Changes = self.selection else {
            return None;
        };
        let backends = self
            .backends
            .as_ref()
            .filter(|_| is_telling(code.as_u16()))?;
        // It was counted when it arrived.
        let record = self.record(backends, self.selection.treatment(&arrived), arrived);
        if let Some(Decided { allowed, reason }) = &context.decided {
            record.trail.note_decision(*allowed, reason.clone());
        }
        Some(record)
    }

    /// What is recorded of a request, and where; counts it.
    fn treatment(&self, arrived: &Arrived<'_>) -> Option<(&Arc<Backends>, Treatment)> {
        let backends = self.backends.as_ref()?;
        let treatment = self.selection.treatment(arrived);
        self.counts.level(treatment.level);
        (treatment.level != Level::None).then_some((backends, treatment))
    }

    fn record(
        &self,
        backends: &Arc<Backends>,
        treatment: Treatment,
        arrived: Arrived<'_>,
    ) -> Box<Record> {
        Box::new(Record {
            backends: Arc::clone(backends),
            trail: Arc::new(Trail::new(treatment.level, treatment.managed_fields)),
            asked: Asked::new(treatment.level, &arrived),
            omitted: treatment.omitted,
            is_selective: matches!(self.selection, Selection::Changes),
            is_harmless: arrived.only_reads() && !arrived.may_read_secrets(),
            outcome: None,
            is_over: false,
            last: None,
        })
    }

    /// Waits until everything is in the log that was recorded before.
    pub(crate) async fn flushed(&self, patience: Duration) {
        if let Some((log, _)) = self.backends.as_ref().and_then(|it| it.log.as_ref()) {
            log.flushed(patience).await;
        }
    }
}

fn read_policy(path: &PathBuf) -> Result<Policy, AuditError> {
    let text = std::fs::read_to_string(path).map_err(|source| AuditError::Read {
        path: path.clone(),
        source,
    })?;
    let policy = Policy::parse(&text).map_err(|source| AuditError::Policy {
        path: path.clone(),
        source,
    })?;
    for warning in policy.warnings() {
        tracing::warn!(path = %path.display(), warning, "the audit policy has a field without effect");
    }
    Ok(policy)
}

// === impl Selection ===

impl Selection {
    /// Checks that requests can be refused because of their first event: some of them have one.
    fn check_strict(&self) -> Result<(), AuditError> {
        match self {
            Self::Changes => Err(AuditError::NotStrict(
                "without a policy there are none; give one (--audit-policy-file)",
            )),
            Self::Policy(policy) if !policy.records(Stage::RequestReceived) => {
                Err(AuditError::NotStrict(
                    "the policy records none; take the stage out of its omitStages",
                ))
            }
            Self::Policy(_) => Ok(()),
        }
    }

    fn treatment(&self, arrived: &Arrived<'_>) -> Treatment {
        match (self, arrived.info) {
            (Self::Policy(policy), Some(info)) => {
                policy.treatment(arrived.user.map(|user| &**user), info)
            }
            // No rule can be asked about a path that says nothing: a refusal like this is always recorded.
            (Self::Policy(_), None) | (Self::Changes, _) => Treatment {
                level: Level::Metadata,
                omitted: Stages::default().with(Stage::RequestReceived),
                managed_fields: ManagedFields::Omitted,
            },
        }
    }
}

// === impl LogMode ===

impl LogMode {
    /// When an event is written.
    const fn when(self, may_be_late: bool) -> When {
        let is_late = match self {
            Self::Blocking | Self::BlockingStrict => false,
            Self::BlockingChanges => may_be_late,
            Self::Batch => true,
        };
        if is_late { When::Later } else { When::AtOnce }
    }
}

// === impl Arrived ===

impl Arrived<'_> {
    /// Whether the request changes nothing, and is of nobody but its sender.
    fn only_reads(&self) -> bool {
        let headers = &self.parts.headers;
        self.info.is_some_and(|info| info.verb.is_read_only())
            && !headers
                .keys()
                .any(|name| name.as_str().starts_with(IMPERSONATION_PREFIX))
    }

    /// Whether the answer may hold Secrets. A backup does, which is no resource; what is asked through a proxy is not known.
    fn may_read_secrets(&self) -> bool {
        self.info.is_none_or(|info| {
            !info.is_resource
                || info.subresource == "proxy"
                || (info.group.is_empty() && info.resource == "secrets")
        })
    }
}

// === impl Backends ===

impl Backends {
    fn write(&self, line: Vec<u8>, may_be_late: bool) -> Receipt {
        add(&self.counts.events, 1);
        let receipt = match &self.log {
            None => Receipt::Done(Ok(())),
            Some((log, mode)) => log.append(&line, mode.when(may_be_late)),
        };
        if let Some(webhook) = &self.webhook {
            let mut event = Bytes::from(line);
            event.truncate(event.len().saturating_sub(1));
            webhook.push(event);
        }
        receipt
    }
}

// === impl Record ===

impl Record {
    /// What the request's way is noted in.
    pub(crate) fn trail(&self) -> Arc<Trail> {
        Arc::clone(&self.trail)
    }

    /// Writes that the request was received.
    ///
    /// # Errors
    /// 500 where that cannot be written, in the mode `blocking-strict`.
    pub(crate) async fn received(&self) -> Result<(), Refusal> {
        let written = match self.event(Stage::RequestReceived) {
            None => return Ok(()),
            Some(receipt) => receipt.written().await,
        };
        let is_strict = matches!(self.backends.log, Some((_, LogMode::BlockingStrict)));
        if is_strict && written == Err(Lost) {
            add(&self.backends.counts.rejected, 1);
            return Err(Status::internal("failed to store audit event").into());
        }
        Ok(())
    }

    /// Writes what came of the request, before its answer may go out. The event of an answer that lasts is written when that has
    /// ended: the body holds the record until then. What is not there by the deadline is not recorded.
    pub(crate) async fn answered(
        mut self: Box<Self>,
        response: &mut Response,
        refusal: Option<&Refusal>,
        (lasting, deadline): (Lasting, Instant),
    ) {
        let code = response.status().as_u16();
        let status = refusal.and_then(Refusal::status);
        let mut outcome = match status {
            Some(status) => Outcome::of_status(status, code),
            None => Outcome::of_code(code),
        };
        // What goes on may be JSON without end: it is never held back.
        let is_read = refusal.is_some() || lasting != Lasting::LongRunning;
        if is_read && self.asked.level == Level::RequestResponse {
            outcome.response = self.answered_object(response, refusal, deadline).await;
        }
        let changes = |it: &Target| matches!(it.verb, Verb::Create | Verb::Delete);
        if outcome.status.is_none() && self.asked.target.as_ref().is_some_and(changes) {
            outcome.status = status_of(response);
        }
        self.outcome = Some(outcome);
        if !self.is_wanted() {
            self.is_over = true;
            return;
        }
        let goes_on = refusal.is_none() && code < 400;
        match lasting {
            Lasting::LongRunning if goes_on => {
                if !self.is_selective || code == CODE_SWITCHED {
                    wait_for(self.event(Stage::ResponseStarted)).await;
                }
                response.body_mut().keep_record(self);
            }
            Lasting::LongRunning => {
                if !self.is_selective {
                    wait_for(self.event(Stage::ResponseStarted)).await;
                }
                wait_for(self.end_shared(Stage::ResponseComplete)).await;
            }
            Lasting::Whole => wait_for(self.end_shared(Stage::ResponseComplete)).await,
            Lasting::Early => wait_for(self.end_shared(Stage::ResponseStarted)).await,
        }
    }

    /// What was answered, as it is recorded.
    async fn answered_object(
        &self,
        response: &mut Response,
        refusal: Option<&Refusal>,
        deadline: Instant,
    ) -> Option<Vec<u8>> {
        let is_resource = self.asked.target.as_ref().is_some_and(|it| it.is_resource);
        let is_encoded = response.headers().contains_key(header::CONTENT_ENCODING);
        if is_encoded || (refusal.is_none() && !is_resource) {
            return None;
        }
        let media = media_of(response.headers())?;
        let body = response.body_mut();
        let Some(bytes) = body.peek(DOCUMENT_BYTES_MAX, deadline).await? else {
            self.trail.note_truncated();
            return None;
        };
        if media == MediaType::Json
            && self.trail.keeps_managed_fields()
            && let Some(object) = document::object_on_one_line(&bytes)
        {
            return Some(object.to_vec());
        }
        if is_too_large_a_tree(&bytes) {
            self.trail.note_truncated();
            return None;
        }
        let document = value_of(media, &bytes).filter(Value::is_object)?;
        self.trail.text_of(&document)
    }

    /// Writes the last event together with those of others, before the receipt says so or, where that is good enough, later.
    fn end_shared(mut self: Box<Self>, stage: Stage) -> Option<Receipt> {
        let backends = Arc::clone(&self.backends);
        let Some((log, mode)) = backends.log.as_ref().filter(|_| backends.webhook.is_none()) else {
            // A webhook needs the line now.
            return self.end(stage);
        };
        if !self.ends_with(stage) {
            return None;
        }
        self.last = Some((stage, Timestamp::now()));
        add(&backends.counts.events, 1);
        let when = mode.when(self.may_be_late());
        Some(log.append_late(self, when))
    }

    /// Writes the last event.
    fn end(&mut self, stage: Stage) -> Option<Receipt> {
        self.ends_with(stage).then(|| self.write(stage))
    }

    /// Ends the record. Returns whether there is an event to write.
    fn ends_with(&mut self, stage: Stage) -> bool {
        let is_over = std::mem::replace(&mut self.is_over, true);
        !is_over && self.is_wanted() && !self.omitted.has(stage)
    }

    /// Whether nothing is lost to anybody if the event is late: a plain read that is not answered yet, or was given what it
    /// asked for.
    fn may_be_late(&self) -> bool {
        let outcome = self.outcome.as_ref();
        self.is_harmless && outcome.is_none_or(|it| (200..400).contains(&it.code))
    }

    /// Whether a request is recorded without a policy: one that changes something, is refused, acts as somebody else, or became a stream.
    fn is_wanted(&self) -> bool {
        let Some(target) = self.asked.target.as_ref().filter(|_| self.is_selective) else {
            return true;
        };
        let code = self.outcome.as_ref().map_or(0, |outcome| outcome.code);
        !target.verb.is_read_only()
            || is_telling(code)
            || self.trail.read(|noted| noted.impersonated.is_some())
    }

    /// Writes an event that another one follows.
    fn event(&self, stage: Stage) -> Option<Receipt> {
        (!self.omitted.has(stage)).then(|| self.write(stage))
    }

    fn write(&self, stage: Stage) -> Receipt {
        let at = match stage {
            Stage::RequestReceived => self.asked.received,
            Stage::ResponseStarted | Stage::ResponseComplete | Stage::Panic => Timestamp::now(),
        };
        let mut line = Vec::new();
        self.write_line_of((stage, at), &mut line);
        self.backends.write(line, self.may_be_late())
    }

    fn write_line_of(&self, stage: (Stage, Timestamp), lines: &mut Vec<u8>) {
        let outcome = self.outcome.as_ref();
        self.trail
            .read(|noted| event::write_line(lines, &self.asked, noted, outcome, stage));
    }
}

impl Late for Record {
    fn bytes(&self) -> usize {
        let response = self.outcome.as_ref().and_then(|it| it.response.as_ref());
        size_of::<Self>() + self.asked.bytes() + self.trail.bytes() + response.map_or(0, Vec::len)
    }

    fn write_line(&self, lines: &mut Vec<u8>) {
        if let Some(last) = self.last {
            self.write_line_of(last, lines);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let stage = if std::thread::panicking() {
            let status = Status::internal("the request panicked; the log of the hub says where");
            self.outcome = Some(Outcome::of_status(&status, 500));
            Stage::Panic
        } else {
            let gone = "the client closed the connection before the answer; what the request has changed stays";
            self.outcome.get_or_insert_with(|| Outcome {
                code: CODE_CLIENT_GONE,
                status: Some(serde_json::json!({"status": "Failure", "message": gone})),
                response: None,
            });
            Stage::ResponseComplete
        };
        // Nobody is left who could wait for it.
        drop(self.end(stage));
    }
}

/// Whether a request is recorded for the sake of its answer: it was refused, or became a stream.
const fn is_telling(code: u16) -> bool {
    matches!(code, 401 | 403 | CODE_SWITCHED)
}

async fn wait_for(receipt: Option<Receipt>) {
    if let Some(receipt) = receipt {
        // What is lost or late is counted where it happens.
        let (Ok(()) | Err(Lost)) = receipt.written().await;
    }
}

/// The media type of a body that may hold an object.
pub(crate) fn media_of(headers: &HeaderMap) -> Option<MediaType> {
    let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let name = content_type.split(';').next().unwrap_or_default().trim();
    MediaType::ALL
        .into_iter()
        .find(|media| media.as_str() == name)
}

/// The document that a body holds; `None` for what cannot be read.
pub(crate) fn value_of(media: MediaType, bytes: &[u8]) -> Option<Value> {
    match media {
        MediaType::Protobuf => protobuf::envelope(bytes).ok()?.decode().ok(),
        MediaType::Yaml | MediaType::ApplyYaml => {
            let document = dialect::yaml::first_document(bytes).ok()?;
            Some(document.value)
        }
        MediaType::Json
        | MediaType::JsonPatch
        | MediaType::MergePatch
        | MediaType::StrategicMergePatch => serde_json::from_slice(bytes).ok(),
    }
}

/// Whether the tree of a document may take more memory than that of a body that a client sends.
fn is_too_large_a_tree(bytes: &[u8]) -> bool {
    tree_bytes_of_text(bytes) > TREE_BYTES_MAX && tree_bytes_of_json(bytes) > TREE_BYTES_MAX
}

/// The `Status` that tells of success, as a deletion answers.
fn status_of(response: &Response) -> Option<Value> {
    let bytes = response.body().as_full()?;
    if bytes.len() > STATUS_BYTES_MAX || memchr::memmem::find(bytes, b"Status").is_none() {
        return None;
    }
    let value = value_of(media_of(response.headers())?, bytes)?;
    let is_status = value["kind"] == "Status" && value["apiVersion"] == "v1";
    is_status.then(|| event::untyped(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_mode_needs_a_policy_that_records_what_is_received() {
        let of = |more: &str| {
            let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
            Selection::Policy(Policy::parse(&format!("{head}{more}")).expect("a policy"))
        };
        for (selection, want) in [
            (of(""), None),
            (of("omitStages: [ResponseStarted]"), None),
            (of("omitStages: [RequestReceived]"), Some("omitStages")),
            (Selection::Changes, Some("--audit-policy-file")),
        ] {
            let error = selection.check_strict().err().map(|it| it.to_string());
            match (&error, want) {
                (None, None) => {}
                (Some(error), Some(want)) => assert!(error.contains(want), "{error}"),
                _ => panic!("{selection:?}: {error:?}"),
            }
        }
    }
}
