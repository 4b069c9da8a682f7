//! `ai.onnx.ml`: what models leave out or get wrong. The cases of `tests/onnx` check results.

use crate::common::*;
use heddle_onnx::proto::{AttributeProto, ModelProto, NodeProto, OperatorSetIdProto};

/// Attributes of three kinds.
#[derive(Clone)]
enum List {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<&'static str>),
}

use List::{Floats, Ints, Texts};

fn attribute(name: &str, list: &List) -> AttributeProto {
    let mut proto = AttributeProto {
        name: Some(name.into()),
        ..Default::default()
    };
    match list {
        Ints(list) => proto.ints = list.clone(),
        Floats(list) => proto.floats = list.clone(),
        Texts(list) => proto.strings = list.iter().map(|s| s.as_bytes().to_vec()).collect(),
    }
    proto
}

/// A model of one node that reads `x[n, 2]`.
fn of(op: &str, outputs: &[&str], attributes: &[(&str, List)]) -> ModelProto {
    let node = NodeProto {
        domain: Some("ai.onnx.ml".into()),
        attribute: attributes.iter().map(|(n, l)| attribute(n, l)).collect(),
        ..node(op, &["x"], outputs)
    };
    let inputs = vec![info("x", FLOAT, &[-1, 2])];
    let mut m = model(graph("main", inputs, names(outputs), vec![node]), vec![]);
    m.opset_import.push(OperatorSetIdProto {
        domain: Some("ai.onnx.ml".into()),
        version: Some(3),
    });
    m
}

/// One tree of one node and two leaves.
fn stump() -> Vec<(&'static str, List)> {
    vec![
        ("nodes_treeids", Ints(vec![0, 0, 0])),
        ("nodes_nodeids", Ints(vec![0, 1, 2])),
        ("nodes_featureids", Ints(vec![1, 0, 0])),
        ("nodes_modes", Texts(vec!["BRANCH_LEQ", "LEAF", "LEAF"])),
        ("nodes_values", Floats(vec![0.5, 0.0, 0.0])),
        ("nodes_truenodeids", Ints(vec![1, 0, 0])),
        ("nodes_falsenodeids", Ints(vec![2, 0, 0])),
        ("target_treeids", Ints(vec![0, 0])),
        ("target_nodeids", Ints(vec![1, 2])),
        ("target_ids", Ints(vec![0, 0])),
        ("target_weights", Floats(vec![1.0, 2.0])),
    ]
}

fn message(op: &str, outputs: &[&str], attributes: &[(&str, List)]) -> String {
    import(&of(op, outputs, attributes))
        .unwrap_err()
        .to_string()
}

#[test]
fn wrong_trees_are_errors() {
    assert!(import(&of("TreeEnsembleRegressor", &["y"], &stump())).is_ok());
    let cases = [
        ("nodes_treeids", Ints(vec![0, 0]), "differ in length"),
        ("nodes_nodeids", Ints(vec![0, 1, 1]), "has node 1 twice"),
        ("nodes_truenodeids", Ints(vec![7, 0, 0]), "has no node 7"),
        ("nodes_truenodeids", Ints(vec![0, 0, 0]), "cycle"),
        (
            "nodes_modes",
            Texts(vec!["BRANCH", "LEAF", "LEAF"]),
            "no mode `BRANCH`",
        ),
        ("nodes_values", Floats(vec![]), "differ in length"),
        ("target_nodeids", Ints(vec![1, 9]), "has no node 9"),
        ("target_ids", Ints(vec![0, -1]), "no target -1"),
        ("target_ids", Ints(vec![0, 3]), "beyond the 1 targets"),
        ("target_weights", Floats(vec![1.0]), "differ in length"),
    ];
    for (name, list, expected) in cases {
        let mut attributes = stump();
        attributes.retain(|a| a.0 != name);
        attributes.push((name, list));
        let text = message("TreeEnsembleRegressor", &["y"], &attributes);
        assert!(text.contains(expected), "{name}: {text}");
    }
    let none = message("TreeEnsembleRegressor", &["y"], &[]);
    assert!(none.contains("there are no trees"), "{none}");
    let mut model = of("TreeEnsembleRegressor", &["y"], &stump());
    let targets = AttributeProto {
        name: Some("n_targets".into()),
        i: Some(i64::MAX),
        ..Default::default()
    };
    model.graph.as_mut().unwrap().node[0]
        .attribute
        .push(targets);
    let text = import(&model).unwrap_err().to_string();
    assert!(text.contains("targets each"), "{text}");
}

#[test]
fn wrong_classes_are_errors() {
    let y = &["label", "scores"];
    let labels = ("classlabels_ints", Ints(vec![0, 1, 2]));
    let support = ("support_vectors", Floats(vec![1.0; 6]));
    let counts = ("vectors_per_class", Ints(vec![1, 1, 1]));
    let many = ("classlabels_ints", Ints(vec![0; 100_000]));
    let cases = [
        ("LinearClassifier", vec![], "no class labels"),
        ("LinearClassifier", vec![labels.clone()], "0 coefficients"),
        (
            "LinearClassifier",
            vec![
                labels.clone(),
                ("coefficients", Floats(vec![1.0; 4])),
                ("intercepts", Floats(vec![1.0; 2])),
            ],
            "3 labels for 2 classes",
        ),
        (
            "SVMClassifier",
            vec![labels.clone()],
            "`coefficients` is missing",
        ),
        (
            "SVMClassifier",
            vec![labels.clone(), ("vectors_per_class", Ints(vec![1, -1, 0]))],
            "vectors_per_class does not fit",
        ),
        (
            "SVMClassifier",
            vec![
                labels.clone(),
                ("vectors_per_class", Ints(vec![i64::MAX; 3])),
            ],
            "fewer support_vectors",
        ),
        (
            "SVMClassifier",
            vec![labels.clone(), counts.clone(), support.clone()],
            "coefficients has 0 numbers, not 6",
        ),
        (
            "SVMClassifier",
            vec![
                many,
                (
                    "vectors_per_class",
                    Ints([vec![1], vec![0; 99_999]].concat()),
                ),
                ("support_vectors", Floats(vec![1.0; 2])),
                ("coefficients", Floats(vec![1.0; 99_999])),
            ],
            "pairs of classes each",
        ),
    ];
    for (op, attributes, expected) in cases {
        let text = message(op, y, &attributes);
        assert!(text.contains(expected), "{op}: {text}");
    }
}
