use serde_json::{Value, json};

use super::*;
use crate::authenticate::jws::tests::Signer;

const URL: &str = "https://issuer.example.com";

/// A configuration of one issuer, and what is changed in it.
fn configured(changes: Value) -> Value {
    let mut jwt = json!({
        "issuer": {"url": URL, "audiences": ["hub"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"}},
    });
    merge(&mut jwt, changes);
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [jwt]})
}

fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, changes) => *into = changes,
    }
}

fn state(configuration: &Value) -> Result<State, String> {
    State::read(&configuration.to_string(), &[]).map_err(|error| error.to_string())
}

fn judged(configuration: &Value, claims: &Value) -> Result<Found, String> {
    let state = state(configuration)?;
    let text = Signer::new().sign(&json!({"alg": "ES256"}), claims);
    let token = Jws::parse(&text).unwrap();
    let authenticator = state.authenticator_of(&token).ok_or("no issuer")?;
    authenticator.judge(&token, Timestamp::from_second(1000).unwrap())
}

fn claims(changes: Value) -> Value {
    let mut claims = json!({"iss": URL, "aud": "hub", "sub": "bob", "exp": 2000});
    merge(&mut claims, changes);
    claims
}

/// What is changed in a configuration, and what is told of it.
const WRONG: [(&str, &str); 36] = [
    (
        r#"{"issuer": {"url": ""}}"#,
        "jwt[0].issuer.url: Required value",
    ),
    (
        r#"{"issuer": {"url": "http://a"}}"#,
        r#"jwt[0].issuer.url: Invalid value: "http://a": URL scheme must be https"#,
    ),
    (
        r#"{"issuer": {"url": "https://a?x=y"}}"#,
        r#"jwt[0].issuer.url: Invalid value: "https://a?x=y": URL must not contain a query"#,
    ),
    (
        r#"{"issuer": {"url": "https://a#b"}}"#,
        r#"jwt[0].issuer.url: Invalid value: "https://a#b": URL must not contain a fragment"#,
    ),
    (
        r#"{"issuer": {"url": "https://u:p@a"}}"#,
        r#"jwt[0].issuer.url: Invalid value: "https://u:p@a": URL must not contain a username or password"#,
    ),
    (
        r#"{"issuer": {"url": "https://wheelhouse.internal"}}"#,
        r#"jwt[0].issuer.url: Invalid value: "https://wheelhouse.internal": URL must not overlap with disallowed issuers: [https://wheelhouse.internal]"#,
    ),
    (
        r#"{"issuer": {"discoveryURL": "https://issuer.example.com/"}}"#,
        r#"jwt[0].issuer.discoveryURL: Invalid value: "https://issuer.example.com/": discoveryURL must be different from URL"#,
    ),
    (
        r#"{"issuer": {"audiences": []}}"#,
        "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
    ),
    (
        r#"{"issuer": {"audiences": ["a", "a"], "audienceMatchPolicy": "MatchAny"}}"#,
        r#"jwt[0].issuer.audiences[1]: Duplicate value: "a""#,
    ),
    (
        r#"{"issuer": {"audiences": ["a", "b"]}}"#,
        r#"jwt[0].issuer.audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple audiences"#,
    ),
    (
        r#"{"issuer": {"audienceMatchPolicy": "All"}}"#,
        r#"jwt[0].issuer.audienceMatchPolicy: Invalid value: "All": audienceMatchPolicy must be empty or MatchAny for single audience"#,
    ),
    (
        r#"{"issuer": {"certificateAuthority": "x"}}"#,
        r#"jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or ECDSA certificates"#,
    ),
    (
        r#"{"issuer": {"egressSelectorType": "cluster"}}"#,
        r#"jwt[0].issuer.egressSelectorType: Invalid value: "cluster": egress selectors are not supported: the hub connects to issuers itself"#,
    ),
    (
        r#"{"claimValidationRules": [{}]}"#,
        "jwt[0].claimValidationRules[0]: Required value: claim or expression is required",
    ),
    (
        r#"{"claimValidationRules": [{"claim": "a", "expression": "b"}]}"#,
        r#"jwt[0].claimValidationRules[0]: Invalid value: "a": claim and expression can't both be set"#,
    ),
    (
        r#"{"claimValidationRules": [{"claim": "a", "message": "m"}]}"#,
        r#"jwt[0].claimValidationRules[0].message: Invalid value: "m": may not be specified when claim is set"#,
    ),
    (
        r#"{"claimValidationRules": [{"expression": "true", "requiredValue": "v"}]}"#,
        r#"jwt[0].claimValidationRules[0].requiredValue: Invalid value: "v": may not be specified when expression is set"#,
    ),
    (
        r#"{"claimValidationRules": [{"claim": "a"}, {"claim": "a"}]}"#,
        r#"jwt[0].claimValidationRules[1].claim: Duplicate value: "a""#,
    ),
    (
        r#"{"claimValidationRules": [{"expression": "true"}, {"expression": "true"}]}"#,
        r#"jwt[0].claimValidationRules[1].expression: Duplicate value: "true""#,
    ),
    (
        r#"{"claimValidationRules": [{"expression": "claims.a"}]}"#,
        r#"jwt[0].claimValidationRules[0].expression: Invalid value: "claims.a": must evaluate to bool"#,
    ),
    (
        r#"{"claimMappings": {"username": {"claim": ""}}}"#,
        "jwt[0].claimMappings.username: Required value: claim or expression is required",
    ),
    (
        r#"{"claimMappings": {"username": {"prefix": null}}}"#,
        "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
    ),
    (
        r#"{"claimMappings": {"username": {"expression": "claims.sub"}}}"#,
        r#"jwt[0].claimMappings.username: Invalid value: "": claim and expression can't both be set"#,
    ),
    (
        r#"{"claimMappings": {"username": {"claim": "", "expression": "claims.sub"}}}"#,
        r#"jwt[0].claimMappings.username.prefix: Invalid value: "oidc:": may not be specified when expression is set"#,
    ),
    (
        r#"{"claimMappings": {"username": {"claim": "", "prefix": null, "expression": "claims.email"}}}"#,
        r#"jwt[0].claimMappings.username.expression: Invalid value: "claims.email": claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"#,
    ),
    (
        r#"{"claimMappings": {"username": {"claim": "", "prefix": null, "expression": "claims.?email.orValue('x')"}}}"#,
        "claims.email_verified must be used",
    ),
    (
        r#"{"claimMappings": {"groups": {"claim": "g"}}}"#,
        "jwt[0].claimMappings.groups.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
    ),
    (
        r#"{"claimMappings": {"uid": {"claim": "a", "expression": "b"}}}"#,
        r#"jwt[0].claimMappings.uid: Invalid value: "": claim and expression can't both be set"#,
    ),
    (
        r#"{"claimMappings": {"extra": [{"key": "foo", "valueExpression": "'x'"}]}}"#,
        r#"jwt[0].claimMappings.extra[0].key: Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")"#,
    ),
    (
        r#"{"claimMappings": {"extra": [{"key": "acme.io/Foo", "valueExpression": "'x'"}]}}"#,
        r#"jwt[0].claimMappings.extra[0].key: Invalid value: "acme.io/Foo": must be lowercase"#,
    ),
    (
        r#"{"claimMappings": {"extra": [{"key": "a.k8s.io/x", "valueExpression": "'x'"}]}}"#,
        r#"jwt[0].claimMappings.extra[0].key: Invalid value: "a.k8s.io/x": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"#,
    ),
    (
        r#"{"claimMappings": {"extra": [{"key": "acme.io/x"}]}}"#,
        "jwt[0].claimMappings.extra[0].valueExpression: Required value",
    ),
    (
        r#"{"userValidationRules": [{}]}"#,
        "jwt[0].userValidationRules[0].expression: Required value",
    ),
    (
        r#"{"userValidationRules": [{"expression": "claims.x == 1"}]}"#,
        "jwt[0].userValidationRules[0].expression: Invalid value: \"claims.x == 1\": compilation failed: ",
    ),
    (
        r#"{"userValidationRules": [{"expression": "user.name == ''"}]}"#,
        "compilation failed: ",
    ),
    (
        r#"{"claimMapping": {}}"#,
        "strict decoding error: unknown field `claimMapping`",
    ),
];

