//! What tenants do, by seed.

use http::Method;
use serde_json::{Value, json};
use storage_conformance::Random;

use super::TENANTS;
use crate::isolation::support::{APPLY_PATCH, CRDS, JSON, JSON_PATCH, MERGE_PATCH, RBAC, RGDS};

/// One request, the same for every hub that it is sent to.
///
/// `{{rv:PATH}}` in the body and `{{continue:PATH}}`, `{{token:PATH}}` in the path and the user stand for what that hub answered there.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) tenant: usize,
    pub(super) user: String,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
    pub(super) settle: Settle,
}

/// What a step sets in motion, which must have come to its end before the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Settle {
    /// Nothing.
    No,
    /// An object goes.
    Gone(String),
    /// A definition is established or refused.
    Definition(String),
    /// Controllers of definitions and instances work.
    Quiet,
}

pub(super) const NAMESPACES: [&str; 3] = ["default", "n1", "n2"];
/// Kinds that both tenants define, in groups of their own, of kro, and of the hub. What one defines by a CRD the other
/// defines by an RGD; within a cluster the two would fight for a kind, and its own fights are not what is tried.
pub(super) const KINDS: [(&str, &str, &str); 7] = [
    ("kro.run", "carts", "Cart"),
    ("kro.run", "boxes", "Box"),
    ("shop.example.com", "carts", "Cart"),
    ("wheelhouse.dev", "spokes", "Spoke"),
    ("shop.example.com", "parts", "Part"),
    (
        "internal.wheelhouse.dev",
        "servedresources",
        "ServedResource",
    ),
    (
        "kro.run",
        "resourcegraphdefinitions",
        "ResourceGraphDefinition",
    ),
];
/// Of each tenant, the kinds that it defines by CRDs and by RGDs.
const CRD_KINDS: [[usize; 5]; 2] = [[0, 3, 4, 5, 6], [1, 3, 4, 5, 6]];
const RGD_KINDS: [[usize; 2]; 2] = [[1, 2], [0, 2]];
/// Kinds that tenants make objects of, and that root defines for all.
const CUSTOM_KINDS: usize = 5;
const FLEET_KINDS: [usize; 2] = [0, 2];
const VERSIONS: [&str; 3] = ["v1alpha1", "v1", "v1beta1"];

/// Draws steps.
pub(super) struct Script {
    random: Random,
    only: Option<usize>,
    count: usize,
}

