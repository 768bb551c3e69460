use std::sync::Mutex;

use http_body_util::BodyExt as _;
use serde_json::json;

use super::*;
use crate::testing::{Server, json as answer_json, never, reply};

fn endpoint() -> Endpoint {
    Endpoint {
        scope: Some("east".parse().unwrap()),
        gvr: GroupVersionResource::new("example.com", "v1", "widgets"),
        namespace: Some("default".to_owned()),
    }
}

const COLLECTION: &str = "/clusters/east/apis/example.com/v1/namespaces/default/widgets";

/// Starts a server that answers everything with what it was sent, and remembers the bodies.
async fn echo() -> (Server, Arc<Mutex<Vec<String>>>) {
    let bodies: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&bodies);
    let server = Server::start(move |request| {
        let kept = Arc::clone(&kept);
        Box::pin(async move {
            let bytes = request.into_body().collect().await.unwrap().to_bytes();
            kept.lock()
                .unwrap()
                .push(String::from_utf8(bytes.to_vec()).unwrap());
            reply(200, r#"{"kind":"Widget","metadata":{"name":"a"}}"#).await
        })
    })
    .await;
    (server, bodies)
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
async fn calls_are_what_kubernetes_expects() {
    let (server, bodies) = echo().await;
    let dynamic = Dynamic::new(server.connect().await.client()).with_manager("me");
    let object = json!({"metadata": {"name": "a"}});
    let apply = |force, answer| Patch::Apply {
        manager: "kro.run/applyset",
        force,
        object: &object,
        answer,
    };
    dynamic.get(&endpoint(), "a").await.unwrap();
    dynamic.create(&endpoint(), &object).await.unwrap();
    dynamic
        .update(&endpoint(), "a", Some("status"), &object)
        .await
        .unwrap();
    dynamic
        .patch(&endpoint(), "a", None, Patch::Merge(&object))
        .await
        .unwrap();
    dynamic
        .patch(&endpoint(), "a", None, Patch::Json(&json!([])))
        .await
        .unwrap();
    dynamic
        .patch(&endpoint(), "a", None, apply(Force::Yes, Answer::Metadata))
        .await
        .unwrap();
    dynamic
        .patch(
            &endpoint(),
            "a",
            Some("status"),
            apply(Force::No, Answer::Object),
        )
        .await
        .unwrap();
    let request = DeleteRequest {
        resource_version: Some("7".to_owned()),
        propagation: Some(Propagation::Foreground),
        ..DeleteRequest::of("u")
    };
    assert_eq!(
        dynamic.delete(&endpoint(), "a", &request).await.unwrap(),
        Deleted::Gone
    );
    dynamic.raw_get("/version").await.unwrap();

    let json_type = "application/json";
    let want = [
        (format!("GET {COLLECTION}/a"), "", "", json_type),
        (
            format!("POST {COLLECTION}?fieldManager=me&fieldValidation=Ignore"),
            json_type,
            r#"{"metadata":{"name":"a"}}"#,
            json_type,
        ),
        (
            format!("PUT {COLLECTION}/a/status?fieldManager=me&fieldValidation=Ignore"),
            json_type,
            r#"{"metadata":{"name":"a"}}"#,
            json_type,
        ),
        (
            format!("PATCH {COLLECTION}/a?fieldManager=me&fieldValidation=Ignore"),
            "application/merge-patch+json",
            r#"{"metadata":{"name":"a"}}"#,
            json_type,
        ),
        (
            format!("PATCH {COLLECTION}/a?fieldManager=me&fieldValidation=Ignore"),
            "application/json-patch+json",
            "[]",
            json_type,
        ),
        (
            format!(
                "PATCH {COLLECTION}/a?fieldManager=kro.run/applyset&fieldValidation=Ignore&force=true"
            ),
            "application/apply-patch+yaml",
            r#"{"metadata":{"name":"a"}}"#,
            ACCEPT_METADATA,
        ),
        (
            format!(
                "PATCH {COLLECTION}/a/status?fieldManager=kro.run/applyset&fieldValidation=Ignore"
            ),
            "application/apply-patch+yaml",
            r#"{"metadata":{"name":"a"}}"#,
            json_type,
        ),
        (
            format!("DELETE {COLLECTION}/a"),
            json_type,
            r#"{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"7","uid":"u"},"propagationPolicy":"Foreground"}"#,
            json_type,
        ),
        ("GET /version".to_owned(), "", "", json_type),
    ];
    let seen = server.seen();
    let bodies = bodies.lock().unwrap();
    assert_eq!(seen.len(), want.len());
    for ((seen, body), (line, media_type, want_body, accept)) in seen.iter().zip(&*bodies).zip(want)
    {
        assert_eq!(seen.line, line);
        let got = seen
            .headers
            .get("content-type")
            .map_or("", |it| it.to_str().unwrap());
        assert_eq!((got, body.as_str()), (media_type, want_body), "{line}");
        assert_eq!(seen.headers["accept"], accept, "{line}");
    }
}

#[tokio::test]
async fn a_hung_server_costs_a_call_its_deadline_and_no_more() {
    let server = Server::start(|_| never()).await;
    let dynamic =
        Dynamic::new(server.connect().await.client()).with_deadline(Duration::from_millis(100));
    let error = dynamic.get(&endpoint(), "a").await.unwrap_err();
    assert!(matches!(error, Error::Timeout), "{error:?}");
    assert!(error.unreachable());
}

#[tokio::test]
async fn an_answer_that_stops_in_the_middle_is_no_answer() {
    let server = Server::start(|_| {
        let (sender, reply) = crate::testing::stream();
        sender
            .send(Bytes::from_static(br#"{"kind":"WidgetList","items":["#))
            .unwrap();
        reply
    })
    .await;
    let dynamic = Dynamic::new(server.connect().await.client());
    let error = dynamic
        .list(&endpoint(), &ListRequest::default())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Decode(_)), "{error:?}");
}

#[tokio::test]
async fn a_list_is_read_to_its_last_page_and_its_items_know_their_type() {
    let server = Server::start(|request| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let (name, token) = if query.contains("continue=next") { ("b", "") } else { ("a", "next") };
        answer_json(200, &json!({"kind": "WidgetList", "apiVersion": "example.com/v1",
            "metadata": {"resourceVersion": "7", "continue": token}, "items": [{"metadata": {"name": name}}]}))
    })
    .await;
    let dynamic = Dynamic::new(server.connect().await.client());
    let request = ListRequest {
        label_selector: Some("a in (b,c)".parse().unwrap()),
        field_selector: Some("metadata.name!=x".parse().unwrap()),
        ..ListRequest::default()
    };
    let list = dynamic.list(&endpoint(), &request).await.unwrap();
    let item = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    assert_eq!(
        list,
        List {
            items: vec![item("a"), item("b")],
            resource_version: "7".to_owned()
        }
    );
    let query = "labelSelector=a%20in%20(b,c)&fieldSelector=metadata.name!%3Dx";
    assert_eq!(
        server.lines(),
        [
            format!("GET {COLLECTION}?{query}&limit=500"),
            format!("GET {COLLECTION}?{query}&continue=next&limit=500")
        ]
    );
}

