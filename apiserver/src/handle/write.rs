//! Handing a write over to the store, and bringing a new object into it.

use api::growth::depth;
use api::{Status, StatusReason, meta};
use serde_json::Value;
use storage::{Change, Entry, Expect, Key, Write};
use tracing::Instrument as _;

use super::limits::{OBJECT_BYTES_MAX, OBJECT_DEPTH_MAX, too_deep, too_much_memory};
use super::output::Shown;
use super::{convert, prepare, tried};
use crate::admit;
use crate::call::{Access, Call, Target};
use crate::objects::Encoded;
use crate::refusal::Refusal;
use crate::request::Fence;
use crate::strategy::fields::fill_system_fields;
use crate::strategy::rules::AfterCommit;

/// How often a generated name is tried. Source: apiserver/pkg/registry/generic/registry/store.go.
const ATTEMPTS_MAX: usize = 8;

/// What became of a write.
#[derive(Debug)]
pub(super) struct Written {
    /// The object as it is now (or would be, after a dry run).
    pub(super) shown: Shown,
    /// Whether it was not there before.
    pub(super) created: bool,
}

/// Why a write was not done.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another write came first; `None` if it took the object away.
    Raced(Option<Entry>),
    /// Something that was allocated to the object is taken by now.
    Collided,
    /// It cannot be done.
    Refused(Refusal),
}

/// Whether a request changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It does.
    Commit,
    /// It only says what would become.
    DryRun,
}

/// What becomes of the managed fields of an object that is too large with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oversize {
    /// They are dropped and the write is tried again.
    DropManagedFields,
    /// The write is refused: an apply without them would be none.
    Refuse,
}

/// Puts a new object in place, under its name or under one that is made from its stem.
///
/// The object's fields are attributed already. Answers [`Failure::Raced`] if there is an object of that name.
pub(super) async fn insert(
    call: &Call<'_>,
    mut object: Value,
    mode: Mode,
    oversize: Oversize,
) -> Result<Shown, Failure> {
    let generated = meta::name(&object).is_empty() && !meta::generate_name(&object).is_empty();
    let mut target = match call.target_named_or_empty(meta::name(&object)) {
        Ok(target) => target,
        Err(refusal) => return Err(unnamable(call, object, refusal)),
    };
    admit::admit_create(call, &target, &mut object, mode == Mode::DryRun).await?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        if generated {
            let stem = meta::generate_name(&object);
            let name = api::validation::generate_name(stem, rand::random::<u32>);
            meta::set_name(&mut object, &name);
            target = call.target_named(&name)?;
        }
        // No clone is needed if there can be no retry.
        let again = generated || call.scope.strategy().allocation.is_some();
        let fresh = if again { object.clone() } else { object.take() };
        match insert_named(call, &target, fresh, mode, oversize).await {
            Err(Failure::Collided) if again && attempt < ATTEMPTS_MAX => {}
            Err(Failure::Raced(_)) if generated && attempt < ATTEMPTS_MAX => {}
            Err(Failure::Raced(_)) if generated => {
                let status = Status::generate_name_conflict(call.resource(), &target.name, 1);
                return Err(Failure::Refused(status.into()));
            }
            done => return done,
        }
    }
}

/// The refusal of an object whose name cannot be one of a path: by all that is wrong with it.
fn unnamable(call: &Call<'_>, mut object: Value, refusal: Refusal) -> Failure {
    let judged = prepare::prepare_create(call, &mut object)
        .map_err(too_much_memory)
        .and_then(|()| prepare::validate_create(call, &object));
    Failure::Refused(judged.err().unwrap_or(refusal))
}

async fn insert_named(
    call: &Call<'_>,
    target: &Target,
    mut object: Value,
    mode: Mode,
    oversize: Oversize,
) -> Result<Shown, Failure> {
    // Only an instance that is taken up has one by now.
    let uid = match meta::uid(&object) {
        "" => uuid::Uuid::new_v4().to_string(),
        kept => kept.to_owned(),
    };
    let now = meta::time_now_text(call.context.now);
    fill_system_fields(&mut object, &uid, &now);
    prepare::prepare_create(call, &mut object).map_err(too_much_memory)?;
    prepare::validate_create(call, &object)?;
    let strategy = call.scope.strategy();
    let beside = match &strategy.allocation {
        Some(allocation) => (allocation.allocate)(&target.holder(call.shared), &mut object, None)?,
        None => Vec::new(),
    };
    (strategy.canonicalize)(&mut object);
    admit::validate_create(call, target, &object, mode == Mode::DryRun).await?;
    tried::create(call, target, &object).await?;
    if mode == Mode::DryRun {
        if let Some(existing) = call.shared.store.get(&target.key) {
            return Err(Failure::Raced(Some(existing)));
        }
        meta::remove_field(&mut object, "resourceVersion");
        return Ok(Shown::Value(object));
    }
    let put = Put {
        key: &target.key,
        expect: Expect::Absent,
        oversize,
        beside,
    };
    Ok(Shown::Entry(put.commit(&call.access(), &mut object).await?))
}

/// A state of an object, on its way into the store.
pub(super) struct Put<'a> {
    pub(super) key: &'a Key,
    pub(super) expect: Expect,
    pub(super) oversize: Oversize,
    /// What is committed together with it.
    pub(super) beside: Vec<Write>,
}

