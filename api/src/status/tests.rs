use serde_json::{Value, json};

use super::*;
use crate::field::FieldPath;

fn widgets() -> GroupResource {
    GroupResource::new("example.com", "widgets")
}

fn wire(status: &Status) -> Value {
    serde_json::to_value(status).unwrap()
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn refusals_have_the_codes_reasons_and_texts_of_kubernetes() {
    let pods = GroupResource::new("", "pods");
    for (status, code, reason, message) in [
        (
            Status::not_found(&widgets(), "a"),
            404,
            "NotFound",
            r#"widgets.example.com "a" not found"#,
        ),
        (
            Status::not_found(&pods, "a"),
            404,
            "NotFound",
            r#"pods "a" not found"#,
        ),
        (
            Status::resource_not_found(),
            404,
            "NotFound",
            "the server could not find the requested resource",
        ),
        (
            Status::already_exists(&widgets(), "a"),
            409,
            "AlreadyExists",
            r#"widgets.example.com "a" already exists"#,
        ),
        (
            Status::already_exists_terminating(&widgets(), "a"),
            409,
            "AlreadyExists",
            r#"object is being deleted: widgets.example.com "a" already exists"#,
        ),
        (
            Status::generate_name_conflict(&widgets(), "a", 1),
            409,
            "AlreadyExists",
            r#"widgets.example.com "a" already exists, the server was not able to generate a unique name for the object"#,
        ),
        (
            Status::modified(&widgets(), "a"),
            409,
            "Conflict",
            r#"Operation cannot be fulfilled on widgets.example.com "a": the object has been modified; please apply your changes to the latest version and try again"#,
        ),
        (Status::bad_request("no"), 400, "BadRequest", "no"),
        (Status::unauthorized(), 401, "Unauthorized", "Unauthorized"),
        (
            Status::forbidden(&widgets(), "a", "why"),
            403,
            "Forbidden",
            r#"widgets.example.com "a" is forbidden: why"#,
        ),
        (
            Status::forbidden(&widgets(), "", "why"),
            403,
            "Forbidden",
            "widgets.example.com is forbidden: why",
        ),
        (
            Status::forbidden(
                &GroupResource::default(),
                "",
                r#"User "u" cannot get path "/x""#,
            ),
            403,
            "Forbidden",
            r#"forbidden: User "u" cannot get path "/x""#,
        ),
        (
            Status::method_not_allowed(&widgets(), "create"),
            405,
            "MethodNotAllowed",
            r#"create is not supported on resources of kind "widgets.example.com""#,
        ),
        (
            Status::not_acceptable(&["application/json", "application/yaml"]),
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/yaml",
        ),
        (
            Status::unsupported_media_type(&["application/json"]),
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json",
        ),
        (Status::expired("too old"), 410, "Expired", "too old"),
        (
            Status::too_large(3_145_728),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3145728",
        ),
        (
            Status::too_many_requests(1),
            429,
            "TooManyRequests",
            "Too many requests, please try again later.",
        ),
        (Status::timeout("slow"), 504, "Timeout", "Timeout: slow"),
        (
            Status::resource_version_too_large(9, 5),
            504,
            "Timeout",
            "Timeout: Too large resource version: 9, current: 5",
        ),
        (
            Status::server_timeout(&widgets(), "create", 2),
            500,
            "ServerTimeout",
            "The create operation against widgets.example.com could not be completed at this time, please try again.",
        ),
        (
            Status::service_unavailable("away"),
            503,
            "ServiceUnavailable",
            "away",
        ),
        (
            Status::internal("boom"),
            500,
            "InternalError",
            "Internal error occurred: boom",
        ),
    ] {
        let wire = wire(&status);
        assert_eq!(wire["code"], code, "{message}");
        assert_eq!(wire["reason"], reason, "{message}");
        assert_eq!(wire["message"], message);
        assert_eq!(wire["status"], "Failure", "{message}");
        assert_eq!(
            (&wire["kind"], &wire["apiVersion"]),
            (&json!("Status"), &json!("v1"))
        );
        assert_eq!(status.to_string(), message);
        assert_eq!(serde_json::from_value::<Status>(wire).unwrap(), status);
    }
}

#[test]
fn details_name_the_resource_and_leave_out_what_is_empty() {
    assert_eq!(
        wire(&Status::not_found(&widgets(), "a")),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "widgets.example.com \"a\" not found", "reason": "NotFound", "code": 404,
            "details": {"name": "a", "group": "example.com", "kind": "widgets"}})
    );
    assert_eq!(
        wire(&Status::deleted(&widgets(), "a", "u")),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "group": "example.com", "kind": "widgets", "uid": "u"}})
    );
    assert_eq!(
        wire(&Status::resource_version_too_large(9, 5))["details"],
        json!({"retryAfterSeconds": 1, "causes": [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]})
    );
    assert_eq!(
        wire(&Status::internal("boom"))["details"],
        json!({"causes": [{"message": "boom"}]})
    );
}

