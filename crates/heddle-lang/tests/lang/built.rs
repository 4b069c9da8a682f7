//! Values of data types that programs make, and lists of lists.

use crate::common::{compile, f32s, floats, i32s, i64s, run};
use heddle_ir::Tensor;

/// Results by name.
fn results(text: &str, inputs: &[(&str, Tensor)]) -> Vec<(String, Vec<f32>)> {
    let module = compile(text);
    let names = module.entry().sig.results.iter().map(|r| r.0.clone());
    let names: Vec<String> = names.collect();
    let values = run(&module, inputs);
    let values = values.iter().map(|t| match t.to_vec::<i32>() {
        Some(tags) => tags.iter().map(|x| *x as f32).collect(),
        None => floats(t),
    });
    names.into_iter().zip(values).collect()
}

#[track_caller]
fn gives(text: &str, inputs: &[(&str, Tensor)], wanted: &[(&str, &[f32])]) {
    let found = results(text, inputs);
    let found: Vec<_> = found.iter().map(|(n, v)| (n.as_str(), &v[..])).collect();
    assert_eq!(found, wanted);
}

/// `(1, 2), 4` with rows that belong to nothing.
fn tree() -> Vec<(&'static str, Tensor)> {
    vec![
        ("t.tag", i32s(&[0, 0, 0, 1, 0, 1])),
        ("t.Leaf.0", f32s(&[1.0, 9.0, 2.0, 0.0, 4.0, 0.0])),
        ("t.Node.0", i64s(&[7, 7, 7, 0, 7, 3])),
        ("t.Node.1", i64s(&[7, 7, 7, 2, 7, 4])),
    ]
}

const TREE: &str = "type Tree = Leaf(f32) | Node(Tree, Tree)\n";

#[test]
fn a_map_over_a_tree_is_a_tree() {
    let text = format!(
        "{TREE}fn over(t, f) {{ match t {{ Leaf(x) => Leaf(f(x)), Node(a, b) => Node(over(b, f), over(a, f)) }} }}
        fn main(t: Tree) -> (out: Tree) {{ over(t, fn(x) x + 0.5) }}"
    );
    gives(
        &text,
        &tree(),
        &[
            ("out.tag", &[0.0, 0.0, 0.0, 1.0, 1.0]),
            ("out.Leaf.0", &[4.5, 2.5, 1.5, 0.0, 0.0]),
            ("out.Node.0", &[0.0, 0.0, 0.0, 1.0, 0.0]),
            ("out.Node.1", &[0.0, 0.0, 0.0, 2.0, 3.0]),
        ],
    );
}

#[test]
fn inputs_and_their_parts_are_results() {
    let text = format!(
        "{TREE}fn main(t: Tree) {{ match t {{ Leaf(_) => (t, t), Node(a, b) => (b, Node(b, a)) }} }}"
    );
    gives(
        &text,
        &tree(),
        &[
            ("out_0.tag", &[0.0]),
            ("out_0.Leaf.0", &[4.0]),
            ("out_0.Node.0", &[0.0]),
            ("out_0.Node.1", &[0.0]),
            ("out_1.tag", &[0.0, 0.0, 0.0, 1.0, 1.0]),
            ("out_1.Leaf.0", &[4.0, 1.0, 2.0, 0.0, 0.0]),
            ("out_1.Node.0", &[0.0, 0.0, 0.0, 1.0, 0.0]),
            ("out_1.Node.1", &[0.0, 0.0, 0.0, 2.0, 3.0]),
        ],
    );
}

#[test]
fn trees_grow_in_loops_and_are_taken_apart() {
    let text = format!(
        "{TREE}fn sum(t) {{ match t {{ Leaf(x) => x, Node(a, b) => sum(a) + 2 * sum(b) }} }}
        fn left(t) {{ match t {{ Leaf(_) => t, Node(a, _) => left(a) }} }}
        fn depth(t: Tree, n: i64) {{ match t {{ Leaf(_) => n, Node(_, b) => depth(b, n + 1) }} }}
        fn main(x: list<f32>) -> (f32, Tree, i64) {{
          let t = fold(fn(t, x) if x > 0 {{ Node(Leaf(x), t) }} else {{ t }}, Leaf(1), x);
          (sum(t), left(t), depth(t, 0))
        }}"
    );
    let columns: [(&str, &[f32]); 6] = [
        ("out_0", &[27.0]),
        ("out_1.tag", &[0.0]),
        ("out_1.Leaf.0", &[5.0]),
        ("out_1.Node.0", &[0.0]),
        ("out_1.Node.1", &[0.0]),
        ("out_2", &[3.0]),
    ];
    gives(&text, &[("x", f32s(&[2.0, 3.0, -1.0, 5.0]))], &columns);
}

