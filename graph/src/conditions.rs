//! Condition sets as kro keeps them: a root condition and the dependents it is computed from.
//!
//! - Dependents start Unknown/`AwaitingReconciliation`, in transition since the object was created.
//! - The root is True when every dependent is True and of this generation; else it copies the worst dependent: False
//!   before Unknown, the newest transition among equals.
//! - `lastTransitionTime` is kept while the status is the same; the list is sorted by it, the root last.
//!
//! The clock comes in as text (RFC 3339, whole seconds, UTC), so that the order of texts is the order of times.
//!
//! Source: kro `pkg/apis/condition_set.go`, `condition_types.go`.

use api::kro::keys;
use api::meta;
use serde_json::{Map, Value, json};

/// The name of every root condition.
pub const READY: &str = "Ready";

/// Which conditions an object has.
#[derive(Debug)]
pub struct ConditionTypes {
    dependents: &'static [&'static str],
    /// Types of earlier releases, taken away when seen.
    retired: &'static [&'static str],
}

/// The conditions of a ResourceGraphDefinition.
pub static DEFINITION: ConditionTypes = ConditionTypes {
    dependents: &[
        "GraphRevisionsResolved",
        "GraphAccepted",
        "KindReady",
        "ControllerReady",
    ],
    retired: &[keys::CONDITION_LEGACY_ACCEPTED],
};

/// The conditions of a GraphRevision.
pub static REVISION: ConditionTypes = ConditionTypes {
    dependents: &["GraphVerified"],
    retired: &[],
};

/// The conditions of an instance.
pub static INSTANCE: ConditionTypes = ConditionTypes {
    dependents: &["InstanceManaged", "GraphResolved", "ResourcesReady"],
    retired: &[],
};

/// The status of a condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows yet.
    Unknown,
}

/// One condition, with the fields of kro's conditions: reason and message may be absent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Condition {
    /// Its type.
    pub kind: String,
    /// Its status.
    pub status: ConditionStatus,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Why, in a sentence.
    pub message: Option<String>,
    /// Since when the status is what it is.
    pub last_transition_time: Option<String>,
    /// Of which generation it speaks.
    pub observed_generation: i64,
}

/// A change of one condition: what a stage has to say.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mark {
    kind: &'static str,
    status: ConditionStatus,
    reason: String,
    message: String,
}

/// The conditions of one object, while they are worked on.
#[derive(Clone, Debug)]
pub struct ConditionSet {
    types: &'static ConditionTypes,
    conditions: Vec<Condition>,
    generation: i64,
    created: Option<String>,
    deleting: bool,
    now: String,
}

// === impl ConditionTypes ===

impl ConditionTypes {
    /// Returns whether a type is the root or one of the dependents.
    pub(crate) fn has(&self, kind: &str) -> bool {
        kind == READY || self.dependents.contains(&kind)
    }
}

// === impl ConditionStatus ===

impl ConditionStatus {
    /// Names the status as it is on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// Reads a status.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "True" => Some(Self::True),
            "False" => Some(Self::False),
            "Unknown" => Some(Self::Unknown),
            _ => None,
        }
    }
}

// === impl Condition ===

impl Condition {
    /// Reads a condition; one without a type or with a status of its own making is none.
    pub fn from_value(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            kind: text("type")?,
            status: ConditionStatus::parse(value.get("status")?.as_str()?)?,
            reason: text("reason"),
            message: text("message"),
            last_transition_time: text("lastTransitionTime"),
            observed_generation: value
                .get("observedGeneration")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
        })
    }

    /// Writes the condition; what is absent is left out.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("type".to_owned(), json!(self.kind));
        map.insert("status".to_owned(), json!(self.status.as_str()));
        let texts = [
            ("reason", &self.reason),
            ("message", &self.message),
            ("lastTransitionTime", &self.last_transition_time),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                map.insert(name.to_owned(), json!(text));
            }
        }
        if self.observed_generation != 0 {
            map.insert(
                "observedGeneration".to_owned(),
                json!(self.observed_generation),
            );
        }
        Value::Object(map)
    }
}

/// Reads the conditions of a list; what is none is left out.
pub(crate) fn read_conditions(list: Option<&Value>) -> Vec<Condition> {
    let items = list
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    items.iter().filter_map(Condition::from_value).collect()
}

// === impl Mark ===

impl Mark {
    /// The condition holds.
    pub fn holds(kind: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::True, reason, message)
    }

    /// The condition does not hold.
    pub fn fails(kind: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::False, reason, message)
    }

    /// The condition is not known yet.
    pub fn waits(kind: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::Unknown, reason, message)
    }

    fn new(
        kind: &'static str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            status,
            reason: reason.to_owned(),
            message: meta::bounded_message(message),
        }
    }
}

