//! Which names a definition gets: those that no other definition of its group has.
//!
//! A name is kept by whoever had it first. A definition that does not get all of its names keeps those that it had, and
//! is not served if it was never served before.
//! Source: apiextensions-apiserver/pkg/controller/status/naming_controller.go.

use std::collections::BTreeSet;

use api::Condition;
use api::crd::{
    CONDITION_ESTABLISHED, CONDITION_NAMES_ACCEPTED, CustomResourceDefinition, DefinitionSpec,
    Names,
};
use api::meta::{STATUS_FALSE, STATUS_TRUE};

/// Why a definition gets no names: they are the hub's or Kubernetes' own.
const REASON_RESERVED: &str = "Reserved";

/// What was decided about the names of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// The names that it has.
    pub(crate) names: Names,
    /// The first conflict, if there is one: reason and message.
    pub(crate) conflict: Option<(&'static str, String)>,
    /// Whether it was ever served.
    pub(crate) established: bool,
}

/// Decides, given what is known of the definition and the names that others of its group have.
pub(crate) fn decide(
    definition: &CustomResourceDefinition,
    before: Option<&Accepted>,
    others: &[Names],
) -> Accepted {
    if let Err(claimed) = api::reserved::claim(&definition.spec) {
        return Accepted::refused(claimed.to_string());
    }
    let stored = definition
        .status
        .as_ref()
        .map(|status| status.accepted_names.clone());
    let accepted = before
        .map(|before| before.names.clone())
        .or(stored)
        .unwrap_or_default();
    let wanted = &definition.spec.names;
    let taken = Taken::of(others);
    let mut names = accepted.clone();
    let mut conflict = None;
    let mut claim = |reason, wanted: &str, accepted: &str, taken: &BTreeSet<&str>| {
        if wanted == accepted || !taken.contains(wanted) {
            return true;
        }
        let quoted = dialect::quote(wanted);
        conflict = Some((reason, format!("{quoted} is already in use")));
        false
    };
    if claim(
        "PluralConflict",
        &wanted.plural,
        &accepted.plural,
        &taken.resources,
    ) {
        names.plural.clone_from(&wanted.plural);
    }
    if claim(
        "SingularConflict",
        &wanted.singular,
        &accepted.singular,
        &taken.resources,
    ) {
        names.singular.clone_from(&wanted.singular);
    }
    let fresh = wanted
        .short_names
        .iter()
        .filter(|name| !accepted.short_names.contains(name));
    let mut all = true;
    for name in fresh {
        all &= claim("ShortNamesConflict", name, "", &taken.resources);
    }
    if all {
        names.short_names.clone_from(&wanted.short_names);
    }
    if claim("KindConflict", &wanted.kind, &accepted.kind, &taken.kinds) {
        names.kind.clone_from(&wanted.kind);
    }
    if claim(
        "ListKindConflict",
        &wanted.list_kind,
        &accepted.list_kind,
        &taken.kinds,
    ) {
        names.list_kind.clone_from(&wanted.list_kind);
    }
    names.categories.clone_from(&wanted.categories);
    let established = definition.is_condition_true(CONDITION_ESTABLISHED)
        || before.is_some_and(|before| before.established)
        || conflict.is_none();
    Accepted {
        names,
        conflict,
        established,
    }
}

/// The names of other definitions.
struct Taken<'a> {
    resources: BTreeSet<&'a str>,
    kinds: BTreeSet<&'a str>,
}

// === impl Taken ===

impl<'a> Taken<'a> {
    fn of(others: &'a [Names]) -> Self {
        let mut taken = Self {
            resources: BTreeSet::new(),
            kinds: BTreeSet::new(),
        };
        for names in others {
            taken
                .resources
                .extend([names.plural.as_str(), names.singular.as_str()]);
            taken
                .resources
                .extend(names.short_names.iter().map(String::as_str));
            taken
                .kinds
                .extend([names.kind.as_str(), names.list_kind.as_str()]);
        }
        taken.resources.remove("");
        taken.kinds.remove("");
        taken
    }
}

// === impl Accepted ===

impl Accepted {
    /// No names at all: what the definition claims is reserved, so it is not served, whatever it was before.
    fn refused(message: String) -> Self {
        Self {
            names: Names::default(),
            conflict: Some((REASON_RESERVED, message)),
            established: false,
        }
    }

