use super::*;

fn service(spec: &Value) -> Value {
    json!({"spec": spec})
}

fn node_port() -> Value {
    service(&json!({
        "type": "NodePort", "clusterIP": "10.96.1.2", "clusterIPs": ["10.96.1.2"], "externalTrafficPolicy": "Cluster",
        "sessionAffinity": "None", "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP", "nodePort": 30_001}],
    }))
}

/// Updates `live` to `sent` and checks the value at a pointer. Each case was compared with a kube-apiserver 1.36.3.
fn check(live: &Value, mut sent: Value, pointer: &str, want: Option<&Value>) {
    prepare_update(Endpoint::Main, &mut sent, live);
    assert_eq!(sent.pointer(pointer), want, "{pointer} of {sent}");
}

#[test]
fn an_update_keeps_what_it_leaves_out() {
    let number = json!(30_001);
    let changed = service(&json!({"type": "NodePort", "ports": [{"port": 81}]}));
    check(
        &node_port(),
        changed,
        "/spec/ports/0/nodePort",
        Some(&number),
    );
    // Unless another port asks for it.
    let ports = json!([{"port": 80}, {"name": "b", "port": 81, "nodePort": 30_001}]);
    let asked = service(&json!({"type": "NodePort", "ports": ports}));
    check(&node_port(), asked, "/spec/ports/0/nodePort", None);
    // Unless the new type has none.
    let internal = service(&json!({"type": "ClusterIP", "ports": [{"port": 80}]}));
    check(&node_port(), internal, "/spec/ports/0/nodePort", None);
    let headless =
        service(&json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}));
    let plain = service(&json!({"type": "ClusterIP"}));
    check(&headless, plain, "/spec/clusterIP", Some(&json!("None")));
}

#[test]
fn a_patch_of_the_type_drops_what_the_new_type_has_not() {
    let address = json!("10.96.1.2");
    for (new_type, pointer, want) in [
        ("ClusterIP", "/spec/ports/0/nodePort", None),
        ("ClusterIP", "/spec/externalTrafficPolicy", None),
        ("ClusterIP", "/spec/clusterIP", Some(&address)),
        ("ExternalName", "/spec/clusterIP", None),
        ("ExternalName", "/spec/clusterIPs", None),
        ("ExternalName", "/spec/ports/0/nodePort", None),
    ] {
        let mut patched = node_port();
        patched["spec"]["type"] = json!(new_type);
        check(&node_port(), patched, pointer, want);
    }
}

#[test]
fn an_address_may_not_change_once_it_is_set() {
    let external = service(&json!({"type": "ExternalName", "externalName": "x.y"}));
    let other = |address: &str| {
        let mut object = node_port();
        object["spec"]["clusterIP"] = json!(address);
        object
    };
    for (name, live, object, want) in [
        ("the same", node_port(), node_port(), &[][..]),
        (
            "another",
            node_port(),
            other("10.96.9.9"),
            &["spec.clusterIPs[0]: Invalid value: [\"10.96.9.9\"]: may not change once set"],
        ),
        (
            "none",
            node_port(),
            other("None"),
            &[
                "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
                "spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set",
            ],
        ),
        ("the first", external, node_port(), &[]),
    ] {
        let errors = validate(&object, Some(&live));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, want, "{name}");
    }
}

#[test]
fn headless_services_have_the_families_that_kube_apiserver_gives_them() {
    let (four, both) = (json!(["IPv4"]), json!(["IPv4", "IPv6"]));
    // (what is asked, families, policy), as kube-apiserver 1.36 of one family answers.
    for (asked, families, policy) in [
        (json!({"selector": {"a": "b"}}), &four, "SingleStack"),
        (
            json!({"selector": {"a": "b"}, "ipFamilyPolicy": "PreferDualStack"}),
            &four,
            "PreferDualStack",
        ),
        (json!({}), &both, "RequireDualStack"),
        (json!({"selector": {}}), &both, "RequireDualStack"),
        (
            json!({"ipFamilyPolicy": "SingleStack"}),
            &four,
            "SingleStack",
        ),
        (
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            &both,
            "PreferDualStack",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            &json!(["IPv6", "IPv4"]),
            "RequireDualStack",
        ),
    ] {
        let mut spec = asked.clone();
        default_headless_families(&mut spec);
        assert_eq!(&spec["ipFamilies"], families, "{asked}");
        assert_eq!(spec["ipFamilyPolicy"], policy, "{asked}");
        let before = spec.clone();
        default_headless_families(&mut spec);
        assert_eq!(spec, before, "again: {asked}");
    }
}
