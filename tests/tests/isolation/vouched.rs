//! S06 to S09, S11, S16 and S25 for users whom somebody else vouches for: an issuer of tokens, an authentication webhook, a front proxy. They
//! are who these say, by name and by groups, in root, in an embedded cluster and in a real spoke, and nobody more.

use std::time::Duration;

use serde_json::{Value, json};
use wheelhouse_tests::{
    Spoke,
    hub::Settings,
    issuer::{Issuer, Mode},
    pki::{Authority, Pair, kubeconfig},
    process::Scratch,
    wait::within,
    wire::{Address, FakeSpoke, Wire},
};

use super::{
    floods, streams,
    support::{Answer, Fixture, JSON, MERGE_PATCH, RBAC, RGDS, SPOKES, User, base},
};

const HTTP1: &[&str] = &["http/1.1"];
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const PODS: &str = "/clusters/fake/api/v1/namespaces/default/pods";
const PROXY_NAME: &str = "front-proxy-client";
/// How long somebody may go on after what vouched for them is gone.
const PROMISED: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_mins(1);
/// Stands in a request that nobody sent as such.
const MARK: &str = "smuggled";
/// What asks for a stream.
const WEBSOCKET: &str = "connection: Upgrade\r\nupgrade: websocket\r\n";
/// What a chunked body ends with.
const LAST_CHUNK: &str = "\r\n0\r\n\r\n";
/// Headers that say who somebody is, to whoever believes them.
const CLAIMS: [(&str, &str); 5] = [
    ("x-remote-uid", "0"),
    ("x-remote-extra-scopes", "all"),
    ("x-forwarded-user", "admin"),
    ("x_remote_user", "admin"),
    ("cookie", "session=stolen"),
];

/// What a group may do in a cluster, where it may not read Secrets: write ConfigMaps, roles and bindings in `default`, publish definitions.
const RIGHTS: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: publishes}
rules:
- {apiGroups: [kro.run], resources: ['*'], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: GROUP-publishes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: publishes}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: GROUP}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writes, namespace: default}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: ['*']}
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: [get, list, create, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: GROUP-writes, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writes}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: GROUP}]
";

/// Lets a group act as one user.
const VICTIM: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: acts-as-victim}
rules:
- {apiGroups: [''], resources: [users], resourceNames: [victim], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: GROUP-acts-as-victim}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: acts-as-victim}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: GROUP}]
";

/// Lets a group into three clusters, and into no other.
const ACCESS: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: enters}
rules:
- {apiGroups: [wheelhouse.dev], resources: [spokes], resourceNames: [inner, east, fake], verbs: [access]}
- {apiGroups: [wheelhouse.dev], resources: [spokes/kubeconfig], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: GROUP-enters}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: enters}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: GROUP}]
";

/// A hub that believes an issuer, a webhook and a front proxy, with clusters of three kinds.
struct Stage {
    fixture: Fixture,
    issuer: Issuer,
    webhook: Issuer,
    proxies: Authority,
    fake: FakeSpoke,
    /// Of the hub.
    address: Address,
    scratch: Scratch,
    _east: Spoke,
}

