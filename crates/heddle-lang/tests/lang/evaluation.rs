//! Values of programs, by the interpreter.

use crate::common::{compile, f32s, floats, i32s, i64s, run};
use heddle_ir::Tensor;

/// The first result of a program.
fn value(text: &str, inputs: &[(&str, Tensor)]) -> Vec<f32> {
    floats(&run(&compile(text), inputs)[0])
}

fn x() -> (&'static str, Tensor) {
    ("x", f32s(&[1.0, 2.0, 3.0]))
}

#[test]
fn operators_and_literals() {
    assert_eq!(
        value("fn main(x: f32[n]) { 2 * x + 1 }", &[x()]),
        [3.0, 5.0, 7.0]
    );
    assert_eq!(
        value("fn main(x: f32[n]) { -x / 2 }", &[x()]),
        [-0.5, -1.0, -1.5]
    );
    assert_eq!(value("fn main(x: f32[3]) { x @ x }", &[x()]), [14.0]);
    assert_eq!(value("fn main(x: f32[n]) { x[1..] }", &[x()]), [2.0, 3.0]);
    assert_eq!(value("fn main(x: f32[n]) { x[-1] }", &[x()]), [3.0]);
    assert_eq!(
        value(
            "fn main(x: f32[n]) { reduce(x, kind=sum, axes=[0]) }",
            &[x()]
        ),
        [6.0]
    );
    assert_eq!(
        value("fn main(x: f32[n]) { x + [1, 1, 2] }", &[x()]),
        [2.0, 3.0, 5.0]
    );
}

#[test]
fn an_if_takes_one_arm_and_both_have_one_type() {
    let text = "fn main(x: f32[3]) { if x[0] > 0 && !(x[1] > 2) { x } else { 0 } }";
    assert_eq!(value(text, &[x()]), [1.0, 2.0, 3.0]);
    assert_eq!(value(text, &[("x", f32s(&[-1.0, 0.0, 0.0]))]), [0.0; 3]);
}

#[test]
fn lists_are_mapped_folded_zipped_and_reversed() {
    let sum = "fn main(x: list<f32>) { fold(fn(s, e) s + e, 0.0, x) }";
    assert_eq!(value(sum, &[x()]), [6.0]);
    let map = "fn main(x: list<f32>) { map(fn(e) e * e, reverse(x)) }";
    assert_eq!(value(map, &[x()]), [9.0, 4.0, 1.0]);
    let zip = "fn main(x: list<f32>) { map(fn(p) p.0 * p.1, zip(x, reverse(x))) }";
    assert_eq!(value(zip, &[x()]), [3.0, 4.0, 3.0]);
    let op = "fn main(x: list<f32>) { map(neg, x[1..]) }";
    assert_eq!(value(op, &[x()]), [-2.0, -3.0]);
    let running =
        "fn main(x: list<f32>) { fold(fn(all, e) append(all, all[-1] + e), rows([0.0]), x) }";
    assert_eq!(value(running, &[x()]), [0.0, 1.0, 3.0, 6.0]);
    let empty = "fn main(x: list<f32>) { fold(fn(all, e) if e > 1 { append(all, e) } else { all }, Nil, x) }";
    assert_eq!(value(empty, &[x()]), [2.0, 3.0]);
}

#[test]
fn a_function_over_a_list_becomes_one_loop() {
    let text = "
        fn sums(x, s) {
          match x {
            Nil => Nil,
            Cons(e, rest) => { let s = s + e; Cons(s, sums(rest, s)) }
          }
        }
        fn main(x: list<f32>) { sums(x, 0.0) }";
    let module = compile(text);
    assert_eq!(module.functions.len(), 1);
    assert_eq!(floats(&run(&module, &[x()])[0]), [1.0, 3.0, 6.0]);
    assert!(floats(&run(&module, &[("x", f32s(&[]))])[0]).is_empty());
}

#[test]
fn a_last_call_becomes_a_loop() {
    let text = "
        fn halve(x: f32, n: i64) { if x > 1 { halve(x / 2, n + 1) } else { (x, n) } }
        fn main(x: f32) { halve(x, 0).1 }";
    let module = compile(text);
    assert_eq!(module.functions.len(), 1);
    assert_eq!(
        floats(&run(&module, &[("x", Tensor::scalar(40.0f32))])[0]),
        [6.0]
    );
    let early = "
        fn take(x, least) {
          match x { Nil => Nil, Cons(e, rest) => if e > least { Cons(e, take(rest, e)) } else { Nil } }
        }
        fn main(x: list<f32>) { take(x, 0.0) }";
    let x = ("x", f32s(&[1.0, 2.0, 1.5, 3.0]));
    assert_eq!(value(early, &[x]), [1.0, 2.0]);
}

