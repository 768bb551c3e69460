//! The words in which a strategy answers a question that has few answers.

/// `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Counts changes outside of metadata and (where it is a subresource) status.
    Counted,
    /// Is not set.
    Absent,
}

/// A PUT of an object that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutOfAbsent {
    /// 404.
    NotFound,
    /// Creates it.
    Creates,
}

/// A PUT without resourceVersion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutWithoutVersion {
    /// 422.
    Refused,
    /// Replaces whatever is there.
    Replaces,
}

/// Who says what is wrong with the values of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The schema, and the rules of the kind.
    Schema,
    /// The rules of the kind, which say what has to be there, and the schema where it lists values.
    RulesAndEnums,
    /// The rules of the kind alone, which say all.
    Rules,
}

/// What becomes of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are collected after it is gone.
    Background,
    /// They stay.
    Orphan,
    /// Kinds whose objects own nothing: the finalizers of garbage collection are never set.
    Unsupported,
}

/// What a deletion answers with once the object is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletedAnswer {
    /// A `Status`.
    Status,
    /// The object as it was last.
    Object,
}

/// Whether objects carry `internal.wheelhouse.dev/author`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthorStamp {
    /// They do: what is made of them is made in their author's name.
    Stamped,
    /// They do not.
    Absent,
}

/// Whether an object gives rights to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grants {
    /// It does: the authorizer checks that its writer has them.
    Rights,
    /// It shows parameters of a kind to expressions: its writer must be able to read all of them.
    ParamKind,
    /// It shows certain parameters to expressions: its writer must be able to read those.
    ParamRef {
        /// The resource of the policies that it puts into force.
        policies: &'static str,
    },
    /// It does not.
    Nothing,
}

/// What a write waits for after it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterCommit {
    /// Nothing.
    Answers,
    /// The object defines what is served: the registry has to show it, so that its writer may use it at once.
    AwaitsRegistry,
}

/// How the type that an object says is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeCheck {
    /// On decoding: one that is missing is taken for the expected one, and another one is refused.
    OnDecoding,
    /// It has to be there on decoding; another one is a finding of validation.
    OnValidation,
}