/// Somebody whom another server vouches for.
struct Person {
    /// How: also the beginning of the names of what they make.
    way: &'static str,
    name: String,
    group: String,
    user: User,
    /// What stands in each of their requests.
    says: Vec<(&'static str, String)>,
    client: Option<Pair>,
}

// === impl Stage ===

impl Stage {
    async fn set() -> Self {
        let issuer = Issuer::start(Mode::Good).await;
        let webhook = Issuer::start(Mode::Good).await;
        let (proxies, scratch) = (Authority::new("front-proxy-ca"), Scratch::new("vouched"));
        let jwt = json!([{
            "issuer": {"url": issuer.url(), "certificateAuthority": issuer.certificate(), "audiences": ["hub"]},
            "claimMappings": {
                "username": {"claim": "sub", "prefix": "issued:"}, "groups": {"claim": "groups", "prefix": "issued:"},
            },
        }]);
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": jwt,
        });
        let issuers = scratch.write("authentication.yaml", configuration.to_string());
        let reviewer = scratch.write("webhook.kubeconfig", webhook.webhook_kubeconfig());
        let authority = scratch.write("proxies.crt", proxies.certificate());
        let arguments = [
            "--authentication-config",
            &issuers.display().to_string(),
            "--authentication-token-webhook-config-file",
            &reviewer.display().to_string(),
            "--requestheader-client-ca-file",
            &authority.display().to_string(),
            "--requestheader-allowed-names",
            PROXY_NAME,
        ];
        let settings = Settings {
            arguments: arguments.map(str::to_owned).to_vec(),
            ..Settings::default()
        };
        let fixture = Fixture::start_with(&["alice"], settings);
        let (fixture, east, fake) = tokio::join!(fixture, Spoke::start("east"), streams::hostile());
        let file = scratch.write("fake.kubeconfig", fake.kubeconfig("fake"));
        let from = file.display().to_string();
        let added = ["spoke", "add", "fake", "--from", &from];
        let added = fixture.hub.wheelhouse(&added).await;
        added.succeeded("spoke add");
        tokio::join!(
            fixture.join(&east),
            fixture.embed("inner"),
            fixture.embed("other")
        );
        let address = Address::of_kubeconfig(&fixture.kubeconfig(None));
        Self {
            fixture,
            issuer,
            webhook,
            proxies,
            fake,
            address,
            scratch,
            _east: east,
        }
    }

    /// One of each kind, let in by the group that is said of them and by nothing else.
    async fn people(&self) -> [Person; 3] {
        let claims = json!({"sub": "mallory", "aud": "hub", "groups": ["team"]});
        let issued = self.issuer.token(claims);
        let reviewed = json!({"username": "reviewed", "groups": ["reviewers"]});
        self.webhook.review("hook-token", reviewed);
        let people = [
            self.bearer("issued", ("issued:mallory", "issued:team"), &issued)
                .await,
            self.bearer("reviewed", ("reviewed", "reviewers"), "hook-token")
                .await,
            self.proxied("proxied", ("proxied", "carried"), self.proxy())
                .await,
        ];
        for person in &people {
            let mine = |text: &str| text.replace("GROUP", &person.group);
            self.fixture.hub.root().apply(&mine(ACCESS)).await;
            for cluster in ["inner", "east"] {
                self.fixture.hub.at(cluster).apply(&mine(RIGHTS)).await;
                let path = format!("{}{MAPS}", base(cluster));
                within(PATIENCE, "the rights count", || async {
                    let answer = person.get(&path).await;
                    match answer.status {
                        200 => Ok(()),
                        _ => Err(answer.body.to_string()),
                    }
                })
                .await;
            }
        }
        people
    }

    fn proxy(&self) -> Pair {
        self.proxies.client(PROXY_NAME, None)
    }

    async fn bearer(&self, way: &'static str, (name, group): (&str, &str), token: &str) -> Person {
        Person {
            way,
            name: name.to_owned(),
            group: group.to_owned(),
            user: self.fixture.bearer(name, token).await,
            says: vec![("authorization", format!("Bearer {token}"))],
            client: None,
        }
    }

    async fn proxied(
        &self,
        way: &'static str,
        (name, group): (&str, &str),
        client: Pair,
    ) -> Person {
        let server = format!("https://{}", self.address.host);
        let config = kubeconfig("hub", &server, &self.address.authority, &client);
        Person {
            way,
            name: name.to_owned(),
            group: group.to_owned(),
            user: User::connect(name, &config).await,
            says: vec![
                ("x-remote-user", name.to_owned()),
                ("x-remote-group", group.to_owned()),
            ],
            client: Some(client),
        }
    }
}

// === impl Person ===