// === impl ConditionSet ===

impl ConditionSet {
    /// Takes up the conditions in `status.conditions` of an object; those that are missing are awaited.
    pub fn open(types: &'static ConditionTypes, object: &Value, now: &str) -> Self {
        let mut conditions = read_conditions(
            object
                .get("status")
                .and_then(|status| status.get("conditions")),
        );
        conditions.retain(|condition| !types.retired.contains(&condition.kind.as_str()));
        let created = meta::creation_timestamp(object);
        let mut set = Self {
            types,
            conditions,
            generation: meta::generation(object),
            created: (!created.is_empty()).then(|| created.to_owned()),
            deleting: meta::is_terminating(object),
            now: now.to_owned(),
        };
        for kind in std::iter::once(&READY).chain(types.dependents) {
            if set.get(kind).is_none() {
                let message = format!("condition \"{kind}\" is awaiting reconciliation");
                set.mark(Mark::waits(kind, keys::REASON_AWAITING, message));
            }
        }
        set
    }

    /// Sets one condition and computes the root anew.
    pub fn mark(&mut self, mark: Mark) {
        let kind = mark.kind;
        if self.set(mark) && kind != READY {
            self.recompute_root();
        }
    }

    /// Gives the condition of a type.
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.kind == kind)
    }

    /// Returns whether the condition of a type is about the object as it is now, and was decided.
    pub fn is_current(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|condition| {
            condition.observed_generation == self.generation
                && condition.status != ConditionStatus::Unknown
        })
    }

    /// Returns whether the condition of a type is True.
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind)
            .is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Returns whether the root is True for this generation.
    pub fn is_ready(&self) -> bool {
        self.get(READY).is_some_and(|root| {
            root.status == ConditionStatus::True && root.observed_generation == self.generation
        })
    }

    /// The generation these conditions are computed for.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Gives the conditions in their order: by transition, the root last.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Writes the conditions in their order.
    pub fn to_values(&self) -> Vec<Value> {
        self.conditions.iter().map(Condition::to_value).collect()
    }

    /// Writes those conditions that belong to the set, in their order; strangers in the list are left out.
    pub(crate) fn own_conditions(&self) -> impl Iterator<Item = &Condition> {
        self.conditions
            .iter()
            .filter(|condition| self.types.has(&condition.kind))
    }

    /// Puts the condition in; tells whether anything changed.
    fn set(&mut self, mark: Mark) -> bool {
        let mut condition = Condition {
            kind: mark.kind.to_owned(),
            status: mark.status,
            reason: Some(mark.reason),
            message: Some(mark.message),
            last_transition_time: None,
            observed_generation: self.generation,
        };
        match self.get(&condition.kind) {
            Some(before) if before.status == condition.status => {
                condition
                    .last_transition_time
                    .clone_from(&before.last_transition_time);
                if *before == condition {
                    return false;
                }
            }
            None if self.types.has(&condition.kind) => {
                condition.last_transition_time.clone_from(&self.created);
            }
            Some(_) | None => condition.last_transition_time = Some(self.now.clone()),
        }
        self.conditions.retain(|other| other.kind != condition.kind);
        if self.deleting {
            for other in &mut self.conditions {
                other.observed_generation = self.generation;
            }
        }
        self.conditions.push(condition);
        self.conditions.sort_by(|a, b| {
            let key = |condition: &Condition| {
                (
                    condition.kind == READY,
                    condition.last_transition_time.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
        true
    }

    fn recompute_root(&mut self) {
        let mut unhealthy: Vec<&Condition> = self
            .conditions
            .iter()
            .filter(|condition| self.types.dependents.contains(&condition.kind.as_str()))
            .filter(|condition| {
                condition.status != ConditionStatus::True
                    || condition.observed_generation != self.generation
            })
            .collect();
        if unhealthy.is_empty() {
            self.set(Mark::holds(READY, READY, ""));
            return;
        }
        unhealthy.sort_by(|a, b| b.last_transition_time.cmp(&a.last_transition_time));
        let worst = [ConditionStatus::False, ConditionStatus::Unknown]
            .into_iter()
            .find_map(|status| {
                unhealthy
                    .iter()
                    .find(|condition| condition.status == status)
            });
        // A dependent that is True for an older generation leaves the root as it is.
        if let Some(worst) = worst {
            let reason = worst.reason.clone().unwrap_or_default();
            let message = worst.message.clone().unwrap_or_default();
            self.set(Mark {
                kind: READY,
                status: worst.status,
                reason,
                message,
            });
        }
    }
}

#[cfg(test)]
mod tests;
