//! The RBAC objects and namespaces that every logical cluster of ours begins with.
//!
//! A shorter list than Kubernetes': the user-facing roles, discovery, and nothing for components that do not run
//! here. `cluster-admin` is bound to `system:masters`, which the authorizer lets pass anyhow, so that looking at the
//! bindings tells the truth.
//!
//! Source: `kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go`.

use serde_json::{Value, json};

use super::rbac;

/// One object and where it is created.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// Path of the collection, `/api/v1/namespaces` for instance.
    pub path: &'static str,
    /// The object.
    pub object: Value,
}

const NAMESPACES: &str = "/api/v1/namespaces";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];

/// Core resources of a namespace that `view` may read.
const CORE_VIEW: [&str; 11] = [
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "namespaces",
];
/// Core subresources that `view` may read.
const CORE_VIEW_SUB: [&str; 9] = [
    "bindings",
    "namespaces/status",
    "persistentvolumeclaims/status",
    "pods/log",
    "pods/status",
    "replicationcontrollers/scale",
    "replicationcontrollers/status",
    "resourcequotas/status",
    "services/status",
];
/// Core resources that `edit` may write.
const CORE_EDIT: [&str; 13] = [
    "configmaps",
    "endpoints",
    "events",
    "persistentvolumeclaims",
    "pods",
    "pods/attach",
    "pods/exec",
    "pods/portforward",
    "pods/proxy",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "secrets",
    "services",
];
/// Resources of `apps`.
const APPS: [&str; 8] = [
    "daemonsets",
    "deployments",
    "deployments/scale",
    "replicasets",
    "replicasets/scale",
    "statefulsets",
    "statefulsets/scale",
    "controllerrevisions",
];

/// The objects that a logical cluster begins with. A later `create` of one that exists changes nothing.
pub fn objects() -> Vec<Bootstrap> {
    let mut objects: Vec<Bootstrap> = ["default", "kube-system", "kube-public", "kube-node-lease"]
        .into_iter()
        .map(|name| Bootstrap {
            path: NAMESPACES,
            object: json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
        })
        .collect();
    objects.extend(admin_roles());
    objects.extend(user_roles());
    objects.extend(discovery_roles());
    objects
}

/// What `view` and `edit` may do with kro's definitions in an embedded cluster. Not in root, whose definitions are for all clusters:
/// who may write those is said for itself.
///
/// Source: kro's chart, `helm/templates/user-cluster-role.yaml`.
pub fn kro_roles() -> Vec<Bootstrap> {
    let resources = [
        "resourcegraphdefinitions",
        "resourcegraphdefinitions/status",
    ];
    let rules = |verbs: &[&str]| json!([{ "apiGroups": ["kro.run"], "resources": resources, "verbs": verbs }]);
    vec![
        role("kro-edit", aggregate_to(&["admin", "edit"]), &rules(&WRITE)),
        role(
            "kro-view",
            aggregate_to(&["admin", "edit", "view"]),
            &rules(&READ),
        ),
    ]
}

