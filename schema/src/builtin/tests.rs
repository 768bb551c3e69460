use super::*;

#[test]
fn the_data_file_is_complete_and_free_of_cycles() {
    assert!(
        DATA.is_ascii(),
        "bisection needs every offset to be a border"
    );
    let whole: Value = serde_json::from_str(DATA).unwrap();
    let definitions = whole["definitions"].as_object().unwrap();
    assert_eq!(
        catalog().resources().len(),
        whole["resources"].as_array().unwrap().len()
    );
    for (name, definition) in definitions {
        assert_eq!(definition_text(name).as_ref(), Some(definition), "{name}");
        assert!(
            catalog().definition(name).is_some(),
            "{name} resolves wholly"
        );
    }
    for resource in catalog().resources() {
        let schemas = resource
            .subresources
            .iter()
            .filter_map(|it| it.schema.as_ref());
        for name in schemas.chain(&resource.schema) {
            assert!(definitions.contains_key(name), "{name}");
        }
    }
    assert!(definition_text("io.k8s.api.nothing").is_none());
    assert!(definition_text("").is_none());
    assert!(definition_text("zzz").is_none());
}

#[test]
fn kinds_resolve_with_what_patches_need() {
    let gvk = GroupVersionKind {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        kind: "Deployment".to_owned(),
    };
    let resource = catalog().by_kind(&gvk).unwrap();
    assert_eq!(
        (
            resource.resource.as_str(),
            resource.namespaced,
            resource.short_names.as_slice()
        ),
        ("deployments", true, ["deploy".to_owned()].as_slice())
    );
    assert_eq!(
        catalog().by_resource(&resource.gvr()).unwrap().kind,
        "Deployment"
    );
    let schema = catalog().schema(&gvk).unwrap();
    let containers = &schema.properties["spec"].properties["template"].properties["spec"]
        .properties["containers"];
    assert!(containers.patch_strategy.merge);
    assert_eq!(containers.list_map_keys, ["name"]);
    assert!(
        schema.properties["spec"].properties["strategy"]
            .patch_strategy
            .retain_keys
    );
    let limits = &containers.items.as_ref().unwrap().properties["resources"].properties["limits"];
    assert!(canonical::is_quantity(limits.additional.schema().unwrap()));
}

#[test]
fn equal_definitions_are_one() {
    let pod_spec = |kind: &str| {
        let gvk = GroupVersionKind {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
        };
        let schema = catalog().schema(&gvk).unwrap();
        Arc::clone(&schema.properties["spec"].properties["template"].properties["spec"])
    };
    assert!(Arc::ptr_eq(
        &pod_spec("Deployment"),
        &pod_spec("StatefulSet")
    ));
}