    /// All names of a definition that nobody disputes; none where they are reserved.
    pub(crate) fn all(spec: &DefinitionSpec) -> Self {
        if let Err(claimed) = api::reserved::claim(spec) {
            return Self::refused(claimed.to_string());
        }
        let mut spec = spec.clone();
        spec.set_name_defaults();
        Self {
            names: spec.names,
            conflict: None,
            established: true,
        }
    }

    /// Whether it got all the names that it wants.
    pub(crate) const fn is_whole(&self) -> bool {
        self.conflict.is_none()
    }

    /// Whether it is served.
    pub(crate) const fn is_served(&self) -> bool {
        self.established
    }

    /// What the status says of it.
    pub(crate) fn conditions(&self) -> [Condition; 2] {
        let names = match &self.conflict {
            None => Condition::new(
                CONDITION_NAMES_ACCEPTED,
                STATUS_TRUE,
                "NoConflicts",
                "no conflicts found",
            ),
            Some((reason, message)) => Condition::new(
                CONDITION_NAMES_ACCEPTED,
                STATUS_FALSE,
                reason,
                message.as_str(),
            ),
        };
        let established = if self.established {
            let message = "the initial names have been accepted";
            Condition::new(
                CONDITION_ESTABLISHED,
                STATUS_TRUE,
                "InitialNamesAccepted",
                message,
            )
        } else {
            let message = "not all names are accepted";
            Condition::new(CONDITION_ESTABLISHED, STATUS_FALSE, "NotAccepted", message)
        };
        [names, established]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(plural: &str, kind: &str, short_names: &[&str]) -> CustomResourceDefinition {
        let names = json!({
            "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"),
            "shortNames": short_names,
        });
        let spec =
            json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": []});
        CustomResourceDefinition::from_value(&json!({"spec": spec})).expect("a definition")
    }

    #[test]
    fn a_definition_gets_its_names_unless_another_has_them() {
        let first = decide(&definition("widgets", "Widget", &["w"]), None, &[]);
        assert!(first.is_whole() && first.is_served());
        for (plural, kind, short_names, reason) in [
            ("gadgets", "Gadget", &["g"][..], None),
            ("gadgets", "Widget", &[], Some("ListKindConflict")),
            ("w", "Gadget", &[], Some("PluralConflict")),
            (
                "gadgets",
                "Gadget",
                &["g", "widgets"],
                Some("ShortNamesConflict"),
            ),
        ] {
            let wanted = definition(plural, kind, short_names);
            let second = decide(&wanted, None, std::slice::from_ref(&first.names));
            assert_eq!(
                second.conflict.as_ref().map(|it| it.0),
                reason,
                "{plural} {kind}"
            );
            assert_eq!(second.is_served(), reason.is_none(), "{plural} {kind}");
        }
    }

    #[test]
    fn a_reserved_group_gives_no_names_even_to_a_definition_that_had_them() {
        let before = decide(&definition("widgets", "Widget", &["w"]), None, &[]);
        let mut claiming = definition("spokes", "Spoke", &[]);
        claiming.spec.group = "wheelhouse.dev".to_owned();
        let decided = decide(&claiming, Some(&before), &[]);
        assert!(!decided.is_served() && !decided.is_whole());
        assert_eq!(decided.conditions()[0].status, STATUS_FALSE);
        assert!(!Accepted::all(&claiming.spec).is_served());
    }

    #[test]
    fn what_was_served_stays_served_when_it_wants_a_name_too_many() {
        let first = decide(&definition("widgets", "Widget", &["w"]), None, &[]);
        let second = decide(&definition("gadgets", "Gadget", &["g"]), None, &[]);
        let wanted = definition("gadgets", "Gadget", &["g", "w"]);
        let now = decide(&wanted, Some(&second), std::slice::from_ref(&first.names));
        assert!(!now.is_whole() && now.is_served());
        assert_eq!(now.names.short_names, ["g"], "it keeps what it had");
        let freed = decide(&wanted, Some(&now), &[]);
        assert_eq!(freed.names.short_names, ["g", "w"]);
    }
}
