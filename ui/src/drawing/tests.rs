use serde_json::json;

use super::*;

/// A definition of nodes with their dependencies.
fn definition(nodes: &[(&str, &[&str])]) -> Value {
    let resources: Vec<Value> = nodes
        .iter()
        .map(|(id, _)| json!({"id": id, "template": {"kind": "ConfigMap", "apiVersion": "v1"}}))
        .collect();
    let status: Vec<Value> = nodes
        .iter()
        .filter(|(_, needs)| !needs.is_empty())
        .map(|(id, needs)| {
            let needs: Vec<Value> = needs.iter().map(|id| json!({"id": id})).collect();
            json!({"id": id, "dependencies": needs})
        })
        .collect();
    json!({
        "metadata": {"name": "web"},
        "spec": {"schema": {"kind": "Web"}, "resources": resources},
        "status": {"resources": status},
    })
}

fn arrows(drawing: &Drawing) -> Vec<String> {
    let arrow = |edge: &Edge| format!("{}>{}", edge.from, edge.to);
    drawing.edges.iter().map(arrow).collect()
}

fn node<'a>(drawing: &'a Drawing, id: &str) -> &'a Node {
    drawing.nodes.iter().find(|node| node.id == id).unwrap()
}

#[test]
fn arrows_that_others_imply_are_left_out() {
    let drawing = Drawing::of(&definition(&[
        ("a", &[]),
        ("b", &["a"]),
        ("c", &["a", "b", "b", "c", "absent"]),
    ]));
    assert_eq!(arrows(&drawing), ["a>b", "b>c"]);
    assert_eq!(node(&drawing, "c").dependencies, ["a", "b"]);
    assert!(drawing.compiled);
}

#[test]
fn a_node_stands_right_of_all_it_needs_and_no_two_overlap() {
    let drawing = Drawing::of(&definition(&[
        ("a", &[]),
        ("b", &[]),
        ("c", &["a", "b"]),
        ("d", &["a"]),
        ("e", &["c", "d"]),
        ("f", &["e", "b"]),
        ("g", &["b"]),
        ("h", &["g", "a"]),
    ]));
    for edge in &drawing.edges {
        assert!(
            node(&drawing, &edge.from).x < node(&drawing, &edge.to).x,
            "{edge:?}"
        );
        assert!(
            edge.points.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "{edge:?}"
        );
    }
    for (place, one) in drawing.nodes.iter().enumerate() {
        assert!(one.x + one.width <= drawing.width && one.y + one.height <= drawing.height);
        for other in &drawing.nodes[place + 1..] {
            let apart =
                one.x.abs_diff(other.x) >= NODE_WIDTH || one.y.abs_diff(other.y) >= NODE_HEIGHT;
            assert!(apart, "{one:?} {other:?}");
        }
    }
}

#[test]
fn what_is_no_graph_is_drawn_without_arrows() {
    let circle = Drawing::of(&definition(&[("a", &["b"]), ("b", &["a"])]));
    assert_eq!((circle.nodes.len(), circle.edges.len()), (2, 0));
    let mut uncompiled = definition(&[("a", &[]), ("b", &["a"])]);
    uncompiled["status"] = json!("none");
    let uncompiled = Drawing::of(&uncompiled);
    assert!(!uncompiled.compiled && uncompiled.edges.is_empty());
    for definition in [
        json!(null),
        json!({"spec": {"resources": [1, {"id": 2}, {"id": ""}]}}),
    ] {
        assert!(Drawing::of(&definition).nodes.is_empty());
    }
}

#[test]
fn the_work_for_one_drawing_is_bounded() {
    let ids: Vec<String> = (0..500).map(|n| format!("n{n}")).collect();
    let all: Vec<&str> = ids.iter().map(String::as_str).collect();
    let nodes: Vec<(&str, &[&str])> = all
        .iter()
        .enumerate()
        .map(|(place, id)| (*id, &all[..place]))
        .collect();
    let drawing = Drawing::of(&definition(&nodes));
    assert_eq!(
        (drawing.nodes.len(), drawing.omitted),
        (NODE_COUNT_MAX, 100)
    );
    // A chain, and one node that everything before it leads to over many columns.
    let mut nodes: Vec<(&str, &[&str])> = (0..300)
        .map(|n| (all[n], if n == 0 { &[][..] } else { &all[n - 1..n] }))
        .collect();
    nodes.extend((300..400).map(|n| (all[n], &[][..])));
    nodes[299].1 = &all[298..400];
    let drawing = Drawing::of(&definition(&nodes));
    assert_eq!(drawing.nodes.len(), 400);
}

#[test]
fn nodes_tell_what_is_special_about_them() {
    let drawing = Drawing::of(&json!({"spec": {"resources": [
        {"id": "a", "externalRef": {"kind": "Secret", "apiVersion": "v1"}},
        {"id": "b", "forEach": [{"x": "${y}"}], "includeWhen": ["${z}"], "readyWhen": ["${r}"], "template": {"kind": "Pod"}},
    ]}}));
    let (a, b) = (node(&drawing, "a"), node(&drawing, "b"));
    assert_eq!(
        (a.kind.as_str(), &a.traits),
        ("Secret", &vec![Trait::External])
    );
    let traits = vec![Trait::Conditional, Trait::Collection, Trait::Gated];
    assert_eq!((b.kind.as_str(), &b.traits), ("Pod", &traits));
}