#[test]
fn what_is_wrong_with_a_configuration_is_told_in_kubernetes_words() {
    for (changes, want) in WRONG {
        let changes: Value = serde_json::from_str(changes).unwrap();
        let error = state(&configured(changes.clone())).err();
        let error = error.unwrap_or_else(|| panic!("{changes} is taken"));
        assert!(error.contains(want), "{changes}:\n{error}\nwant\n{want}");
    }
}

#[test]
fn a_configuration_is_one_of_its_kind_and_names_each_issuer_once() {
    let one = configured(json!({}));
    for version in ["v1", "v1beta1", "v1alpha1"] {
        let mut one = one.clone();
        one["apiVersion"] = json!(format!("apiserver.config.k8s.io/{version}"));
        assert_eq!(state(&one).err(), None, "{version}");
    }
    let jwt = &one["jwt"][0];
    let with = |field: &str, value: Value| {
        let mut changed = one.clone();
        changed[field] = value;
        state(&changed).err().unwrap_or_default()
    };
    for (field, value, want) in [
        (
            "apiVersion",
            json!("apiserver.config.k8s.io/v2"),
            "expected AuthenticationConfiguration",
        ),
        (
            "kind",
            json!("AuthorizationConfiguration"),
            "expected AuthenticationConfiguration",
        ),
        (
            "jwt",
            json!([jwt, jwt]),
            r#"jwt[1].issuer.url: Duplicate value: "https://issuer.example.com""#,
        ),
        (
            "jwt",
            json!(vec![jwt; 65]),
            "jwt: Too many: 65: must have at most 64 items",
        ),
        (
            "anonymous",
            json!({"enabled": false, "conditions": [{"path": "/livez"}]}),
            "enabled should be set to true when conditions are defined",
        ),
        ("jwt", json!([]), ""),
    ] {
        let error = with(field, value);
        assert!(
            error.contains(want) && error.is_empty() == want.is_empty(),
            "{field}: {error}"
        );
    }
    assert_eq!(
        State::read("", &[]).err().unwrap().to_string(),
        "empty config data"
    );
}

