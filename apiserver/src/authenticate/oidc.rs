//! Tokens of issuers that the operator has named: OpenID Connect, by an AuthenticationConfiguration or by kube-apiserver's `--oidc-*` flags.
//!
//! ```text
//!   token ──► iss: which issuer? ──► signed by its keys? ──► aud, exp, nbf, iat ──► claims to a user ──► names that may be theirs
//!                                     unknown key: read anew                        (mapping, rules)      (UserInfo::of_issuer)
//! ```
//!
//! # Invariants
//! - A token counts for the issuer that it names and for no other: each has its own keys.
//! - No issuer makes a user or a group of a name that is Kubernetes' or the hub's own.
//! - A file that cannot be used changes nothing; an issuer that cannot be read stops nobody else, nor the hub.
//! - What a token made is remembered for [`GOOD_FOR`], as long as the configuration is the same.
//!
//! Source: `apiserver/plugin/pkg/authenticator/token/oidc/oidc.go`, KEP-3331, `go-oidc/oidc/verify.go`.

mod configuration;
mod issuer;
mod mapping;
mod sign_in;
mod validate;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use api::field;
use arc_swap::ArcSwap;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::future::join_all;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::jws::{Algorithm, Jws};
use crate::{
    answers::{Answer, Answers, Question},
    config::OidcFlags,
    request::UserInfo,
};
use configuration::{AnonymousConfiguration, Configuration};
use issuer::Issuer;
use mapping::Mapping;
pub(crate) use sign_in::{Redemption, SignIn, SignInError};

/// Between two looks at the file.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);
/// Between two readings of the keys that nobody asks for, so that one that the issuer has withdrawn does not count for ever.
const REFRESH_INTERVAL: Duration = Duration::from_mins(1);
/// The same while an issuer has no keys.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);
/// How long a token is not looked at again.
const GOOD_FOR: Duration = Duration::from_secs(4);
/// Tokens that are remembered.
const TOKEN_COUNT_MAX: usize = 4096;
/// How far the clocks of an issuer and the hub may be apart for what has not begun. Source: `go-oidc/oidc/verify.go`, `leeway`.
const LEEWAY_SECONDS: i64 = 300;
/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why issuers cannot be known.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// What it says makes no sense.
    #[error("{0}")]
    Invalid(String),
}

/// Knows the tokens of issuers.
pub(crate) struct Issuers {
    state: ArcSwap<State>,
    /// Where it is read again, and what was read last.
    file: Option<PathBuf>,
    reloads: Reloads,
}

/// How often the file was read anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reloads {
    /// With success.
    pub(crate) good: Counter,
    /// Without.
    pub(crate) bad: Counter,
}

/// A configuration as it counts now.
struct State {
    text: String,
    authenticators: Vec<Authenticator>,
    anonymous: Option<AnonymousConfiguration>,
    /// By the hash of the token.
    known: Answers<Arc<Found>>,
}

struct Authenticator {
    issuer: Arc<Issuer>,
    audiences: Vec<String>,
    /// Those that the operator allows; empty for all that the hub knows.
    algorithms: Vec<Algorithm>,
    mapping: Mapping,
    /// A digest of all that the configuration says of the issuer.
    rules: String,
}

/// Whose a token is.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) user: Arc<UserInfo>,
    /// The issuer.
    pub(crate) issuer: String,
    /// A digest of what the configuration says of it.
    pub(crate) rules: String,
    /// Seconds since 1970 at which the token ends.
    pub(crate) expires_at: i64,
}

/// How an issuer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssuerState {
    pub(crate) url: String,
    /// Whether its tokens can be checked.
    pub(crate) is_ready: bool,
}

// === impl Issuers ===

impl Issuers {
    /// Reads a file, which is followed then ([`Issuers::follow`]).
    ///
    /// # Errors
    /// [`OidcError`].
    pub(crate) fn of_file(path: &Path) -> Result<Self, OidcError> {
        let state = State::read(&read_file(path)?, &[])?;
        Ok(Self {
            state: ArcSwap::from_pointee(state),
            file: Some(path.to_owned()),
            reloads: Reloads::default(),
        })
    }

