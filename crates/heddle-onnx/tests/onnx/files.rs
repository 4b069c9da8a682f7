//! Files as converters and other runtimes write them, where they stretch the specification.

use crate::common::*;
use heddle_ir::{Datum, Tensor, Type};
use heddle_onnx::proto::*;

const FLOAT16: i32 = tensor_proto::DataType::Float16 as i32;

/// An If on `c`, one branch of which reshapes the six elements of `x` to the sizes `s`.
fn misfit(sizes: &[i64]) -> ModelProto {
    let reshape = vec![named("bad", "Reshape", &["x", "s"], &["r"])];
    let choice = fork("y", "c", reshape, vec![node("Neg", &["x"], &["r"])]);
    let mut g = graph(
        "main",
        vec![info("x", FLOAT, &[2, 3]), info("c", BOOL, &[])],
        vec![untyped("y")],
        vec![choice],
    );
    g.initializer = vec![ints("s", &[sizes.len() as i64], sizes)];
    model(g, vec![])
}

fn yes(truth: bool) -> Tensor {
    Tensor::splat(heddle_ir::DType::Bool, vec![], f64::from(truth))
}

fn six() -> Tensor {
    Tensor::vector(&[0f32, 1., 2., 3., 4., 5.])
        .reshaped(vec![2, 3])
        .expect("six elements")
}

#[test]
fn what_cannot_run_in_a_branch_is_an_error_when_it_is_taken() {
    let imported = import(&misfit(&[7, 1])).unwrap_or_else(|e| panic!("{e}"));
    let module = &imported;
    let results = &module.entry().sig.results;
    assert_eq!(
        results[0].1,
        Type::tensor(heddle_ir::DType::F32, vec![2.into(), 3.into()])
    );
    let run = |c: bool| {
        let inputs: [Datum; 2] = [six().into(), yes(c).into()];
        heddle_interp::run(module, &inputs, &Default::default())
    };
    assert!(run(false).is_ok());
    let error = run(true).expect_err("the branch is taken").to_string();
    assert!(
        error.contains("bad") && error.contains("6 elements"),
        "{error}"
    );
}

#[test]
fn a_node_that_fits_in_neither_branch_is_refused() {
    let bad = |name| vec![named(name, "Reshape", &["x", "s"], &["r"])];
    let mut m = misfit(&[7, 1]);
    let g = m.graph.as_mut().expect("a graph");
    g.node = vec![fork("y", "c", bad("early"), bad("late"))];
    let error = import(&m).expect_err("no branch runs").to_string();
    assert!(error.contains("early"), "{error}");
}

#[test]
fn an_iteration_number_has_the_declared_rank() {
    for (declared, sizes) in [(vec![], vec![3]), (vec![1], vec![3, 1])] {
        let body = graph(
            "body",
            vec![info("i", INT64, &declared), info("c", BOOL, &declared)],
            names(&["d", "s"]),
            vec![
                node("Identity", &["c"], &["d"]),
                node("Identity", &["i"], &["s"]),
            ],
        );
        let g = graph(
            "main",
            vec![info("n", INT64, &[])],
            vec![untyped("ys")],
            vec![node("Loop", &["n"], &["ys"]).graph("body", body)],
        );
        let results = run(&model(g, vec![]), &[Tensor::scalar(3i64)]);
        let expected = Tensor::vector(&[0i64, 1, 2])
            .reshaped(sizes)
            .expect("three");
        assert_eq!(results, [expected.into()]);
    }
}

#[test]
fn sparse_and_dense_initializers_that_are_inputs_can_be_overridden() {
    let mut g = graph(
        "main",
        vec![
            info("x", FLOAT, &[2]),
            info("w", FLOAT, &[2]),
            info("v", FLOAT, &[2]),
        ],
        vec![untyped("y")],
        vec![node("Sum", &["x", "w", "v"], &["y"])],
    );
    g.initializer = vec![floats("v", &[2], &[10., 20.])];
    g.sparse_initializer = vec![SparseTensorProto {
        values: Some(floats("w", &[1], &[5.])),
        indices: Some(ints("", &[1], &[1])),
        dims: vec![2],
    }];
    let m = model(g, vec![]);
    let given = |list: &[f32; 2]| Tensor::vector(list);
    let y = run(&m, &[given(&[1., 1.])]);
    assert_eq!(y, [given(&[11., 26.]).into()]);
    let y = run_with(
        &m,
        &["w", "v"],
        &[given(&[1., 1.]), given(&[2., 2.]), given(&[3., 3.])],
    );
    assert_eq!(y, [given(&[6., 6.]).into()]);
}

#[test]
fn a_branch_may_list_its_sparse_initializers_as_inputs() {
    let mut then = graph(
        "then",
        names(&["w"]),
        names(&["r"]),
        vec![node("Add", &["x", "w"], &["r"])],
    );
    then.sparse_initializer = vec![SparseTensorProto {
        values: Some(floats("w", &[1], &[5.])),
        indices: Some(ints("", &[1], &[1])),
        dims: vec![2],
    }];
    let otherwise = graph(
        "else",
        vec![],
        names(&["r"]),
        vec![node("Neg", &["x"], &["r"])],
    );
    let choice = node("If", &["c"], &["y"])
        .graph("then_branch", then)
        .graph("else_branch", otherwise);
    let inputs = vec![info("x", FLOAT, &[2]), info("c", BOOL, &[])];
    let m = model(graph("main", inputs, names(&["y"]), vec![choice]), vec![]);
    let y = run(&m, &[Tensor::vector(&[1f32, 2.]), yes(true)]);
    assert_eq!(y, [Tensor::vector(&[1f32, 7.]).into()]);
}

#[test]
fn layer_normalization_before_17_has_the_type_of_its_scale() {
    let mut m = model(
        graph(
            "main",
            vec![info("x", FLOAT16, &[1, 2]), info("s", FLOAT, &[2])],
            vec![untyped("y")],
            vec![node("LayerNormalization", &["x", "s"], &["y"])],
        ),
        vec![],
    );
    let result = |m: &ModelProto| import(m).map(|m| m.entry().sig.results[0].1.clone());
    assert!(result(&m).is_err(), "version 17 wants one type");
    m.opset_import[0].version = Some(12);
    let ty = result(&m).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(ty.as_tensor().map(|t| t.dtype), Some(heddle_ir::DType::F32));
}

#[test]
fn messages_say_what_is_wrong() {
    let of = |node: NodeProto, opset: i64, constants: Vec<TensorProto>| {
        let mut g = graph(
            "main",
            vec![info("x", FLOAT, &[2, 3])],
            names(&["y"]),
            vec![node],
        );
        g.initializer = constants;
        let mut m = model(g, vec![]);
        m.opset_import[0].version = Some(opset);
        import(&m).expect_err("it is wrong").to_string()
    };
    let sizes = ints("s", &[3], &[2, 3, 0]);
    let message = of(node("Reshape", &["x", "s"], &["y"]), 17, vec![sizes]);
    assert!(message.contains("size 2 of its shape is 0"), "{message}");
    let both = vec![floats("f", &[2], &[1., 2.]), ints("s", &[2], &[2, 6])];
    let message = of(node("Resize", &["x", "", "f", "s"], &["y"]), 13, both);
    assert!(message.contains("both scales and sizes"), "{message}");
    let message = of(node("Erf", &["x"], &["y"]), 6, vec![]);
    assert!(message.contains("came with version 9"), "{message}");
}
