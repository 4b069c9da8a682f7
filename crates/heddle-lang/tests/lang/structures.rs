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
    let rows = |name: &str| Some(inputs.iter().find(|i| i.0 == name)?.1.len());
    let faults = structures.iter().map(|s| s.check(&read, &rows));
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

const GRAPH: &str = "vertex cell(x: f32) -> f32 { scatter(x); push(x) }
    fn main(g: graph, x: list<f32>) { pull(cell, g, x) }";

#[test]
fn graphs_have_children_before_parents() {
    let graph = structures(GRAPH);
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

#[test]
fn tables_in_other_forms_have_cases_and_children() {
    let tree = structures(
        "type Tree = Leaf(i64) | Node(i64, Tree, Tree)
        table Rows(left: i64, right: i64, word: i64) -> Tree {
          if left == 0 { Leaf(word) } else { Node(word, left - 1, right - 1) }
        }
        fn f(t) { match t { Leaf(x) => x, Node(x, a, b) => f(a) + f(b) + x } }
        fn main(t: Rows[n]) { f(t) }",
    );
    let check = |left: &[i64], right: &[i64]| fault(&tree, &[("left", left), ("right", right)]);
    assert_eq!(check(&[0, 0, 1], &[0, 0, 2]), "");
    assert_eq!(
        check(&[0, 0, 1], &[0, 0, 9]),
        "`right[2]` is 8, but there are 3 rows"
    );
    assert!(check(&[0, 3, 2], &[0, 1, 1]).contains("cycle"));
    assert!(check(&[], &[]).contains("has no rows"));
}

#[test]
fn offsets_part_the_elements_of_lists() {
    let lists = structures(
        "type T = A(list<f32>) | B
        fn main(x: list<list<f32>>, t: T) { (len(x), match t { A(y) => len(y), B => 0 }) }",
    );
    let check = |offsets: &[i64], fields: &[i64]| {
        fault(
            &lists,
            &[
                ("x.data", &[0; 4]),
                ("x.offsets", offsets),
                ("t.tag", &[0, 1]),
                ("t.A.0.data", &[0; 3]),
                ("t.A.0.offsets", fields),
            ],
        )
    };
    assert_eq!(check(&[0, 1, 4], &[0, 3, 3]), "");
    assert_eq!(check(&[0, 4], &[0, 3, 3]), "");
    assert_eq!(
        check(&[0, 1, 3], &[0, 3, 3]),
        "`x.offsets[2]` is 3, but `x.data` has 4 elements"
    );
    assert_eq!(
        check(&[0, 2, 1, 4], &[0, 3, 3]),
        "`x.offsets[2]` is 1, less than the 2 before"
    );
    assert_eq!(
        check(&[0, 4], &[0, 3]),
        "`t.A.0.offsets` has 2 elements, but `t.tag` has 2: one more is needed"
    );
}

/// Random inputs are sound, for these sizes.
fn drawn(text: &str, sizes: &[(&str, usize)], seed: usize) -> Vec<(String, Vec<i64>)> {
    let structures = structures(text);
    let rows = |name: &str| Some(sizes.iter().find(|s| s.0 == name)?.1);
    let mut state = 0x2545_f491_4f6c_dd1d_u64.wrapping_mul(seed as u64 + 1);
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    let mut all = vec![];
    for s in &structures {
        all.extend(s.draw(&rows, &mut below));
    }
    let read = |name: &str| Some(all.iter().find(|c: &&(String, _)| c.0 == name)?.1.clone());
    for s in &structures {
        s.check(&read, &rows)
            .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
    all
}

#[test]
fn random_inputs_are_sound() {
    let tree = "type Tree = Leaf(i64) | Node(Tree, Tree)
        fn f(t) { match t { Leaf(x) => x, Node(a, b) => f(a) + f(b) } }
        fn main(t: Tree) { f(t) }";
    let table = "type Tree = Leaf(i64) | Node(i64, Tree, Tree)
        table Rows(left: i64, right: i64, word: i64) -> Tree {
          if left < 0 { Leaf(word) } else { Node(word, left, right) }
        }
        fn main(t: Rows) { match t { Leaf(x) => x, Node(x, _, _) => x } }";
    let mutual = "type Expr = Number(f32) | Sum(List)
        type List = End | Item(Expr, List)
        fn main(e: Expr) { match e { Number(_) => 0, Sum(_) => 1 } }";
    let graph = "vertex cell(x: f32) -> f32 { scatter(x); push(x) }
        fn main(g: graph, x: list<f32>) { pull(cell, g, x) }";
    let lists = "fn main(x: list<list<f32>>) { len(x) }";
    for seed in 0..50 {
        let n = 1 + seed % 9;
        let columns = ["t.tag", "t.Leaf.0", "t.Node.0", "t.Node.1"].map(|c| (c, n));
        let trees = drawn(tree, &columns, seed);
        assert_eq!(trees.len(), 3);
        let columns = ["left", "right", "word"].map(|c| (c, n));
        assert_eq!(drawn(table, &columns, seed).len(), 2);
        assert_eq!(
            drawn(mutual, &[("e.tag", n), ("e.List.tag", n)], seed).len(),
            5
        );
        let sizes = [("g.children", n), ("g.offsets", n + 2)];
        assert_eq!(drawn(graph, &sizes, seed).len(), 2);
        assert_eq!(
            drawn(lists, &[("x.data", n), ("x.offsets", 3)], seed).len(),
            1
        );
    }
}

#[test]
fn checks_of_tables_count_as_the_program_does() {
    // The program multiplies in `i32`, where this wraps to 0.
    let table = |ty: &str, test: &str| {
        structures(&format!(
            "type Tree = Leaf(i64) | Node(Tree, Tree)
            table Rows(k: {ty}, l: i64) -> Tree {{ if {test} {{ Leaf(l) }} else {{ Node(l, l) }} }}
            fn f(t) {{ match t {{ Leaf(x) => x, Node(a, b) => f(a) + f(b) }} }}
            fn main(t: Rows) {{ f(t) }}"
        ))
    };
    let wraps = "k * 65536 * 65536 > 0";
    assert_eq!(
        table("i32", wraps),
        [],
        "what wraps elsewhere is not checked"
    );
    let cycle: &[(&str, &[i64])] = &[("k", &[0, 1, 0]), ("l", &[0, 0, 2])];
    for (ty, test) in [("i64", wraps), ("i32", "k == 1"), ("i32", "!(k != 1)")] {
        let found = fault(&table(ty, test), cycle);
        assert!(found.contains("cycle"), "{ty} {test}: {found}");
    }
}

#[test]
fn sizes_of_random_graphs_do_not_overflow() {
    let program = structures(GRAPH);
    for structure in &program {
        for stated in [usize::MAX, 0, 1] {
            assert!(!structure.usual_sizes(&|_| Some(stated)).is_empty());
        }
    }
}
