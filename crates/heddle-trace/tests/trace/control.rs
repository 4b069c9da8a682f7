//! Branches, loops and calls.

use crate::common::*;
use heddle_ir::Tensor;
use serde_json::json;

fn scalar(x: f32) -> Tensor {
    f32s(&[], &[x])
}

/// `x * 2` or `x - 1`.
fn branches() -> serde_json::Value {
    let arm = |target: &str, by: f64| json!({"graph": graph(&[(0, "f32[n]")], vec![node(target, json!([v(0), f(by)]), &[(1, "f32[n]")])], &[1])});
    let args = json!([
        v(1),
        arm("aten.mul.Tensor", 2.0),
        arm("aten.sub.Tensor", 1.0),
        list(&[v(0)])
    ]);
    let main = graph(
        &[(0, "f32[n]"), (1, "bool[]")],
        vec![node("cond", args, &[(2, "f32[n]")])],
        &[2],
    );
    module(main)
}

#[test]
fn cond_takes_one_branch() {
    let program = branches();
    for (truth, expected) in [(true, [2.0, -6.0]), (false, [0.0, -4.0])] {
        let found = results(&program, &[f32s(&[2], &[1.0, -3.0]), bools(&[], &[truth])]);
        close(&found[0], &[2], &expected);
    }
    let found = results(&program, &[f32s(&[0], &[]), bools(&[], &[true])]);
    close(&found[0], &[0], &[]);
}

/// Doubles `y` until it is `limit` or more.
fn doubling(stacks: bool) -> serde_json::Value {
    let inputs = [(0, "f32[]"), (1, "f32[]")];
    let test = graph(
        &inputs,
        vec![node(
            "aten.lt.Tensor",
            json!([v(0), v(1)]),
            &[(2, "bool[]")],
        )],
        &[2],
    );
    let body = graph(
        &inputs,
        vec![node(
            "aten.mul.Tensor",
            json!([v(0), f(2.0)]),
            &[(2, "f32[]")],
        )],
        &[2],
    );
    let args = json!([{"graph": test}, {"graph": body}, list(&[v(0)]), list(&[v(1)])]);
    let (target, ty) = match stacks {
        true => ("while_loop_stack_output", "f32[u0]"),
        false => ("while_loop", "f32[]"),
    };
    module(graph(&inputs, vec![node(target, args, &[(2, ty)])], &[2]))
}

#[test]
fn while_loop_runs_as_long_as_its_condition_holds() {
    let program = doubling(false);
    for (start, limit, expected) in [(1.0, 100.0, 128.0), (7.0, 7.0, 7.0), (3.0, 4.0, 6.0)] {
        close(
            &results(&program, &[scalar(start), scalar(limit)])[0],
            &[],
            &[expected],
        );
    }
    let text = text(&read(&program).unwrap());
    assert!(text.contains("loop") && text.contains("while"), "{text}");
}

#[test]
fn while_loop_stacks_what_each_iteration_carries() {
    let program = doubling(true);
    let found = results(&program, &[scalar(1.0), scalar(5.0)]);
    close(&found[0], &[3], &[2.0, 4.0, 8.0]);
    close(
        &results(&program, &[scalar(9.0), scalar(5.0)])[0],
        &[0],
        &[],
    );
}

#[test]
fn carried_arrays_may_grow() {
    let inputs = [(0, "i64[]"), (1, "f32[k]")];
    let test = graph(
        &inputs,
        vec![node(
            "aten.lt.Scalar",
            json!([v(0), i(3)]),
            &[(2, "bool[]")],
        )],
        &[2],
    );
    let body = graph(
        &inputs,
        vec![
            node("aten.add.Tensor", json!([v(0), i(1)]), &[(2, "i64[]")]),
            node(
                "aten.cat.default",
                json!([list(&[v(1), v(1)])]),
                &[(3, "f32[2*k]")],
            ),
        ],
        &[2, 3],
    );
    let args = json!([{"graph": test}, {"graph": body}, list(&[v(0), v(1)]), list(&[])]);
    let main = graph(
        &inputs,
        vec![node("while_loop", args, &[(2, "i64[]"), (3, "f32[u0]")])],
        &[3],
    );
    let found = results(&module(main), &[i64s(&[], &[1]), f32s(&[1], &[5.0])]);
    close(&found[0], &[4], &[5.0; 4]);
}

