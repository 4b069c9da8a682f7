//! Faults of tables and graphs name the input and the node.

use heddle_lang::Structure;

/// The structures of a program's inputs.
fn structures(text: &str) -> Vec<Structure> {
    heddle_lang::compile(text)
        .unwrap_or_else(|error| panic!("{error}"))
        .structures
}

/// The fault of inputs; empty if there is none.
fn fault(structures: &[Structure], inputs: &[(&str, &[i64])]) -> String {
    let read = |name: &str| Some(inputs.iter().find(|i| i.0 == name)?.1.to_vec());
    let faults = structures.iter().map(|s| s.check(&read));
    faults
        .filter_map(Result::err)
        .map(|f| f.to_string())
        .collect()
}

#[test]
fn trees_have_cases_children_and_an_end() {
    let tree = structures(
        "type Tree = Leaf(i64) | Node(Tree, Tree)
        fn f(t) { match t { Leaf(x) => x, Node(a, b) => f(a) + f(b) } }
        fn main(t: Tree) { f(t) }",
    );
    let check = |tags: &[i64], left: &[i64], right: &[i64]| {
        fault(
            &tree,
            &[("t.tag", tags), ("t.Node.0", left), ("t.Node.1", right)],
        )
    };
    assert_eq!(check(&[0, 0, 1], &[-1, -1, 0], &[-1, -1, 1]), "");
    let found = check(&[0, 2, 1], &[0, 0, 0], &[0, 0, 1]);
    assert_eq!(
        found,
        "`t.tag[1]` is 2, which is no case: 0 to 1 are Leaf, Node"
    );
    let found = check(&[0, 0, 1], &[0, 0, 0], &[0, 0, 3]);
    assert_eq!(found, "`t.Node.1[2]` is 3, but there are 3 rows");
    let found = check(&[0, 0, 1], &[0, 0, -1], &[0, 0, 0]);
    assert_eq!(found, "`t.Node.0[2]` is -1, but there are 3 rows");
    let found = check(&[0, 1, 1], &[0, 2, 1], &[0, 0, 0]);
    assert_eq!(
        found,
        "`t.Node.0[2]` is a row that holds this one: the data has a cycle"
    );
    assert_eq!(
        check(&[], &[], &[]),
        "`t.tag` has no rows; the last one is the root"
    );
}

#[test]
fn graphs_have_children_before_parents() {
    let graph = structures(
        "vertex cell(x: f32) -> f32 { scatter(x); push(x) }
        fn main(g: graph, x: list<f32>) { pull(cell, g, x) }",
    );
    let check = |children: &[i64], offsets: &[i64]| {
        fault(&graph, &[("g.children", children), ("g.offsets", offsets)])
    };
    assert_eq!(check(&[0, 1], &[0, 0, 0, 2]), "");
    assert_eq!(check(&[0, 1], &[1, 0, 0, 2]), "`g.offsets[0]` is 1, not 0");
    assert_eq!(
        check(&[0, 1], &[0, 2, 0, 2]),
        "`g.offsets[2]` is 0, less than the 2 before"
    );
    assert_eq!(
        check(&[0, 1], &[0, 0, 0, 1]),
        "`g.offsets[3]` is 1, but `g.children` has 2 elements"
    );
    assert_eq!(
        check(&[0, 7], &[0, 0, 0, 2]),
        "`g.children[1]` is 7, a child of vertex 2, but there are 3 vertices"
    );
    assert!(check(&[0, 2], &[0, 0, 0, 2]).contains("does not come before it"));
    assert!(check(&[], &[]).contains("has no elements"));
}
