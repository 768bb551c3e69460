//! The `Accept` headers of kubectl, Helm, client-go and browsers, and what they get.

use http::Request;

use super::*;

fn parts(accept: &str, uri: &str, agent: &str) -> Parts {
    let mut request = Request::get(uri).header("user-agent", agent);
    if !accept.is_empty() {
        request = request.header("accept", accept);
    }
    request.body(()).unwrap().into_parts().0
}

const KUBECTL_GET: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

#[test]
fn the_first_clause_that_can_be_met_counts() {
    use Encoding::{Json, Protobuf, Yaml};
    use Shape::{Metadata, MetadataList, Object, Table};
    for (accept_header, offer, want) in [
        ("", Offer::Object, Some((Json, Object))),
        ("*/*", Offer::Object, Some((Json, Object))),
        ("application/json", Offer::List, Some((Json, Object))),
        (
            "application/json;charset=utf-8",
            Offer::List,
            Some((Json, Object)),
        ),
        ("application/*", Offer::List, Some((Json, Object))),
        ("application/yaml", Offer::Object, Some((Yaml, Object))),
        ("application/yaml", Offer::Watch, None),
        (
            "application/yaml,application/json",
            Offer::Watch,
            Some((Json, Object)),
        ),
        (
            "application/vnd.kubernetes.protobuf,application/json",
            Offer::Object,
            Some((Json, Object)),
        ),
        ("application/vnd.kubernetes.protobuf", Offer::Object, None),
        ("application/cbor", Offer::Object, None),
        ("text/html", Offer::Object, None),
        ("text/html,*/*;q=0.8", Offer::Object, Some((Json, Object))),
        (
            "application/json;q=0.5,application/yaml",
            Offer::Object,
            Some((Yaml, Object)),
        ),
        (
            "application/yaml;q=0,application/json;q=0.1",
            Offer::Object,
            Some((Json, Object)),
        ),
        (
            KUBECTL_GET,
            Offer::List,
            Some((Json, Table(TableVersion::V1))),
        ),
        (
            KUBECTL_GET,
            Offer::Watch,
            Some((Json, Table(TableVersion::V1))),
        ),
        (KUBECTL_GET, Offer::Plain, Some((Json, Object))),
        (
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            Offer::List,
            Some((Json, Table(TableVersion::V1Beta1))),
        ),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            Offer::Plain,
            None,
        ),
        (
            "application/json;as=Table;v=v2;g=meta.k8s.io",
            Offer::List,
            None,
        ),
        ("application/json;as=Table;v=v1;g=other", Offer::List, None),
        (METADATA, Offer::Object, Some((Protobuf, Metadata))),
        (METADATA, Offer::Watch, Some((Protobuf, Metadata))),
        (
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
            Offer::List,
            Some((Json, Object)),
        ),
        (
            "application/vnd.kubernetes.protobuf",
            Offer::Message,
            Some((Protobuf, Object)),
        ),
        ("application/vnd.kubernetes.protobuf", Offer::Plain, None),
        // As Kubernetes sorts them.
        ("*/*,application/yaml", Offer::Object, Some((Yaml, Object))),
        (
            "*/*,application/yaml;q=0.5",
            Offer::Object,
            Some((Yaml, Object)),
        ),
        (
            "application/yaml;q=0.5,*/*",
            Offer::Object,
            Some((Json, Object)),
        ),
        (
            "application/yaml;q=0.1,text/html,application/json;q=0.2",
            Offer::Object,
            Some((Json, Object)),
        ),
        ("application/json;g=apps", Offer::Object, None),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Offer::List,
            Some((Json, MetadataList)),
        ),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Offer::Object,
            None,
        ),
        (
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Offer::List,
            None,
        ),
    ] {
        let got = accept(&parts(accept_header, "/", "kubectl"), offer);
        let got = got.as_ref().ok().map(|form| (form.encoding, form.shape));
        assert_eq!(got, want, "{accept_header} {offer:?}");
    }
}

#[test]
fn a_kind_that_has_a_message_is_answered_with_it() {
    let asked = parts(
        "application/vnd.kubernetes.protobuf,application/json",
        "/",
        "kubectl",
    );
    for (messages, want) in [
        (Messages::All, Encoding::Protobuf),
        (Messages::Metadata, Encoding::Json),
    ] {
        for offer in [Offer::Object, Offer::List, Offer::Watch] {
            let form = accept_with(&asked, offer, messages).expect("it is met");
            assert_eq!(form.encoding, want, "{messages:?} {offer:?}");
        }
    }
}