#[test]
fn other_recursion_becomes_a_function() {
    let text = "
        fn fib(n: i64) { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }
        fn main(n: i64) { fib(n) }";
    let module = compile(text);
    assert_eq!(module.functions.len(), 2);
    assert_eq!(
        floats(&run(&module, &[("n", Tensor::scalar(10i64))])[0]),
        [55.0]
    );
    let pair = "
        fn even(n: i64) -> bool { if n == 0 { true } else { odd(n - 1) } }
        fn odd(n: i64) -> bool { if n == 0 { false } else { even(n - 1) } }
        fn main(n: i64) { cast(even(n), to=i64) }";
    assert_eq!(value(pair, &[("n", Tensor::scalar(7i64))]), [0.0]);
    assert_eq!(value(pair, &[("n", Tensor::scalar(8i64))]), [1.0]);
    let list = "
        fn last_sum(x) { match x { Nil => 0.0, Cons(e, rest) => e + last_sum(rest) } }
        fn main(x: list<f32>) { last_sum(x) }";
    assert_eq!(value(list, &[x()]), [6.0]);
}

#[test]
fn functions_are_arguments_of_recursive_ones() {
    let text = "
        type Tree = Leaf(f32) | Node(Tree, Tree)
        fn over(t, f, g) { match t { Leaf(x) => f(x), Node(a, b) => g(over(a, f, g), over(b, f, g)) } }
        fn main(t: Tree, k: f32) { (over(t, fn(x) x * k, add), over(t, fn(x) 1, max)) }";
    let module = compile(text);
    let inputs = [
        ("t.tag", i32s(&[0, 0, 1, 0, 1])),
        ("t.Leaf.0", f32s(&[1.0, 2.0, 0.0, 3.0, 0.0])),
        ("t.Node.0", i64s(&[-1, -1, 0, -1, 2])),
        ("t.Node.1", i64s(&[-1, -1, 1, -1, 3])),
        ("k", Tensor::scalar(10.0f32)),
    ];
    let results = run(&module, &inputs);
    assert_eq!(floats(&results[0]), [60.0]);
    assert_eq!(floats(&results[1]), [1.0]);
}

#[test]
fn patterns_nest() {
    let text = "
        type Tree = Leaf(i64) | Node(Tree, Tree)
        fn main(t: Tree, b: bool) {
          match (t, b) {
            (Node(Leaf(x), _), true) => x,
            (Node(_, Leaf(3)), _) => 30,
            (Node(_, _), false) => 40,
            (Leaf(x), _) => x + 50,
            _ => 60
          }
        }";
    let module = compile(text);
    let tree = |tags: &[i32], leaf: &[i64], l: &[i64], r: &[i64], b: bool| {
        let inputs = [
            ("t.tag", i32s(tags)),
            ("t.Leaf.0", i64s(leaf)),
            ("t.Node.0", i64s(l)),
            ("t.Node.1", i64s(r)),
            (
                "b",
                Tensor::splat(heddle_ir::DType::Bool, vec![], b as u8 as f64),
            ),
        ];
        floats(&run(&module, &inputs)[0])[0]
    };
    let two = (&[0, 0, 1][..], &[0, 0, 0][..], &[0, 0, 1][..]);
    assert_eq!(tree(two.0, &[7, 9, 0], two.1, two.2, true), 7.0);
    assert_eq!(tree(two.0, &[7, 3, 0], two.1, two.2, false), 30.0);
    assert_eq!(tree(two.0, &[7, 4, 0], two.1, two.2, false), 40.0);
    assert_eq!(tree(&[0], &[7], &[99], &[99], true), 57.0);
    let deep = (
        &[0, 0, 1, 0, 1][..],
        &[0, 0, 0, 0, 2][..],
        &[0, 0, 1, 0, 3][..],
    );
    assert_eq!(tree(deep.0, &[7, 4, 0, 8, 0], deep.1, deep.2, true), 60.0);
}

#[test]
fn data_types_hold_each_other() {
    let text = "
        type Expr = Number(f32) | Sum(List)
        type List = End | Item(Expr, List)
        fn eval(e) { match e { Number(x) => x, Sum(list) => total(list) } }
        fn total(l) { match l { End => 0.0, Item(e, rest) => eval(e) + total(rest) } }
        fn main(e: Expr) { eval(e) }";
    let inputs = [
        ("e.tag", i32s(&[0, 0, 1])),
        ("e.Number.0", f32s(&[1.5, 2.0, 0.0])),
        ("e.Sum.0", i64s(&[0, 0, 2])),
        ("e.List.tag", i32s(&[0, 1, 1])),
        ("e.List.Item.0", i64s(&[0, 0, 1])),
        ("e.List.Item.1", i64s(&[0, 0, 1])),
    ];
    assert_eq!(value(text, &inputs), [3.5]);
}