#[test]
fn a_token_is_for_this_hub_and_of_this_time() {
    let one = configured(json!({}));
    assert_eq!(
        judged(&one, &claims(json!({}))).unwrap().user.username,
        "oidc:bob"
    );
    for (changes, want) in [
        (json!({"aud": ["other", "hub"]}), ""),
        (
            json!({"nbf": 1299, "iat": 900, "exp": 1000.9}),
            "token is expired",
        ),
        (json!({"exp": 1001.5, "nbf": 1300, "iat": 1300}), ""),
        (json!({"exp": 1000}), "token is expired"),
        (json!({"exp": null}), "exp is no time"),
        (json!({"exp": "2000"}), "exp is no time"),
        (json!({"exp": 1e300}), "exp is no time"),
        (json!({"nbf": 1301}), "nbf is in the future"),
        (json!({"iat": 1301}), "iat is in the future"),
        (
            json!({"aud": "other"}),
            "expected audience in [\"hub\"] got [\"other\"]",
        ),
        (json!({"aud": []}), "expected audience"),
        (json!({"aud": ["hub", 1]}), "the audience makes no sense"),
        (json!({"iss": "https://issuer.example.com/"}), "no issuer"),
        (json!({"iss": null}), "no issuer"),
    ] {
        let found = judged(&one, &claims(changes.clone()))
            .err()
            .unwrap_or_default();
        assert!(
            found.contains(want) && found.is_empty() == want.is_empty(),
            "{changes}: {found}"
        );
    }
    let mut endless = claims(json!({}));
    endless.as_object_mut().unwrap().remove("exp");
    assert_eq!(
        judged(&one, &endless).unwrap_err(),
        "the token has no expiry"
    );
}

fn by_expression() -> Value {
    configured(json!({
        "claimValidationRules": [
            {"claim": "hd", "requiredValue": "example.com"},
            {"expression": "claims.email_verified == true", "message": "verify your address"},
        ],
        "claimMappings": {
            "username": {"claim": "", "prefix": null, "expression": "claims.email.split('@')[0] + ':acme'"},
            "groups": {"expression": "claims.roles.filter(r, r.startsWith('team-')).map(r, 'acme:' + r)"},
            "uid": {"expression": "claims.sub"},
            "extra": [
                {"key": "acme.io/tenant", "valueExpression": "claims.tenant"},
                {"key": "acme.io/none", "valueExpression": "''"},
            ],
        },
        "userValidationRules": [{"expression": "!user.groups.exists(g, g == 'acme:team-banned')", "message": "banned"}],
    }))
}