    /// Takes the one issuer of flags.
    ///
    /// # Errors
    /// [`OidcError::Invalid`].
    pub(crate) fn of_flags(flags: &OidcFlags) -> Result<Self, OidcError> {
        let algorithms: Result<Vec<_>, _> = flags
            .signing_algorithms
            .iter()
            .map(|name| {
                Algorithm::parse(name).ok_or_else(|| {
                    OidcError::Invalid(format!("oidc: unsupported signing alg: {name:?}"))
                })
            })
            .collect();
        let configuration = Configuration::from(flags);
        let state = State::of(String::new(), &configuration, &algorithms?, &[])?;
        Ok(Self {
            state: ArcSwap::from_pointee(state),
            file: None,
            reloads: Reloads::default(),
        })
    }

    /// Finds whose a token is. An unknown key of an issuer that the token names is looked for at that issuer.
    pub(crate) async fn find(&self, text: &str, now: Timestamp) -> Option<Arc<Found>> {
        let state = self.state.load_full();
        if let Some(found) = state.known(text) {
            return found.is_good(now).then_some(found);
        }
        let token = Jws::parse(text)?;
        let authenticator = state.authenticator_of(&token)?;
        if !authenticator.issuer.may_have_signed(&token).await {
            return None;
        }
        state.take(text, &token, authenticator, now)
    }

    /// Whether a token that was good is so now, as far as that is known here.
    pub(crate) fn still_good(&self, text: &str, now: Timestamp) -> bool {
        let state = self.state.load();
        let find = || {
            let token = Jws::parse(text)?;
            let authenticator = state.authenticator_of(&token)?;
            let is_signed = authenticator.issuer.has_signed(&token);
            is_signed.then(|| state.take(text, &token, authenticator, now))?
        };
        let found = state.known(text).or_else(find);
        found.is_some_and(|found| found.is_good(now))
    }

    /// Whether a token names one of the issuers: it is theirs or nobody's.
    pub(crate) fn claim(&self, text: &str) -> bool {
        let claims = Jws::claims_of(text);
        claims.is_some_and(|claims| self.state.load().authenticator_for(&claims).is_some())
    }

    /// Whether an issuer is configured, and as it was.
    pub(crate) fn have(&self, url: &str, rules: &str) -> bool {
        let state = self.state.load();
        let mut all = state.authenticators.iter();
        all.any(|it| it.issuer.url() == url && it.rules == rules)
    }

    /// What the configuration says about requests without a credential, if it says anything: whether one of this path may be.
    pub(crate) fn allows_anonymous(&self, path: &str) -> Option<bool> {
        let state = self.state.load();
        let anonymous = state.anonymous.as_ref()?;
        let conditions = &anonymous.conditions;
        let is_listed = conditions.is_empty() || conditions.iter().any(|it| it.path == path);
        Some(anonymous.enabled && is_listed)
    }

    /// The issuer with a URL.
    fn issuer(&self, url: &str) -> Option<Arc<Issuer>> {
        let state = self.state.load();
        let mut all = state.authenticators.iter();
        all.find(|it| it.issuer.url() == url)
            .map(|it| Arc::clone(&it.issuer))
    }

    /// How each issuer does.
    pub(crate) fn states(&self) -> Vec<IssuerState> {
        let state = self.state.load();
        let all = state.authenticators.iter();
        all.map(|it| IssuerState {
            url: it.issuer.url().to_owned(),
            is_ready: it.issuer.is_ready(),
        })
        .collect()
    }

