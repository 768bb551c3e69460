//! What clients send to the hub: paths, headers, bodies, tokens.

use api::json;
use apiserver::authenticate::TokenFile;
use apiserver::objects::{
    ContinueToken, RevisionSlot, encode, fields, head, splice_cluster, with_revision,
    write_partial_metadata,
};
use apiserver::{fuzzing, protobuf};
use json_patch::PatchOperation;
use serde_json::Value;

use crate::{Target, input};

/// Paths: router, authorizer and spoke see the same one.
pub(crate) const PATH: Target = Target {
    name: "path",
    run: |data| fuzzing::path(input::text(data)),
    seeds: &[
        "/clusters/east/api/v1/namespaces/a/pods/b/log?follow=1",
        "/apis/apps/v1/namespaces/a/deployments/b/scale",
        "/clusters/%65ast/api/v1/watch/pods/x",
        "/clusters/east%2Fapis/a.io/v1/xs",
        "/%63lusters/east/api/v1/proxy/nodes/n/x//y",
        "/clusters/*/apis/a.io/v1/xs?fieldSelector=metadata.name%3Da&watch=1",
        "/clusters/a/clusters/b",
        "//clusters/a/api",
        "/clusters/a/./b/%2e%2e/c",
    ],
    corpus: None,
    made: None,
    words: &[
        "/clusters/",
        "/api/v1/",
        "/apis/",
        "%2F",
        "%2e",
        "%00",
        "//",
        "/namespaces/",
        "/watch/",
        "/proxy/",
        "/status",
        "/finalize",
        "*",
        "?watch=true",
        "?fieldSelector=metadata.name=",
    ],
};

/// `Accept`, `Content-Type` and the query beside them.
pub(crate) const NEGOTIATE: Target = Target {
    name: "negotiate",
    run: |data| {
        let [accept, content_type, query] = input::parts::<3>(data);
        fuzzing::negotiate(accept, content_type, input::text(query));
    },
    seeds: &[
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json\n====\napplication/json; charset=utf-8\n====\npretty=true",
        "application/vnd.kubernetes.protobuf;q=0.5,*/*;q=0.1\n====\napplication/apply-patch+yaml\n====\n",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\n====\nAPPLICATION/YAML;a=\"b;c\"\n====\n",
    ],
    corpus: None,
    made: None,
    words: &[
        ";q=",
        ";as=Table",
        ";v=v1",
        ";g=meta.k8s.io",
        "*/*",
        "application/",
        ",",
        "\"",
        ";stream=watch",
        "\n====\n",
    ],
};

/// Protobuf bodies.
pub(crate) const PROTOBUF: Target = Target {
    name: "protobuf",
    run: |data| {
        let mut whole = b"k8s\0".to_vec();
        whole.extend_from_slice(data);
        for body in [data, &whole] {
            if let Ok(envelope) = protobuf::envelope(body)
                && let Ok(value) = envelope.decode()
            {
                let again = json::parse(value.to_string().as_bytes());
                assert!(again.is_ok(), "what is decoded is JSON");
                let encoded = protobuf::encode(&value).expect("what was decoded is encoded");
                let decoded = protobuf::envelope(&encoded).and_then(|it| it.decode());
                let decoded = decoded.expect("what was encoded is decoded");
                let again = protobuf::encode(&decoded).expect("as it was");
                assert_eq!(again, encoded, "the bytes of {value}");
            }
        }
    },
    seeds: &[
        "k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x19\n\x05\n\x01a\x1a\0\x12\x10\n\x01k\x12\x0bhello world",
        "\n\x0f\n\x02v1\x12\tConfigMap\x12\x07\n\x05\n\x01a\x1a\0",
        "\n\x19\n\x07apps/v1\x12\nDeployment\x12\x0b\n\x03\n\x01d\x12\x04\x08\x03\x40\x01",
        "\n\x09\n\x02v1\x12\x03Pod\x12\x0b\n\x03\n\x01p\x12\x04\x12\x02\n\0",
    ],
    corpus: None,
    made: None,
    words: &[
        "k8s\0",
        "\n\x02v1",
        "\x12\x03Pod",
        "\x12\tConfigMap",
        "\x7f\x7f\x7f\x7f\x7f",
        "\n",
        "\x12",
        "\x1a",
        "\x08",
    ],
};

/// Frames of a WebSocket, whole and in pieces.
pub(crate) const WEBSOCKET: Target = Target {
    name: "websocket",
    run: fuzzing::websocket,
    seeds: &["\u{1}\u{1}\u{2}\u{3}\u{4}x", "\n\u{7f}\u{7f}"],
    corpus: None,
    made: None,
    words: &["\u{7f}", "\u{7e}"],
};