impl Script {
    /// The script of a seed; of one tenant where `only` says so.
    pub(super) fn new(seed: u64, only: Option<usize>) -> Self {
        Self {
            random: Random::new(seed),
            only,
            count: 0,
        }
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Draws the next step.
    pub(super) fn next(&mut self) -> Step {
        self.count += 1;
        let drawn = self.below(TENANTS.len());
        let tenant = self.only.unwrap_or(drawn);
        let mut step = match self.below(100) {
            0..30 => self.plain(tenant),
            30..34 => self.namespace(tenant),
            34..40 => self.definition(tenant),
            40..58 => self.custom(tenant),
            58..62 => self.graph(tenant),
            62..72 => self.role(tenant),
            72..78 => self.account(tenant),
            78..84 => self.review(tenant),
            84..88 => self.page(tenant),
            _ => self.attack(tenant),
        };
        if step.headers.is_empty() && self.one_in(12) {
            self.impersonate(&mut step);
        }
        if self.one_in(6) && step.settle == Settle::No && step.user == TENANTS[tenant].owner {
            TENANTS[tenant].weak.clone_into(&mut step.user);
        }
        step
    }

    /// The operator's: a definition of root for the whole fleet comes or goes.
    pub(super) fn fleet(&mut self) -> Step {
        let (group, _, kind) = KINDS[FLEET_KINDS[self.below(FLEET_KINDS.len())]];
        let name = format!("fleet-{}", kind.to_lowercase());
        let body = self.graph_of(&name, group, kind);
        let (method, path, body) = if self.one_in(2) {
            (Method::DELETE, format!("{RGDS}/{name}"), Value::Null)
        } else {
            (Method::POST, RGDS.to_owned(), body)
        };
        Step {
            user: "admin".to_owned(),
            settle: Settle::Quiet,
            ..of(0, method, path, body)
        }
    }

    fn place(&mut self, tenant: usize) -> (String, &'static str) {
        (TENANTS[tenant].base(), self.pick(&NAMESPACES))
    }

    fn plain(&mut self, tenant: usize) -> Step {
        let (base, namespace) = self.place(tenant);
        let (resource, kind) = [("configmaps", "ConfigMap"), ("secrets", "Secret")][self.below(2)];
        let collection = format!("{base}/api/v1/namespaces/{namespace}/{resource}");
        let name = format!("m{}", self.below(5));
        let path = format!("{collection}/{name}");
        let value = format!("{}-{}", TENANTS[tenant].canary, self.count);
        let field = if kind == "Secret" {
            "stringData"
        } else {
            "data"
        };
        let mut object = json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "labels": {"trial": "yes", "turn": (self.count % 7).to_string()}},
            field: {"v": value},
        });
        match self.below(8) {
            0 | 1 => of(tenant, Method::POST, collection, object),
            2 => of(tenant, Method::GET, path, Value::Null),
            3 => {
                object["metadata"]["resourceVersion"] = json!(format!("{{{{rv:{path}}}}}"));
                of(tenant, Method::PUT, path, object)
            }
            4 => {
                let patch = json!({field: {"w": value}});
                of(tenant, Method::PATCH, path, patch).typed(MERGE_PATCH)
            }
            5 => {
                let patch =
                    json!([{"op": "add", "path": "/metadata/labels/patched", "value": "yes"}]);
                of(tenant, Method::PATCH, path, patch).typed(JSON_PATCH)
            }
            6 => {
                let path = format!("{path}?fieldManager=trial&force=true");
                of(tenant, Method::PATCH, path, object).typed(APPLY_PATCH)
            }
            _ => of(tenant, Method::DELETE, path, Value::Null),
        }
    }

    fn namespace(&mut self, tenant: usize) -> Step {
        let base = TENANTS[tenant].base();
        let name = NAMESPACES[1 + self.below(2)];
        let path = format!("{base}/api/v1/namespaces/{name}");
        if self.one_in(3) {
            let step = of(tenant, Method::DELETE, path.clone(), Value::Null);
            return Step {
                settle: Settle::Gone(path),
                ..step
            };
        }
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let step = of(
            tenant,
            Method::POST,
            format!("{base}/api/v1/namespaces"),
            object,
        );
        Step {
            settle: Settle::Quiet,
            ..step
        }
    }

    fn definition(&mut self, tenant: usize) -> Step {
        let base = TENANTS[tenant].base();
        let (group, plural, kind) = KINDS[CRD_KINDS[tenant][self.below(CRD_KINDS[tenant].len())]];
        let name = format!("{plural}.{group}");
        let path = format!("{base}{CRDS}/{name}");
        match self.below(4) {
            0 => Step {
                settle: Settle::Gone(path.clone()),
                ..of(tenant, Method::DELETE, path, Value::Null)
            },
            1 => {
                let patch = json!({"metadata": {"labels": {"turn": self.count.to_string()}}});
                let step = of(tenant, Method::PATCH, path.clone(), patch).typed(MERGE_PATCH);
                Step {
                    settle: Settle::Definition(path),
                    ..step
                }
            }
            _ => {
                let object = self.definition_of(tenant, group, plural, kind);
                Step {
                    settle: Settle::Definition(path),
                    ..of(tenant, Method::POST, format!("{base}{CRDS}"), object)
                }
            }
        }
    }

    fn definition_of(&mut self, tenant: usize, group: &str, plural: &str, kind: &str) -> Value {
        let image = format!("image-of-{}", TENANTS[tenant].cluster);
        let scope = if self.one_in(4) {
            "Cluster"
        } else {
            "Namespaced"
        };
        let count = 1 + self.below(2);
        let first = self.below(VERSIONS.len());
        let versions: Vec<Value> = (0..count)
            .map(|n| {
                json!({
                    "name": VERSIONS[(first + n) % VERSIONS.len()], "served": true, "storage": n == 0,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "default": {},
                        "properties": {
                            "image": {"type": "string", "default": image},
                            "replicas": {"type": "integer", "default": 7},
                        },
                    }}}},
                })
            })
            .collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": scope, "versions": versions,
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                    "listKind": format!("{kind}List")},
            },
        })
    }

    /// Objects of the kinds that tenants define, Spokes with the names of clusters among them.
    fn custom(&mut self, tenant: usize) -> Step {
        let (base, namespace) = self.place(tenant);
        let (group, plural, kind) = KINDS[self.below(CUSTOM_KINDS)];
        let version = match self.below(4) {
            0 => VERSIONS[self.below(VERSIONS.len())],
            _ => "v1alpha1",
        };
        let scope = match kind {
            "Spoke" => String::new(),
            _ => format!("/namespaces/{namespace}"),
        };
        let names: &[&str] = match kind {
            "Spoke" => &["root", "a", "a-b", "a-real", "a-b-real", "other"],
            _ => &["i0", "i1", "i2"],
        };
        let name = self.pick(names);
        let collection = format!("{base}/apis/{group}/{version}{scope}/{plural}");
        let path = format!("{collection}/{name}");
        let child = format!("m{}", self.below(5));
        let mut spec = json!({"name": child});
        if self.one_in(2) {
            spec["image"] = json!(format!("image-{}", self.count));
        }
        let object = json!({
            "apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        let step = match self.below(6) {
            0 | 1 => of(tenant, Method::POST, collection, object),
            2 => {
                let path = format!("{path}?fieldManager=trial&force=true");
                of(tenant, Method::PATCH, path, object).typed(APPLY_PATCH)
            }
            3 => of(tenant, Method::PATCH, path, json!({"spec": spec})).typed(MERGE_PATCH),
            4 => of(tenant, Method::GET, path, Value::Null),
            _ => of(tenant, Method::DELETE, path, Value::Null),
        };
        Step {
            settle: match step.method {
                Method::GET => Settle::No,
                _ => Settle::Quiet,
            },
            ..step
        }
    }

    fn graph(&mut self, tenant: usize) -> Step {
        let base = TENANTS[tenant].base();
        let (group, _, kind) = KINDS[RGD_KINDS[tenant][self.below(RGD_KINDS[tenant].len())]];
        let name = format!("r-{}", kind.to_lowercase());
        let path = format!("{base}{RGDS}/{name}");
        let body = self.graph_of(&name, group, kind);
        let step = match self.below(4) {
            0 => of(tenant, Method::DELETE, path, Value::Null),
            1 => of(tenant, Method::PATCH, path, json!({"spec": body["spec"]})).typed(MERGE_PATCH),
            _ => of(tenant, Method::POST, format!("{base}{RGDS}"), body),
        };
        Step {
            settle: Settle::Quiet,
            ..step
        }
    }

    fn graph_of(&mut self, name: &str, group: &str, kind: &str) -> Value {
        let image = format!("image-{}", self.below(3));
        // Of two kinds' instances of one name the first would have the child: a race of one tenant with itself.
        let child = format!("{}-{}", kind.to_lowercase(), group.replace('.', "-"));
        let mut resources = vec![json!({"id": "config", "template": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("${{schema.metadata.name}}-{child}")},
            "data": {"image": "${schema.spec.image}", "replicas": "${string(schema.spec.replicas)}"},
        }})];
        if self.one_in(4) {
            resources.push(json!({"id": "grant", "template": {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("${{schema.metadata.namespace}}-${{schema.metadata.name}}-{child}")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "${schema.spec.name}"}],
            }}));
        }
        json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name},
            "spec": {
                "schema": {"apiVersion": "v1alpha1", "group": group, "kind": kind, "spec": {
                    "name": "string | default=x", "image": format!("string | default={image}"),
                    "replicas": "integer | default=1",
                }},
                "resources": resources,
            },
        })
    }

    fn role(&mut self, tenant: usize) -> Step {
        let (base, namespace) = self.place(tenant);
        let weak = TENANTS[tenant].weak;
        let other = TENANTS[1 - tenant].owner;
        let subject = self.pick(&[weak, weak, other]);
        let name = format!("p{}", self.below(3));
        let (resource, object) = match self.below(3) {
            0 => (
                "roles",
                json!({
                    "kind": "Role", "metadata": {"name": name}, "rules": [{
                        "apiGroups": [self.pick(&["", "*", "kro.run"])], "resources": [self.pick(&["*", "configmaps", "carts"])],
                        "verbs": [self.pick(&["*", "get", "list", "create"])],
                    }],
                }),
            ),
            1 => (
                "rolebindings",
                json!({
                    "kind": "RoleBinding", "metadata": {"name": name},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": format!("p{}", self.below(3))},
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": subject}],
                }),
            ),
            _ => (
                "rolebindings",
                json!({
                    "kind": "RoleBinding", "metadata": {"name": name},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": self.pick(&["view", "edit", "admin"])},
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": subject}],
                }),
            ),
        };
        let mut object = object;
        object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
        let collection = format!("{base}{RBAC}/namespaces/{namespace}/{resource}");
        match self.below(4) {
            0 => of(
                tenant,
                Method::DELETE,
                format!("{collection}/{name}"),
                Value::Null,
            ),
            _ => of(tenant, Method::POST, collection, object),
        }
    }

    /// ServiceAccounts and their tokens, at home and abroad.
    fn account(&mut self, tenant: usize) -> Step {
        let (base, namespace) = self.place(tenant);
        let token = format!("{base}/api/v1/namespaces/{namespace}/serviceaccounts/default/token");
        let request =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        if self.one_in(4) {
            return of(tenant, Method::POST, token, request);
        }
        let base = match self.below(4) {
            0 => TENANTS[1 - tenant].base(),
            1 => String::new(),
            _ => base,
        };
        let resource = self.pick(&["configmaps", "secrets", "serviceaccounts"]);
        let path = format!("{base}/api/v1/namespaces/{namespace}/{resource}");
        Step {
            user: format!("{{{{token:{token}}}}}"),
            ..of(tenant, Method::GET, path, Value::Null)
        }
    }

    fn review(&mut self, tenant: usize) -> Step {
        let base = match self.below(4) {
            0 => TENANTS[1 - tenant].base(),
            1 => String::new(),
            _ => TENANTS[tenant].base(),
        };
        let user = self.pick(&[TENANTS[tenant].weak, TENANTS[1 - tenant].owner]);
        let attributes = json!({
            "namespace": self.pick(&NAMESPACES), "verb": self.pick(&["get", "create", "access"]),
            "resource": self.pick(&["configmaps", "secrets", "spokes"]),
        });
        let group = "/apis/authorization.k8s.io/v1";
        match self.below(4) {
            0 => {
                let path = format!("{base}{group}/selfsubjectrulesreviews");
                of(
                    tenant,
                    Method::POST,
                    path,
                    json!({"spec": {"namespace": "default"}}),
                )
            }
            1 => {
                let path = format!("{base}{group}/selfsubjectaccessreviews");
                of(
                    tenant,
                    Method::POST,
                    path,
                    json!({"spec": {"resourceAttributes": attributes}}),
                )
            }
            2 => {
                let path = format!("{base}{group}/subjectaccessreviews");
                let spec = json!({"user": user, "resourceAttributes": attributes});
                of(tenant, Method::POST, path, json!({"spec": spec}))
            }
            _ => {
                let path = format!("{base}/apis/authentication.k8s.io/v1/tokenreviews");
                let token = format!("{}-token", TENANTS[1 - tenant].owner);
                of(
                    tenant,
                    Method::POST,
                    path,
                    json!({"spec": {"token": token}}),
                )
            }
        }
    }

    /// A second page, with a token that its own cluster gave out.
    fn page(&mut self, tenant: usize) -> Step {
        let own = format!("{}/api/v1/configmaps?limit=1", TENANTS[tenant].base());
        let base = match self.below(4) {
            0 => TENANTS[1 - tenant].base(),
            1 => String::new(),
            _ => TENANTS[tenant].base(),
        };
        let path = format!("{base}/api/v1/configmaps?limit=3&continue={{{{continue:{own}}}}}");
        of(tenant, Method::GET, path, Value::Null)
    }

    /// A request where the tenant has nothing to say.
    fn attack(&mut self, tenant: usize) -> Step {
        let mut step = match self.below(5) {
            0 => self.plain(tenant),
            1 => self.definition(tenant),
            2 => self.custom(tenant),
            3 => self.graph(tenant),
            _ => self.role(tenant),
        };
        let own = TENANTS[tenant].base();
        let other = TENANTS[1 - tenant].base();
        let base = self.pick(&[
            other.as_str(),
            other.as_str(),
            "",
            "/clusters/*",
            "/clusters/root",
            "/clusters/none",
        ]);
        step.path = step.path.replace(&own, base);
        if self.one_in(4) {
            step.path
                .push_str(if step.path.contains('?') { "&" } else { "?" });
            step.path.push_str("limit=2");
        }
        // A placeholder would be resolved at home.
        step.body =
            serde_json::from_str(&step.body.to_string().replace("{{rv:", "{{home:")).expect("JSON");
        step.settle = Settle::No;
        step
    }

    fn impersonate(&mut self, step: &mut Step) {
        let user = self.pick(&[
            TENANTS[0].owner,
            TENANTS[1].owner,
            "admin",
            "system:kube-controller-manager",
        ]);
        step.headers.push(("impersonate-user", user.to_owned()));
        if self.one_in(2) {
            step.headers
                .push(("impersonate-group", "system:masters".to_owned()));
        }
    }
}

fn of(tenant: usize, method: Method, path: String, body: Value) -> Step {
    Step {
        tenant,
        user: TENANTS[tenant].owner.to_owned(),
        method,
        path,
        headers: Vec::new(),
        body,
        settle: Settle::No,
    }
}

impl Step {
    fn typed(mut self, content_type: &'static str) -> Self {
        self.headers.push(("content-type", content_type.to_owned()));
        self
    }

    /// Returns the headers as they are sent.
    pub(super) fn sent_headers(&self) -> Vec<(&str, &str)> {
        let mut headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        if !self.body.is_null() && !headers.iter().any(|(name, _)| *name == "content-type") {
            headers.push(("content-type", JSON));
        }
        headers
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.user, self.method, self.path)?;
        for (name, value) in &self.headers {
            write!(f, " {name}={value}")?;
        }
        if self.body.is_null() {
            return Ok(());
        }
        let body: String = self.body.to_string().chars().take(300).collect();
        write!(f, " {body}")
    }
}