#[test]
fn types_that_hold_each_other_have_a_table_each() {
    let text = "
        type Tree = Node(f32[2], Forest)
        type Forest = End | Item(Tree, Forest)
        fn grow(x: f32[2], n: i64) -> Tree { Node(x, forest(x * 2, n, n)) }
        fn forest(x: f32[2], n: i64, k: i64) -> Forest {
          if k == 0 { End } else { Item(grow(x, n - 1), forest(x + 1, n, k - 1)) }
        }
        fn main(x: f32[2], n: i64) -> (t: Tree) { grow(x, n) }";
    let n = Tensor::from_slice(vec![], &[2i64]);
    gives(
        text,
        &[("x", f32s(&[1.0, 0.0])), ("n", n)],
        &[
            ("t.tag", &[0.0; 5]),
            (
                "t.Node.0",
                &[4.0, 0.0, 2.0, 0.0, 6.0, 2.0, 3.0, 1.0, 1.0, 0.0],
            ),
            ("t.Node.1", &[0.0, 2.0, 3.0, 5.0, 8.0]),
            (
                "t.Forest.tag",
                &[0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0],
            ),
            (
                "t.Forest.Item.0",
                &[0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 3.0, 1.0],
            ),
            (
                "t.Forest.Item.1",
                &[0.0, 0.0, 1.0, 0.0, 0.0, 4.0, 0.0, 6.0, 7.0],
            ),
        ],
    );
}

#[test]
fn a_table_in_another_form_is_a_datum() {
    let text = "
        type Tree = Leaf(i64) | Node(i64, Tree, Tree)
        table Rows(left: i32, right: i64, word: i64) -> Tree {
          if left < 0 { Leaf(word) } else { if right < 0 { Node(word, left, left) } else { Node(word, left, right) } }
        }
        fn sum(t) { match t { Leaf(x) => x, Node(x, a, b) => x + sum(a) - sum(b) } }
        fn main(t: Rows[n]) { sum(t) }";
    let inputs = [
        ("left", i32s(&[-1, -1, 0, 2])),
        ("right", i64s(&[0, 0, 1, -1])),
        ("word", i64s(&[1, 2, 40, 800])),
    ];
    gives(text, &inputs, &[("out_0", &[800.0])]);
}

#[test]
fn lists_hold_lists() {
    let text = "
        fn halves(x: list<f32>) { map(fn(x) if x > 1 { [x / 2, x / 2] } else { [x] }, x) }
        fn main(x: list<list<f32>>) -> (sums: list<f32>, each: list<list<f32>>, turned: list<list<f32>>, n: i64) {
          let deep = map(halves, x);
          let flat = map(fn(xs) fold(fn(s, x) s + len(x), 0, xs), deep);
          (map(fn(x) fold(fn(s, x) s + x, 0.0, x), x), map(fn(x) append(x, 7.0), x), reverse(x[1..]), fold(fn(s, n) s + n, 0, flat))
        }";
    let inputs = [
        ("x.data", f32s(&[4.0, 1.0, 2.0, 8.0])),
        ("x.offsets", i64s(&[0, 2, 2, 4])),
    ];
    gives(
        text,
        &inputs,
        &[
            ("sums", &[5.0, 0.0, 10.0]),
            ("each.data", &[4.0, 1.0, 7.0, 7.0, 2.0, 8.0, 7.0]),
            ("each.offsets", &[0.0, 3.0, 4.0, 7.0]),
            ("turned.data", &[2.0, 8.0]),
            ("turned.offsets", &[0.0, 2.0, 2.0]),
            ("n", &[7.0]),
        ],
    );
}

#[test]
fn lists_of_lists_are_taken_apart_and_put_together() {
    let text = "
        fn firsts(x) {
          match x {
            Nil => Nil,
            Cons(Nil, rest) => firsts(rest),
            Cons(Cons(a, _), rest) => Cons([a, a], firsts(rest))
          }
        }
        fn main(x: list<list<i64>>) -> (list<list<i64>>, i64) { (firsts(x), len(x[-1])) }";
    let inputs = [
        ("x.data", i64s(&[4, 1, 2])),
        ("x.offsets", i64s(&[0, 2, 2, 3])),
    ];
    gives(
        text,
        &inputs,
        &[
            ("out_0.data", &[4.0, 4.0, 2.0, 2.0]),
            ("out_0.offsets", &[0.0, 2.0, 4.0]),
            ("out_1", &[1.0]),
        ],
    );
}

#[test]
fn fields_are_lists() {
    let text = "
        type Bag = Empty | Some(list<f32>, Bag)
        fn double(b) { match b { Empty => Empty, Some(x, rest) => Some(map(fn(x) x * 2, append(x, 1)), double(rest)) } }
        fn main(b: Bag) -> (b: Bag) { double(b) }";
    let inputs = [
        ("b.tag", i32s(&[0, 1, 1])),
        ("b.Some.0.data", f32s(&[1.0, 2.0, 3.0])),
        ("b.Some.0.offsets", i64s(&[0, 0, 2, 3])),
        ("b.Some.1", i64s(&[0, 0, 1])),
    ];
    gives(
        text,
        &inputs,
        &[
            ("b.tag", &[0.0, 1.0, 1.0]),
            ("b.Some.0.data", &[2.0, 4.0, 2.0, 6.0, 2.0]),
            ("b.Some.0.offsets", &[0.0, 0.0, 3.0, 5.0]),
            ("b.Some.1", &[0.0, 0.0, 1.0]),
        ],
    );
}
