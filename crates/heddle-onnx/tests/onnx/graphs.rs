//! Graphs, scopes, functions and recursion, on models built in code.

use crate::common::*;
use heddle_ir::{Datum, Tensor, Type};
use heddle_onnx::ImportError;
use heddle_onnx::proto::*;

fn scalar(value: f32) -> Datum {
    Tensor::scalar(value).into()
}

fn main_graph(nodes: Vec<NodeProto>) -> GraphProto {
    graph(
        "main",
        vec![info("x", FLOAT, &[])],
        vec![info("y", FLOAT, &[])],
        nodes,
    )
}

fn error(model: &ModelProto) -> String {
    match import(model) {
        Ok(_) => panic!("it was imported"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn nodes_are_sorted() {
    let nodes = vec![node("Neg", &["a"], &["y"]), node("Exp", &["x"], &["a"])];
    let results = run(&model(main_graph(nodes), vec![]), &[Tensor::scalar(0f32)]);
    assert_eq!(results, [scalar(-1.0)]);
}

#[test]
fn broken_graphs_name_their_nodes() {
    let cycle = vec![
        named("snake", "Add", &["x", "a"], &["b"]),
        node("Neg", &["b"], &["a"]),
    ];
    let of = |nodes| error(&model(main_graph(nodes), vec![]));
    assert!(of(cycle).contains("snake"));
    let message = of(vec![named("user", "Add", &["x", "missing"], &["y"])]);
    assert!(
        message.contains("user") && message.contains("missing"),
        "{message}"
    );
    assert!(of(vec![node("Neg", &["x"], &["z"])]).contains("`y` is not defined"));
    let shadowed = vec![node("Neg", &["x"], &["x"])];
    assert!(of(shadowed).contains("defined already"));
}

#[test]
fn two_results_of_one_name_name_their_nodes() {
    let of = |nodes| error(&model(main_graph(nodes), vec![]));
    let twice = vec![
        named("early", "Neg", &["x"], &["y"]),
        named("late", "Exp", &["x"], &["y"]),
    ];
    let expected = "graph `main`: `y` is an output of both Neg node `early` and Exp node `late`";
    assert!(of(twice).contains(expected));
    // A node that comes first in the file and last in order.
    let unsorted = vec![
        named("late", "Neg", &["a"], &["y"]),
        node("Exp", &["x"], &["a"]),
        named("early", "Neg", &["x"], &["y"]),
    ];
    let message = of(unsorted);
    assert!(
        message.contains("`late`") && message.contains("`early`"),
        "{message}"
    );
    let split = named("halves", "Split", &["x"], &["y", "y"]).int("axis", 0);
    assert!(of(vec![split]).contains("`y` is twice an output of Split node `halves`"));
    // In a branch, and in a function.
    let both = || {
        vec![
            node("Neg", &["x"], &["r"]),
            named("second", "Exp", &["x"], &["r"]),
        ]
    };
    let nodes = vec![
        node("Less", &["x", "x"], &["c"]),
        fork("y", "c", both(), vec![node("Neg", &["x"], &["r"])]),
    ];
    assert!(of(nodes).contains("graph `then`: `r` is an output of both"));
    let f = function("f", &["x"], &["r"], both());
    let nodes = vec![call("f", &["x"], &["y"])];
    let message = error(&model(main_graph(nodes), vec![f]));
    assert!(
        message.contains("`f`") && message.contains("`second`"),
        "{message}"
    );
    // A graph's list of outputs.
    let mut g = main_graph(vec![named("only", "Neg", &["x"], &["y"])]);
    g.output.push(untyped("y"));
    let message = error(&model(g, vec![]));
    let expected = "graph `main`: output `y`, which Neg node `only` makes, is listed twice";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn everything_unsupported_is_listed_at_once() {
    let branch = |op| vec![named("inner", op, &["a"], &["r"])];
    let nodes = vec![
        node("Less", &["x", "x"], &["c"]),
        named("first", "Fancy", &["x"], &["a"]),
        fork("b", "c", branch("Wobble"), branch("Fancy")),
        call("f", &["b"], &["y"]),
    ];
    let f = function("f", &["p"], &["q"], vec![node("Twist", &["p"], &["q"])]);
    let Err(ImportError::Unsupported(list)) = import(&model(main_graph(nodes), vec![f])) else {
        panic!("it was imported");
    };
    let found: Vec<_> = list.iter().map(|o| (o.op.as_str(), o.count)).collect();
    assert_eq!(found, [("Fancy", 2), ("Twist", 1), ("Wobble", 1)]);
    assert_eq!(list[0].nodes, ["first", "inner"]);
}

#[test]
fn an_initializer_is_the_default_of_an_input() {
    let mut g = main_graph(vec![
        node("Mul", &["x", "w"], &["a"]),
        node("Add", &["a", "v"], &["y"]),
    ]);
    g.input.insert(0, info("w", FLOAT, &[]));
    g.input.push(info("v", FLOAT, &[-1]));
    g.initializer.push(floats("w", &[], &[2.0]));
    g.initializer.push(floats("v", &[1], &[10.0]));
    // Not an input, and never one.
    g.initializer.push(floats("fixed", &[], &[5.0]));
    let mut m = model(g, vec![]);
    let names = |list: &[(String, Type)]| list.iter().map(|p| p.0.clone()).collect::<Vec<_>>();
    // Before version 4 of the IR all initializers were inputs.
    for version in [3, 4, 8] {
        m.ir_version = Some(version);
        let imported = import_with(&m, &[]).unwrap();
        assert_eq!(names(&imported.module.entry().sig.params), ["x"]);
        assert_eq!(names(&imported.optional), ["w", "v"]);
        assert_eq!(imported.optional[1].1.to_string(), "f32[n]");
        let imported = import_with(&m, &["v", "fixed", "none"]).unwrap();
        assert_eq!(names(&imported.module.entry().sig.params), ["x", "v"]);
        assert_eq!(names(&imported.optional), ["w"]);
    }
    let vector = |v: &[f32]| Tensor::vector(v);
    let x = || Tensor::scalar(3f32);
    assert_eq!(run(&m, &[x()]), [vector(&[16.0]).into()]);
    // Parameters come in the order of the graph's inputs; another size is one, too.
    let w = Tensor::scalar(-1f32);
    let given = run_with(&m, &["v", "w"], &[w, x(), vector(&[0.0, 1.0])]);
    assert_eq!(given, [vector(&[-3.0, -2.0]).into()]);
}

#[test]
fn defaults_may_lack_a_type_or_be_sparse() {
    let mut g = main_graph(vec![node("Add", &["w", "s"], &["y"])]);
    g.input = vec![untyped("w"), info("s", FLOAT, &[3])];
    g.initializer.push(floats("w", &[3], &[1.0, 2.0, 3.0]));
    g.sparse_initializer.push(SparseTensorProto {
        values: Some(floats("s", &[1], &[5.0])),
        indices: Some(ints("", &[1], &[2])),
        dims: vec![3],
    });
    let m = model(g, vec![]);
    let imported = import_with(&m, &[]).unwrap();
    let shown = imported
        .optional
        .iter()
        .map(|(name, ty)| format!("{name}: {ty}"));
    assert_eq!(shown.collect::<Vec<_>>(), ["w: f32[3]", "s: f32[3]"]);
    let vector = |v: &[f32]| Tensor::vector(v);
    assert_eq!(run(&m, &[]), [vector(&[1.0, 2.0, 8.0]).into()]);
    let (w, s) = (vector(&[0.0; 3]), vector(&[7.0; 3]));
    assert_eq!(
        run_with(&m, &["w"], &[w]),
        [vector(&[0.0, 0.0, 5.0]).into()]
    );
    assert_eq!(
        run_with(&m, &["s"], &[s]),
        [vector(&[8.0, 9.0, 10.0]).into()]
    );
}

#[test]
fn sparse_initializers_become_dense() {
    let mut g = main_graph(vec![
        node("ReduceSum", &["w"], &["s"]).int("keepdims", 0),
        node("Mul", &["s", "x"], &["y"]),
    ]);
    g.sparse_initializer.push(SparseTensorProto {
        values: Some(floats("w", &[2], &[3.0, 4.0])),
        indices: Some(ints("", &[2], &[1, 5])),
        dims: vec![2, 3],
    });
    assert_eq!(
        run(&model(g, vec![]), &[Tensor::scalar(2f32)]),
        [scalar(14.0)]
    );
}

#[test]
fn a_name_is_looked_up_outward_and_siblings_may_share_it() {
    let nodes = vec![
        node("Less", &["x", "x"], &["c"]),
        node("Exp", &["x"], &["e"]),
        fork(
            "a",
            "c",
            vec![node("Neg", &["e"], &["r"])],
            vec![node("Add", &["e", "e"], &["r"])],
        ),
        fork(
            "b",
            "c",
            vec![node("Neg", &["a"], &["r"])],
            vec![node("Add", &["a", "e"], &["r"])],
        ),
        node("Neg", &["b"], &["y"]),
    ];
    assert_eq!(
        run(&model(main_graph(nodes), vec![]), &[Tensor::scalar(0f32)]),
        [scalar(-3.0)]
    );
}

/// `x` doubled `n` times, in a loop whose parts are as given.
fn doubling(trip: &str, cond: &str, cond_out: Vec<NodeProto>) -> ModelProto {
    let mut body = vec![node("Add", &["s", "s"], &["t"])];
    body.extend(cond_out);
    let body = graph("body", names(&["i", "c", "s"]), names(&["d", "t"]), body);
    let looped = node("Loop", &[trip, cond, "x"], &["y"]).graph("body", body);
    let mut g = main_graph(vec![looped]);
    g.initializer.push(ints("n", &[1], &[3]));
    g.initializer.push(floats("hundred", &[], &[100.0]));
    g.initializer.push(TensorProto {
        name: Some("yes".into()),
        data_type: Some(BOOL),
        int32_data: vec![1],
        ..Default::default()
    });
    model(g, vec![])
}

#[test]
fn loops_in_all_forms() {
    let keep = || vec![node("Identity", &["c"], &["d"])];
    let below = || vec![node("Less", &["t", "hundred"], &["d"])];
    let stop = || vec![node("Less", &["t", "t"], &["d"])];
    let of = |trip, cond, body: Vec<NodeProto>| {
        run(&doubling(trip, cond, body), &[Tensor::scalar(1f32)])
    };
    assert_eq!(of("n", "", keep()), [scalar(8.0)]);
    assert_eq!(of("n", "yes", keep()), [scalar(8.0)]);
    assert_eq!(of("", "yes", below()), [scalar(128.0)]);
    assert_eq!(of("n", "yes", below()), [scalar(8.0)]);
    assert_eq!(of("n", "yes", stop()), [scalar(2.0)]);
    // Without a condition the one that the body gives is ignored.
    assert_eq!(of("n", "", stop()), [scalar(8.0)]);
}

#[test]
fn without_a_condition_the_body_sees_its_own() {
    // The condition alternates; where it is false, s is negated.
    let nodes = vec![
        node("Not", &["c"], &["d"]),
        node("Neg", &["s"], &["m"]),
        node("Where", &["c", "s", "m"], &["t"]),
    ];
    let body = graph(
        "body",
        names(&["i", "c", "s"]),
        names(&["d", "t", "c"]),
        nodes,
    );
    let looped = node("Loop", &["n", "", "x"], &["y", "z"]).graph("body", body);
    let mut g = main_graph(vec![looped]);
    g.output.push(untyped("z"));
    g.initializer.push(ints("n", &[], &[4]));
    let results = run(&model(g, vec![]), &[Tensor::scalar(1f32)]);
    let seen = Tensor::new(heddle_ir::DType::Bool, vec![4], vec![1, 0, 1, 0].into()).unwrap();
    assert_eq!(results, [scalar(1.0), seen.into()]);
}

#[test]
fn always_true_conditions_leave_a_counted_loop() {
    let module = import(&doubling(
        "n",
        "yes",
        vec![node("Identity", &["c"], &["d"])],
    ))
    .unwrap();
    assert!(heddle_ir::text::print(&module).contains("loop"));
    let mut counted = false;
    module.entry().for_each_inst(&mut |_, inst| {
        counted |= matches!(
            inst.op,
            heddle_ir::Op::Loop {
                trip: true,
                cond: false
            }
        );
    });
    assert!(counted);
}

fn factorial(callee: NodeProto) -> Vec<NodeProto> {
    vec![
        node("Constant", &[], &["one"]).tensor("value", floats("", &[], &[1.0])),
        node("LessOrEqual", &["k", "one"], &["base"]),
        fork(
            "f",
            "base",
            vec![node("Identity", &["one"], &["r"])],
            vec![
                node("Sub", &["k", "one"], &["m"]),
                callee,
                node("Mul", &["k", "p"], &["r"]),
            ],
        ),
    ]
}

#[test]
fn functions_call_themselves() {
    let f = function(
        "fact",
        &["k"],
        &["f"],
        factorial(call("fact", &["m"], &["p"])),
    );
    let m = model(main_graph(vec![call("fact", &["x"], &["y"])]), vec![f]);
    assert_eq!(run(&m, &[Tensor::scalar(5f32)]), [scalar(120.0)]);
    assert_eq!(import(&m).unwrap().functions.len(), 2);
}

#[test]
fn specialisations_keep_the_identity_of_their_function() {
    let double = |name: &str, value: f64| TensorProto {
        name: Some(name.into()),
        data_type: Some(tensor_proto::DataType::Double as i32),
        double_data: vec![value],
        ..Default::default()
    };
    let body = vec![
        node("Sub", &["k", "k"], &["zero"]),
        node("LessOrEqual", &["k", "zero"], &["base"]),
        fork(
            "f",
            "base",
            vec![node("Exp", &["k"], &["r"])],
            vec![
                node("Exp", &["zero"], &["one"]),
                node("Sub", &["k", "one"], &["m"]),
                call("f", &["m"], &["r"]),
            ],
        ),
    ];
    let f = function("f", &["k"], &["f"], body);
    let mut g = main_graph(vec![call("f", &["x"], &["y"]), call("f", &["two"], &["z"])]);
    g.output.push(untyped("z"));
    g.initializer.push(double("two", 2.0));
    let m = model(g, vec![f]);
    let module = import(&m).unwrap();
    let sigs: Vec<_> = module
        .functions
        .iter()
        .map(|(_, f)| f.sig.clone())
        .collect();
    let of_f = sigs.iter().filter(|sig| sig.identity() == "f");
    let mut names: Vec<_> = of_f.map(|sig| sig.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["f", "f_2"]);
}

#[test]
fn functions_call_each_other() {
    let a = function("a", &["k"], &["f"], factorial(call("b", &["m"], &["p"])));
    let b = function("b", &["k"], &["f"], factorial(call("a", &["m"], &["p"])));
    let m = model(main_graph(vec![call("a", &["x"], &["y"])]), vec![a, b]);
    assert_eq!(run(&m, &[Tensor::scalar(5f32)]), [scalar(120.0)]);
    assert_eq!(import(&m).unwrap().functions.len(), 3);
}

#[test]
fn a_recursion_node_calls_its_body_by_name() {
    let mut nodes = factorial(node("fact", &["m"], &["p"]));
    // Both an outer value and an outer constant are captured.
    nodes.push(node("Add", &["f", "outer"], &["g"]));
    nodes.push(node("Sub", &["g", "w"], &["h"]));
    let body = graph("fact", names(&["k"]), names(&["h"]), nodes);
    let mut g = main_graph(vec![
        node("Exp", &["x"], &["e"]),
        node("Sub", &["e", "e"], &["zero"]),
        node("Add", &["zero", "w"], &["outer"]),
        node("Recursion", &["x"], &["y"]).graph("body", body),
    ]);
    g.initializer.push(floats("w", &[], &[2.0]));
    assert_eq!(
        run(&model(g, vec![]), &[Tensor::scalar(4f32)]),
        [scalar(24.0)]
    );
}

#[test]
fn recursion_without_a_base_case_is_imported_and_stops_at_the_depth_limit() {
    let nodes = vec![call("down", &["a"], &["b"]), node("Neg", &["b"], &["c"])];
    let f = function("down", &["a"], &["c"], nodes);
    let m = import(&model(
        main_graph(vec![call("down", &["x"], &["y"])]),
        vec![f],
    ))
    .unwrap();
    let error = heddle_interp::run(&m, &[scalar(1.0)], &Default::default()).unwrap_err();
    assert!(error.to_string().contains("down"), "{error}");
}

#[test]
fn recursion_with_changing_shapes_is_generalised() {
    // halves(x) = x summed pairwise until one element is left.
    let nodes = vec![
        node("Size", &["x"], &["size"]),
        node("Constant", &[], &["two"]).tensor("value", ints("", &[], &[2])),
        node("Less", &["size", "two"], &["done"]),
        fork(
            "y",
            "done",
            vec![node("Identity", &["x"], &["r"])],
            vec![
                node("Constant", &[], &["pairs"]).tensor("value", ints("", &[2], &[-1, 2])),
                node("Constant", &[], &["axis"]).tensor("value", ints("", &[1], &[1])),
                node("Reshape", &["x", "pairs"], &["p"]),
                node("ReduceSum", &["p", "axis"], &["s"]).int("keepdims", 0),
                call("halves", &["s"], &["r"]),
            ],
        ),
    ];
    let f = function("halves", &["x"], &["y"], nodes);
    let g = graph(
        "main",
        vec![info("x", FLOAT, &[8])],
        vec![untyped("y")],
        vec![call("halves", &["x"], &["y"])],
    );
    let input = Tensor::vector(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let results = run(&model(g, vec![f]), &[input]);
    assert_eq!(results, [Datum::from(Tensor::vector(&[36f32]))]);
}

#[test]
fn calls_that_unfold_without_end_are_refused() {
    let mut functions = vec![function(
        "f40",
        &["a"],
        &["b"],
        vec![node("Neg", &["a"], &["b"])],
    )];
    for i in 0..40 {
        let next = format!("f{}", i + 1);
        let nodes = vec![call(&next, &["a"], &["c"]), call(&next, &["c"], &["b"])];
        functions.push(function(&format!("f{i}"), &["a"], &["b"], nodes));
    }
    let m = model(main_graph(vec![call("f0", &["x"], &["y"])]), functions);
    assert!(matches!(import(&m), Err(ImportError::TooLarge { .. })));
}

#[test]
fn declared_shapes_are_not_believed() {
    let mut g = main_graph(vec![
        node("Exp", &["x"], &["e"]),
        node("Neg", &["e"], &["y"]),
    ]);
    g.value_info.push(info("e", FLOAT, &[7, 7]));
    assert_eq!(
        run(&model(g, vec![]), &[Tensor::scalar(0f32)]),
        [scalar(-1.0)]
    );
}