impl Person {
    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let mut sent: Vec<(&str, &str)> = headers.to_vec();
        // A token is sent by the connection itself.
        let says = self.says.iter().filter(|_| self.client.is_some());
        sent.extend(says.map(|(name, value)| (*name, value.as_str())));
        if body.is_null() {
            return self.user.send(method, path, &sent, "").await;
        }
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            sent.push(("content-type", JSON));
        }
        self.user.send(method, path, &sent, body.to_string()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], &Value::Null).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], body).await
    }

    /// Who the hub takes them for in a cluster, with further headers: name and groups, or the code of the refusal.
    async fn who(&self, cluster: &str, headers: &[(&str, &str)]) -> Result<(String, Value), u16> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let path = format!("{}{WHO}", base(cluster));
        let answer = self.send("POST", &path, headers, &review).await;
        if answer.status != 201 {
            return Err(answer.status);
        }
        let user = &answer.body["status"]["userInfo"];
        let name = user["username"].as_str().unwrap_or_default();
        Ok((name.to_owned(), user["groups"].clone()))
    }

    /// Sends a request over a connection of its own, and whatever stands behind its head.
    async fn ask(&self, stage: &Stage, line: &str, headers: &str, behind: &str) -> Wire {
        let mut wire = Wire::connect(&stage.address, HTTP1, self.client.as_ref()).await;
        let says = self.says.iter();
        let says = lines(says.map(|(name, value)| (*name, value.as_str())));
        let head = format!("{line} HTTP/1.1\r\nhost: hub\r\n{says}{headers}\r\n{behind}");
        wire.write(head).await;
        wire
    }

    /// A role of theirs in `default`.
    fn role(&self, name: &str, rules: &Value) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": format!("{name}-{}", self.way), "namespace": "default"}, "rules": rules,
        })
    }

    /// A binding to them in `default`.
    fn binding(&self, name: &str, (kind, role): (&str, &str)) -> Value {
        let group = "rbac.authorization.k8s.io";
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": {"name": format!("{name}-{}", self.way), "namespace": "default"},
            "roleRef": {"apiGroup": group, "kind": kind, "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": self.name}],
        })
    }

    /// The name of a kind that is theirs in a cluster.
    fn kind(&self, stem: &str) -> String {
        let (first, rest) = self.way.split_at(1);
        format!("{stem}{}{rest}", first.to_uppercase())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s06_s07_s08_s09_s11_s16_s25_who_is_vouched_for_is_that_and_no_more() {
    let stage = Stage::set().await;
    let people = stage.people().await;
    for person in &people {
        what_they_say_of_themselves_is_nothing(person).await;
        they_act_as_whom_they_may(&stage, person).await;
        they_grant_what_they_have(person).await;
        a_spoke_is_told_who_they_are(&stage, person).await;
    }
    let stories = people
        .iter()
        .map(|person| their_definitions_act_as_they(&stage, person));
    futures::future::join_all(stories).await;
    masters_of_a_host_are_none_in_a_real_spoke(&stage).await;
    a_pass_is_good_at_a_real_spoke(&stage, &people).await;
    one_of_a_hosts_users_ends_nothing_of_the_others(&stage).await;
    what_is_open_ends_with_who_vouched(&stage, &people).await;
}

/// S06: no header makes them more.
async fn what_they_say_of_themselves_is_nothing(person: &Person) {
    let way = person.way;
    for cluster in ["root", "inner", "east"] {
        let (name, groups) = person.who(cluster, &CLAIMS).await.expect(way);
        assert_eq!(name, person.name, "{way} at {cluster}");
        let groups: Vec<&str> = groups
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        assert!(
            groups.contains(&person.group.as_str()),
            "{way} at {cluster}: {groups:?}"
        );
        let others = groups
            .iter()
            .filter(|it| **it != person.group && **it != "system:authenticated");
        assert_eq!(others.count(), 0, "{way} at {cluster}: {groups:?}");
    }
    if person.client.is_none() {
        let remote = [
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
        ];
        let found = person.who("root", &remote).await.map(|(name, _)| name);
        assert_eq!(found.as_ref(), Ok(&person.name), "{way} says it is another");
    }
    for path in [
        SECRETS,
        SPOKES,
        "/clusters/inner/api/v1/secrets",
        "/clusters/east/api/v1/secrets",
    ] {
        person.get(path).await.must(403);
    }
    person
        .get(&format!("/clusters/other{MAPS}"))
        .await
        .must(403);
    person
        .get(&format!("/clusters/nowhere{MAPS}"))
        .await
        .must(403);
}

/// S07: acting as somebody takes a right, adds no group, and ends with the request. The cluster decides where it is the hub's, and root for
/// real spokes.
async fn they_act_as_whom_they_may(stage: &Stage, person: &Person) {
    let way = person.way;
    let victim = [("impersonate-user", "victim")];
    let clusters = ["inner", "east", "root", "other"];
    for cluster in clusters {
        let found = person.who(cluster, &victim).await;
        assert_eq!(found, Err(403), "{way} at {cluster} without a right");
    }
    let role = VICTIM.replace("GROUP", &person.group);
    let hub = &stage.fixture.hub;
    for (where_granted, counts_in, not_in) in [
        ("inner", "inner", &["east", "root", "other"][..]),
        ("east", "inner", &["east", "root", "other"]),
        ("root", "east", &["other"]),
    ] {
        let place = match where_granted {
            "root" => hub.root(),
            cluster => hub.at(cluster),
        };
        place.apply(&role).await;
        within(PATIENCE, "the right counts", || async {
            let found = person.who(counts_in, &victim).await;
            found.map(drop).map_err(|code| code.to_string())
        })
        .await;
        for cluster in not_in {
            let found = person.who(cluster, &victim).await;
            assert_eq!(
                found,
                Err(403),
                "{way} at {cluster}, granted in {where_granted}"
            );
        }
        they_are_nobody_else(person, counts_in).await;
    }
}

/// Who may act as `victim` in a cluster is that one there, and themselves with the next request of the same connection.
async fn they_are_nobody_else(person: &Person, cluster: &str) {
    let victim = ("impersonate-user", "victim");
    let at = format!("{} at {cluster}", person.way);
    let (name, groups) = person.who(cluster, &[victim]).await.expect(&at);
    assert_eq!(name, "victim", "{at}");
    assert_eq!(groups, json!(["system:authenticated"]), "{at}");
    for more in [
        &[victim, ("impersonate-group", "system:masters")][..],
        &[victim, ("impersonate-group", &person.group)],
        &[victim, ("impersonate-uid", "0")],
        &[victim, ("impersonate-extra-scopes", "all")],
        &[("impersonate-user", "admin")],
        &[("impersonate-user", "system:wheelhouse:syncer")],
        &[(
            "impersonate-user",
            "system:serviceaccount:kube-system:default",
        )],
    ] {
        let refused = person.who(cluster, more).await;
        assert_eq!(refused, Err(403), "{at}: {more:?}");
    }
    let path = format!("{}{MAPS}", base(cluster));
    let answer = person.send("GET", &path, &[victim], &Value::Null).await;
    assert_eq!(answer.status, 403, "{at}: {}", answer.body);
    let (name, _) = person.who(cluster, &[]).await.expect(&at);
    assert_eq!(name, person.name, "{at}");
    person.get(&path).await.must(200);
}

/// Headers as they stand in a request.
fn lines<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    headers.fold(String::new(), |lines, (name, value)| {
        lines + name + ": " + value + "\r\n"
    })
}

