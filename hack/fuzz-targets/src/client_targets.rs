//! What a spoke answers, and the kubeconfig that leads to it.

use client::Options;

use crate::{Target, input};

/// Kubeconfigs of strangers: nothing is dialled, and no program or file is touched.
pub(crate) const KUBECONFIG: Target = Target {
    name: "kubeconfig",
    run: |data| {
        let text = input::text(data);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime without drivers needs nothing");
        drop(runtime.block_on(client::connect(text, None, &Options::default())));
    },
    seeds: &[
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u, namespace: n}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443/x', insecure-skip-tls-verify: true, tls-server-name: a.b}}]\nusers: [{name: u, user: {token: t}}]\n",
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://h', certificate-authority-data: YQ==, proxy-url: 'http://p'}}]\nusers: [{name: u, user: {client-certificate-data: YQ==, client-key-data: YQ==, username: a, password: b}}]\n",
        // Took seconds, once.
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
    ],
    corpus: None,
    made: None,
    words: &[
        "server: ",
        "token: ",
        "exec: ",
        "tokenFile: ",
        "client-key-data: ",
        "proxy-url: ",
        "socks5://",
        "unix:///",
    ],
};

/// Discovery, aggregated or plain.
pub(crate) const DISCOVERY: Target = Target {
    name: "discovery",
    run: client::fuzzing::discovery,
    seeds: &[
        r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","freshness":"Current","resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","verbs":["get"],"shortNames":["deploy"],"subresources":[{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get"]}]}]}]}]}"#,
        r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods/log","singularName":"","namespaced":true,"kind":"Pod","verbs":["get"]},{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"]}]}"#,
        r#"{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}"#,
    ],
    corpus: None,
    made: None,
    words: &[
        "\"items\":",
        "\"versions\":",
        "\"resources\":",
        "\"responseKind\":",
        "null",
        "\"Stale\"",
        "\"scope\":",
    ],
};

/// Lines of a watch: the same ones however the stream is cut.
pub(crate) const WATCH: Target = Target {
    name: "watch",
    run: client::fuzzing::watch,
    seeds: &[
        "{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"uid\":\"u\",\"resourceVersion\":\"12\",\"labels\":{\"a\":\"b\"}},\"spec\":{}}}\n{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"13\"}}}\r\n\n{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"reason\":\"Expired\",\"code\":410}}\n",
    ],
    corpus: None,
    made: None,
    words: &[
        "{\"type\":\"DELETED\",\"object\":",
        "\"metadata\":",
        "\"resourceVersion\":",
        "\n",
        "\\u0041",
        "null",
    ],
};

/// Pages of a list.
pub(crate) const LIST: Target = Target {
    name: "list",
    run: client::fuzzing::list,
    seeds: &[
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5","continue":"x","remainingItemCount":3},"items":[{"metadata":{"name":"a","resourceVersion":"1","ownerReferences":[{"uid":"u"}]}},{"kind":"Other","apiVersion":"a/v1","metadata":{"name":"b"}}]}"#,
        r#"{"kind":"PodList","items":null}"#,
    ],
    corpus: None,
    made: None,
    words: &[
        "\"items\":",
        "\"metadata\":",
        "\"kind\":\"",
        "List\"",
        "null",
    ],
};
