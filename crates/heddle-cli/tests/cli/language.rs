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
        .fails(3, &["instance 0", "`t.Node.0[4]`", "cycle"]);
}

#[test]
fn each_fault_has_a_type_a_row_and_an_instance() {
    let s = Scratch::new();
    s.write(
        "m.hl",
        "type Tree = Leaf(f32) | Node(Tree, Tree)
        type Expr = Held(List) | One
        type List = End | Rest(Expr)
        table Rows(left: i64, right: i64, x: f32) -> Tree { if left < 0 { Leaf(x) } else { Node(left, right) } }
        vertex cell(x: f32) -> f32 { scatter(x + gather(0)); push(x) }
        fn sum(t) { match t { Leaf(x) => x, Node(a, b) => sum(a) + sum(b) } }
        fn main(e: Expr, t: Rows, g: graph, y: list<f32>) { (match e { One => 1, _ => 0 }, sum(t), pull(cell, g, y)) }",
    );
    let good: [(&str, &[i64]); 8] = [
        ("e.tag", &[1, 1, 0]),
        ("e.Held.0", &[0, 0, 0]),
        ("e.List.tag", &[0, 1, 0]),
        ("e.List.Rest.0", &[0, 0, 0]),
        ("left", &[-1, -1, -1, 0]),
        ("right", &[-1, -1, -1, 1]),
        ("g.children", &[0, 0]),
        ("g.offsets", &[0, 0, 1, 0, 0, 1]),
    ];
    let run = |changed: &str, at: usize, value: i64| {
        let mut arrays = vec![
            ("x".to_string(), Array::F32(vec![4], vec![1.0; 4])),
            ("x.offsets".into(), Array::I64(vec![3], vec![0, 1, 4])),
            ("y".into(), Array::F32(vec![4], vec![1.0; 4])),
            ("y.offsets".into(), Array::I64(vec![3], vec![0, 2, 4])),
        ];
        for (name, values) in good {
            let mut values = values.to_vec();
            if name == changed {
                values[at] = value;
            }
            let (size, half) = (values.len() as u64, values.len() as i64 / 2);
            let ends = match name {
                "left" | "right" | "e.tag" | "e.Held.0" | "e.List.tag" | "e.List.Rest.0" => 1,
                _ => half,
            };
            let ends = Array::I64(vec![3], vec![0, ends, size as i64]);
            arrays.push((format!("{name}.offsets"), ends));
            let values = match name.ends_with("tag") {
                true => Array::I32(vec![size], values.iter().map(|x| *x as i32).collect()),
                false => Array::I64(vec![size], values),
            };
            arrays.push((name.into(), values));
        }
        let arrays: Vec<_> = arrays
            .iter()
            .map(|(n, a)| (n.as_str(), a.clone()))
            .collect();
        s.npz("in.npz", &arrays);
        s.heddle("run m.hl --batch in.npz --device interp -o out.npz")
    };
    run("", 0, 0).ok();
    for (name, at, value, words) in [
        (
            "e.tag",
            2,
            2,
            ["`e.tag[1]` is 2, which is no case", "Held, One"],
        ),
        ("e.Held.0", 2, 5, ["`e.Held.0[1]` is 5", "2 rows"]),
        ("e.Held.0", 2, -1, ["`e.Held.0[1]` is -1", "2 rows"]),
        ("e.List.Rest.0", 1, 1, ["`e.List.Rest.0[0]`", "cycle"]),
        ("left", 3, 2, ["`left[2]`", "cycle"]),
        (
            "g.offsets",
            4,
            2,
            ["`g.offsets[2]` is 1, less than the 2 before", ""],
        ),
        (
            "g.children",
            1,
            1,
            ["`g.children[0]` is 1, a child of vertex 1", "cycle"],
        ),
        ("g.children", 1, 7, ["`g.children[0]` is 7", "2 vertices"]),
    ] {
        run(name, at, value).fails(3, &[&["instance 1"][..], &words].concat());
    }
}

/// A tree that grows as its numbers say, and one turned round.
const GROW: &str = "\
type Tree = Leaf(f32) | Node(f32, Tree, Tree)
fn turned(t) { match t { Leaf(x) => Leaf(x), Node(x, a, b) => Node(x, turned(b), turned(a)) } }
fn grow(x: f32) -> Tree { if x < 1 { Leaf(x) } else { Node(x, grow(x / 2), grow(x - 1.5)) } }
fn main(x: f32, t: Tree) -> (grown: Tree, turned: Tree) { (grow(x), turned(t)) }
";