/// S08: roles and bindings are written up to one's own rights, and those of a group count.
async fn they_grant_what_they_have(person: &Person) {
    let way = person.way;
    for cluster in ["inner", "east"] {
        let at = format!("{way} at {cluster}");
        let space = format!("{}{RBAC}/namespaces/default", base(cluster));
        let (roles, bindings) = (format!("{space}/roles"), format!("{space}/rolebindings"));
        let fair = person.role("fair", &rule("", "configmaps", &["get"]));
        person.post(&roles, &fair).await.must(201);
        let secrets = rule("", "secrets", &["get"]);
        let beyond = "attempting to grant RBAC permissions not currently held";
        for (name, rules) in [
            ("secrets", secrets.clone()),
            ("all", rule("", "*", &["*"])),
            (
                "escalate",
                rule("rbac.authorization.k8s.io", "roles", &["escalate", "bind"]),
            ),
        ] {
            let answer = person.post(&roles, &person.role(name, &rules)).await;
            assert!(
                answer.message().contains(beyond),
                "{at}, {name}: {answer:?}"
            );
        }
        // By changing the one that is theirs.
        let patch = json!({ "rules": secrets });
        let answer = person
            .send(
                "PATCH",
                &format!("{roles}/fair-{way}"),
                &[("content-type", MERGE_PATCH)],
                &patch,
            )
            .await;
        assert!(answer.message().contains(beyond), "{at}: {answer:?}");
        let admin = person.binding("admin", ("ClusterRole", "cluster-admin"));
        let answer = person.post(&bindings, &admin).await;
        assert_eq!(answer.status, 403, "{at}: {answer:?}");
        let held = person.binding("fair", ("Role", &format!("fair-{way}")));
        person.post(&bindings, &held).await.must(201);
        let secrets = format!("{}{SECRETS}", base(cluster));
        person.get(&secrets).await.must(403);
    }
    let of_root = format!("{RBAC}/namespaces/default/roles");
    let empty = person.role("empty", &json!([]));
    person.post(&of_root, &empty).await.must(403);
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!([{"apiGroups": [group], "resources": [resource], "verbs": verbs}])
}

