#![expect(
    clippy::indexing_slicing,
    reason = "a value that is not there fails the test"
)]

use serde_json::json;

use super::tables::Tables;
use super::*;

/// Writes a length-delimited field.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("a short field");
    assert!(length < 128, "one byte of length");
    [&[number << 3 | 2, length], content].concat()
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, raw)].concat()
}

#[test]
fn every_message_that_is_named_is_defined() {
    assert_eq!(Tables::get().dangling(), Vec::<&str>::new());
    for (api_version, kind) in [
        ("v1", "Namespace"),
        ("apps/v1", "Deployment"),
        ("authentication.k8s.io/v1", "TokenRequest"),
    ] {
        assert!(
            Tables::get().root(api_version, kind).is_some(),
            "{api_version} {kind}"
        );
    }
}

#[test]
fn a_secret_is_decoded_as_its_client_would_have_written_it_in_json() {
    let label = [field(1, b"app"), field(2, b"web")].concat();
    // An unset creation time is an empty message; an unset generation a zero.
    let metadata = [
        field(1, b"a"),
        field(5, b""),
        vec![0x38, 0],
        field(8, b""),
        field(11, &label),
    ]
    .concat();
    let data = [field(1, b"key"), field(2, b"value")].concat();
    let raw = [
        field(1, &metadata),
        field(2, &data),
        field(3, b"Opaque"),
        vec![0x28, 1],
    ]
    .concat();
    let decoded = envelope(&body("v1", "Secret", &raw))
        .expect("an envelope")
        .decode();
    let want = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "labels": {"app": "web"}},
        "data": {"key": "dmFsdWU="}, "type": "Opaque", "immutable": true,
    });
    assert_eq!(decoded.expect("a secret"), want);
}

#[test]
fn unions_and_inlined_messages_take_their_json_shape() {
    // ServicePort{name, protocol, port, targetPort: IntOrString{type: 1, strVal: "http"}}
    let target = [vec![8, 1, 16, 0], field(3, b"http")].concat();
    let port = [field(1, b"web"), vec![0x18, 80], field(4, &target)].concat();
    let spec = field(1, &port);
    let raw = field(2, &spec);
    let decoded = envelope(&body("v1", "Service", &raw))
        .expect("an envelope")
        .decode();
    let want = json!([{"name": "web", "port": 80, "targetPort": "http"}]);
    assert_eq!(decoded.expect("a service")["spec"]["ports"], want);
}

#[test]
fn broken_bodies_are_refused_and_do_not_panic() {
    for (name, bytes) in [
        ("no prefix", b"{}".to_vec()),
        ("cut off", body("v1", "Secret", b"\x0a\x7f")),
        ("unknown kind", body("v1", "Widget", b"")),
        ("group wire type", body("v1", "Secret", &[0x0b])),
        ("endless varint", body("v1", "Secret", &[0xff; 12])),
    ] {
        let result = envelope(&bytes).and_then(|envelope| envelope.decode());
        assert!(result.is_err(), "{name}: {result:?}");
    }
}

#[test]
fn durations_are_printed_as_go_does() {
    let varint = |mut value: u64| {
        let mut bytes = vec![8];
        while value >= 0x80 {
            bytes.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
            value >>= 7;
        }
        bytes.push(u8::try_from(value).expect("the rest"));
        bytes
    };
    for (nanos, want) in [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (250_000_000, "250ms"),
        (1_500_000_000, "1.5s"),
        (60_000_000_000, "1m0s"),
        (3_600_000_000_000, "1h0m0s"),
        (5_025_500_000_000, "1h23m45.5s"),
    ] {
        assert_eq!(
            scalar::duration(&varint(nanos)).expect("a duration"),
            json!(want)
        );
    }
}

/// The story: Argo CD and `kubectl diff` compared an embedded cluster's `minReadySeconds: 0` with a real one's absent field.
#[test]
fn zero_values_that_go_leaves_out_are_left_out_and_others_stay() {
    for (name, version, kind, mut object, want) in [
        (
            "plain, in a message and in a list of messages",
            "apps/v1",
            "Deployment",
            json!({"metadata": {"generation": 0}, "spec": {"minReadySeconds": 0, "paused": false, "replicas": 0,
                "strategy": {}, "template": {"spec": {"hostNetwork": false, "nodeName": "", "containers": [
                    {"name": "", "stdin": false, "resources": {}, "livenessProbe": {"periodSeconds": 0}}]}}}}),
            json!({"metadata": {"generation": 0}, "spec": {"replicas": 0,
                "strategy": {}, "template": {"spec": {"containers": [
                    {"name": "", "resources": {}, "livenessProbe": {}}]}}}}),
        ),
        (
            "entries of maps are no fields",
            "v1",
            "ConfigMap",
            json!({"data": {"a": ""}, "immutable": false}),
            json!({"data": {"a": ""}, "immutable": false}),
        ),
        (
            "of a schema, whose limits are pointers",
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"title": "", "properties": {
                "a": {"minimum": 0, "exclusiveMinimum": false, "items": {"type": "", "minLength": 0}}}}}}]}}),
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {
                "a": {"minimum": 0, "items": {"minLength": 0}}}}}}]}}),
        ),
        (
            "of a kind that is not built in",
            "example.org/v1",
            "Any",
            json!({"spec": {"minReadySeconds": 0}}),
            json!({"spec": {"minReadySeconds": 0}}),
        ),
    ] {
        omit_zeros(&mut object, version, kind);
        assert_eq!(object, want, "{name}");
    }
}