#[test]
fn claims_make_a_user_by_names_or_by_expressions() {
    let by_expression = by_expression();
    let full = |changes: Value| {
        let mut full = claims(json!({
            "hd": "example.com", "email": "bob@example.com", "email_verified": true, "tenant": ["a", ""],
            "roles": ["team-a", "other"], "jti": "7",
        }));
        merge(&mut full, changes);
        judged(&by_expression, &full)
    };
    let user = full(json!({})).unwrap().user;
    assert_eq!(
        (user.username.as_str(), user.uid.as_str()),
        ("bob:acme", "bob")
    );
    assert_eq!(user.groups, ["acme:team-a", "system:authenticated"]);
    let extra: Vec<_> = user
        .extra
        .iter()
        .map(|(key, values)| (key.as_str(), values.clone()))
        .collect();
    assert_eq!(
        extra,
        [
            ("acme.io/tenant", vec!["a".to_owned()]),
            (
                "authentication.kubernetes.io/credential-id",
                vec!["JTI=7".to_owned()]
            ),
        ]
    );
    for (changes, want) in [
        (
            json!({"hd": "other"}),
            "required claim hd value does not match",
        ),
        (
            json!({"hd": ["example.com"]}),
            "required claim hd value does not match",
        ),
        (
            json!({"email_verified": false}),
            "validation expression 'claims.email_verified == true' failed: verify your address",
        ),
        (json!({"email_verified": "true"}), "verify your address"),
        (json!({"roles": ["team-banned"]}), "failed: banned"),
        (
            json!({"roles": "team-a"}),
            "error evaluating groups expression",
        ),
        (
            json!({"sub": 7}),
            "uid claim expression must return a string",
        ),
        (
            json!({"tenant": 7}),
            "expression must return a string or a list of strings",
        ),
        (
            json!({"email": null}),
            "error evaluating username expression",
        ),
    ] {
        let error = full(changes.clone()).unwrap_err();
        assert!(error.contains(want), "{changes}: {error}");
    }
}

#[test]
fn an_address_that_is_not_verified_is_no_name_and_groups_kept_elsewhere_are_missed() {
    let by_email = configured(json!({"claimMappings": {
        "username": {"claim": "email", "prefix": ""}, "groups": {"claim": "groups", "prefix": "g:"},
    }}));
    for (changes, want) in [
        (json!({"email": "b@c"}), Ok("b@c")),
        (json!({"email": "b@c", "email_verified": true}), Ok("b@c")),
        (
            json!({"email": "b@c", "email_verified": false}),
            Err("email not verified"),
        ),
        (
            json!({"email": "b@c", "email_verified": "true"}),
            Err("email not verified"),
        ),
        (json!({"email": ""}), Err("empty username")),
        (json!({"email": 7}), Err("is no string")),
        (json!({"email": "b@c", "groups": "one"}), Ok("b@c")),
        (
            json!({"email": "b@c", "groups": [1]}),
            Err("is no string or list of strings"),
        ),
        (
            json!({"email": "b@c", "_claim_names": {"groups": "src"}}),
            Err("is distributed"),
        ),
    ] {
        let found = judged(&by_email, &claims(changes.clone()));
        match (found, want) {
            (Ok(found), Ok(want)) => assert_eq!(found.user.username, want, "{changes}"),
            (Err(found), Err(want)) => assert!(found.contains(want), "{changes}: {found}"),
            (found, want) => panic!("{changes}: {found:?}, not {want:?}"),
        }
    }
}

#[test]
fn no_issuer_names_anybody_of_kubernetes_or_of_the_hub() {
    let plain = configured(json!({"claimMappings": {
        "username": {"claim": "sub", "prefix": ""}, "groups": {"claim": "groups", "prefix": ""},
    }}));
    for name in [
        "system:admin",
        "system:serviceaccount:default:bot",
        "system:wheelhouse:syncer",
        "wheelhouse:root:default:bot",
        "wheelhouse:host:default:bot",
        "a\nb",
    ] {
        for changes in [json!({"sub": name}), json!({"groups": ["a", name]})] {
            let found = judged(&plain, &claims(changes.clone()));
            let error = found.map(|it| it.user).unwrap_err();
            assert!(error.contains("name"), "{changes}: {error}");
        }
    }
    for group in ["system:masters", "system:nodes", ""] {
        assert!(
            judged(&plain, &claims(json!({"groups": [group]}))).is_err(),
            "{group}"
        );
    }
    let many: Vec<String> = (0..1025).map(|it| it.to_string()).collect();
    assert!(judged(&plain, &claims(json!({"groups": many}))).is_err());
    let known = judged(
        &plain,
        &claims(json!({"groups": ["system:authenticated", "a"]})),
    );
    assert_eq!(known.unwrap().user.groups, ["a", "system:authenticated"]);
}