#[test]
fn a_vertex_gathers_what_its_children_scatter() {
    let text = "
        vertex cell(x: f32[2]) -> (f32[2], f32) {
          let kids = gather();
          let s = fold(fn(s, k) s + k.0, x, kids);
          let most = fold(fn(m, k) max(m, k.1), 0.0, kids);
          scatter((s, most + 1));
          push(s * 10)
        }
        fn main(g: graph, x: list<f32[2]>) { pull(cell, g, x) }";
    let inputs = [
        ("g.children", i64s(&[0, 1, 0, 2])),
        ("g.offsets", i64s(&[0, 0, 0, 2, 4])),
        (
            "x",
            Tensor::from_slice(vec![4, 2], &[1.0f32, 0.0, 2.0, 0.0, 4.0, 0.0, 8.0, 1.0]),
        ),
    ];
    assert_eq!(
        value(text, &inputs),
        [10.0, 0.0, 20.0, 0.0, 70.0, 0.0, 160.0, 10.0]
    );
}

#[test]
fn a_vertex_gathers_within_branches_and_loops() {
    let text = "
        vertex cell(x: f32) -> f32 {
          let n = len(gather());
          let s = fold(fn(s, k) s * 2 + gather(k), x, [0, 1, 5]);
          let one = if n > 0 { if x > 3 { gather(1) } else { gather(-1) } } else { 1.0 };
          let all = if x > 3 { fold(fn(s, k) s + k, 0.0, gather()) } else { gather(0) };
          scatter(s + gather(0));
          push(stack([one, all]))
        }
        fn main(g: graph, x: list<f32>) { pull(cell, g, x) }";
    let inputs = [
        ("g.children", i64s(&[0, 1, 0, 2])),
        ("g.offsets", i64s(&[0, 0, 0, 2, 4])),
        ("x", f32s(&[1.0, 2.0, 4.0, 3.0])),
    ];
    // The states are 8, 16 and 104.
    assert_eq!(
        value(text, &inputs),
        [1.0, 0.0, 1.0, 0.0, 16.0, 24.0, 0.0, 8.0]
    );
}

#[test]
fn several_vertex_functions_go_over_one_graph() {
    let text = "
        vertex sum(x: f32) -> f32 { scatter(x + gather(0) + gather(1)); push(x + gather(0)) }
        vertex most(y: f32) -> f32 {
          let s = fold(fn(m, k) max(m, k), y, gather());
          scatter(s);
          push(s + gather(2))
        }
        fn main(g: graph, x: list<f32>) {
          let sums = pull(sum, g, x);
          (sums, pull(most, g, map(fn(y) -y, sums)))
        }";
    let inputs = [
        ("g.children", i64s(&[0, 1, 0, 2])),
        ("g.offsets", i64s(&[0, 0, 0, 2, 4])),
        ("x", f32s(&[1.0, 2.0, 4.0, 8.0])),
    ];
    let out = run(&compile(text), &inputs);
    assert_eq!(floats(&out[0]), [1.0, 2.0, 5.0, 9.0]);
    assert_eq!(floats(&out[1]), [-1.0, -2.0, -1.0, -1.0]);
}

/// Trees, and the sum of one.
const TREES: &str = "
    type Tree = Leaf(f32) | Node(Tree, Tree)
    fn sum(t) { match t { Leaf(x) => x, Node(a, b) => sum(a) + sum(b) } }
    fn total(ts) { match ts { Nil => 0.0, Cons(t, rest) => total(rest) * 2 + sum(t) } }
";