    /// How often the file was read anew.
    pub(crate) const fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    /// Reads the file again and again, if there is one.
    pub(crate) async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let Some(path) = &self.file else { return };
        let mut failed = String::new();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(RELOAD_INTERVAL) => {}
            }
            match self.reload(path) {
                Ok(true) => {
                    failed.clear();
                    self.reloads.good.inc();
                    tracing::info!(file = %path.display(), "reloaded the authentication configuration");
                }
                Ok(false) => failed.clear(),
                Err(error) => {
                    let error = dialect::error_chain(&error);
                    if error != failed {
                        self.reloads.bad.inc();
                        tracing::error!(file = %path.display(), error, "cannot use the authentication configuration; keeping the previous one");
                        failed = error;
                    }
                }
            }
        }
    }

    /// Reads the file. Returns whether it says something else than before.
    fn reload(&self, path: &Path) -> Result<bool, OidcError> {
        let text = read_file(path)?;
        let before = self.state.load();
        if text == before.text {
            return Ok(false);
        }
        self.state
            .store(Arc::new(State::read(&text, &before.authenticators)?));
        Ok(true)
    }

    /// Reads the keys of all issuers again and again.
    pub(crate) async fn refresh(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            let issuers: Vec<_> = {
                let state = self.state.load();
                let all = state.authenticators.iter();
                all.map(|it| Arc::clone(&it.issuer)).collect()
            };
            let readings = issuers.iter().map(Issuer::refresh);
            let are_ready = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                _ = join_all(readings) => self.states().iter().all(|it| it.is_ready),
            };
            let interval = if are_ready {
                REFRESH_INTERVAL
            } else {
                FIRST_INTERVAL
            };
            let until = tokio::time::Instant::now() + interval;
            // A new configuration may have issuers that were never read.
            while tokio::time::Instant::now() < until {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(FIRST_INTERVAL) => {}
                }
                if are_ready && !self.states().iter().all(|it| it.is_ready) {
                    break;
                }
            }
        }
    }
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuers").finish_non_exhaustive()
    }
}

