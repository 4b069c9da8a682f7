//! Inputs with default values: constants until a value is given.

use heddle_onnx::proto::tensor_shape_proto::{Dimension, dimension::Value};
use heddle_onnx::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, type_proto,
};
use prost::Message;

use crate::setup::{Array, Scratch};

/// `y = x * scale`, with a scale of 2 by default that is listed before `x`.
fn model(ir_version: i64) -> Vec<u8> {
    let port = |name: &str, size: &str| {
        let size = Value::DimParam(size.into());
        let dim = Dimension {
            value: Some(size),
            ..Default::default()
        };
        let tensor = type_proto::Tensor {
            elem_type: Some(1),
            shape: Some(TensorShapeProto { dim: vec![dim] }),
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
    let node = NodeProto {
        op_type: Some("Mul".into()),
        input: vec!["x".into(), "scale".into()],
        output: vec!["y".into()],
        ..Default::default()
    };
    let model = ModelProto {
        ir_version: Some(ir_version),
        opset_import: vec![OperatorSetIdProto {
            domain: None,
            version: Some(17),
        }],
        graph: Some(GraphProto {
            name: Some("g".into()),
            node: vec![node],
            initializer: vec![tensor("scale", &[2.0])],
            input: vec![port("scale", "m"), port("x", "n")],
            output: vec![port("y", "k")],
            ..Default::default()
        }),
        ..Default::default()
    };
    model.encode_to_vec()
}

fn tensor(name: &str, values: &[f32]) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        dims: vec![values.len() as i64],
        data_type: Some(1),
        float_data: values.to_vec(),
        ..Default::default()
    }
}

fn vector(values: &[f32]) -> Array {
    Array::F32(vec![values.len() as u64], values.to_vec())
}

#[test]
fn a_value_in_the_input_file_replaces_the_default() {
    // In old versions of the IR all weights are inputs.
    for ir_version in [3, 8] {
        let s = Scratch::new();
        s.write("m.onnx", model(ir_version));
        s.npz("plain.npz", &[("x", vector(&[1.0, 2.0]))]);
        let both = [("x", vector(&[1.0, 2.0])), ("scale", vector(&[5.0, -1.0]))];
        s.npz("both.npz", &both);
        for device in ["interp", "cpu"] {
            for (file, want) in [("plain", [2.0, 4.0]), ("both", [5.0, -2.0])] {
                s.heddle(&format!(
                    "run m.onnx -i {file}.npz -o out.npz --device {device}"
                ))
                .ok();
                assert_eq!(s.elements::<f32>("out.npz", "y").1, want);
            }
        }
        // Some inputs given, others drawn; a default is not drawn.
        s.npz("scale.npz", &[("scale", vector(&[0.0]))]);
        let args = "run m.onnx -i scale.npz --random 1 --size n=3 -o out.npz";
        s.heddle(args).ok();
        assert_eq!(s.elements::<f32>("out.npz", "y").1, [0.0; 3]);
        s.heddle("run m.onnx --random 1 -o out.npz").ok();
        s.npz("expected.npz", &[("y", vector(&[5.0, -2.0]))]);
        s.heddle("check m.onnx -i both.npz -e expected.npz").ok();
        s.heddle("bench m.onnx -i both.npz --seconds 0.01").ok();
    }
}

#[test]
fn a_value_that_does_not_fit_and_an_unknown_name_are_errors() {
    let s = Scratch::new();
    s.write("m.onnx", model(8));
    let x = || ("x", vector(&[1.0, 2.0]));
    s.npz(
        "type.npz",
        &[x(), ("scale", Array::F64(vec![1], vec![1.0]))],
    );
    s.heddle("run m.onnx -i type.npz")
        .fails(3, &["`scale`", "it holds f64, but f32 is needed"]);
    s.npz("name.npz", &[x(), ("scales", vector(&[1.0]))]);
    s.heddle("run m.onnx -i name.npz").fails(3, &["`scales`"]);
}

