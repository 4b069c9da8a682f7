//! Other values for initializers of an ONNX model.

use std::collections::HashMap;

use heddle::{
    CompileOptions, Device, Error, Format, Inputs, LoadOptions, Model, RunOptions, Tensor, compile,
};
use heddle_onnx::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, tensor_shape_proto, type_proto,
};
use prost::Message;

/// `z = x @ w + w[0]`, for `w` of 3 rows and columns.
fn model() -> Vec<u8> {
    use tensor_shape_proto::{Dimension, dimension::Value};
    let dim = |size: i64| Dimension {
        value: Some(Value::DimValue(size)),
        ..Default::default()
    };
    let port = |name: &str, dims: &[i64]| {
        let shape = TensorShapeProto {
            dim: dims.iter().map(|&size| dim(size)).collect(),
        };
        let tensor = type_proto::Tensor {
            elem_type: Some(1),
            shape: Some(shape),
        };
        ValueInfoProto {
            name: Some(name.into()),
            r#type: Some(TypeProto {
                value: Some(type_proto::Value::TensorType(tensor)),
                ..Default::default()
            }),
            ..Default::default()
        }
    };
    let stored = |name: &str, kind: i32, dims: &[i64], bytes: Vec<u8>| TensorProto {
        name: Some(name.into()),
        data_type: Some(kind),
        dims: dims.to_vec(),
        raw_data: Some(bytes.into()),
        ..Default::default()
    };
    let node = |op: &str, inputs: &[&str], output: &str| NodeProto {
        op_type: Some(op.into()),
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: vec![output.into()],
        ..Default::default()
    };
    let w: Vec<u8> = [0.5f32; 9].iter().flat_map(|v| v.to_le_bytes()).collect();
    let graph = GraphProto {
        name: Some("g".into()),
        node: vec![
            node("MatMul", &["x", "w"], "p"),
            node("Gather", &["w", "first"], "row"),
            node("Add", &["p", "row"], "z"),
        ],
        initializer: vec![
            stored("w", 1, &[3, 3], w),
            stored("first", 7, &[], 0i64.to_le_bytes().to_vec()),
        ],
        input: vec![port("x", &[2, 3])],
        output: vec![port("z", &[2, 3])],
        ..Default::default()
    };
    let model = ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto {
            version: Some(21),
            ..Default::default()
        }],
        graph: Some(graph),
        ..Default::default()
    };
    model.encode_to_vec()
}

fn load(name: &str, tensor: Tensor) -> Result<Model, Error> {
    let options = LoadOptions {
        constants: HashMap::from([(name.to_string(), tensor)]),
        ..Default::default()
    };
    Model::from_bytes("m", model(), Format::Onnx, None, &options)
}

/// `row` is folded while the model is read: it has to follow `w`.
#[test]
fn all_that_follows_from_a_constant_is_new() {
    for &device in Device::EVERYWHERE {
        for value in [0.5f32, 2.0] {
            let w = Tensor::from_slice(vec![3, 3], &[value; 9]);
            let options = CompileOptions {
                device,
                ..Default::default()
            };
            let program = compile(&load("w", w).unwrap(), &options).unwrap();
            let x = Tensor::from_slice(vec![2, 3], &[1f32; 6]).into();
            let inputs = Inputs::from_iter([("x".to_string(), x)]);
            let run = program.run(inputs, &RunOptions::default()).unwrap();
            let want = Tensor::from_slice(vec![2, 3], &[4.0 * value; 6]);
            assert_eq!(run.outputs["z"], want.into());
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let cases = [
        (
            "v",
            Tensor::from_slice(vec![3, 3], &[1f32; 9]),
            "no initializer",
        ),
        ("w", Tensor::from_slice(vec![9], &[1f32; 9]), "f32[3,3]"),
        ("w", Tensor::from_slice(vec![3, 3], &[1f64; 9]), "f64[3,3]"),
    ];
    for (name, tensor, part) in cases {
        let error = load(name, tensor).unwrap_err();
        assert!(
            error.is_of_inputs() && error.to_string().contains(part),
            "{error}"
        );
    }
    let options = LoadOptions {
        constants: HashMap::from([("w".to_string(), Tensor::scalar(1f32))]),
        ..Default::default()
    };
    let text = b"fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  return %x\n}\n".to_vec();
    let error = Model::from_bytes("m", text, Format::Text, None, &options).unwrap_err();
    assert!(error.is_of_inputs(), "{error}");
}