fn read_file(path: &Path) -> Result<String, OidcError> {
    let failed = |source| OidcError::Read {
        path: path.to_owned(),
        source,
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > FILE_BYTES_MAX {
        let text = format!("{} has more than {FILE_BYTES_MAX} bytes", path.display());
        return Err(OidcError::Invalid(text));
    }
    std::fs::read_to_string(path).map_err(failed)
}

// === impl State ===

impl State {
    fn read(text: &str, before: &[Authenticator]) -> Result<Self, OidcError> {
        let configuration = Configuration::parse(text).map_err(OidcError::Invalid)?;
        Self::of(text.to_owned(), &configuration, &[], before)
    }

    fn of(
        text: String,
        configuration: &Configuration,
        algorithms: &[Algorithm],
        before: &[Authenticator],
    ) -> Result<Self, OidcError> {
        let own = crate::request::issuer_of(&api::LogicalCluster::root());
        let mappings = validate::validate(configuration, &[&own])
            .map_err(|errors| OidcError::Invalid(field::aggregate(&errors)))?;
        let all = configuration.jwt.iter().zip(mappings);
        let authenticators = all.map(|(one, mapping)| {
            let issuer = Issuer::new(&one.issuer);
            let known = before.iter().find(|it| it.issuer.is_read_as(&issuer));
            Authenticator {
                issuer: known.map_or_else(|| Arc::new(issuer), |it| Arc::clone(&it.issuer)),
                audiences: one.issuer.audiences.clone(),
                algorithms: algorithms.to_vec(),
                mapping,
                rules: URL_SAFE_NO_PAD.encode(Sha256::digest(format!("{one:?} {algorithms:?}"))),
            }
        });
        Ok(Self {
            text,
            authenticators: authenticators.collect(),
            anonymous: configuration.anonymous.clone(),
            known: Answers::new(TOKEN_COUNT_MAX),
        })
    }

    fn known(&self, text: &str) -> Option<Arc<Found>> {
        let cell = self.known.known(&question(text), Duration::MAX)?;
        cell.get().map(|it| Arc::clone(&it.said))
    }

    /// The authenticator of the issuer that a token names.
    fn authenticator_of(&self, token: &Jws<'_>) -> Option<&Authenticator> {
        self.authenticator_for(&token.claims)
    }

    fn authenticator_for(&self, claims: &Value) -> Option<&Authenticator> {
        let issuer = claims.get("iss")?.as_str()?;
        self.authenticators
            .iter()
            .find(|it| it.issuer.url() == issuer)
    }

    /// Judges a token whose signature is good.
    fn take(
        &self,
        text: &str,
        token: &Jws<'_>,
        authenticator: &Authenticator,
        now: Timestamp,
    ) -> Option<Arc<Found>> {
        match authenticator.judge(token, now) {
            Ok(found) => {
                let found = Arc::new(found);
                let cell = self.known.cell(question(text), Duration::MAX);
                // Whoever was first has found the same.
                let _is_first = cell.set(Answer::now(Arc::clone(&found), GOOD_FOR));
                Some(found)
            }
            Err(reason) => {
                let issuer = authenticator.issuer.url();
                tracing::info!(issuer, reason, "a token of the issuer is not accepted");
                None
            }
        }
    }
}

fn question(text: &str) -> Question {
    Sha256::digest(text.as_bytes()).into()
}

// === impl Authenticator ===

impl Authenticator {
    fn judge(&self, token: &Jws<'_>, now: Timestamp) -> Result<Found, String> {
        let algorithms = &self.algorithms;
        if !algorithms.is_empty() && !algorithms.contains(&token.algorithm()) {
            return Err(format!(
                "signing alg {:?} is not allowed",
                token.algorithm()
            ));
        }
        let audiences = token.audiences().ok_or("the audience makes no sense")?;
        if !audiences.iter().any(|it| self.audiences.contains(it)) {
            let wanted = &self.audiences;
            return Err(format!("expected audience in {wanted:?} got {audiences:?}"));
        }
        let expires_at = seconds(token, "exp")?.ok_or("the token has no expiry")?;
        let now = now.as_second();
        if now >= expires_at {
            return Err("token is expired".to_owned());
        }
        for claim in ["nbf", "iat"] {
            let begins = seconds(token, claim)?;
            if begins.is_some_and(|it| now.saturating_add(LEEWAY_SECONDS) < it) {
                return Err(format!("{claim} is in the future"));
            }
        }
        let user = self.mapping.user(&token.claims)?;
        let user = UserInfo::of_issuer(user)?;
        Ok(Found {
            user: Arc::new(user),
            issuer: self.issuer.url().to_owned(),
            rules: self.rules.clone(),
            expires_at,
        })
    }
}

/// The seconds since 1970 of a claim, which may have a fraction.
fn seconds(token: &Jws<'_>, claim: &str) -> Result<Option<i64>, String> {
    let Some(value) = token.claims.get(claim) else {
        return Ok(None);
    };
    let seconds = value.as_i64().or_else(|| value.as_f64().and_then(whole));
    match seconds {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(format!("{claim} is no time: {value}")),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the fraction is cut off, and what is out of range is none"
)]
fn whole(seconds: f64) -> Option<i64> {
    (seconds.abs() < 1e15).then_some(seconds as i64)
}

/// Whom claims make by a configuration, whoever has signed them, with a look at a key set; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub(crate) fn users_of(configuration: &str, keys: &[u8], claims: &[u8]) -> Vec<Arc<UserInfo>> {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
    let encoded = |bytes: &[u8]| BASE64.encode(bytes);
    let header = encoded(br#"{"alg":"ES256"}"#);
    let text = format!("{header}.{}.AA", encoded(claims));
    let (Ok(state), Some(token)) = (State::read(configuration, &[]), Jws::parse(&text)) else {
        return Vec::new();
    };
    let keys = super::jws::Keys::parse(keys);
    assert!(!keys.have_signed(&token), "one byte is no signature");
    let all = state.authenticators.iter();
    let found = all.filter_map(|it| it.judge(&token, Timestamp::UNIX_EPOCH).ok());
    found.map(|found| found.user).collect()
}

// === impl Found ===

impl Found {
    fn is_good(&self, now: Timestamp) -> bool {
        now.as_second() < self.expires_at
    }
}

#[cfg(test)]
mod tests;
