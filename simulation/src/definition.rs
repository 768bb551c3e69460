//! What users want: definitions and instances, and what spokes must hold for them in the end.
//!
//! The expectation is told by a model of its own, which knows nothing of `graph`.

use std::collections::BTreeMap;

use api::{
    kro,
    wheelhouse::keys::{ANNOTATION_DELETION_POLICY, ANNOTATION_OWNER_REFERENCES},
};
use serde_json::{Value, json};

use crate::{dice::Dice, spoke::Key};

/// The namespace of all instances.
pub const NAMESPACE: &str = "default";

/// The data of the object that definitions refer to and nobody of the hub writes.
pub const OUTSIDE: &str = "outside";

/// Which nodes a definition has beside its plain one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each sort of node")]
pub struct Shape {
    /// A collection, one object for each of `spec.names`.
    pub items: bool,
    /// A Secret, where `spec.extra` says so, whose name is in the spec.
    pub extra: bool,
    /// A reference to an object that is not the instance's.
    pub outside: bool,
    /// An object that others make ready, and one that waits for it.
    pub gate: bool,
    /// An object without a namespace.
    pub role: bool,
    /// Objects that stay when nothing wants them any more: one that is retained, and one that is orphaned.
    pub kept: bool,
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name; kind and resource follow from it.
    pub name: String,
    /// The spoke at whose path it is authored; root if none.
    pub home: Option<String>,
    /// Its nodes.
    pub shape: Shape,
    /// What it writes into each object.
    pub flavor: u64,
}

/// What the user of an instance wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Counts the changes.
    pub rev: u64,
    /// The collection.
    pub names: Vec<String>,
    /// Whether the conditional node is wanted.
    pub extra: bool,
    /// A part of the name of the conditional node.
    pub slug: String,
}

/// What a spoke must hold: the data of each object.
pub type Expectation = BTreeMap<Key, Value>;

// === impl Shape ===

impl Shape {
    /// Draws some nodes.
    pub fn random(dice: &Dice) -> Self {
        Self {
            items: dice.chance(600),
            extra: dice.chance(600),
            outside: dice.chance(300),
            gate: dice.chance(300),
            role: dice.chance(300),
            kept: false,
        }
    }

    /// All nodes that go with their instance: with a collection of three, ten objects of a graph.
    pub const ALL: Self = Self {
        items: true,
        extra: true,
        outside: true,
        gate: true,
        role: true,
        kept: false,
    };
}

// === impl Wish ===

impl Wish {
    /// Draws a wish.
    pub fn random(dice: &Dice, rev: u64) -> Self {
        let names = ["a", "b", "c", "d"];
        let names = names.iter().filter(|_| dice.chance(600));
        Self {
            rev,
            names: names.map(|name| (*name).to_owned()).collect(),
            extra: dice.chance(600),
            slug: ["x", "y"][dice.index(2)].to_owned(),
        }
    }

    /// Returns the spec of the instance.
    pub fn spec(&self) -> Value {
        json!({"rev": self.rev, "names": self.names, "extra": self.extra, "slug": self.slug})
    }
}

// === impl Definition ===

impl Definition {
    /// Returns the kind.
    pub fn kind(&self) -> String {
        let mut letters = self.name.chars();
        let first = letters.next().unwrap_or('X').to_ascii_uppercase();
        format!("{first}{}", letters.as_str())
    }

    /// Returns the resource.
    pub fn resource(&self) -> String {
        format!("{}s", self.name)
    }