#[test]
fn trees_are_results() {
    let s = Scratch::new();
    s.write("m.hl", GROW);
    let tables = |tags: &[i32], left: &[i64], right: &[i64]| {
        let n = tags.len() as u64;
        let x: Vec<f32> = (0..n).map(|k| k as f32).collect();
        vec![
            ("t.tag", Array::I32(vec![n], tags.to_vec())),
            ("t.Leaf.0", Array::F32(vec![n], x.clone())),
            ("t.Node.0", Array::F32(vec![n], x)),
            ("t.Node.1", Array::I64(vec![n], left.to_vec())),
            ("t.Node.2", Array::I64(vec![n], right.to_vec())),
        ]
    };
    let mut batch = tables(
        &[0, 0, 1, 0, 1, 0],
        &[0, 0, 0, 0, 2, 0],
        &[0, 0, 1, 0, 3, 0],
    );
    let ends = || Array::I64(vec![3], vec![0, 5, 6]);
    let offsets = ["t.tag", "t.Leaf.0", "t.Node.0", "t.Node.1", "t.Node.2"];
    let offsets: Vec<String> = offsets.map(|name| format!("{name}.offsets")).into();
    batch.extend(offsets.iter().map(|name| (name.as_str(), ends())));
    batch.push(("x", Array::F32(vec![2], vec![3.0, 0.5])));
    s.npz("in.npz", &batch);
    for device in ["cpu", "interp"] {
        s.heddle(&format!(
            "run m.hl --batch in.npz --device {device} -o out.npz"
        ))
        .ok();
        // 3 to 1.5 (0.75, 0) and 1.5 (0.75, 0).
        let found = |name: &str| s.elements::<f32>("out.npz", name).1;
        let ints = |name: &str| s.elements::<i64>("out.npz", name).1;
        let tags = |name: &str| s.elements::<i32>("out.npz", name).1;
        assert_eq!(tags("grown.tag"), [0, 0, 1, 0, 0, 1, 1, 0]);
        assert_eq!(
            found("grown.Leaf.0"),
            [0.75, 0.0, 0.0, 0.75, 0.0, 0.0, 0.0, 0.5]
        );
        assert_eq!(
            found("grown.Node.0"),
            [0.0, 0.0, 1.5, 0.0, 0.0, 1.5, 3.0, 0.0]
        );
        assert_eq!(ints("grown.Node.1"), [0, 0, 0, 0, 0, 3, 2, 0]);
        assert_eq!(ints("grown.Node.2"), [0, 0, 1, 0, 0, 4, 5, 0]);
        assert_eq!(ints("grown.tag.offsets"), [0, 7, 8]);
        assert_eq!(tags("turned.tag"), [0, 0, 0, 1, 1, 0]);
        assert_eq!(found("turned.Leaf.0"), [3.0, 1.0, 0.0, 0.0, 0.0, 5.0]);
        assert_eq!(ints("turned.Node.1"), [0, 0, 0, 1, 0, 0]);
        assert_eq!(ints("turned.Node.2"), [0, 0, 0, 2, 3, 0]);
        assert_eq!(ints("turned.Leaf.0.offsets"), [0, 5, 6]);
    }
    // One alone.
    let mut alone = tables(&[0, 0, 1, 0, 1], &[0, 0, 0, 0, 2], &[0, 0, 1, 0, 3]);
    alone.push(("x", Array::F32(vec![], vec![3.0])));
    s.npz("one.npz", &alone);
    s.heddle("run m.hl -i one.npz -o one_out.npz").ok();
    assert_eq!(
        s.elements::<f32>("one_out.npz", "turned.Leaf.0").1,
        [3.0, 1.0, 0.0, 0.0, 0.0]
    );
    assert_eq!(
        s.elements::<i64>("one_out.npz", "grown.Node.1").1,
        [0, 0, 0, 0, 0, 3, 2]
    );
}

#[test]
fn random_inputs_are_sound() {
    let s = Scratch::new();
    s.write(
        "m.hl",
        "type Tree = Leaf(f32) | Node(Tree, Tree)
        table Rows(left: i64, right: i64, z: f32) -> Tree { if left < 0 { Leaf(z) } else { Node(left, right) } }
        vertex cell(x: f32) -> f32 { scatter(x + gather(0)); push(x * gather(1)) }
        fn sum(t) { match t { Leaf(x) => x, Node(a, b) => sum(a) - sum(b) } }
        fn main(t: Tree, r: Rows[m], g: graph, x: list<f32>, l: list<list<f32>>) {
          (sum(t), sum(r), pull(cell, g, x), map(fn(x) len(x), l))
        }",
    );
    for seed in 0..4 {
        let run = "--device interp --size t.n=9 --size m=7 --size x.n=5";
        s.heddle(&format!("run m.hl --random {seed} {run} --size g.ends=6"))
            .ok();
        s.heddle(&format!(
            "run m.hl --random {seed} {run} --size g.edges=3 --size l.ends=1 --size l.data.n=0"
        ))
        .ok();
    }
}

#[test]
fn instances_whose_tables_are_unsound_are_left_out() {
    let s = trees(&[0, 0, 9, 0, 2, 0]);
    let done = s.heddle(&format!("{RUN} --keep-going"));
    done.fails(3, &["instance 0", "`t.Node.0[2]` is 9"]);
    assert_eq!(s.elements::<f32>("out.npz", "sum").1, [8.0]);
    assert_eq!(s.elements::<i64>("out.npz", "batch.instances").1, [1]);
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
