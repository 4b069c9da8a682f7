//! Types of operators' results: as precise as inputs and parameters allow, also where those are
//! computed.

use crate::common::*;
use heddle_ir::{DType, Datum, Tensor};
use heddle_onnx::proto::*;

/// The type of the last output of a node with inputs `x0`, `x1`, …; those without dims are
/// constants.
fn result_type(version: i64, node: NodeProto, inputs: &[Input]) -> String {
    let mut g = graph("main", vec![], vec![untyped("y")], vec![]);
    for (i, input) in inputs.iter().enumerate() {
        let name = format!("x{i}");
        match input {
            Input::Given(dtype, dims) => g.input.push(info(&name, *dtype, dims)),
            Input::Fixed(values) => {
                let dims = [values.len() as i64];
                g.initializer.push(ints(&name, &dims, values));
            }
        }
    }
    g.node.push(node);
    let mut model = model(g, vec![]);
    model.opset_import[0].version = Some(version);
    let module = import(&model).unwrap_or_else(|e| panic!("{e}"));
    module.entry().sig.results[0].1.to_string()
}

enum Input {
    Given(i32, &'static [i64]),
    Fixed(&'static [i64]),
}
use Input::{Fixed, Given};

/// `f32[n, 4, 6]`
const X: Input = Given(FLOAT, &[-1, 4, 6]);

fn op(name: &str, inputs: usize) -> NodeProto {
    let names: Vec<String> = (0..inputs).map(|i| format!("x{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    node(name, &names, &["y"])
}

#[test]
fn known_parameters_give_exact_sizes() {
    let of = |node, fixed| result_type(18, node, &[X, Fixed(fixed)]);
    assert_eq!(of(op("Reshape", 2), &[0, -1]), "f32[n,24]");
    assert_eq!(of(op("Reshape", 2), &[-1, 8]), "f32[3*n,8]");
    assert_eq!(
        of(op("ReduceMean", 2).int("keepdims", 0), &[-1]),
        "f32[n,4]"
    );
    assert_eq!(of(op("Unsqueeze", 2), &[-1, 0]), "f32[1,n,4,6,1]");
    assert_eq!(of(op("Pad", 2), &[0, 1, 2, 1, 0, -3]), "f32[n+1,5,5]");
    assert_eq!(of(op("Tile", 2), &[2, 1, 3]), "f32[2*n,4,18]");
    assert_eq!(of(op("Expand", 2), &[2, 1, 1, 1]), "f32[2,n,4,6]");
    assert_eq!(of(op("TopK", 2), &[2]), "f32[n,4,2]");
    let of = |node| result_type(18, node, &[X]);
    assert_eq!(of(op("Flatten", 1).int("axis", 2)), "f32[4*n,6]");
    assert_eq!(of(op("ArgMax", 1).int("axis", -1)), "i64[n,4,1]");
    assert_eq!(of(op("Shape", 1).int("start", 1)), "i64[2]");
    assert_eq!(of(op("Transpose", 1)), "f32[6,4,n]");
    assert_eq!(of(op("Softmax", 1)), "f32[n,4,6]");
    assert_eq!(of(op("NonZero", 1)), "i64[3,?]");
}

#[test]
fn bounds_of_slices_leave_other_axes_alone() {
    let inputs = [X, Fixed(&[1, -2]), Fixed(&[i64::MAX, -1]), Fixed(&[1, -1])];
    assert_eq!(result_type(13, op("Slice", 4), &inputs), "f32[n,3,1]");
    let given = || Given(INT64, &[1]);
    let inputs = [X, given(), given(), Fixed(&[2])];
    assert_eq!(result_type(13, op("Slice", 4), &inputs), "f32[n,4,?]");
}

#[test]
fn computed_parameters_keep_the_rank() {
    let of = |node, count: &'static [i64]| result_type(18, node, &[X, Given(INT64, count)]);
    assert_eq!(of(op("Reshape", 2), &[2]), "f32[?,?]");
    assert_eq!(of(op("Squeeze", 2), &[1]), "f32[?,?]");
    assert_eq!(of(op("Unsqueeze", 2), &[2]), "f32[?,?,?,?,?]");
    assert_eq!(of(op("Expand", 2), &[4]), "f32[?,?,4,6]");
    assert_eq!(of(op("ReduceSum", 2).int("keepdims", 0), &[2]), "f32[?]");
    assert_eq!(of(op("CumSum", 2), &[]), "f32[n,4,6]");
    assert_eq!(of(op("TopK", 2), &[1]), "f32[n,4,?]");
    assert_eq!(of(op("Pad", 2), &[6]), "f32[?,?,?]");
    // The number of axes is not known either, and with it the rank.
    assert_eq!(of(op("ReduceSum", 2).int("keepdims", 0), &[-1]), "f32[..]");
    assert_eq!(of(op("ReduceMax", 2), &[-1]), "f32[?,?<=4,?<=6]");
}

#[test]
fn recurrent_cells_keep_the_names_of_sizes() {
    let inputs = [
        Given(FLOAT, &[7, -1, 3]),
        Given(FLOAT, &[1, 20, 3]),
        Given(FLOAT, &[1, 20, 5]),
    ];
    let lstm = |outputs: &[&str]| node("LSTM", &["x0", "x1", "x2"], outputs);
    let of = |outputs| result_type(14, lstm(outputs).int("hidden_size", 5), &inputs);
    assert_eq!(of(&["y"]), "f32[7,1,n,5]");
    assert_eq!(of(&["", "y"]), "f32[1,n,5]");
}

#[test]
fn wrong_attributes_are_errors() {
    let fails = |version, node, inputs: &[Input]| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            result_type(version, node, inputs)
        }))
        .is_err()
    };
    assert!(fails(13, op("Flatten", 1).int("axis", 5), &[X]));
    assert!(fails(13, op("Squeeze", 2), &[X, Fixed(&[1])]));
    assert!(fails(13, op("Squeeze", 2), &[X, Fixed(&[0, -3])]));
    assert!(fails(13, op("Reshape", 2), &[X, Fixed(&[-1, 5, -1])]));
    assert!(fails(13, op("Transpose", 2), &[X]));
}

