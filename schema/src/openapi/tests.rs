use super::*;

fn widget() -> PublishedKind {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {"openAPIV3Schema": {"type": "object", "description": "A widget.", "properties": {
                    "spec": {"type": "object", "description": "What is wanted.", "properties": {
                        "color": {"type": "string"},
                        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}}}}}]}});
    let definition = CustomResourceDefinition::from_value(&definition).unwrap();
    PublishedKind::of_definition(&definition, "v1").unwrap()
}

/// Every reference of a document resolves in it.
fn assert_complete(document: &Value) {
    let mut wanted = BTreeSet::new();
    schemas::references(document, &mut wanted);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in wanted {
        assert!(schemas.contains_key(&name), "{name}");
    }
}

#[test]
fn custom_kinds_are_published_with_what_kubectl_reads() {
    let document = document(&[widget()]);
    assert_complete(&document);
    let item = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"];
    let patch = &item["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "example.com", "kind": "Widget", "version": "v1"})
    );
    let names: Vec<&str> = patch["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "dryRun",
            "fieldManager",
            "fieldValidation",
            "force",
            "pretty"
        ]
    );
    let types: Vec<&String> = patch["requestBody"]["content"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(
        types,
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json"
        ]
    );
    assert!(document["paths"]["/apis/example.com/v1/widgets"]["get"].is_object());
    let scale = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/scale";
    assert_eq!(
        document["paths"][scale]["get"]["x-kubernetes-group-version-kind"]["kind"],
        "Scale"
    );
    let schemas = &document["components"]["schemas"];
    let schema = &schemas["com.example.v1.Widget"];
    assert_eq!(schema["description"], "A widget.");
    assert_eq!(
        schema["properties"]["spec"]["description"],
        "What is wanted."
    );
    assert_eq!(
        schema["x-kubernetes-selectable-fields"],
        json!([{"fieldPath": "spec.color"}])
    );
    assert_eq!(
        schema["properties"]["spec"]["properties"]["template"]["properties"]["metadata"],
        schema["properties"]["metadata"]
    );
    assert_eq!(
        schemas["com.example.v1.WidgetList"]["x-kubernetes-group-version-kind"][0]["kind"],
        "WidgetList"
    );
}

#[test]
fn built_in_kinds_take_strategic_merges_and_refer_to_each_other() {
    let kinds = builtin_kinds("apps", "v1");
    let document = document(&kinds);
    assert_complete(&document);
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let types = document["paths"][path]["patch"]["requestBody"]["content"]
        .as_object()
        .unwrap();
    assert!(types.contains_key("application/strategic-merge-patch+json"));
    let schemas = &document["components"]["schemas"];
    let spec = &schemas["io.k8s.api.apps.v1.DeploymentSpec"];
    assert_eq!(
        spec["properties"]["strategy"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"
    );
    assert!(spec["properties"]["strategy"]["description"].is_string());
    assert!(spec["properties"]["replicas"]["description"].is_string());
    assert_eq!(
        schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"]["oneOf"],
        json!([{"type": "string"}, {"type": "number"}])
    );
    assert_eq!(
        schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
    );
}

#[test]
fn every_built_in_group_version_has_a_complete_document() {
    let resources = builtin::catalog().resources().iter();
    let scopes: BTreeSet<_> = resources
        .map(|it| (it.group.clone(), it.version.clone()))
        .collect();
    for (group, version) in scopes {
        assert_complete(&document(&builtin_kinds(&group, &version)));
    }
}