#[test]
fn inspect_lists_optional_inputs() {
    let s = Scratch::new();
    s.write("m.onnx", model(8));
    let text = s.heddle("inspect m.onnx").ok();
    assert!(text.contains("inputs\n  x  f32[n]\n"), "{text}");
    assert!(
        text.contains("optional inputs\n  scale  f32[m]\n"),
        "{text}"
    );
    let json = s.heddle("inspect m.onnx --json").json();
    let expected = serde_json::json!([{"name": "scale", "type": "f32[m]"}]);
    assert_eq!(json["optional_inputs"], expected);
    assert_eq!(json["inputs"].as_array().unwrap().len(), 1);
}

#[test]
fn compile_takes_names_of_inputs() {
    let s = Scratch::new();
    s.write("m.onnx", model(8));
    let text = s.heddle("compile m.onnx --emit ir").ok();
    assert!(text.contains("fn @main(%x: f32[n])"), "{text}");
    let text = s.heddle("compile m.onnx --emit ir --override scale").ok();
    assert!(
        text.contains("fn @main(%scale: f32[m], %x: f32[n])"),
        "{text}"
    );
    s.heddle("compile m.onnx --emit ir --override x")
        .fails(2, &["`x`", "optional inputs are `scale`"]);
}

/// Arrays by the names in their files.
type Given<'a> = &'a [(&'a str, &'a [f32])];

/// Files of a case are told apart by the names in them, so that a set may leave defaults as they are.
#[test]
fn cases_may_give_values_for_defaults() {
    let s = Scratch::new();
    s.write("cases/a/model.onnx", model(8));
    let sets: [(Given, [f32; 2]); 3] = [
        (&[("x", &[1.0, 2.0])], [2.0, 4.0]),
        (&[("scale", &[3.0]), ("x", &[1.0, 2.0])], [3.0, 6.0]),
        (&[("x", &[1.0, 2.0]), ("scale", &[0.0, 1.0])], [0.0, 2.0]),
    ];
    for (k, (inputs, want)) in sets.iter().enumerate() {
        let folder = format!("cases/a/test_data_set_{k}");
        for (i, (name, values)) in inputs.iter().enumerate() {
            let file = tensor(name, values).encode_to_vec();
            s.write(&format!("{folder}/input_{i}.pb"), file);
        }
        let want = tensor("y", want).encode_to_vec();
        s.write(&format!("{folder}/output_0.pb"), want);
    }
    for device in ["interp", "cpu"] {
        let out = s.heddle(&format!("test cases --device {device}")).ok();
        assert!(
            out.ends_with("1 passed, 0 failed, 0 unsupported\n"),
            "{out}"
        );
    }
}

/// Softmax along an axis, then Flatten: what they do depends on the rank of `x`, which the file does not declare.
pub fn unranked() -> Vec<u8> {
    let port = |name: &str| {
        let tensor = type_proto::Tensor {
            elem_type: Some(1),
            shape: None,
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
    let node = |op: &str, input: &str, output: &str| NodeProto {
        op_type: Some(op.into()),
        input: vec![input.into()],
        output: vec![output.into()],
        ..Default::default()
    };
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto {
            domain: None,
            version: Some(17),
        }],
        graph: Some(GraphProto {
            name: Some("g".into()),
            node: vec![node("Softmax", "x", "s"), node("Flatten", "s", "y")],
            input: vec![port("x")],
            output: vec![port("y")],
            ..Default::default()
        }),
        ..Default::default()
    };
    model.encode_to_vec()
}

#[test]
fn ranks_come_from_the_input_file() {
    let s = Scratch::new();
    s.write("m.onnx", unranked());
    for shape in [vec![3], vec![2, 3], vec![2, 1, 3], vec![0, 3]] {
        let count = shape.iter().product::<u64>() as usize;
        let x = Array::F32(shape.clone(), vec![0.5; count]);
        s.npz("in.npz", &[("x", x)]);
        for device in ["interp", "cpu"] {
            let text = s
                .heddle(&format!(
                    "run m.onnx -i in.npz -o out.npz --device {device} --json"
                ))
                .json();
            assert!(text["interpreted"].is_null(), "{text}");
            let (_, y) = s.elements::<f32>("out.npz", "y");
            assert_eq!(y.len(), count);
            assert!(y.iter().all(|y| (y - 1.0 / 3.0).abs() < 1e-6), "{y:?}");
        }
    }
    s.heddle("run m.onnx --random 1")
        .fails(4, &["rank is not known", "--input"]);
}