/// Running sums, with the doubled elements.
#[test]
fn scan_carries_and_stacks() {
    let combine = graph(
        &[(0, "f32[2]"), (1, "f32[2]"), (2, "f32[]")],
        vec![
            node("aten.add.Tensor", json!([v(0), v(1)]), &[(3, "f32[2]")]),
            node("aten.mul.Tensor", json!([v(1), v(2)]), &[(4, "f32[2]")]),
        ],
        &[3, 4],
    );
    let args = json!([{"graph": combine}, list(&[v(0)]), list(&[v(1)]), list(&[v(2)])]);
    let main = graph(
        &[(0, "f32[2]"), (1, "f32[t,2]"), (2, "f32[]")],
        vec![node("scan", args, &[(3, "f32[2]"), (4, "f32[t,2]")])],
        &[3, 4],
    );
    let program = module(main);
    let xs = f32s(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let found = results(&program, &[f32s(&[2], &[10.0, 20.0]), xs, scalar(2.0)]);
    close(&found[0], &[2], &[19.0, 32.0]);
    close(&found[1], &[3, 2], &[2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    let found = results(
        &program,
        &[f32s(&[2], &[1.0, 2.0]), f32s(&[0, 2], &[]), scalar(2.0)],
    );
    close(&found[0], &[2], &[1.0, 2.0]);
    close(&found[1], &[0, 2], &[]);
}

#[test]
fn map_applies_a_graph_to_each_row() {
    let body = graph(
        &[(0, "f32[3]"), (1, "f32[3]")],
        vec![node(
            "aten.mul.Tensor",
            json!([v(0), v(1)]),
            &[(2, "f32[3]")],
        )],
        &[2],
    );
    let args = json!([{"graph": body}, list(&[v(0)]), list(&[v(1)])]);
    let main = graph(
        &[(0, "f32[n,3]"), (1, "f32[3]")],
        vec![node("map", args, &[(2, "f32[n,3]")])],
        &[2],
    );
    let xs = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let found = results(&module(main), &[xs, f32s(&[3], &[1.0, 10.0, 100.0])]);
    close(&found[0], &[2, 3], &[1.0, 20.0, 300.0, 4.0, 50.0, 600.0]);
}

#[test]
fn switch_takes_the_nearest_branch() {
    let arm = |by: f64| json!({"graph": graph(&[(0, "f32[]")], vec![node("aten.mul.Tensor", json!([v(0), f(by)]), &[(1, "f32[]")])], &[1])});
    let args = json!([
        v(1),
        list(&[arm(1.0), arm(10.0), arm(100.0)]),
        list(&[v(0)])
    ]);
    let main = graph(
        &[(0, "f32[]"), (1, "i64[]")],
        vec![node("switch", args, &[(2, "f32[]")])],
        &[2],
    );
    let program = module(main);
    for (index, expected) in [(-5, 3.0), (0, 3.0), (1, 30.0), (2, 300.0), (9, 300.0)] {
        close(
            &results(&program, &[scalar(3.0), i64s(&[], &[index])])[0],
            &[],
            &[expected],
        );
    }
}

#[test]
fn graphs_in_place() {
    let inner = graph(
        &[(0, "f32[n]")],
        vec![node("aten.neg.default", json!([v(0)]), &[(1, "f32[n]")])],
        &[1],
    );
    for args in [
        json!([{"graph": inner}, v(0)]),
        json!([{"graph": inner}, list(&[v(0)])]),
        json!([{"str": "subgraph_0"}, {"graph": inner}, v(0)]),
    ] {
        let main = graph(
            &[(0, "f32[n]")],
            vec![node("invoke_subgraph", args, &[(1, "f32[n]")])],
            &[1],
        );
        close(
            &results(&module(main), &[f32s(&[2], &[1.0, -2.0])])[0],
            &[2],
            &[-1.0, 2.0],
        );
    }
}

/// Fibonacci numbers by two calls of itself.
fn fibonacci() -> serde_json::Value {
    let call = |by: i64, id: i64| {
        [
            node("aten.sub.Tensor", json!([v(0), i(by)]), &[(id, "i64[]")]),
            node(
                "call",
                json!([{"function": "fib"}, list(&[v(id)])]),
                &[(id + 1, "i64[]")],
            ),
        ]
    };
    let [a, b] = call(1, 1);
    let [c, d] = call(2, 3);
    let again = graph(
        &[(0, "i64[]")],
        vec![
            a,
            b,
            c,
            d,
            node("aten.add.Tensor", json!([v(2), v(4)]), &[(5, "i64[]")]),
        ],
        &[5],
    );
    let base = graph(&[(0, "i64[]")], vec![], &[0]);
    let fib = graph(
        &[(0, "i64[]")],
        vec![
            node("aten.lt.Scalar", json!([v(0), i(2)]), &[(1, "bool[]")]),
            node(
                "cond",
                json!([v(1), {"graph": base}, {"graph": again}, list(&[v(0)])]),
                &[(2, "i64[]")],
            ),
        ],
        &[2],
    );
    let main = graph(
        &[(0, "i64[]")],
        vec![node(
            "call",
            json!([{"function": "fib"}, v(0)]),
            &[(1, "i64[]")],
        )],
        &[1],
    );
    json!({"version": 1, "entry": "main", "functions": {"main": main, "fib": fib}})
}

#[test]
fn functions_call_themselves() {
    let program = fibonacci();
    for (n, expected) in [(0, 0.0), (1, 1.0), (10, 55.0)] {
        close(&results(&program, &[i64s(&[], &[n])])[0], &[], &[expected]);
    }
    let text = text(&read(&program).unwrap());
    assert!(text.contains("call @fib"), "{text}");
}

#[test]
fn functions_call_each_other() {
    let half = |other: &str, base: f64| {
        let rest = graph(
            &[(0, "i64[]")],
            vec![
                node("aten.sub.Tensor", json!([v(0), i(1)]), &[(1, "i64[]")]),
                node("call", json!([{"function": other}, v(1)]), &[(2, "bool[]")]),
            ],
            &[2],
        );
        let stop = graph(
            &[(0, "i64[]")],
            vec![node(
                "aten.full.default",
                json!([ints(&[]), {"bool": base > 0.0}]),
                &[(1, "bool[]")],
            )],
            &[1],
        );
        graph(
            &[(0, "i64[]")],
            vec![
                node("aten.eq.Scalar", json!([v(0), i(0)]), &[(1, "bool[]")]),
                node(
                    "cond",
                    json!([v(1), {"graph": stop}, {"graph": rest}, list(&[v(0)])]),
                    &[(2, "bool[]")],
                ),
            ],
            &[2],
        )
    };
    let program = json!({"version": 1, "entry": "even", "functions": {"even": half("odd", 1.0), "odd": half("even", 0.0)}});
    for n in [0, 1, 2, 7] {
        let expected = f64::from(u8::from(n % 2 == 0));
        close(&results(&program, &[i64s(&[], &[n])])[0], &[], &[expected]);
    }
}

#[test]
fn sizes_are_open() {
    // `view` by a computed size, `arange` and `expand` by a named one.
    let main = graph(
        &[(0, "f32[n,6]"), (1, "size")],
        vec![
            node("aten.sym_size.int", json!([v(0), i(0)]), &[(2, "size")]),
            node("operator.mul", json!([v(2), i(2)]), &[(3, "size")]),
            node(
                "aten.view.default",
                json!([v(0), list(&[v(3), i(3)])]),
                &[(4, "f32[2*n,3]")],
            ),
            node(
                "aten.arange.default",
                json!([{"size": "2*n"}]),
                &[(5, "i64[2*n]")],
            ),
            node(
                "aten.unsqueeze.default",
                json!([v(5), i(1)]),
                &[(6, "i64[2*n,1]")],
            ),
            node(
                "aten.expand.default",
                json!([v(6), list(&[i(-1), v(1)])]),
                &[(7, "i64[2*n,m]")],
            ),
            node(
                "aten.full.default",
                json!([list(&[json!({"size": "m + n"})]), f(0.5)]),
                &[(8, "f32[m+n]")],
            ),
        ],
        &[4, 7, 8],
    );
    let program = module(main);
    let module = read(&program).unwrap();
    let text = text(&module);
    assert!(text.contains("f32[2*n,3]"), "{text}");
    for n in [0usize, 1, 3] {
        let x = f32s(&[n, 6], &(0..6 * n).map(|i| i as f32).collect::<Vec<_>>());
        let found = run_module(&module, &[x, i64s(&[], &[2])]);
        close(
            &found[0],
            &[2 * n, 3],
            &(0..6 * n).map(|i| i as f64).collect::<Vec<_>>(),
        );
        let rows: Vec<f64> = (0..2 * n).flat_map(|i| [i as f64; 2]).collect();
        close(&found[1], &[2 * n, 2], &rows);
        close(&found[2], &[2 + n], &vec![0.5; 2 + n]);
    }
}

#[test]
fn draws_differ_by_iteration_and_call() {
    let draw = |id: i64| node("aten.rand.default", json!([ints(&[])]), &[(id, "f32[]")]);
    let noise = graph(&[], vec![draw(0)], &[0]);
    let body = graph(
        &[(0, "f32[]")],
        vec![
            draw(1),
            node(
                "call",
                json!([{"function": "noise"}, list(&[])]),
                &[(2, "f32[]")],
            ),
        ],
        &[1, 2],
    );
    let args = json!([{"graph": body}, list(&[v(0)]), list(&[])]);
    let main = graph(
        &[(0, "f32[t]")],
        vec![
            node("map", args, &[(1, "f32[t]"), (2, "f32[t]")]),
            node("call", json!([{"function": "noise"}]), &[(3, "f32[]")]),
            node("call", json!([{"function": "noise"}]), &[(4, "f32[]")]),
        ],
        &[1, 2, 3, 4],
    );
    let program =
        json!({"version": 1, "entry": "main", "functions": {"main": main, "noise": noise}});
    let run = || -> Vec<f64> {
        let found = results(&program, &[f32s(&[3], &[0.0; 3])]);
        found.iter().flat_map(numbers).collect()
    };
    let mut all = run();
    assert_eq!(all, run());
    all.sort_by(f64::total_cmp);
    all.dedup();
    assert_eq!(all.len(), 8, "{all:?}");
}

fn checked() -> serde_json::Value {
    let positive = node("aten.gt.Scalar", json!([v(0), f(0.0)]), &[(1, "bool[]")]);
    let check = node(
        "check",
        json!([v(1), {"str": "x is not positive"}, list(&[v(0), i(7)])]),
        &[(2, "f32[]"), (3, "i64[]")],
    );
    let inputs = [(0, "f32[]")];
    module(graph(&inputs, vec![positive, check], &[2, 3]))
}

#[test]
fn check_lets_values_through() {
    let found = results(&checked(), &[scalar(2.0)]);
    assert_eq!(found, [scalar(2.0), Tensor::scalar(7i64)]);
}

#[test]
fn checks_of_nothing_are_wrong() {
    let check = node("check", json!([v(0), {"str": "no"}, list(&[])]), &[]);
    let program = module(graph(&[(0, "bool[]")], vec![check], &[0]));
    let error = read(&program)
        .expect_err("nothing waits for it")
        .to_string();
    assert!(error.contains("checks no values"), "{error}");
}

#[test]
fn check_stops_with_its_message_and_place() {
    let module = read(&checked()).expect("it is read");
    let inputs = [scalar(-1.0).into()];
    let error = heddle_interp::run(&module, &inputs, &Default::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("x is not positive"), "{text}");
    let heddle_interp::RunError::At { at, .. } = error else {
        panic!("{text}");
    };
    let loc = at.loc.expect("a node");
    assert_eq!(loc.place().expect("a line").to_string(), "model.py:7");
}

/// The text of the error that a run stops with.
fn stops(program: &serde_json::Value, inputs: &[Tensor]) -> String {
    let module = read(program).unwrap_or_else(|e| panic!("{e}"));
    let inputs: Vec<_> = inputs.iter().cloned().map(Into::into).collect();
    let error = heddle_interp::run(&module, &inputs, &Default::default());
    error.expect_err("it stops").to_string()
}

#[test]
fn assertions_stop_the_run_of_their_graph() {
    let no = || json!({"str": "x is not positive"});
    for (target, args, message) in [
        ("aten._assert_async.default", json!([v(1)]), "does not hold"),
        (
            "aten._assert_async.msg",
            json!([v(1), no()]),
            "x is not positive",
        ),
        (
            "aten._assert_scalar.default",
            json!([v(1), no()]),
            "x is not positive",
        ),
    ] {
        let nodes = |first: i64, target: &str, args: &serde_json::Value| {
            vec![
                node(
                    "aten.gt.Scalar",
                    json!([v(first), f(0.0)]),
                    &[(1, "bool[]")],
                ),
                node(target, args.clone(), &[]),
                node("aten.neg.default", json!([v(first)]), &[(2, "f32[]")]),
            ]
        };
        let inputs = [(0, "f32[]")];
        let flat = module(graph(&inputs, nodes(0, target, &args), &[2, 0]));
        let found = results(&flat, &[scalar(2.0)]);
        assert_eq!(found, [scalar(-2.0), scalar(2.0)]);
        let text = stops(&flat, &[scalar(-1.0)]);
        assert!(text.contains(message) && text.contains(target), "{text}");
        // One of a branch is for that branch.
        let inner = graph(&inputs, nodes(0, target, &args), &[2]);
        let other = graph(&inputs, vec![], &[0]);
        let args = json!([v(1), {"graph": inner}, {"graph": other}, list(&[v(0)])]);
        let nodes = vec![node("cond", args, &[(2, "f32[]")])];
        let branch = module(graph(&[(0, "f32[]"), (1, "bool[]")], nodes, &[2]));
        let truth = |x| bools(&[], &[x]);
        assert_eq!(
            results(&branch, &[scalar(-1.0), truth(false)]),
            [scalar(-1.0)]
        );
        let text = stops(&branch, &[scalar(-1.0), truth(true)]);
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn the_functional_assertion_hands_its_token_on() {
    let nodes = vec![
        node("aten.gt.Scalar", json!([v(0), f(0.0)]), &[(1, "bool[]")]),
        node(
            "aten._functional_assert_async.msg",
            json!([v(1), {"str": "x is not positive"}, v(0)]),
            &[(2, "f32[]")],
        ),
    ];
    let program = module(graph(&[(0, "f32[]")], nodes, &[2]));
    assert_eq!(results(&program, &[scalar(2.0)]), [scalar(2.0)]);
    assert!(stops(&program, &[scalar(0.0)]).contains("x is not positive"));
}

#[test]
fn assertions_need_results_that_wait_for_them() {
    let nodes = vec![node("aten._assert_async.default", json!([v(0)]), &[])];
    let program = module(graph(&[(0, "bool[]")], nodes, &[]));
    let error = read(&program).expect_err("nothing waits").to_string();
    assert!(error.contains("without results"), "{error}");
}

/// `a * 0.5 + b` over the first axis, with a captured factor.
#[test]
fn associative_scan_combines_from_the_first() {
    let combine = graph(
        &[(0, "f32[2]"), (1, "f32[2]"), (2, "f32[]")],
        vec![
            node("aten.mul.Tensor", json!([v(0), v(2)]), &[(3, "f32[2]")]),
            node("aten.add.Tensor", json!([v(3), v(1)]), &[(4, "f32[2]")]),
        ],
        &[4],
    );
    let args = json!([{"graph": combine}, list(&[v(0)]), list(&[v(1)])]);
    let main = graph(
        &[(0, "f32[n,2]"), (1, "f32[]")],
        vec![node("associative_scan", args, &[(2, "f32[n,2]")])],
        &[2],
    );
    let program = module(main);
    let xs = [1.0, 2.0, 3.0, -4.0, 5.0, 6.0];
    let wanted = [1.0, 2.0, 3.5, -3.0, 6.75, 4.5];
    for n in [3, 1, 0] {
        let x = f32s(&[n, 2], &xs[..2 * n]);
        let found = results(&program, &[x, scalar(0.5)]);
        close(&found[0], &[n, 2], &wanted[..2 * n]);
    }
}

#[test]
fn associative_scan_of_the_wrong_form_is_an_error() {
    let combine = graph(&[(0, "f32[2]")], vec![], &[0]);
    for xs in [list(&[v(0)]), list(&[])] {
        let args = json!([{"graph": combine}, xs, list(&[])]);
        let nodes = vec![node("associative_scan", args, &[(2, "f32[n,2]")])];
        assert!(read(&module(graph(&[(0, "f32[n,2]")], nodes, &[2]))).is_err());
    }
}