#[test]
fn invalid_names_the_kind_and_every_broken_rule() {
    let kind = GroupKind::new("example.com", "Widget");
    let required = FieldError::required(&FieldPath::new("spec.x"), "");
    let invalid = FieldError::invalid(&FieldPath::new("spec.y"), "v", "bad");
    let one = Status::invalid(&kind, "a", vec![required.clone()]);
    assert_eq!(
        one.message,
        r#"Widget.example.com "a" is invalid: spec.x: Required value"#
    );
    let two = wire(&Status::invalid(&kind, "a", vec![required, invalid]));
    assert_eq!(
        two["message"],
        r#"Widget.example.com "a" is invalid: [spec.x: Required value, spec.y: Invalid value: "v": bad]"#
    );
    assert_eq!(
        two["details"],
        json!({"name": "a", "group": "example.com", "kind": "Widget", "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.x"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: \"v\": bad", "field": "spec.y"}]})
    );
    assert_eq!(
        Status::invalid(&kind, "a", vec![]).message,
        r#"Widget.example.com "a" is invalid"#
    );
}

#[test]
fn apply_conflicts_are_counted_by_field_and_listed_by_manager() {
    let manager = || r#""kubectl" using v1"#.to_owned();
    let one = wire(&Status::apply_conflicts(vec![(
        manager(),
        vec![".spec.x".to_owned()],
    )]));
    assert_eq!(
        one["message"],
        r#"Apply failed with 1 conflict: conflict with "kubectl" using v1: .spec.x"#
    );
    assert_eq!(
        one["details"],
        json!({"causes": [{"reason": "FieldManagerConflict",
            "message": "conflict with \"kubectl\" using v1", "field": ".spec.x"}]})
    );
    let many = Status::apply_conflicts(vec![
        (manager(), vec![".x".to_owned(), ".y".to_owned()]),
        (r#""b""#.to_owned(), vec![".z".to_owned()]),
    ]);
    assert_eq!(
        many.message,
        "Apply failed with 3 conflicts: conflicts with \"kubectl\" using v1:\n- .x\n- .y\nconflicts with \"b\":\n- .z"
    );
}

#[test]
fn a_foreign_status_reads_with_what_it_has() {
    for (text, reason, code) in [
        (
            json!({"kind": "Status", "status": "Failure", "reason": "Odd", "code": 418}),
            StatusReason::Unknown,
            418,
        ),
        (
            json!({"status": "Failure", "reason": null, "code": null, "details": null}),
            StatusReason::Unknown,
            0,
        ),
        (
            json!({"status": "Failure", "reason": "Gone", "code": 410, "metadata": null}),
            StatusReason::Gone,
            410,
        ),
    ] {
        let status: Status = serde_json::from_value(text.clone()).unwrap();
        assert_eq!((status.reason, status.code), (reason, code), "{text}");
    }
    let gone = Status::failure(410, StatusReason::Unknown, "");
    assert!(gone.is_expired() && !gone.is_not_found());
    assert_eq!(gone.to_string(), "Unknown (410) without a message");
    assert_eq!(Status::too_many_requests(7).retry_after_seconds(), Some(7));
    assert_eq!(gone.retry_after_seconds(), None);
}