/// S06 and S11: the spoke gets their name and groups, nothing that they were known by, and nothing behind a stream that it refused.
async fn a_spoke_is_told_who_they_are(stage: &Stage, person: &Person) {
    let way = person.way;
    let claims = lines(CLAIMS.into_iter());
    let headers = format!("{WEBSOCKET}{claims}impersonate_user: system:admin\r\n");
    let begun = stage.fake.heads().len();
    let good = format!("GET {PODS}/good/exec?command={way}");
    let mut wire = person.ask(stage, &good, &headers, "").await;
    let said = wire.read_until("hello of the pod").await;
    assert!(said.starts_with("HTTP/1.1 101 "), "{way}: {said}");
    drop(wire);
    let hidden = format!("GET /api/v1/secrets?{MARK} HTTP/1.1\r\nhost: spoke\r\n\r\n");
    let refused = format!("GET {PODS}/refuses/exec?command={way}");
    let mut wire = person.ask(stage, &refused, WEBSOCKET, &hidden).await;
    wire.write(&hidden).await;
    let said = wire.read_to_end().await;
    let said = String::from_utf8_lossy(&said);
    assert!(said.starts_with("HTTP/1.1 403 "), "{way}: {said}");
    assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{way}: {said}");
    assert!(
        !stage.fake.was_sent(MARK),
        "{way}: a request of nobody's reached the spoke"
    );
    person
        .send(
            "GET",
            &format!("/clusters/fake{MAPS}"),
            &CLAIMS,
            &Value::Null,
        )
        .await
        .must(200);
    let heads = stage.fake.heads();
    let theirs = |head: &&String| {
        head.contains(&format!("command={way}")) || head.starts_with(&format!("GET {MAPS}"))
    };
    let theirs: Vec<String> = heads
        .iter()
        .skip(begun)
        .filter(theirs)
        .map(|head| head.to_ascii_lowercase())
        .collect();
    assert_eq!(theirs.len(), 3, "{way}: {heads:?}");
    for head in &theirs {
        tells_who_they_are(head, person);
    }
}