/// JSON patches, beside the library that they are applied with.
pub(crate) const JSON_PATCH: Target = Target {
    name: "json-patch",
    run: |data| {
        let [object, operations] = input::parts::<2>(data);
        let (Ok(object), Ok(Value::Array(operations))) =
            (json::parse(object), json::parse(operations))
        else {
            return;
        };
        let mut ours = object.clone();
        let outcome = fuzzing::json_patch(&mut ours, &operations);
        let parsed: Result<Vec<PatchOperation>, _> =
            serde_json::from_value(Value::Array(operations));
        let mut theirs = object;
        if let Ok(parsed) = parsed
            && json_patch::patch(&mut theirs, &parsed).is_ok()
        {
            assert!(outcome.is_ok(), "what RFC 6902 allows is allowed");
            assert_eq!(ours, theirs, "and does the same");
        }
    },
    seeds: &[
        "{\"a\":{\"b\":[1,2,{\"c\":3}]}}\n====\n[{\"op\":\"test\",\"path\":\"/a/b/0\",\"value\":1},{\"op\":\"add\",\"path\":\"/a/b/-\",\"value\":4},{\"op\":\"move\",\"from\":\"/a/b/1\",\"path\":\"/d\"},{\"op\":\"copy\",\"from\":\"/d\",\"path\":\"/e\"},{\"op\":\"replace\",\"path\":\"/f\",\"value\":{}},{\"op\":\"remove\",\"path\":\"/a~1b~0\"}]",
    ],
    corpus: None,
    made: None,
    words: &[
        "\"op\":\"move\"",
        "\"op\":\"copy\"",
        "\"path\":\"/",
        "\"from\":\"/",
        "/-",
        "~0",
        "~1",
        "\"value\":",
        "/0",
        "/01",
        "\n====\n",
    ],
};

/// The scanner over stored bytes: it sees what a parser sees, and what it changes is all that changes.
pub(crate) const SCAN: Target = Target {
    name: "scan",
    run: |data| {
        drop(head(data));
        let Ok(value) = json::parse(data) else { return };
        if !value.get("metadata").is_some_and(Value::is_object) {
            return;
        }
        let stored = encode(&value, RevisionSlot::Keep).bytes;
        let read = json::parse(&stored).expect("what is encoded is JSON");
        assert_eq!(read, value, "encoding changes nothing");
        hold_head(&stored, &value);
        let mut out = Vec::new();
        if splice_cluster(&mut out, &stored, "east").is_some() {
            let mut wanted = value.clone();
            if wanted["metadata"]["annotations"].is_null() {
                wanted["metadata"]["annotations"] = Value::Object(serde_json::Map::new());
            }
            wanted["metadata"]["annotations"]["kcp.io/cluster"] = "east".into();
            assert_eq!(
                json::parse(&out).ok(),
                Some(wanted),
                "one annotation is added"
            );
        }
        out.clear();
        if with_revision(&mut out, &stored, 7).is_some()
            && value["metadata"]["resourceVersion"].is_string()
        {
            let mut wanted = value.clone();
            wanted["metadata"]["resourceVersion"] = "7".into();
            assert_eq!(json::parse(&out).ok(), Some(wanted), "one field is changed");
        }
        out.clear();
        if write_partial_metadata(&mut out, &stored).is_some() {
            let partial = json::parse(&out).expect("it writes JSON");
            assert_eq!(
                partial["metadata"], value["metadata"],
                "the metadata is all of it"
            );
        }
    },
    seeds: &[
        r#"{"apiVersion":"v1","kind":"X","metadata":{"name":"a","namespace":"b","uid":"u","labels":{"a":"b\u0041"},"annotations":{"x":"y"},"resourceVersion":"1","finalizers":["f"],"ownerReferences":[{}],"deletionTimestamp":"t","managedFields":[]},"spec":{"metadata":{"name":"no"}}}"#,
        r#"{"kind":"X","metadata":{},"a":"\"}{"}"#,
        r#"{"metadata":{"annotations":{},"labels":{}},"z":[{"metadata":{"name":1}}]}"#,
    ],
    corpus: None,
    made: None,
    words: &[
        "\"metadata\":",
        "\"annotations\":{",
        "\"labels\":{",
        "\\\"",
        "\\\\",
        "\\u005c",
        "\"resourceVersion\":\"",
        "\"kcp.io/cluster\":",
    ],
};