#[test]
fn lists_hold_data_that_the_program_makes() {
    let text = format!(
        "{TREES}
        fn main(x: list<f32>) {{
          let all = append(map(fn(v) Node(Leaf(v), Leaf(1.0)), x), Leaf(10.0));
          let grown = fold(fn(ts, v) append(ts, Node(ts[-1], Leaf(v))), all[0..1], x);
          let some = if len(x) > 2 {{ all[1..3] }} else {{ [Leaf(0.5)] }};
          let pairs = zip(reverse(all), [1.0, 2.0, 3.0]);
          let lists = [all[2..], all[4..], [Leaf(2.0), all[1]]];
          (map(sum, all), map(sum, grown), map(sum, some), total(all), sum(reverse(all)[0]),
            map(fn(p) sum(p.0) * p.1, pairs), map(fn(l) fold(fn(s, t) s + sum(t), 0.0, l), lists))
        }}"
    );
    let out = run(&compile(&text), &[("x", f32s(&[1.0, 2.0, 3.0]))]);
    assert_eq!(floats(&out[0]), [2.0, 3.0, 4.0, 10.0]);
    assert_eq!(floats(&out[1]), [2.0, 3.0, 5.0, 8.0]);
    assert_eq!(floats(&out[2]), [3.0, 4.0]);
    assert_eq!(floats(&out[3]), [2.0 + 6.0 + 16.0 + 80.0]);
    assert_eq!(floats(&out[4]), [10.0]);
    assert_eq!(floats(&out[5]), [10.0, 8.0, 9.0]);
    assert_eq!(floats(&out[6]), [14.0, 0.0, 5.0]);
    let out = run(&compile(&text), &[("x", f32s(&[3.0]))]);
    assert_eq!(floats(&out[2]), [0.5]);
    assert_eq!(floats(&out[3]), [24.0]);
}

#[test]
fn a_list_of_data_is_a_result() {
    let text = format!(
        "{TREES}
        fn main(t: Tree, x: list<f32>) -> (all: list<Tree>) {{
          let own = if len(x) > 0 {{ [t, t] }} else {{ [Leaf(7.0)] }};
          fold(fn(ts, v) append(ts, Leaf(v)), own, x)
        }}"
    );
    let program = compile(&text);
    let results = program.entry().sig.results.iter();
    let names: Vec<&str> = results.map(|(name, _)| name.as_str()).collect();
    let tables = [
        "all.tag",
        "all.Leaf.0",
        "all.Node.0",
        "all.Node.1",
        "all.rows",
    ];
    assert_eq!(names, tables);
    let inputs = [
        ("t.tag", i32s(&[0, 0, 1])),
        ("t.Leaf.0", f32s(&[1.0, 2.0, 0.0])),
        ("t.Node.0", i64s(&[0, 0, 0])),
        ("t.Node.1", i64s(&[0, 0, 1])),
        ("x", f32s(&[4.0])),
    ];
    let out = run(&program, &inputs);
    let rows = |k: usize| out[k].to_i64s().expect("integers");
    assert_eq!(rows(0), [0, 0, 1, 0, 0, 1, 0]);
    assert_eq!(floats(&out[1]), [1.0, 2.0, 0.0, 1.0, 2.0, 0.0, 4.0]);
    assert_eq!(rows(2), [0, 0, 0, 0, 0, 3, 0]);
    assert_eq!(rows(3), [0, 0, 1, 0, 0, 4, 0]);
    assert_eq!(rows(4), [2, 5, 6]);
}

/// Data of inputs beside what the program makes become data of the program, in any kind of list.
#[test]
fn lists_hold_data_of_inputs_and_of_the_program() {
    let text = format!(
        "{TREES}
        fn left(t) {{ match t {{ Leaf(x) => t, Node(a, _) => a }} }}
        fn main(t: Tree, x: list<f32>) {{
          let own = [t, left(t)];
          let behind = append(own, Leaf(10.0));
          let before = Cons(Leaf(10.0), own[1..]);
          let pairs = append([(t, 2.0)], (Leaf(3.0), 4.0));
          let lists = append([own, [t]], [Leaf(5.0)]);
          let grown = fold(fn(ts, v) append(ts, Leaf(v)), append(own, Leaf(0.5)), x);
          (map(sum, behind), map(sum, before), map(fn(p) sum(p.0) * p.1, pairs),
            map(fn(l) fold(fn(s, t) s + sum(t), 0.0, l), lists), map(sum, grown),
            map(sum, append([Leaf(1.0)], t)))
        }}"
    );
    let inputs = [
        ("t.tag", i32s(&[0, 0, 1])),
        ("t.Leaf.0", f32s(&[1.0, 2.0, 0.0])),
        ("t.Node.0", i64s(&[0, 0, 0])),
        ("t.Node.1", i64s(&[0, 0, 1])),
        ("x", f32s(&[4.0, 8.0])),
    ];
    let out = run(&compile(&text), &inputs);
    assert_eq!(floats(&out[0]), [3.0, 1.0, 10.0]);
    assert_eq!(floats(&out[1]), [10.0, 1.0]);
    assert_eq!(floats(&out[2]), [6.0, 12.0]);
    assert_eq!(floats(&out[3]), [4.0, 3.0, 5.0]);
    assert_eq!(floats(&out[4]), [3.0, 1.0, 0.5, 4.0, 8.0]);
    assert_eq!(floats(&out[5]), [1.0, 3.0]);
}