fn admin_roles() -> Vec<Bootstrap> {
    vec![
        role(
            "cluster-admin",
            json!({}),
            &json!([
                { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
                { "nonResourceURLs": ["*"], "verbs": ["*"] },
            ]),
        ),
        binding("cluster-admin", &["system:masters"]),
        aggregated("admin", &["admin"], &[]),
        aggregated("edit", &["edit"], &["admin"]),
        aggregated("view", &["view"], &["edit"]),
    ]
}

fn user_roles() -> Vec<Bootstrap> {
    let read_write = [&READ[..], &WRITE[..]].concat();
    vec![
        role(
            "system:aggregate-to-admin",
            aggregate_to(&["admin"]),
            &json!([
                { "apiGroups": ["authorization.k8s.io"], "resources": ["localsubjectaccessreviews"], "verbs": ["create"] },
                { "apiGroups": [rbac::GROUP], "resources": ["roles", "rolebindings"], "verbs": read_write },
            ]),
        ),
        role(
            "system:aggregate-to-edit",
            aggregate_to(&["edit"]),
            &json!([
                { "apiGroups": [""], "resources": ["pods/attach", "pods/proxy", "pods/portforward", "pods/exec", "secrets", "services/proxy"], "verbs": READ },
                { "apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"] },
                { "apiGroups": [""], "resources": CORE_EDIT, "verbs": WRITE },
                { "apiGroups": [""], "resources": ["pods/eviction", "serviceaccounts/token"], "verbs": ["create"] },
                { "apiGroups": [""], "resources": ["serviceaccounts"], "verbs": WRITE },
                { "apiGroups": ["apps"], "resources": APPS, "verbs": WRITE },
                { "apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": WRITE },
                { "apiGroups": ["batch"], "resources": ["cronjobs", "jobs"], "verbs": WRITE },
                { "apiGroups": ["networking.k8s.io"], "resources": ["ingresses", "networkpolicies"], "verbs": WRITE },
                { "apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": WRITE },
                { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": read_write },
            ]),
        ),
        role(
            "system:aggregate-to-view",
            aggregate_to(&["view"]),
            &json!([
                { "apiGroups": [""], "resources": CORE_VIEW, "verbs": READ },
                { "apiGroups": [""], "resources": CORE_VIEW_SUB, "verbs": READ },
                { "apiGroups": ["apps"], "resources": APPS, "verbs": READ },
                { "apiGroups": ["apps"], "resources": ["daemonsets/status", "deployments/status", "replicasets/status", "statefulsets/status"], "verbs": READ },
                { "apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers", "horizontalpodautoscalers/status"], "verbs": READ },
                { "apiGroups": ["batch"], "resources": ["cronjobs", "cronjobs/status", "jobs", "jobs/status"], "verbs": READ },
                { "apiGroups": ["networking.k8s.io"], "resources": ["ingresses", "ingresses/status", "networkpolicies"], "verbs": READ },
                { "apiGroups": ["policy"], "resources": ["poddisruptionbudgets", "poddisruptionbudgets/status"], "verbs": READ },
                { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": READ },
            ]),
        ),
    ]
}

fn discovery_roles() -> Vec<Bootstrap> {
    vec![
        role(
            "system:basic-user",
            json!({}),
            &json!([
                { "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], "verbs": ["create"] },
                { "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"] },
            ]),
        ),
        role(
            "system:discovery",
            json!({}),
            &json!([{
                "nonResourceURLs": [
                    "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz",
                    "/version", "/version/",
                ],
                "verbs": ["get"],
            }]),
        ),
        role(
            "system:public-info-viewer",
            json!({}),
            &json!([{
                "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
                "verbs": ["get"],
            }]),
        ),
        role(
            "system:service-account-issuer-discovery",
            json!({}),
            &json!([{
                "nonResourceURLs": [
                    "/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks",
                    "/openid/v1/jwks/",
                ],
                "verbs": ["get"],
            }]),
        ),
        binding(
            "system:service-account-issuer-discovery",
            &["system:serviceaccounts"],
        ),
        binding("system:basic-user", &["system:authenticated"]),
        binding("system:discovery", &["system:authenticated"]),
        binding(
            "system:public-info-viewer",
            &["system:authenticated", "system:unauthenticated"],
        ),
    ]
}

fn role(name: &str, labels: Value, rules: &Value) -> Bootstrap {
    Bootstrap {
        path: CLUSTER_ROLES,
        object: json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": metadata(name, labels),
            "rules": rules,
        }),
    }
}

/// A role whose rules are those of all roles labelled for `from`, and which itself is labelled for `to`.
fn aggregated(name: &str, from: &[&str], to: &[&str]) -> Bootstrap {
    let selectors: Vec<Value> = from
        .iter()
        .map(|from| json!({ "matchLabels": aggregate_to(&[from]) }))
        .collect();
    let mut role = role(name, aggregate_to(to), &json!([]));
    role.object["aggregationRule"] = json!({ "clusterRoleSelectors": selectors });
    role
}

fn aggregate_to(roles: &[&str]) -> Value {
    roles
        .iter()
        .map(|role| {
            (
                format!("{}/aggregate-to-{role}", rbac::GROUP),
                Value::from("true"),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn binding(name: &str, groups: &[&str]) -> Bootstrap {
    let subjects: Vec<Value> = groups
        .iter()
        .map(|group| json!({ "apiGroup": rbac::GROUP, "kind": "Group", "name": group }))
        .collect();
    Bootstrap {
        path: CLUSTER_ROLE_BINDINGS,
        object: json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata(name, json!({})),
            "roleRef": { "apiGroup": rbac::GROUP, "kind": "ClusterRole", "name": name },
            "subjects": subjects,
        }),
    }
}

fn metadata(name: &str, labels: Value) -> Value {
    let mut labels = labels;
    labels["kubernetes.io/bootstrapping"] = json!("rbac-defaults");
    json!({
        "name": name,
        "labels": labels,
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
    })
}