#[test]
fn what_cannot_be_met_says_what_can() {
    let refusal = accept(&parts("text/html", "/", ""), Offer::Object).unwrap_err();
    let status = refusal.status().unwrap();
    assert_eq!(status.code, 406);
    assert_eq!(
        status.message,
        "only the following media types are accepted: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf"
    );
}

#[test]
fn a_built_in_kind_names_what_its_route_has() {
    let route = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                 application/vnd.kubernetes.protobuf";
    let streams =
        ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    let message = |accept: &str, offer, messages| {
        let refusal = accept_with(&parts(accept, "/", ""), offer, messages).unwrap_err();
        refusal.status().expect("a status").message.clone()
    };
    let get = message("text/html", Offer::Object, Messages::All);
    assert_eq!(get, route);
    let list = message("text/html;q=1, text/css", Offer::List, Messages::All);
    assert_eq!(list, format!("{route}{streams}"));
    for (accept, messages) in [
        ("application/json;as=Nope;g=a;v=b", Messages::All),
        ("text/html", Messages::Metadata),
    ] {
        let text = message(accept, Offer::Object, messages);
        assert!(text.starts_with("only the following"), "{accept}: {text}");
    }
}

#[test]
fn people_get_indented_json() {
    for (uri, agent, want) in [
        ("/", "kubectl/v1.36", false),
        ("/", "curl/8.0", true),
        ("/", "Mozilla/5.0 (X11)", true),
        ("/?pretty=true", "kubectl", true),
        ("/?pretty", "kubectl", true),
        ("/?pretty=false", "curl/8.0", false),
        ("/?pretty=0", "curl/8.0", false),
    ] {
        let got = accept(&parts("", uri, agent), Offer::Object)
            .unwrap()
            .pretty;
        assert_eq!(got, want, "{uri} {agent}");
    }
}

#[test]
fn aggregated_discovery_is_preferred_in_the_order_of_the_clauses() {
    const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    const V2BETA1: &str =
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    for (accept_header, want) in [
        (format!("{V2},{V2BETA1},application/json"), Some("v2")),
        (format!("{V2BETA1},application/json"), Some("v2beta1")),
        (V2.to_owned(), Some("v2")),
        (format!("application/json,{V2}"), None),
        (
            format!("{V2};profile=nopeer,{V2},application/json"),
            Some("v2"),
        ),
        ("application/json".to_owned(), None),
        (String::new(), None),
        (
            "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList".to_owned(),
            None,
        ),
    ] {
        let parts = parts(&accept_header, "/apis", "kubectl");
        assert_eq!(
            accepts_aggregated(&parts.headers, &["v2", "v2beta1"]),
            want.map(|version| (version, Encoding::Json)),
            "{accept_header}"
        );
    }
}

#[test]
fn aggregated_discovery_has_a_message_in_its_first_version() {
    for (accept_header, want) in [
        (
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Some(("v2", Encoding::Protobuf)),
        ),
        (
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
            None,
        ),
        ("application/vnd.kubernetes.protobuf", None),
    ] {
        let parts = parts(accept_header, "/apis", "kubectl");
        let found = accepts_aggregated(&parts.headers, &["v2", "v2beta1"]);
        assert_eq!(found, want, "{accept_header}");
    }
}

#[test]
fn a_body_is_of_a_type_that_the_endpoint_takes() {
    let supported = [MediaType::Json, MediaType::Yaml];
    for (sent, want) in [
        (None, Ok(MediaType::Json)),
        (Some(""), Ok(MediaType::Json)),
        (Some("application/json; charset=utf-8"), Ok(MediaType::Json)),
        (Some("Application/JSON"), Ok(MediaType::Json)),
        (Some("application/yaml"), Ok(MediaType::Yaml)),
        (Some("application/vnd.kubernetes.protobuf"), Err(415)),
        (Some("text/plain"), Err(415)),
    ] {
        let mut headers = HeaderMap::new();
        if let Some(sent) = sent {
            headers.insert("content-type", sent.parse().unwrap());
        }
        let got = content_type(&headers, &supported);
        assert_eq!(
            got.map_err(|refusal| refusal.status().unwrap().code),
            want,
            "{sent:?}"
        );
    }
}
