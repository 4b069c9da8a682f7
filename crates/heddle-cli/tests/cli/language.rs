//! Programs of the language, `.hl`.

use crate::setup::{Array, Scratch};

/// A function of a tree, with a bias that is shared.
const TREE: &str = "\
type Tree = Leaf(f32) | Node(Tree, Tree)
param bias: f32;
fn main(t: Tree) -> (sum: f32) { node(t) }
fn node(t) { match t { Leaf(x) => x, Node(a, b) => node(a) - node(b) + bias } }
";

/// Trees behind each other: `((1 - 2 + b) - 4 + b)` and `8`.
fn trees(children: &[i64]) -> Scratch {
    let s = Scratch::new();
    s.write("m.hl", TREE);
    let ends = || Array::I64(vec![3], vec![0, 5, 6]);
    let leaves = vec![1.0, 2.0, 0.0, 4.0, 0.0, 8.0];
    let arrays = [
        ("t.tag", Array::I32(vec![6], vec![0, 0, 1, 0, 1, 0])),
        ("t.Leaf.0", Array::F32(vec![6], leaves)),
        ("t.Node.0", Array::I64(vec![6], children.to_vec())),
        ("t.Node.1", Array::I64(vec![6], vec![0, 0, 1, 0, 3, 0])),
        ("t.tag.offsets", ends()),
        ("t.Leaf.0.offsets", ends()),
        ("t.Node.0.offsets", ends()),
        ("t.Node.1.offsets", ends()),
    ];
    s.npz("in.npz", &arrays);
    s.npz("w.npz", &[("bias", Array::F32(vec![], vec![0.5]))]);
    s
}

const RUN: &str = "run m.hl --batch in.npz --weights w.npz -o out.npz";

#[test]
fn programs_of_the_language_run() {
    for device in ["cpu", "interp"] {
        let s = trees(&[0, 0, 0, 0, 2, 0]);
        s.heddle(&format!("{RUN} --device {device}")).ok();
        assert_eq!(s.elements::<f32>("out.npz", "sum").1, [-4.0, 8.0]);
    }
}

#[test]
fn tables_are_inputs() {
    let s = trees(&[0; 6]);
    let shown = s.heddle("inspect m.hl").ok();
    for column in ["t.tag", "t.Leaf.0", "t.Node.0", "t.Node.1", "bias"] {
        assert!(shown.contains(column), "{shown}");
    }
}

#[test]
fn faults_of_tables_name_instance_input_and_node() {
    trees(&[0, 0, 9, 0, 2, 0])
        .heddle(RUN)
        .fails(3, &["instance 0", "`t.Node.0[2]` is 9", "5 rows"]);
    trees(&[0, 0, 4, 0, 2, 0])
        .heddle(RUN)
        .fails(3, &["instance 0", "cycle"]);
}

#[test]
fn errors_have_a_marker_and_a_remedy() {
    let s = Scratch::new();
    s.write(
        "m.hl",
        TREE.replace(", Node(a, b) => node(a) - node(b) + bias", ""),
    );
    s.heddle("inspect m.hl").fails(
        3,
        &[
            "m.hl: line 4, column 14",
            "^^^^^",
            "Node(_, _)",
            "add an arm",
        ],
    );
}