#[test]
fn flags_say_one_issuer_as_kube_apiserver_reads_them() {
    let flags = |claim: &str, prefix: &str| OidcFlags {
        issuer_url: URL.to_owned(),
        client_id: "hub".to_owned(),
        username_claim: claim.to_owned(),
        username_prefix: prefix.to_owned(),
        groups_claim: "groups".to_owned(),
        required_claims: vec![("hd".to_owned(), "a".to_owned())],
        signing_algorithms: vec!["RS256".to_owned()],
        ..OidcFlags::default()
    };
    for (claim, prefix, want) in [
        ("sub", "", "https://issuer.example.com#bob"),
        ("sub", "-", "bob"),
        ("sub", "x:", "x:bob"),
        ("email", "", "bob@c"),
    ] {
        let configuration = Configuration::from(&flags(claim, prefix));
        let state = State::of(String::new(), &configuration, &[], &[]).unwrap();
        let text = claims(json!({"email": "bob@c", "hd": "a", "groups": ["g"]}));
        let text = Signer::new().sign(&json!({"alg": "ES256"}), &text);
        let token = Jws::parse(&text).unwrap();
        let authenticator = state.authenticator_of(&token).unwrap();
        let found = authenticator.judge(&token, Timestamp::from_second(1000).unwrap());
        let user = found.unwrap().user;
        assert_eq!(user.username, want);
        assert_eq!(user.groups, ["g", "system:authenticated"]);
        let strict = State::of(String::new(), &configuration, &[Algorithm::Rs256], &[]).unwrap();
        let authenticator = strict.authenticator_of(&token).unwrap();
        let error = authenticator.judge(&token, Timestamp::from_second(1000).unwrap());
        assert_eq!(error.unwrap_err(), "signing alg Es256 is not allowed");
    }
    let unknown = OidcFlags {
        signing_algorithms: vec!["HS256".to_owned()],
        ..flags("sub", "")
    };
    let error = Issuers::of_flags(&unknown).unwrap_err().to_string();
    assert_eq!(error, "oidc: unsupported signing alg: \"HS256\"");
}

#[test]
fn requests_without_a_credential_are_let_in_where_the_file_says() {
    for (anonymous, path, want) in [
        (json!(null), "/livez", None),
        (json!({"enabled": false}), "/livez", Some(false)),
        (json!({"enabled": true}), "/api", Some(true)),
        (
            json!({"enabled": true, "conditions": [{"path": "/livez"}]}),
            "/livez",
            Some(true),
        ),
        (
            json!({"enabled": true, "conditions": [{"path": "/livez"}]}),
            "/livez/",
            Some(false),
        ),
    ] {
        let mut configuration = configured(json!({}));
        configuration["anonymous"] = anonymous.clone();
        let issuers = Issuers {
            state: ArcSwap::from_pointee(state(&configuration).unwrap()),
            file: None,
            reloads: Reloads::default(),
        };
        assert_eq!(issuers.allows_anonymous(path), want, "{anonymous} {path}");
    }
}

/// The story: a token that the hub cannot check was taken for nobody's, and shown to the webhook and to spokes.
#[test]
fn a_token_is_an_issuers_by_what_it_says_however_it_is_signed() {
    let issuers = Issuers {
        state: ArcSwap::from_pointee(state(&configured(json!({}))).unwrap()),
        file: None,
        reloads: Reloads::default(),
    };
    for algorithm in ["ES256", "EdDSA", "HS256", "none"] {
        let sign = |claims| Signer::new().sign(&json!({"alg": algorithm}), &claims);
        assert!(issuers.claim(&sign(claims(json!({})))), "{algorithm}");
        let other = sign(claims(json!({"iss": "https://other"})));
        assert!(!issuers.claim(&other), "{algorithm}");
    }
    assert!(!issuers.claim("opaque"));
}

#[test]
fn a_configuration_is_another_one_when_a_rule_changes() {
    let rules = |changes| {
        state(&configured(changes)).unwrap().authenticators[0]
            .rules
            .clone()
    };
    assert_eq!(rules(json!({})), rules(json!({})));
    for changes in [
        json!({"issuer": {"audiences": ["other"]}}),
        json!({"claimMappings": {"groups": {"claim": "groups", "prefix": ""}}}),
    ] {
        assert_ne!(rules(json!({})), rules(changes.clone()), "{changes}");
    }
}