/// Fields as an index finds them in stored bytes: as the parsed object has them.
pub(crate) const SELECTED_FIELDS: Target = Target {
    name: "selected-fields",
    run: |data| {
        fields(data, SELECTED, &mut |place, _| {
            assert!(place < SELECTED.len(), "a place of one");
        });
        let Ok(value) = json::parse(data) else { return };
        if !value.get("metadata").is_some_and(Value::is_object) {
            return;
        }
        let stored = encode(&value, RevisionSlot::Keep).bytes;
        let mut found = vec![None; SELECTED.len()];
        fields(&stored, SELECTED, &mut |place, text| {
            let before = found[place].replace(text.to_owned());
            assert_eq!(before, None, "a field is found once");
        });
        for ((_, path), found) in SELECTED.iter().zip(found) {
            let mut names = path.split('.');
            let wanted = names.try_fold(&value, |value, name| value.as_object()?.get(name));
            let wanted = match wanted {
                Some(Value::String(text)) => Some(text.clone()),
                Some(scalar @ (Value::Bool(_) | Value::Number(_))) => Some(scalar.to_string()),
                _ => None,
            };
            assert_eq!(found, wanted, "{path}");
        }
    },
    seeds: &[
        r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n\u0031","hostNetwork":false},"status":{"phase":"Running"},"type":"x"}"#,
        r#"{"metadata":{},"spec.nodeName":"no","spec":{"nodeName":{"a":1},"hostNetwork":null},"type":1.50}"#,
        r#"{"metadata":{},"spec":[{"nodeName":"no"}],"status":"phase","specs":{"nodeName":"no"}}"#,
    ],
    corpus: None,
    made: None,
    words: &[
        "\"metadata\":{},",
        "\"spec\":{",
        "\"nodeName\":\"",
        "\"status\":{",
        "\"spec.nodeName\":",
        "\\u0065",
        "\\\"",
    ],
};

const SELECTED: &[(&str, &str)] = &[
    ("", "spec.nodeName"),
    ("", "spec.hostNetwork"),
    ("", "status.phase"),
    ("", "type"),
    ("", "spec"),
];

/// Lists of spokes, as they become part of a list over all clusters.
pub(crate) const SPOKE_LIST: Target = Target {
    name: "spoke-list",
    run: fuzzing::spoke_list,
    seeds: &[
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"west"}}},{"kind":"Node","metadata":{}}]}"#,
        r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"annotations":[]},"metadata":{"annotations":{"kcp.io/cluster":"west"}}}]}"#,
        r#"{"items":null,"apiVersion":"v1","kind":"PodList"}"#,
    ],
    corpus: None,
    made: None,
    words: &[
        "\"items\":[",
        "\"metadata\":{",
        "\"annotations\":",
        "\"kcp.io/cluster\":",
        "\"kind\":\"PodList\"",
        "\"apiVersion\":\"v1\"",
    ],
};

fn hold_head(stored: &[u8], value: &Value) {
    let Some(head) = head(stored) else {
        // Names that are no texts: nothing that was validated looks like that.
        return;
    };
    let metadata = &value["metadata"];
    for (name, found) in [
        ("name", &head.name),
        ("namespace", &head.namespace),
        ("uid", &head.uid),
    ] {
        if let Some(wanted) = metadata[name].as_str() {
            assert_eq!(
                found.as_ref(),
                wanted,
                "the {name} is the one that stands there"
            );
        }
    }
    let filled = |name: &str| {
        metadata[name]
            .as_array()
            .is_some_and(|items| !items.is_empty())
    };
    if metadata["finalizers"].is_array() {
        assert_eq!(head.finalized, filled("finalizers"), "finalizers are seen");
    }
    if metadata["ownerReferences"].is_array() {
        assert_eq!(head.owned, filled("ownerReferences"), "owners are seen");
    }
    if let Some(labels) = metadata["labels"].as_object() {
        let simple = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
        };
        let all_texts = labels
            .iter()
            .all(|(key, label)| simple(key) && label.as_str().is_some_and(simple));
        for (key, label) in labels.iter().filter(|_| all_texts) {
            assert_eq!(
                head.labels.get(key),
                label.as_str(),
                "the label {key} is seen"
            );
        }
    }
}

/// Continue tokens: written and read again they are the same.
pub(crate) const CONTINUE_TOKEN: Target = Target {
    name: "continue-token",
    run: |data| {
        let text = input::text(data);
        if let Ok(token) = ContinueToken::decode(text) {
            let again = ContinueToken::decode(&token.encode());
            assert!(
                again.is_ok_and(|again| again == token),
                "a round trip changes nothing"
            );
        }
    },
    seeds: &[
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTAwMDAwMDAwMDAwMDAwMSwic3RhcnQiOiJhXHUwMDAwIn0",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYS9iIn0=",
    ],
    corpus: None,
    made: None,
    words: &["eyJ2IjoibWV0YS5rOHMuaW8vdjEi", "=", "-", "_"],
};

