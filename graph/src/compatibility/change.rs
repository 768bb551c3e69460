//! Changes and their words.
//!
//! Source: kro `pkg/graph/crd/compat/changes.go`.

use std::fmt;

/// How many breaking changes the summary spells out.
const SPELLED_OUT_MAX: usize = 3;

/// What a change is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChangeKind {
    /// A property, a list's items or the status subresource is gone.
    PropertyRemoved,
    /// A property is new.
    PropertyAdded,
    /// The type, or the version's name, is another.
    TypeChanged,
    /// A property that was there is now required.
    RequiredAdded,
    /// A property is no longer required.
    RequiredRemoved,
    /// A required property lost its default.
    RequiredDefaultRemoved,
    /// An enum lost a value.
    EnumRestricted,
    /// An enum gained a value.
    EnumExpanded,
    /// A pattern is new.
    PatternAdded,
    /// A pattern is another.
    PatternChanged,
    /// A pattern is gone.
    PatternRemoved,
    /// The description is another.
    DescriptionChanged,
    /// The default is another.
    DefaultChanged,
    /// The printer columns are others.
    PrinterColumnsChanged,
    /// The scale subresource is new, gone, or has other paths. kro has none.
    ScaleChanged,
    /// A bound is new.
    BoundAdded(Bound),
    /// A bound is gone.
    BoundRemoved(Bound),
    /// A bound is higher.
    BoundIncreased(Bound),
    /// A bound is lower.
    BoundDecreased(Bound),
}

/// The bounds that are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bound {
    /// `minimum`
    Minimum,
    /// `maximum`
    Maximum,
    /// `minLength`
    MinLength,
    /// `maxLength`
    MaxLength,
    /// `minItems`
    MinItems,
    /// `maxItems`
    MaxItems,
}

/// One change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// Where, as `.properties.spec.properties.replicas.minimum`.
    pub path: String,
    /// What.
    pub kind: ChangeKind,
    /// What was.
    pub old: String,
    /// What is to be.
    pub new: String,
}

/// All changes between two definitions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Those that objects which exist may not survive.
    pub breaking: Vec<Change>,
    /// The others.
    pub other: Vec<Change>,
}

// === impl Bound ===

impl Bound {
    /// Names the schema keyword.
    pub(super) fn keyword(self) -> &'static str {
        match self {
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
            Self::MinLength => "minLength",
            Self::MaxLength => "maxLength",
            Self::MinItems => "minItems",
            Self::MaxItems => "maxItems",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Minimum => "Minimum",
            Self::Maximum => "Maximum",
            Self::MinLength => "MinLength",
            Self::MaxLength => "MaxLength",
            Self::MinItems => "MinItems",
            Self::MaxItems => "MaxItems",
        }
    }

    /// Returns whether a higher value permits less.
    pub(super) fn is_lower(self) -> bool {
        matches!(self, Self::Minimum | Self::MinLength | Self::MinItems)
    }
}

// === impl Change ===

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.rsplit('.').next().unwrap_or_default();
        let (old, new) = (&self.old, &self.new);
        match self.kind {
            ChangeKind::PropertyRemoved => write!(f, "Property {name} was removed"),
            // kro says "Optional" of required properties too; the text is what users know.
            ChangeKind::PropertyAdded => write!(f, "Optional property {name} was added"),
            ChangeKind::TypeChanged => write!(f, "Type changed from {old} to {new}"),
            ChangeKind::RequiredAdded => write!(f, "Field {new} is newly required"),
            ChangeKind::RequiredRemoved => write!(f, "Field {old} is no longer required"),
            ChangeKind::RequiredDefaultRemoved => {
                write!(f, "Default value removed from required field {old}")
            }
            ChangeKind::EnumRestricted => write!(f, "Enum value {old} was removed"),
            ChangeKind::EnumExpanded => write!(f, "Enum value {new} was added"),
            ChangeKind::PatternAdded => write!(f, "Validation pattern {new} was added"),
            ChangeKind::PatternChanged => {
                write!(f, "Validation pattern changed from {old} to {new}")
            }
            ChangeKind::PatternRemoved => write!(f, "Validation pattern {old} was removed"),
            ChangeKind::DescriptionChanged => {
                write!(f, "Description field was changed from {old} to {new}")
            }
            ChangeKind::DefaultChanged => {
                write!(f, "Default value was changed from {old} to {new}")
            }
            ChangeKind::ScaleChanged => f.write_str("The scale subresource changed"),
            ChangeKind::PrinterColumnsChanged => {
                f.write_str("Additional printer columns were changed")
            }
            ChangeKind::BoundAdded(bound) => {
                write!(f, "{} constraint {new} was added", bound.title())
            }
            ChangeKind::BoundRemoved(bound) => {
                write!(f, "{} constraint {old} was removed", bound.title())
            }
            ChangeKind::BoundIncreased(bound) => {
                write!(f, "{} was increased from {old} to {new}", bound.title())
            }
            ChangeKind::BoundDecreased(bound) => {
                write!(f, "{} was decreased from {old} to {new}", bound.title())
            }
        }
    }
}

// === impl Report ===

impl Report {
    /// Returns whether nothing that is compared has changed.
    pub fn is_empty(&self) -> bool {
        self.breaking.is_empty() && self.other.is_empty()
    }

    /// Words the refusal of an update, if it would break objects.
    pub fn refusal(&self, definition: &str) -> Option<String> {
        if self.breaking.is_empty() {
            return None;
        }
        let mut words: Vec<String> = self
            .breaking
            .iter()
            .take(SPELLED_OUT_MAX)
            .map(ToString::to_string)
            .collect();
        if let Some(more) = self
            .breaking
            .len()
            .checked_sub(SPELLED_OUT_MAX)
            .filter(|more| *more > 0)
        {
            words.push(format!("and {more} more changes"));
        }
        Some(format!(
            "cannot update CRD {definition}: breaking changes detected: {}",
            words.join("; ")
        ))
    }

    pub(super) fn breaking(
        &mut self,
        path: impl Into<String>,
        kind: ChangeKind,
        old: impl Into<String>,
        new: impl Into<String>,
    ) {
        self.breaking.push(Change {
            path: path.into(),
            kind,
            old: old.into(),
            new: new.into(),
        });
    }

    pub(super) fn other(
        &mut self,
        path: impl Into<String>,
        kind: ChangeKind,
        old: impl Into<String>,
        new: impl Into<String>,
    ) {
        self.other.push(Change {
            path: path.into(),
            kind,
            old: old.into(),
            new: new.into(),
        });
    }
}
