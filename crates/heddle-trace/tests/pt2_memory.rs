//! `.pt2` programs that change arrays in place, and those that state what they expect: written here, and run on the interpreter.

mod exported;

use exported::*;
use heddle_ir::Tensor;
use serde_json::json;

/// A change of the second array, and both arrays as results.
fn with_change(view: Vec<serde_json::Value>) -> Program {
    let mut nodes = view;
    let args = [arg("self", tensor("y")), arg("other", tensor("x2"))];
    nodes.push(node("aten.add_.Tensor", &args, &["z"]));
    Program::new(&["x", "x2"], nodes, &["x", "y"])
        .with("x", &[1, 2, 2, 2])
        .with("x2", &[1, 2, 2, 2])
        .with("y", &[1, 2, 2, 2])
        .with("z", &[1, 2, 2, 2])
}

#[test]
fn assertions_of_files_stop_runs() {
    let file = std::fs::read(models().join("dynamic.pt2")).unwrap();
    let run = |n: i64| {
        let x = Tensor::from_slice(vec![2, 4], &[1f32; 8]);
        run_file(file.clone(), &[x, Tensor::scalar(n)])
    };
    assert!(run(99).is_ok());
    let error = run(100).expect_err("count < 100");
    assert!(error.contains("u1 <= 99"), "{error}");
}

#[test]
fn changes_of_views_reach_what_they_lie_in() {
    let view = node("aten.alias.default", &[arg("self", tensor("x"))], &["y"]);
    let ones = Tensor::from_slice(vec![1, 2, 2, 2], &[1f32; 8]);
    let found = with_change(vec![view]).run(&[ones.clone(), ones]).unwrap();
    assert_eq!(found[0].to_f64s().unwrap(), [2.0; 8]);
    assert_eq!(found[1].to_f64s().unwrap(), [2.0; 8]);
}

#[test]
fn copies_into_another_order_in_memory_are_not_changed_with_their_origin() {
    let formats = [
        ("aten.contiguous.default", 2),
        ("aten.contiguous.default", 3),
        ("aten.to.dtype", 2),
    ];
    for (target, format) in formats {
        let stated = key("memory_format", json!({"as_memory_format": format}));
        let mut args = vec![arg("self", tensor("x")), stated];
        if target == "aten.to.dtype" {
            args.insert(1, arg("dtype", json!({"as_scalar_type": 7})));
        }
        let error = with_change(vec![node(target, &args, &["y"])]).error();
        assert!(error.contains("may share"), "{target} {format}: {error}");
    }
    // That of arrays that lie so anyway is the array.
    let stated = key("memory_format", json!({"as_memory_format": 1}));
    let args = [arg("self", tensor("x")), stated];
    let same = with_change(vec![node("aten.contiguous.default", &args, &["y"])]);
    let ones = Tensor::from_slice(vec![1, 2, 2, 2], &[1f32; 8]);
    let found = same.run(&[ones.clone(), ones]).unwrap();
    assert_eq!(found[0].to_f64s().unwrap(), [2.0; 8]);
}

#[test]
fn views_out_of_graphs_are_not_changed_silently() {
    let inner = |nodes: Vec<serde_json::Value>, outputs: &[&str]| {
        let graph = Graph::new(&["a"], nodes, outputs)
            .with("a", &[1, 2, 2, 2])
            .with("b", &[1, 2, 2, 2])
            .with("c", &[1, 2, 2, 2]);
        json!({"as_graph": {"name": "g", "graph": graph.json()}})
    };
    let call = |graph: serde_json::Value, outputs: &[&str]| {
        let args = [
            arg("enabled", json!({"as_bool": false})),
            arg("graph", graph),
            arg("0", tensor("x")),
        ];
        node("higher_order.wrap_with_set_grad_enabled", &args, outputs)
    };
    let view = node("aten.alias.default", &[arg("self", tensor("a"))], &["b"]);
    let copy = node("aten.neg.default", &[arg("self", tensor("a"))], &["b"]);
    let again = node("aten.alias.default", &[arg("self", tensor("b"))], &["c"]);
    // The input itself, a view of it, and two results that share memory.
    for (graph, outputs) in [
        (inner(vec![], &["a"]), &["y"][..]),
        (inner(vec![view], &["b"]), &["y"]),
        (inner(vec![copy.clone(), again], &["b", "c"]), &["y", "w"]),
    ] {
        let program = with_change(vec![call(graph, outputs)]).with("w", &[1, 2, 2, 2]);
        let error = program.error();
        assert!(error.contains("may share"), "{error}");
    }
    // A result that is memory of its own can be changed.
    let program = with_change(vec![call(inner(vec![copy], &["b"]), &["y"])]);
    let ones = Tensor::from_slice(vec![1, 2, 2, 2], &[1f32; 8]);
    let found = program.run(&[ones.clone(), ones]).unwrap();
    assert_eq!(found[0].to_f64s().unwrap(), [1.0; 8]);
    assert_eq!(found[1].to_f64s().unwrap(), [0.0; 8]);
}