#[test]
fn what_is_encoded_is_decoded_as_it_was() {
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "labels": {"b": "c", "a": "z"},
            "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 3},
            "data": {"key": "dmFsdWU=", "none": ""}, "type": "Opaque", "immutable": false}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "m", "defaultMode": 420}}],
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": "web", "path": "/"}, "initialDelaySeconds": 5},
                "readinessProbe": {"tcpSocket": {"port": 80}}}],
            "terminationGracePeriodSeconds": 0, "priority": -1}, "status": {"phase": "Pending"}}),
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {
            "holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.000006Z"}}),
        json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "m", "reason": "NotFound", "code": 404,
            "metadata": {"resourceVersion": "7"}, "details": {"name": "a", "causes": [{"field": "spec", "reason": "x"}]}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"}, "spec": {
            "group": "g", "scope": "Namespaced", "names": {"plural": "cs", "kind": "C"}, "versions": [{"name": "v1",
            "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "additionalProperties": false,
            "properties": {"a": {"type": "array", "items": {"type": "string", "default": "x", "maximum": 1.5}},
            "b": {"enum": ["x", 1, null], "type": "string"}, "c": {"additionalProperties": {"type": "integer"}, "type": "object"}}}}}]}}),
    ] {
        let encoded = encode(&object).expect("it has a message");
        let decoded = envelope(&encoded).expect("an envelope").decode();
        let mut decoded = decoded.expect("its message");
        without_zeros(&mut decoded);
        let mut object = object;
        without_zeros(&mut object);
        assert_eq!(decoded, object);
    }
}

/// Leaves out what Go writes and a client need not have sent.
fn without_zeros(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(without_zeros);
            fields.retain(|name, value| {
                let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
                !(*value == json!("") && name != "none"
                    || is_empty && name != "emptyDir"
                    || *value == json!([]))
                    && *value != json!(false)
                    && !value.is_null()
            });
        }
        Value::Array(items) => items.iter_mut().for_each(without_zeros),
        _ => {}
    }
}

#[test]
fn bytes_are_those_of_kubernetes() {
    // As kube-apiserver v1.36 stores a ConfigMap: unset texts, numbers and times are written, unset pointers are not.
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "deletionGracePeriodSeconds": 0},
        "data": {"b": "2", "a": "1"}});
    let metadata = [
        field(1, b"m"),
        field(2, b""),
        field(3, b""),
        field(4, b""),
        field(5, b""),
        field(6, b""),
        vec![0x38, 0],
        field(8, b""),
        vec![0x50, 0],
    ]
    .concat();
    let entry = |key: &[u8], value: &[u8]| [field(1, key), field(2, value)].concat();
    let raw = [
        field(1, &metadata),
        field(2, &entry(b"a", b"1")),
        field(2, &entry(b"b", b"2")),
    ]
    .concat();
    let mut want = body("v1", "ConfigMap", &raw);
    want.extend([0x1a, 0, 0x22, 0]);
    assert_eq!(encode(&object).expect("it has a message"), want);
}

#[test]
fn a_list_is_the_same_in_one_piece_and_in_many() {
    let items: Vec<Value> = ["a", "b"]
        .map(|name| json!({"metadata": {"name": name}, "data": {"k": name}}))
        .into();
    let metadata = json!({"resourceVersion": "9", "remainingItemCount": 1});
    let list =
        json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items});
    let whole = encode(&list).expect("it has a message");
    let encoded = items
        .iter()
        .map(|item| Bytes::from(encode_item("v1", "ConfigMap", item).expect("a message")));
    let pieces = encode_list(("v1", "ConfigMapList"), &metadata, encoded.collect());
    assert_eq!(pieces.expect("a list").concat(), whole);
}

#[test]
fn what_has_no_message_or_another_type_is_refused() {
    for (name, object) in [
        (
            "a custom resource",
            json!({"apiVersion": "example.com/v1", "kind": "Widget"}),
        ),
        (
            "a list of them",
            json!({"apiVersion": "example.com/v1", "kind": "WidgetList", "items": []}),
        ),
        (
            "a table",
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table"}),
        ),
        (
            "a text for a map",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": "x"}),
        ),
        (
            "a number for a text",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}}),
        ),
        (
            "no time",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"creationTimestamp": "x"}}),
        ),
        ("nothing", json!(null)),
    ] {
        assert!(encode(&object).is_err(), "{name}");
    }
}

#[test]
fn an_event_stands_behind_its_length() {
    let mut out = Vec::new();
    encode_event(&mut out, "ADDED", b"k8s\0");
    let event = [field(1, b"ADDED"), field(2, &field(1, b"k8s\0"))].concat();
    let length = u32::try_from(event.len())
        .expect("a short one")
        .to_be_bytes();
    assert_eq!(out, [length.to_vec(), event].concat());
}

#[test]
fn a_time_beyond_the_years_of_utc_is_encoded_all_the_same() {
    for (text, want) in [
        ("9999-12-31T23:59:59-23:59", (253_402_387_139, 0)),
        ("9999-12-31T23:59:59.5Z", (253_402_300_799, 500_000_000)),
        ("1969-12-31T23:59:59.25Z", (-1, 250_000_000)),
        ("2026-01-02T03:04:05+01:00", (1_767_319_445, 0)),
    ] {
        let read = scalar::of_time(text, "t").expect("a time");
        assert_eq!(read, Some(want), "{text}");
    }
    for text in ["9999-12-31T23:59:59", "9999-12-31T23:59:59+1:00", "x"] {
        assert!(scalar::of_time(text, "t").is_err(), "{text}");
    }
}