/// Token files.
pub(crate) const TOKEN_FILE: Target = Target {
    name: "token-file",
    run: |data| drop(TokenFile::parse(input::text(data))),
    seeds: &[
        "# a\ntoken,alice,1,\"a,b\"\n\"t \"\"x\",bob,2\n\n",
        "a,b,c\r\n,d,e,\"\"\r\n",
    ],
    corpus: None,
    made: None,
    words: &["\"", "\"\"", ",", "\r\n", "#"],
};

/// Tokens of ServiceAccounts: none is good that was not signed.
pub(crate) const JWT: Target = Target {
    name: "jwt",
    run: |data| {
        assert!(
            !fuzzing::token_is_good(input::text(data)),
            "nobody has the key"
        );
    },
    seeds: &[
        "eyJhbGciOiJFUzI1NiIsImtpZCI6IngiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJhIn0.AAAA",
        "eyJhbGciOiJub25lIn0.eyJpc3MiOiJhIn0.",
        "{\"iss\":\"https://wheelhouse.internal/clusters/a\",\"aud\":[\"x\"],\"iat\":1,\"exp\":2,\"jti\":\"j\",\"kubernetes.io\":{\"namespace\":\"n\",\"serviceaccount\":{\"name\":\"s\",\"uid\":\"u\"},\"pod\":{\"name\":\"p\",\"uid\":\"v\"}}}",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ],
    corpus: None,
    made: None,
    words: &[
        ".",
        "eyJ",
        "\"exp\":",
        "\"aud\":",
        "\"kubernetes.io\":{",
        "=",
        "MAYCAQECAQE",
    ],
};

/// Configurations of issuers, their key sets, and what their tokens claim.
pub(crate) const ISSUED: Target = Target {
    name: "issued",
    run: |data| {
        let [configuration, keys, claims] = input::parts::<3>(data);
        fuzzing::issued(input::text(configuration), keys, claims);
    },
    seeds: &[
        "{apiVersion: apiserver.config.k8s.io/v1, kind: AuthenticationConfiguration, jwt: [{issuer: {url: 'https://a', audiences: [b]}, claimMappings: {username: {claim: sub, prefix: ''}, groups: {claim: groups, prefix: ''}}}]}\n====\n{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\",\"use\":\"sig\",\"kid\":\"k\"}]}\n====\n{\"iss\":\"https://a\",\"aud\":\"b\",\"exp\":9,\"sub\":\"bob\",\"groups\":[\"team\",\"system:masters\"]}",
        "{apiVersion: apiserver.config.k8s.io/v1, kind: AuthenticationConfiguration, jwt: [{issuer: {url: 'https://a', audiences: [b]}, claimValidationRules: [{expression: 'claims.email_verified == true'}], claimMappings: {username: {expression: claims.email}, groups: {expression: 'claims.roles.map(r, \"x:\" + r)'}, uid: {claim: sub}, extra: [{key: a.io/b, valueExpression: claims.sub}]}, userValidationRules: [{expression: \"user.username != ''\"}]}]}\n====\n{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AA\",\"y\":\"AA\"}]}\n====\n{\"aud\":[\"b\"],\"exp\":9.5,\"nbf\":0,\"sub\":\"1\",\"email\":\"a@b\",\"email_verified\":true,\"roles\":[\"r\"],\"jti\":\"j\"}",
    ],
    corpus: None,
    made: None,
    words: &[
        "\n====\n",
        "expression: ",
        "claims.",
        "\"groups\":",
        "system:",
        "wheelhouse:",
        "_claim_names",
        "P-384",
    ],
};

/// Client certificates.
pub(crate) const CERTIFICATE: Target = Target {
    name: "certificate",
    run: fuzzing::certificate,
    seeds: &["0\x03\x02\x01\x01"],
    corpus: None,
    made: None,
    words: &[
        "\x06\x03U\x04\x03",
        "\x06\x03U\x04\n",
        "0",
        "1",
        "\x0c",
        "\x13",
        "\x02\x01\x02",
    ],
};

/// Headers that ask to act as someone.
pub(crate) const IMPERSONATION: Target = Target {
    name: "impersonation",
    run: |data| fuzzing::impersonation(input::text(data)),
    seeds: &[
        "Impersonate-User: jane\nImpersonate-Group: a\nImpersonate-Group: b\nImpersonate-Uid: 1\nImpersonate-Extra-Acme.com%2fX: y\n",
        "Impersonate-User: system:serviceaccount:a:b\nConnection: Impersonate-User, x\nX-Remote-User: c\nX: y\n",
        "Impersonate-Extra-%: \nImpersonate-User: system:anonymous\n",
    ],
    corpus: None,
    made: None,
    words: &[
        "Impersonate-User: ",
        "Impersonate-Group: ",
        "Impersonate-Extra-",
        "%2f",
        "%zz",
        "X-Remote-",
        "Connection: ",
        "system:",
    ],
};