#[test]
fn buffers_that_overlap_are_not_changed_silently() {
    let program = |offset: i64| {
        let args = [arg("self", tensor("p")), arg("other", tensor("x"))];
        let change = node("aten.add_.Tensor", &args, &["z"]);
        Program::new(&["x"], vec![change], &["q"])
            .with("x", &[2, 4])
            .with("z", &[2, 4])
            .with_buffer("p", "whole", &[2, 4], 0, "weight_0")
            .with_buffer("q", "part", &[4], offset, "weight_0")
            .with_storage("weight_0", 12)
    };
    let error = program(0).error();
    assert!(error.contains("may share"), "{error}");
    // Buffers of one storage that do not overlap are apart.
    let ones = Tensor::from_slice(vec![2, 4], &[1f32; 8]);
    let found = program(8).run(&[ones]).unwrap();
    assert_eq!(found[0].to_f64s().unwrap(), [0.0; 4]);
}

#[test]
fn the_first_argument_of_a_view_stands_first() {
    for target in ["aten.alias.default", "aten.reshape.default"] {
        let program = with_change(vec![node(target, &[key("self", tensor("x"))], &["y"])]);
        let error = program.error();
        assert!(error.contains("by position"), "{target}: {error}");
    }
    let change = node("aten.neg_.default", &[key("self", tensor("x"))], &["y"]);
    let program = Program::new(&["x"], vec![change], &["x"])
        .with("x", &[2])
        .with("y", &[2]);
    assert!(program.error().contains("by position"));
}

#[test]
fn replays_are_bounded_by_what_they_take() {
    const PARTS: usize = 20_000;
    let names: Vec<String> = (0..PARTS).map(|i| format!("r{i}")).collect();
    let split = json!({
        "target": "torch.ops.aten.unbind.int",
        "inputs": [arg("self", tensor("x"))],
        "outputs": [{"as_tensors": names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>()}],
        "metadata": {},
    });
    let mut nodes = vec![split];
    let mut program_names = vec![];
    for i in 0..4000 {
        let (changed, read) = (format!("c{i}"), format!("d{i}"));
        let change = node(
            "aten.neg_.default",
            &[arg("self", tensor("x"))],
            &[&changed],
        );
        let use_of = node("aten.neg.default", &[arg("self", tensor("r0"))], &[&read]);
        nodes.extend([change, use_of]);
        program_names.extend([(changed, true), (read, false)]);
    }
    let mut program = Program::new(&["x"], nodes, &["x"]).with("x", &[PARTS as i64]);
    for name in &names {
        program = program.with(name, &[]);
    }
    for (name, is_whole) in &program_names {
        program = program.with(name, if *is_whole { &[PARTS as i64] } else { &[] });
    }
    let error = program.error();
    assert!(error.contains("more than"), "{error}");
}

#[test]
fn changes_keep_the_element_type() {
    // f32 += f64 is f32, and f32.eq_ is f32 of zeros and ones.
    let args = [arg("self", tensor("x")), arg("other", tensor("w"))];
    let wide = Program::new(
        &["x", "w"],
        vec![node("aten.add_.Tensor", &args, &["y"])],
        &["y"],
    )
    .with("x", &[2])
    .with("y", &[2])
    .with_type("w", &[2], 8);
    let (x, w) = (
        Tensor::from_slice(vec![2], &[1f32, 2.0]),
        Tensor::from_slice(vec![2], &[0.5f64, 1.0]),
    );
    let found = wide.run(&[x.clone(), w]).unwrap();
    assert_eq!(found[0], Tensor::from_slice(vec![2], &[1.5f32, 3.0]));
    let args = [arg("self", tensor("x")), arg("other", json!({"as_int": 2}))];
    let same = Program::new(&["x"], vec![node("aten.eq_.Scalar", &args, &["y"])], &["y"])
        .with("x", &[2])
        .with("y", &[2]);
    let found = same.run(&[x]).unwrap();
    assert_eq!(found[0], Tensor::from_slice(vec![2], &[0f32, 1.0]));
}
