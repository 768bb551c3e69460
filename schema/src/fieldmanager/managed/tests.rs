use serde_json::json;

use super::*;

fn entry(manager: &str, operation: &str, time: &str) -> Value {
    json!({
        "manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}},
    })
}

#[test]
fn entries_are_written_by_operation_time_and_name() {
    let early = "2024-01-01T00:00:00Z";
    let late = "2024-01-02T00:00:00Z";
    let list = json!([
        entry("b", "Update", early),
        entry("a", "Update", late),
        entry("c", "Update", early),
        entry("z", "Apply", late),
    ]);
    let written = ManagedFields::decode(Some(&list))
        .expect("the list is well formed")
        .encode();
    let names: Vec<&str> = written
        .iter()
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert_eq!(names, ["z", "b", "c", "a"]);
    assert_eq!(written[1], list[0]);
}

#[test]
fn times_are_brought_to_utc_seconds() {
    for (time, want) in [
        ("2024-01-01T00:00:00Z", Some("2024-01-01T00:00:00Z")),
        ("2024-01-01T02:00:00+02:00", Some("2024-01-01T00:00:00Z")),
        ("2024-01-01T00:00:00.75Z", Some("2024-01-01T00:00:00Z")),
        ("2024-13-01T00:00:00Z", None),
        ("yesterday", None),
    ] {
        assert_eq!(canonical_time(time).as_deref(), want, "{time}");
    }
}

#[test]
fn an_entry_that_cannot_be_used_makes_the_list_unusable() {
    let broken = |name: &str, value: Value| {
        let mut broken = entry("a", "Update", "2024-01-01T00:00:00Z");
        broken[name] = value;
        ManagedFields::decode(Some(&json!([entry("ok", "Apply", ""), broken]))).err()
    };
    assert_eq!(
        broken("operation", json!("Patch")),
        Some(ManagedFieldsError::Operation)
    );
    assert_eq!(
        broken("apiVersion", json!("")),
        Some(ManagedFieldsError::ApiVersion)
    );
    assert_eq!(
        broken("fieldsType", Value::Null),
        Some(ManagedFieldsError::NoFieldsType(1))
    );
    assert_eq!(
        broken("fieldsType", json!("FieldsV2")).map(|error| error.to_string()),
        Some("invalid fieldsType \"FieldsV2\" in managed fields entry 1".to_owned())
    );
    assert_eq!(
        broken("time", json!("soon")),
        Some(ManagedFieldsError::Time(1))
    );
    assert_eq!(
        broken("manager", json!(1)),
        Some(ManagedFieldsError::Malformed(1))
    );
    assert!(matches!(
        broken("fieldsV1", json!({"spec": {}})),
        Some(ManagedFieldsError::Fields { index: 1, .. })
    ));
    assert_eq!(
        ManagedFields::decode(Some(&json!("x"))),
        Ok(ManagedFields::default())
    );
}

#[test]
fn managers_are_named_as_conflicts_name_them() {
    for (identity, text, key) in [
        (
            ManagerIdentity::applier("a\"b", ""),
            r#""a\"b""#,
            r#"{"manager":"a\"b","operation":"Apply"}"#,
        ),
        (
            ManagerIdentity::updater("", "apps/v1", "status"),
            r#""unknown" with subresource "status" using apps/v1"#,
            r#"{"manager":"unknown","operation":"Update","apiVersion":"apps/v1","subresource":"status"}"#,
        ),
    ] {
        assert_eq!(identity.to_string(), text);
        assert_eq!(identity.sort_key(), key);
    }
}