#[test]
fn splits_and_axes_work_without_a_rank() {
    // A branch with values of another rank leaves nothing known but the element type.
    let then = vec![node("Identity", &["x"], &["r"])];
    let otherwise = vec![node("Flatten", &["x"], &["r"])];
    let nodes = vec![
        fork("u", "c", then, otherwise),
        node("Split", &["u"], &["a", "b"])
            .int("axis", -1)
            .int("num_outputs", 2),
        node("Unsqueeze", &["b", "last"], &["y"]),
    ];
    let inputs = vec![info("x", FLOAT, &[2, 1, 3]), info("c", BOOL, &[])];
    let mut g = graph("main", inputs, vec![untyped("y")], nodes);
    g.initializer.push(ints("last", &[1], &[-1]));
    let mut model = model(g, vec![]);
    model.opset_import[0].version = Some(18);
    let x = Tensor::from_slice(vec![2, 1, 3], &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let yes = Tensor::splat(DType::Bool, vec![], 1.0);
    let want = Tensor::from_slice(vec![2, 1, 1, 1], &[2f32, 5.0]);
    assert_eq!(run(&model, &[x, yes]), [Datum::from(want)]);
}

/// A model whose value `u` has two or three axes, then these nodes; `declared` are types of values.
fn of_two_ranks(nodes: Vec<NodeProto>, declared: Vec<ValueInfoProto>) -> ModelProto {
    let then = vec![node("Identity", &["x"], &["r"])];
    let otherwise = vec![node("Flatten", &["x"], &["r"])];
    let inputs = vec![info("x", FLOAT, &[2, 1, 3]), info("c", BOOL, &[])];
    let all = [vec![fork("u", "c", then, otherwise)], nodes].concat();
    let mut g = graph("main", inputs, vec![untyped("y")], all);
    g.value_info = declared;
    g.initializer.push(floats("w", &[1, 1, 1], &[2.0]));
    g.initializer.push(floats("m", &[3, 1], &[1.0; 3]));
    let mut model = model(g, vec![]);
    model.opset_import[0].version = Some(18);
    model
}

fn outcome(model: &ModelProto, condition: bool) -> Result<Datum, String> {
    let module = import(model).unwrap_or_else(|e| panic!("{e}"));
    let x = Tensor::from_slice(vec![2, 1, 3], &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let condition = Tensor::splat(DType::Bool, vec![], f64::from(condition));
    let inputs = [x.into(), condition.into()];
    let mut results = heddle_interp::run(&module, &inputs, &heddle_interp::Options::default())
        .map_err(|e| e.to_string())?;
    Ok(results.remove(0))
}

#[test]
fn operators_fix_ranks() {
    let result = |model: &ModelProto| {
        let module = import(model).unwrap_or_else(|e| panic!("{e}"));
        module.entry().sig.results[0].1.to_string()
    };
    // The rank of X is that of the weight, and is checked.
    let conv = of_two_ranks(vec![node("Conv", &["u", "w"], &["y"])], vec![]);
    assert_eq!(result(&conv), "f32[?,1,?]");
    let expected = Tensor::from_slice(vec![2, 1, 3], &[0f32, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(outcome(&conv, true), Ok(expected.into()));
    assert!(outcome(&conv, false).is_err());
    let gemm = of_two_ranks(vec![node("Gemm", &["u", "m"], &["y"])], vec![]);
    assert_eq!(result(&gemm), "f32[?,1]");
    let expected = Tensor::from_slice(vec![2, 1], &[3f32, 12.0]);
    assert_eq!(outcome(&gemm, false), Ok(expected.into()));
    assert!(outcome(&gemm, true).is_err());
}

#[test]
fn declared_ranks_of_results_hold() {
    let nodes = || vec![node("Neg", &["u"], &["y"])];
    let declared = of_two_ranks(nodes(), vec![info("u", FLOAT, &[-1, -1])]);
    let module = import(&declared).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(module.entry().sig.results[0].1.to_string(), "f32[?,?]");
    assert!(outcome(&declared, false).is_ok());
    assert!(outcome(&declared, true).is_err());
    let free = of_two_ranks(nodes(), vec![]);
    assert!(outcome(&free, true).is_ok() && outcome(&free, false).is_ok());
}

#[test]
fn axes_without_a_name_get_one() {
    let mut g = graph("main", vec![untyped("x")], vec![untyped("y")], vec![]);
    g.input[0] = info("x", FLOAT, &[3, 4]);
    if let Some(type_proto::Value::TensorType(t)) =
        g.input[0].r#type.as_mut().and_then(|t| t.value.as_mut())
    {
        let shape = t.shape.as_mut().expect("a shape");
        shape.dim[0].value = None;
    }
    g.node.push(node("Add", &["x", "x"], &["y"]));
    let module = import(&model(g, vec![])).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(module.entry().sig.results[0].1.to_string(), "f32[x_0,4]");
}