/// Whether the head of a request at a spoke has the name and the groups of a person, and nothing that they are known by.
fn tells_who_they_are(head: &str, person: &Person) {
    let way = person.way;
    let said = |name: &str| -> Vec<&str> {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let own = lines.filter(|(key, _)| *key == name);
        own.map(|(_, value)| value).collect()
    };
    let (name, group) = (person.name.as_str(), person.group.as_str());
    assert_eq!(said("impersonate-user"), [name], "{way}: {head}");
    let groups = said("impersonate-group");
    assert_eq!(groups, [group, "system:authenticated"], "{way}: {head}");
    for never in [
        "authorization:",
        "x-remote",
        "x_remote",
        "x-forwarded-user",
        "cookie",
        "impersonate_user",
        "hook-token",
    ] {
        assert!(!head.contains(never), "{way}: {never}: {head}");
    }
}

/// S09: what is made for an instance of theirs is made with their rights, those of their group among them.
async fn their_definitions_act_as_they(stage: &Stage, person: &Person) {
    let admin = stage.fixture.admin().await;
    let grab = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{}-rules", person.way)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": person.name}],
    });
    let plain = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("plain-{}", person.way)},
        "data": {"text": "${schema.spec.text}"},
    });
    for cluster in ["inner", "east"] {
        for (stem, template, want) in [("Grab", &grab, "forbidden"), ("Plain", &plain, "ACTIVE")] {
            let kind = person.kind(stem);
            let place = (cluster, kind.as_str());
            publish(person, &admin, place, template).await;
            let it = instantiate(async |path, body| person.post(path, body).await, place).await;
            let what = format!("{kind} at {cluster} says {want}");
            let status = says(&admin, &it, &what, want).await;
            assert_eq!(
                stem == "Grab",
                status["state"] == "ERROR",
                "{what}: {status}"
            );
        }
        let taken = format!(
            "{}{RBAC}/clusterrolebindings/{}-rules",
            base(cluster),
            person.way
        );
        admin.get(&taken).await.must(404);
    }
}

/// Publishes a definition that says that it is the hub's.
async fn publish(person: &Person, admin: &User, (cluster, kind): (&str, &str), template: &Value) {
    let name = kind.to_lowercase();
    let author = "internal.wheelhouse.dev/author";
    let definition = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": name, "annotations": {author: "{\"hub\":true}"}},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"text": "string | default=\"x\""}},
            "resources": [{"id": "it", "template": template}],
        },
    });
    let path = format!("{}{RGDS}", base(cluster));
    person.post(&path, &definition).await.must(201);
    let ready = |answer: &Answer| {
        let conditions = answer.body["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        conditions
            .into_iter()
            .any(|it| it["type"] == "Ready" && it["status"] == "True")
    };
    let stored = admin
        .until(
            &format!("{path}/{name}"),
            &format!("{kind} is ready at {cluster}"),
            ready,
        )
        .await;
    let said = stored.body["metadata"]["annotations"][author]
        .as_str()
        .unwrap_or_default();
    assert!(
        said.contains(&person.name) && !said.contains("\"hub\":true"),
        "{kind} at {cluster}: {said}"
    );
}

/// Makes an instance, once its kind is served. Returns its path.
async fn instantiate(
    post: impl AsyncFn(&str, &Value) -> Answer,
    (cluster, kind): (&str, &str),
) -> String {
    let it = instance_path(cluster, kind);
    let (collection, _) = it.rsplit_once('/').expect("a path");
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": "it"}, "spec": {}});
    within(PATIENCE, "the kind is served", || async {
        let answer = post(collection, &instance).await;
        match answer.status {
            201 | 409 => Ok(()),
            _ => Err(answer.body.to_string()),
        }
    })
    .await;
    it
}

fn instance_path(cluster: &str, kind: &str) -> String {
    format!(
        "{}/apis/kro.run/v1alpha1/namespaces/default/{}s/it",
        base(cluster),
        kind.to_lowercase()
    )
}

/// Waits until an instance says something.
async fn says(admin: &User, path: &str, what: &str, text: &str) -> Value {
    let found = admin
        .until(path, what, |answer| {
            answer.body["status"].to_string().contains(text)
        })
        .await;
    found.body["status"].clone()
}