    /// Returns the object that a user writes.
    pub fn to_value(&self) -> Value {
        let mut resources =
            vec![self.config("config", "${schema.metadata.name}-config", json!({}))];
        let Shape {
            items,
            extra,
            outside,
            gate,
            role,
            kept,
        } = self.shape;
        if outside {
            resources.push(
                json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": OUTSIDE, "namespace": NAMESPACE}}}),
            );
            let data = json!({"seen": "${outside.data.value}"});
            resources.push(self.config("copy", "${schema.metadata.name}-copy", data));
        }
        if items {
            let mut node = self.config(
                "parts",
                "${schema.metadata.name + '-item-' + part}",
                json!({}),
            );
            node["forEach"] = json!([{"part": "${schema.spec.names}"}]);
            resources.push(node);
        }
        if extra {
            let name = "${schema.metadata.name + '-extra-' + schema.spec.slug}";
            resources.push(
                json!({"id": "extra", "includeWhen": ["${schema.spec.extra}"],
                "template": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                    "type": "Opaque", "data": {"flavor": base64(self.flavor)}}}),
            );
        }
        if gate {
            let mut node = self.config("gate", "${schema.metadata.name}-gate", json!({}));
            node["readyWhen"] = json!(["${gate.data.?open.orValue('') == 'yes'}"]);
            resources.push(node);
            let data = json!({"after": "${gate.metadata.name}"});
            resources.push(self.config("after", "${schema.metadata.name}-after", data));
        }
        if role {
            let name = format!("{}-${{schema.metadata.name}}", self.name);
            resources.push(json!({"id": "role", "template": {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name, "labels": {"flavor": format!("f{}", self.flavor)}}, "rules": []}}));
        }
        let mut annotations = json!({});
        if kept {
            resources.extend(self.kept_nodes());
            annotations[ANNOTATION_OWNER_REFERENCES] = json!("true");
        }
        json!({
            "apiVersion": format!("{}/{}", kro::GROUP, kro::VERSION), "kind": kro::RGD_KIND,
            "metadata": {"name": self.name, "annotations": annotations},
            "spec": {
                "schema": {
                    "apiVersion": "v1alpha1", "kind": self.kind(),
                    "spec": {"rev": "integer", "names": "[]string", "extra": "boolean", "slug": "string"},
                    "status": {"shown": "${config.data.rev}"},
                },
                "resources": resources,
            },
        })
    }

    /// Returns the nodes of what stays. A retained object has the name that another wish has again; an orphan one that none has again.
    fn kept_nodes(&self) -> [Value; 2] {
        let slugged = "${schema.metadata.name + '-kept-' + schema.spec.slug}";
        let counted = "${schema.metadata.name + '-loose-' + string(schema.spec.rev)}";
        [("kept", slugged, "Retain"), ("loose", counted, "Orphan")].map(|(id, name, policy)| {
            let mut node = self.config(id, name, json!({}));
            node["template"]["metadata"]["annotations"][ANNOTATION_DELETION_POLICY] = json!(policy);
            node
        })
    }

    fn config(&self, id: &str, name: &str, mut data: Value) -> Value {
        data["rev"] = json!("${string(schema.spec.rev)}");
        data["flavor"] = json!(format!("f{}", self.flavor));
        json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}})
    }

    /// Returns the instance that a user writes.
    pub fn instance(&self, name: &str, wish: &Wish) -> Value {
        json!({"apiVersion": format!("{}/v1alpha1", kro::GROUP), "kind": self.kind(),
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": wish.spec()})
    }

    /// Adds what a spoke must hold for an instance. `outside` is the value of the object that is referred to.
    pub fn expect(&self, name: &str, wish: &Wish, outside: &str, expected: &mut Expectation) {
        let base = json!({"rev": wish.rev.to_string(), "flavor": format!("f{}", self.flavor)});
        let mut config = |suffix: String, more: &[(&str, &str)]| {
            let mut data = base.clone();
            for (key, value) in more {
                data[*key] = json!(value);
            }
            let key = Key::new("", "configmaps", NAMESPACE, &format!("{name}-{suffix}"));
            expected.insert(key, json!({"data": data}));
        };
        config("config".to_owned(), &[]);
        if self.shape.outside {
            config("copy".to_owned(), &[("seen", outside)]);
        }
        if self.shape.items {
            for item in &wish.names {
                config(format!("item-{item}"), &[]);
            }
        }
        if self.shape.gate {
            config("gate".to_owned(), &[("open", "yes")]);
            config("after".to_owned(), &[("after", &format!("{name}-gate"))]);
        }
        if self.shape.kept {
            config(format!("kept-{}", wish.slug), &[]);
            config(format!("loose-{}", wish.rev), &[]);
        }
        if self.shape.extra && wish.extra {
            let key = Key::new(
                "",
                "secrets",
                NAMESPACE,
                &format!("{name}-extra-{}", wish.slug),
            );
            expected.insert(key, json!({"data": {"flavor": base64(self.flavor)}}));
        }
        if self.shape.role {
            let group = "rbac.authorization.k8s.io";
            let key = Key::new(group, "clusterroles", "", &format!("{}-{name}", self.name));
            expected.insert(key, json!({}));
        }
    }
}

fn base64(flavor: u64) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.encode(format!("f{flavor}"))
}