/// Commits the end of an object; `last` is its last state, for watchers.
pub(super) async fn remove(
    access: &Access<'_>,
    target: &Target,
    last: &Value,
    expect: Expect,
) -> Result<(), Failure> {
    let form = convert::to_stored(access, &target.key, last).await?;
    let encoded = form.encode(last);
    let change = Change::Delete {
        last: Some((encoded.bytes, encoded.stamp)),
    };
    let mut writes = vec![Write {
        key: target.key.clone(),
        change,
        expect,
    }];
    if let Some(allocation) = &access.scope.strategy().allocation {
        writes.extend((allocation.release)(&target.holder(access.shared), last));
    }
    commit(access, writes).await.map(drop)
}

/// Commits a batch whose first write is the object's.
async fn commit(access: &Access<'_>, mut writes: Vec<Write>) -> Result<Entry, Failure> {
    let own = writes.first().map(|write| write.key.clone());
    let fence = access.fence.map(Fence::write);
    writes.extend(fence.clone());
    let is_fence = |key: &Key| fence.as_ref().is_some_and(|fence| fence.key == *key);
    let span = tracing::debug_span!("write");
    let answer = access.shared.store.commit(writes).instrument(span);
    let raced = |key: Key, current| {
        Err(if Some(key) == own {
            Failure::Raced(current)
        } else {
            Failure::Collided
        })
    };
    let committed = match tokio::time::timeout_at(access.deadline, answer).await {
        Ok(Ok(committed)) => committed,
        Ok(Err(storage::Error::Conflict { key, .. } | storage::Error::NotFound { key }))
            if is_fence(&key) =>
        {
            return Err(over().into());
        }
        Ok(Err(storage::Error::Conflict { key, current })) => return raced(key, current),
        Ok(Err(storage::Error::NotFound { key })) => return raced(key, None),
        Ok(Err(error)) => return Err(Failure::Refused(error.into())),
        Err(_elapsed) => {
            let resource = &access.scope.rules.resource;
            let status = Status::server_timeout(resource, access.verb, 1);
            return Err(Failure::Refused(status.into()));
        }
    };
    if access.scope.strategy().after_commit == AfterCommit::AwaitsRegistry {
        // Whoever wrote a definition may use it as soon as it is answered. A follower that hangs must not hang writers.
        let reached = access.shared.registry.reach(committed.revision);
        let _reached = tokio::time::timeout(FOLLOWER_WAIT, reached).await;
    }
    let entry = committed.entries.into_iter().next();
    entry.ok_or_else(|| Failure::Refused(Refusal::internal("the store committed nothing")))
}

/// The refusal of a request whose term is over. Who sent it is to try no more.
fn over() -> Status {
    let text = "lease lost: another replica manages this cluster";
    Status::failure(409, StatusReason::Conflict, text)
}

/// How long a writer of a definition waits for it to be seen; it takes well below a millisecond.
const FOLLOWER_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// Whether an object has more levels than it may. Each level begins with a bracket, so that most objects need no walk.
fn is_deep(object: &Value, encoded: &Encoded) -> bool {
    let bracket_count = memchr::memchr2_iter(b'{', b'[', &encoded.bytes).count();
    bracket_count > OBJECT_DEPTH_MAX && depth(object, OBJECT_DEPTH_MAX) > OBJECT_DEPTH_MAX
}

/// The refusal for a name that is taken.
pub(super) fn already_exists(call: &Call<'_>, name: &str, existing: Option<&Entry>) -> Refusal {
    let head = existing.and_then(|entry| crate::objects::head(entry.value()));
    if head.is_some_and(|head| head.deleting) {
        return Status::already_exists_terminating(call.resource(), name).into();
    }
    Status::already_exists(call.resource(), name).into()
}

// === impl Put ===

impl Put<'_> {
    /// Commits the object.
    pub(super) async fn commit(
        self,
        access: &Access<'_>,
        object: &mut Value,
    ) -> Result<Entry, Failure> {
        let may_drop = self.oversize == Oversize::DropManagedFields;
        let is_unfit = |object: &Value, encoded: &Encoded| {
            encoded.bytes.len() > OBJECT_BYTES_MAX || is_deep(object, encoded)
        };
        let mut form = convert::to_stored(access, self.key, object).await?;
        let mut encoded = form.encode(object);
        if may_drop && is_unfit(object, &encoded) {
            // Owners of nested fields are nested deeper than the fields are.
            meta::remove_field(object, "managedFields");
            form.drop_managed_fields();
            encoded = form.encode(object);
        }
        if is_deep(object, &encoded) {
            return Err(Failure::Refused(too_deep()));
        }
        if encoded.bytes.len() > OBJECT_BYTES_MAX {
            return Err(Failure::Refused(Status::too_large(OBJECT_BYTES_MAX).into()));
        }
        let change = Change::Put {
            value: encoded.bytes,
            stamp: encoded.stamp,
            tag: form.tag,
        };
        let mut writes = vec![Write {
            key: self.key.clone(),
            change,
            expect: self.expect,
        }];
        writes.extend(self.beside);
        // Before, because whoever watches may be told of the write sooner than its writer.
        telemetry::note_write(meta::uid(object));
        commit(access, writes).await
    }
}

// === impl Failure ===

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Refused(status.into())
    }
}

// === impl Mode ===

impl Mode {
    /// The mode that `dryRun` says.
    pub(super) const fn of(dry_run: bool) -> Self {
        if dry_run { Self::DryRun } else { Self::Commit }
    }
}