/// S09: `system:masters` of a host is that of root, which real spokes may trust. It leads neither by itself nor by a definition into one.
async fn masters_of_a_host_are_none_in_a_real_spoke(stage: &Stage) {
    let admin = stage.fixture.admin().await;
    let trust = admin.get(&format!("{SPOKES}/east")).await.must(200);
    assert_eq!(
        trust["spec"]["trustMasters"], true,
        "east trusts the masters of the hub"
    );
    admin.get("/clusters/east/api/v1/secrets").await.must(200);
    let master = stage
        .proxied("master", ("root-of-host", "system:masters"), stage.proxy())
        .await;
    master.get("/api/v1/secrets").await.must(200);
    master.get("/clusters/east/api/v1/secrets").await.must(403);
    let take = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "taken"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    });
    // They may publish at its path, as they may in root; what is made there is made in their name without the group.
    let kind = master.kind("Grab");
    let fixture = &stage.fixture;
    fixture.allow_access("root-of-host", "east").await;
    publish(&master, &admin, ("east", &kind), &take).await;
    let path = format!("/clusters/east{RGDS}/{}", kind.to_lowercase());
    let definition = admin.get(&path).await.must(200);
    let author = &definition["metadata"]["annotations"]["internal.wheelhouse.dev/author"];
    assert!(!author.to_string().contains("system:masters"), "{author}");
    let place = ("east", kind.as_str());
    let it = instantiate(async |path, body| admin.post(path, body).await, place).await;
    let status = says(&admin, &it, "the spoke refuses", "forbidden").await;
    assert_eq!(status["state"], "ERROR", "{status}");
    let taken = format!("/clusters/east{RBAC}/clusterroles/taken");
    admin.get(&taken).await.must(404);
}

/// A pass is the issuer's user in one cluster, a real one too; those who are vouched for at each use get none.
async fn a_pass_is_good_at_a_real_spoke(stage: &Stage, people: &[Person]) {
    let asked = json!({"apiVersion": "wheelhouse.dev/v1alpha1", "kind": "KubeconfigRequest"});
    for person in people {
        let path = format!("{SPOKES}/east/kubeconfig");
        let answer = person.post(&path, &asked).await;
        if person.way != "issued" {
            assert_ne!(answer.status, 201, "{}: {}", person.way, answer.body);
            assert!(
                answer.message().contains("asked about at each use"),
                "{}",
                answer.message()
            );
            continue;
        }
        let issued = answer.must(201);
        let text = issued["status"]["kubeconfig"]
            .as_str()
            .expect("a kubeconfig");
        let config: Value = serde_saphyr::from_str(text).expect("a kubeconfig");
        let token = config["users"][0]["user"]["token"]
            .as_str()
            .expect("a token")
            .to_owned();
        let names = (person.name.as_str(), person.group.as_str());
        let bearer = stage.bearer("passed", names, &token).await;
        let found = bearer.who("east", &CLAIMS).await.map(|(name, _)| name);
        assert_eq!(found.as_ref(), Ok(&person.name), "a pass at the spoke");
        bearer.get(&format!("/clusters/east{MAPS}")).await.must(200);
        bearer
            .get(&format!("/clusters/east{SECRETS}"))
            .await
            .must(403);
        for elsewhere in ["root", "inner", "fake"] {
            bearer
                .get(&format!("{}{MAPS}", base(elsewhere)))
                .await
                .must(401);
        }
        let made = bearer.post(&path, &asked).await;
        assert_eq!(made.status, 401, "a pass makes no pass: {}", made.body);
        // It acts as whom its bearer may act as, and is shown to no spoke.
        let found = bearer.who("east", &[("impersonate-user", "admin")]).await;
        assert_eq!(found, Err(403), "a pass as another");
        let of_fake = person
            .post(&format!("{SPOKES}/fake/kubeconfig"), &asked)
            .await
            .must(201);
        let config = of_fake["status"]["kubeconfig"]
            .as_str()
            .expect("a kubeconfig");
        let config: Value = serde_saphyr::from_str(config).expect("a kubeconfig");
        let token = config["users"][0]["user"]["token"]
            .as_str()
            .expect("a token");
        let bearer = stage.bearer("passed", names, token).await;
        a_spoke_is_told_who_they_are(stage, &bearer).await;
        assert!(
            !stage.fake.was_sent(token),
            "the pass was shown to the spoke"
        );
    }
}