#[tokio::test]
async fn pages_that_come_too_late_are_read_anew_and_at_once() {
    let server = Server::start(|request| {
        let query = request.uri().query().unwrap_or_default();
        if query.contains("continue=") {
            return answer_json(410, &json!({"kind": "Status", "reason": "Expired", "code": 410, "message": "late"}));
        }
        let (names, token) = if query.contains("limit=") { (vec!["a"], "next") } else { (vec!["b", "c"], "") };
        let items: Vec<Value> = names.into_iter().map(|name| json!({"metadata": {"name": name}})).collect();
        answer_json(200, &json!({"kind": "WidgetList", "metadata": {"resourceVersion": "7", "continue": token}, "items": items}))
    })
    .await;
    let dynamic = Dynamic::new(server.connect().await.client());
    let list = dynamic
        .list(&endpoint(), &ListRequest::default())
        .await
        .unwrap();
    let names: Vec<&str> = list.items.iter().map(meta::name).collect();
    assert_eq!(names, ["b", "c"]);
}

#[tokio::test]
async fn a_refusal_is_what_the_server_said() {
    let server = Server::start(|_| {
        answer_json(
            409,
            &json!({"kind": "Status", "reason": "Conflict", "code": 409, "message": "no",
            "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".spec"}]}}),
        )
    })
    .await;
    let dynamic = Dynamic::new(server.connect().await.client());
    let error = dynamic.get(&endpoint(), "a").await.unwrap_err();
    assert!(error.is_conflict() && !error.is_not_found() && !error.unreachable());
    assert_eq!(error.to_string(), "no");
    assert!(error.status().unwrap().has_cause("FieldManagerConflict"));
}

#[tokio::test]
async fn a_deletion_says_whether_the_object_is_gone() {
    for (answer, want) in [
        (
            json!({"kind": "Status", "status": "Success"}),
            Deleted::Gone,
        ),
        (
            json!({"kind": "Widget", "metadata": {"name": "a"}}),
            Deleted::Gone,
        ),
        (
            json!({"kind": "Widget", "metadata": {"name": "a", "deletionTimestamp": "t"}}),
            Deleted::Terminating(
                json!({"kind": "Widget", "metadata": {"name": "a", "deletionTimestamp": "t"}}),
            ),
        ),
    ] {
        let text = answer.clone();
        let server = Server::start(move |_| answer_json(200, &text)).await;
        let dynamic = Dynamic::new(server.connect().await.client());
        let got = dynamic
            .delete(&endpoint(), "a", &DeleteRequest::default())
            .await
            .unwrap();
        assert_eq!(got, want);
    }
}

/// A body that is as large as it says, and must not be read.
struct Unread(u64);

impl http_body::Body for Unread {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        panic!("it is read");
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.0)
    }
}

#[tokio::test]
async fn an_answer_that_says_it_is_too_large_is_not_read() {
    let bounds = crate::Bounds::SPOKE;
    let budget = Arc::new(Budget::new(bounds));
    for (expected, bytes_max) in [
        (Expected::Page, bounds.page_bytes_max),
        (Expected::Document, bounds.document_bytes_max),
        (Expected::Object, bounds.object_bytes_max),
    ] {
        let body = Unread(u64::try_from(bytes_max).unwrap() + 1);
        let answered = read(body, expected, &budget).await;
        assert!(matches!(answered, Err(Error::Bound(_))), "{expected:?}");
        let body = Body::from(vec![b' '; bytes_max.min(100_000)]);
        let answered = read(body, expected, &budget).await;
        assert!(answered.is_ok(), "{expected:?}: what fits is read");
    }
}
