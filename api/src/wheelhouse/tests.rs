use serde_json::json;

use super::*;
use crate::crd::CustomResourceDefinition;

#[test]
fn a_spoke_reads_and_writes_its_short_form() {
    let value = json!({
        "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": "east"},
        "spec": {"connection": {"secretRef": {"namespace": "default", "name": "east"}}},
        "status": {"clusterUID": "u", "instances": {"total": 3, "ready": 2}},
    });
    let spoke = Spoke::from_value(&value).unwrap();
    let connection = spoke.spec.connection.as_ref().unwrap();
    assert_eq!(connection.secret_ref.as_ref().unwrap().key, "kubeconfig");
    assert_eq!(spoke.status.as_ref().unwrap().cluster_uid, "u");
    let counts = spoke.status.clone().unwrap().instances.unwrap();
    assert_eq!((counts.total, counts.ready), (3, 2));
    assert_eq!(Spoke::from_value(&spoke.to_value()).unwrap(), spoke);
    let bad = json!({"spec": {"provider": "Magic"}});
    assert_eq!(Spoke::from_value(&bad).unwrap_err().code, 400);
}

#[test]
fn a_ledger_is_named_by_the_uid_of_its_instance() {
    let spec = InventorySpec {
        instance: InstanceReference {
            uid: "u-1".to_owned(),
            ..InstanceReference::default()
        },
        members: vec![InventoryMember {
            kind: "ConfigMap".to_owned(),
            version: "v1".to_owned(),
            ..InventoryMember::default()
        }],
        ..InventorySpec::default()
    };
    let inventory = Inventory::new(spec);
    assert_eq!(inventory.metadata.name, "u-1");
    assert_eq!(
        inventory.spec.members[0].gvk().to_string(),
        "/v1, Kind=ConfigMap"
    );
    assert_eq!(
        Inventory::from_value(&inventory.to_value()).unwrap(),
        inventory
    );
}

/// What a schema does not have is not stored.
#[test]
fn the_schema_of_a_ledger_has_all_that_a_ledger_says() {
    let user = author::User {
        username: "jane".to_owned(),
        uid: "1".to_owned(),
        groups: vec!["dev".to_owned()],
        extra: [("key".to_owned(), vec!["value".to_owned()])].into(),
        known_only_in: "east".to_owned(),
    };
    let member = InventoryMember {
        group: "apps".to_owned(),
        resource: "deployments".to_owned(),
        namespace: "default".to_owned(),
        uid: "u".to_owned(),
        applied: "0-0".to_owned(),
        ..InventoryMember::default()
    };
    let spec = InventorySpec {
        instance: InstanceReference {
            namespace: "default".to_owned(),
            ..InstanceReference::default()
        },
        mirror_uid: "m".to_owned(),
        settled_count: Some(1),
        held_revision: Some(2),
        acting_as: Some(user.clone()),
        acting_at_hub_as: Some(user),
        members: vec![member],
        ..InventorySpec::default()
    };
    let definitions = definitions();
    let mut schemas = definitions
        .iter()
        .filter(|it| it["spec"]["names"]["kind"] == INVENTORY_KIND);
    let schema = &schemas.next().unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(
        unknown(&schema["properties"]["spec"], &json!(spec), "spec"),
        [""; 0]
    );
}

/// Returns the fields of a value that a schema does not have.
fn unknown(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    if let Some(items) = value.as_array() {
        let within = items.iter();
        return within
            .flat_map(|item| unknown(&schema["items"], item, path))
            .collect();
    }
    let fields = value.as_object().into_iter().flatten();
    let within = fields.flat_map(|(name, value)| {
        let path = format!("{path}.{name}");
        match schema["properties"]
            .get(name)
            .or(schema.get("additionalProperties"))
        {
            Some(schema) => unknown(schema, value, &path),
            None => vec![path],
        }
    });
    within.collect()
}

#[test]
fn the_definitions_are_definitions_under_their_own_names() {
    let names: Vec<String> = definitions()
        .iter()
        .map(|value| {
            let definition = CustomResourceDefinition::from_value(value).unwrap();
            assert_eq!(
                definition.metadata.name,
                definition.group_resource().to_string()
            );
            assert_eq!(
                definition.to_value(),
                *value,
                "a member that the type does not know"
            );
            definition.metadata.name
        })
        .collect();
    assert_eq!(
        names,
        [
            "spokes.wheelhouse.dev",
            "inventories.internal.wheelhouse.dev",
            "servedresources.internal.wheelhouse.dev",
            "kindclaims.internal.wheelhouse.dev",
            "discoveryrecords.internal.wheelhouse.dev"
        ]
    );
}

#[test]
fn a_served_resource_carries_the_spec_of_its_definition() {
    let definition = CustomResourceDefinition::from_value(&definitions()[0]).unwrap();
    let record = ServedResource::new(ServedResourceSpec {
        state: ServedState::Serving,
        judged: false,
        crd: definition.spec,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    });
    assert_eq!(record.metadata.name, "spokes.wheelhouse.dev");
    assert_eq!(
        ServedResource::from_value(&record.to_value()).unwrap(),
        record
    );
}