/// S25: a host carries the requests of all its users over few connections. One who takes back what was begun, at once and in numbers, ends
/// neither the connection nor what the others do over it.
async fn one_of_a_hosts_users_ends_nothing_of_the_others(stage: &Stage) {
    let mut wire = floods::http2(&stage.address, Some(&stage.proxy())).await;
    wire.write(floods::taken_back(1, 400)).await;
    wire.write(floods::request(801)).await;
    let answered = tokio::time::timeout(PATIENCE, floods::is_answered(&mut wire, 801)).await;
    assert_eq!(answered, Ok(true), "the connection of a front proxy");
    // Whoever comes with another certificate, or with none, is cut.
    let stranger = stage.proxies.client("mallory", None);
    for client in [None, Some(&stranger)] {
        let mut wire = floods::http2(&stage.address, client).await;
        wire.write(floods::taken_back(1, 400)).await;
        wire.write(floods::request(801)).await;
        let answered = tokio::time::timeout(PATIENCE, floods::is_answered(&mut wire, 801)).await;
        assert_eq!(
            answered,
            Ok(false),
            "{}",
            if client.is_some() {
                "another name"
            } else {
                "no certificate"
            }
        );
    }
}

/// S16: streams and watches, at a real spoke and an embedded cluster, end with what vouched for their user.
async fn what_is_open_ends_with_who_vouched(stage: &Stage, people: &[Person]) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}});
    for cluster in ["inner", "east"] {
        let path = format!("{}{MAPS}", base(cluster));
        stage
            .fixture
            .admin()
            .await
            .post(&path, &map)
            .await
            .must(201);
    }
    let mut open = Vec::new();
    for person in people {
        let exec = format!("GET {PODS}/good/exec?command=open");
        let mut stream = person.ask(stage, &exec, WEBSOCKET, "").await;
        let said = stream.read_until("hello of the pod").await;
        assert!(said.starts_with("HTTP/1.1 101 "), "{}: {said}", person.way);
        open.push((format!("the stream of {}", person.way), stream));
        for cluster in ["inner", "east"] {
            let line = format!("GET {}{MAPS}?watch=true", base(cluster));
            let mut watch = person.ask(stage, &line, "", "").await;
            let said = watch.read_until("\"seen\"").await;
            assert!(
                said.starts_with("HTTP/1.1 200 "),
                "{} at {cluster}: {said}",
                person.way
            );
            open.push((format!("the watch of {} at {cluster}", person.way), watch));
        }
    }
    stage.issuer.rotate();
    // A token with the new key makes the hub read the keys, as the next user's does.
    let next = stage.issuer.token(json!({"sub": "next", "aud": "hub"}));
    let next = stage.bearer("next", ("issued:next", ""), &next).await;
    stage.webhook.review("hook-token", Value::Null);
    stage.scratch.write(
        "proxies.crt",
        Authority::new("front-proxy-ca").certificate(),
    );
    within(PATIENCE, "what vouched is gone", || async {
        let _next = next.who("root", &[]).await;
        for person in people {
            if person.who("root", &[]).await != Err(401) {
                return Err(format!("{} is still believed", person.way));
            }
        }
        Ok(())
    })
    .await;
    for (what, wire) in &mut open {
        // A stream ends with its connection; of a watch the body ends, and the connection stays.
        let ended = tokio::time::timeout(PROMISED, wire.read_until(LAST_CHUNK)).await;
        let goes_on = format!("{what} goes on");
        let said = ended.expect(&goes_on);
        let is_watch = what.starts_with("the watch");
        assert_eq!(said.contains(LAST_CHUNK), is_watch, "{what}: {said}");
    }
}
