//! Sizes that instructions equate: inputs are checked for them, and results stay those of the program as it was written.

use crate::onnx_common::*;
use heddle::{
    CompileOptions, Device, Inputs, LoadOptions, Model, Outputs, RunOptions, Tensor, Value, compile,
};
use heddle_onnx::proto::tensor_shape_proto::dimension;
use heddle_onnx::proto::type_proto::Value as TypeValue;
use heddle_onnx::proto::*;
use prost::Message;

/// Results on the cpu device, which are those of the interpreter without graph passes. `None` if both fail.
fn run(model: &Model, inputs: &[(&str, &[usize])]) -> Option<Outputs> {
    let value = |shape: &[usize], seed: f32| -> Value {
        let count = shape.iter().product::<usize>();
        let numbers: Vec<f32> = (0..count).map(|k| (k as f32 * 0.7 + seed).sin()).collect();
        Tensor::from_slice(shape.to_vec(), &numbers).into()
    };
    let named = inputs.iter().enumerate();
    let inputs: Inputs = named
        .map(|(k, (name, shape))| (name.to_string(), value(shape, k as f32)))
        .collect();
    let [plain, compiled] =
        [(Device::Interp, false), (Device::Cpu, true)].map(|(device, optimize)| {
            let options = CompileOptions {
                device,
                optimize,
                threads: Some(2),
                verify: true,
                ..Default::default()
            };
            let program = compile(model, &options).unwrap();
            assert_eq!(program.report().interpreted, None);
            program.run(inputs.clone(), &RunOptions::default())
        });
    let Ok(compiled) = compiled else {
        assert!(plain.is_err(), "{:?}", compiled.err());
        return None;
    };
    let plain = plain.unwrap().outputs;
    for (name, want) in &plain {
        let [want, got] = [want, &compiled.outputs[name]].map(|value| match value {
            Value::Tensor(t) => t.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(want.shape(), got.shape(), "{name}");
        let [want, got] = [want, got].map(|t| t.to_vec::<f32>().unwrap());
        let far = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-5;
        assert!(!want.iter().zip(&got).any(far), "{name}: {want:?} {got:?}");
    }
    Some(compiled.outputs)
}

fn shape(outputs: &Outputs, name: &str) -> Vec<usize> {
    match &outputs[name] {
        Value::Tensor(t) => t.shape().to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn operands_that_broadcast() {
    let text = "\
fn @main(%x: f32[n], %y: f32[m]) -> (%r: f32[?]) {
  return add(pad(%x, [1, 1], 0.0), pad(%y, [0, 2], 1.0))
}
";
    let model = Model::parse("m", text).unwrap();
    for n in [0, 1, 5] {
        let outputs = run(&model, &[("x", &[n]), ("y", &[n])]).unwrap();
        assert_eq!(shape(&outputs, "r"), [n + 2]);
    }
    assert!(run(&model, &[("x", &[3]), ("y", &[4])]).is_none());
    assert!(run(&model, &[("x", &[0]), ("y", &[1])]).is_none());
}

/// The state of a loop begins with a size that has another name than the one that an iteration yields.
#[test]
fn states_that_keep_their_sizes() {
    let text = "\
fn @main(%x: f32[t,n,3], %h: f32[m,4], %w: f32[7,4]) -> (%last: f32[?,4]) {
  %last = loop %i trip gather(shape(%x), 0, axis=0) carry (%hp: f32[?,4] = %h) {
    %now: f32[n,3] = gather(%x, %i, axis=0)
    continue carry tanh(dot(concat(%now, %hp, axis=1), %w))
  }
  return %last
}
";
    let model = Model::parse("m", text).unwrap();
    let run = |t, n, m| {
        let inputs: [(&str, &[usize]); 3] = [("x", &[t, n, 3]), ("h", &[m, 4]), ("w", &[7, 4])];
        Some(shape(&run(&model, &inputs)?, "last"))
    };
    assert_eq!(run(5, 2, 2), Some(vec![2, 4]));
    assert_eq!(run(5, 0, 0), Some(vec![0, 4]));
    // Without an iteration, nothing asks for it.
    assert_eq!(run(0, 2, 3), Some(vec![3, 4]));
    assert_eq!(run(1, 2, 3), None);
    assert_eq!(run(3, 1, 2), None);
}

fn port(name: &str, dims: &[&str]) -> ValueInfoProto {
    let mut info = info(name, FLOAT, &vec![-1; dims.len()]);
    let Some(TypeValue::TensorType(tensor)) = info.r#type.as_mut().and_then(|t| t.value.as_mut())
    else {
        panic!("a tensor");
    };
    let shape = tensor.shape.as_mut().unwrap();
    for (dim, text) in shape.dim.iter_mut().zip(dims) {
        dim.value = Some(match text.parse() {
            Ok(number) => dimension::Value::DimValue(number),
            Err(_) => dimension::Value::DimParam(text.to_string()),
        });
    }
    info
}

/// The states before the first step have the batch of the sequences, whatever the file calls it.
#[test]
fn states_of_recurrent_nodes() {
    for (op, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
        let mut inputs = vec![port("x", &["t", "n", "3"]), port("h", &["1", "m", "2"])];
        let mut names_in = vec!["x", "w", "r", "", "", "h"];
        if op == "LSTM" {
            inputs.push(port("c", &["1", "k", "2"]));
            names_in.push("c");
        }
        let node = node(op, &names_in, &["y", "last"]).int("hidden_size", 2);
        let mut g = graph("main", inputs, names(&["y", "last"]), vec![node]);
        let weights = |name: &str, columns: usize| {
            let count = gates * 2 * columns;
            let values: Vec<f32> = (0..count).map(|k| (k as f32).cos()).collect();
            floats(name, &[1, gates as i64 * 2, columns as i64], &values)
        };
        g.initializer = vec![weights("w", 3), weights("r", 2)];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, model(g, vec![]).encode_to_vec()).unwrap();
        let model = Model::load(&path, &LoadOptions::default()).unwrap();
        let options = CompileOptions {
            device: Device::Interp,
            ..Default::default()
        };
        let signature = compile(&model, &options).unwrap().signature().clone();
        let types = signature.inputs.iter().map(|port| port.ty.to_string());
        let found: Vec<String> = types.skip(1).collect();
        assert!(found.iter().all(|ty| ty == "f32[1,n,2]"), "{op}: {found:?}");
        let run = |t: usize, n: usize, m: usize| {
            let all: [(&str, &[usize]); 3] =
                [("x", &[t, n, 3]), ("h", &[1, m, 2]), ("c", &[1, m, 2])];
            let count = if op == "LSTM" { 3 } else { 2 };
            Some(shape(&run(&model, &all[..count])?, "last"))
        };
        assert_eq!(run(3, 2, 2), Some(vec![1, 2, 2]));
        assert_eq!(run(0, 2, 2), Some(vec![1, 2, 2]));
        assert_eq!(run(3, 2, 1), None);
    }
}
