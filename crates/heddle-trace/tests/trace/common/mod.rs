//! Traced graphs written in a few lines, and their runs on the interpreter.

use heddle_interp::{Options, run};
use heddle_ir::{DType, Datum, Module, Tensor};
use heddle_trace::{TraceError, load};
use serde_json::{Value as Json, json};

/// A value as JSON: `f32[n,3]`, or `size`.
pub fn value(id: i64, name: &str, ty: &str) -> Json {
    let (dtype, dims) = ty.split_once('[').unwrap_or((ty, ""));
    let dims = dims
        .trim_end_matches(']')
        .split(',')
        .filter(|d| !d.is_empty());
    let shape: Vec<Json> = dims
        .map(|d| d.parse::<i64>().map_or_else(|_| json!(d), |n| json!(n)))
        .collect();
    json!({"id": id, "name": name, "type": dtype, "shape": shape})
}

/// A node as JSON, with results `(id, type)`.
pub fn node(target: &str, args: Json, results: &[(i64, &str)]) -> Json {
    let results: Vec<Json> = results
        .iter()
        .map(|(id, ty)| value(*id, &format!("v{id}"), ty))
        .collect();
    json!({"target": target, "args": args, "results": results,
        "place": {"file": "model.py", "line": 7, "text": ""}})
}

/// A node with arguments by name.
pub fn node_with(target: &str, args: Json, kwargs: Json, results: &[(i64, &str)]) -> Json {
    let mut made = node(target, args, results);
    made["kwargs"] = kwargs;
    made
}

/// A graph as JSON, with inputs `(id, type)` and outputs by id.
pub fn graph(inputs: &[(i64, &str)], nodes: Vec<Json>, outputs: &[i64]) -> Json {
    let inputs: Vec<Json> = inputs
        .iter()
        .map(|(id, ty)| value(*id, &format!("x{id}"), ty))
        .collect();
    let outputs: Vec<Json> = outputs.iter().map(|&id| v(id)).collect();
    json!({"inputs": inputs, "nodes": nodes, "outputs": outputs})
}

/// A module of one function.
pub fn module(main: Json) -> Json {
    json!({"version": 1, "entry": "main", "functions": {"main": main}})
}

/// A value as an argument.
pub fn v(id: i64) -> Json {
    json!({"value": id})
}

/// An integer as an argument.
pub fn i(n: i64) -> Json {
    json!({"int": n})
}

/// A float as an argument.
pub fn f(x: f64) -> Json {
    json!({"float": x})
}

/// A list of integers as an argument.
pub fn ints(all: &[i64]) -> Json {
    json!({"list": all.iter().map(|&n| i(n)).collect::<Vec<_>>()})
}

/// A list of arguments.
pub fn list(all: &[Json]) -> Json {
    json!({"list": all})
}

/// Nothing as an argument.
pub fn none() -> Json {
    json!({"none": true})
}

/// A module as text.
pub fn text(module: &Module) -> String {
    heddle_ir::text::print(module)
}

/// Reads a module without constants, and verifies it.
pub fn read(json: &Json) -> Result<Module, TraceError> {
    let module = load(&json.to_string(), vec![], Some(heddle_interp::fold))?;
    heddle_ir::verify(&module).unwrap_or_else(|e| panic!("{e:?}\n{}", text(&module)));
    Ok(module)
}

/// The results of a module.
pub fn results(json: &Json, inputs: &[Tensor]) -> Vec<Tensor> {
    let module = read(json).unwrap_or_else(|e| panic!("{e}"));
    run_module(&module, inputs)
}

/// The results of a module that is read.
pub fn run_module(module: &Module, inputs: &[Tensor]) -> Vec<Tensor> {
    let options = Options {
        check_types: true,
        ..Options::default()
    };
    let inputs: Vec<Datum> = inputs.iter().cloned().map(Datum::from).collect();
    let outputs =
        run(module, &inputs, &options).unwrap_or_else(|e| panic!("{e}\n{}", text(module)));
    let tensor = |d: Datum| match d {
        Datum::Tensor(t) => t,
        other => panic!("{other:?} is no array"),
    };
    outputs.into_iter().map(tensor).collect()
}

/// A node on inputs `0, 1, …` of these types; its results.
pub fn apply(
    target: &str,
    args: Json,
    kwargs: Json,
    inputs: &[(&str, Tensor)],
    types: &[&str],
) -> Vec<Tensor> {
    let ports: Vec<(i64, &str)> = inputs
        .iter()
        .enumerate()
        .map(|(i, (ty, _))| (i as i64, *ty))
        .collect();
    let ids: Vec<i64> = (0..types.len() as i64).map(|i| 100 + i).collect();
    let stated: Vec<(i64, &str)> = ids.iter().copied().zip(types.iter().copied()).collect();
    let main = graph(&ports, vec![node_with(target, args, kwargs, &stated)], &ids);
    let values: Vec<Tensor> = inputs.iter().map(|(_, t)| t.clone()).collect();
    results(&module(main), &values)
}

/// An array of `f32`.
pub fn f32s(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_slice(shape.to_vec(), values)
}

/// An array of `i64`.
pub fn i64s(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_slice(shape.to_vec(), values)
}

/// An array of truth values.
pub fn bools(shape: &[usize], values: &[bool]) -> Tensor {
    let bytes: Vec<u8> = values.iter().map(|&b| u8::from(b)).collect();
    Tensor::new(DType::Bool, shape.to_vec(), bytes.into()).unwrap()
}

/// The elements as numbers.
pub fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_f64s()
        .or_else(|| Some(t.to_i64s()?.into_iter().map(|n| n as f64).collect()))
        .unwrap()
}

/// Checks shape and elements.
#[track_caller]
pub fn close(found: &Tensor, shape: &[usize], expected: &[f64]) {
    assert_eq!(found.shape(), shape);
    let found = numbers(found);
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-5 * b.abs().max(1.0);
        assert!(
            same,
            "element {i}: {a}, expected {b}\n{found:?}\n{expected:?}"
        );
    }
}
