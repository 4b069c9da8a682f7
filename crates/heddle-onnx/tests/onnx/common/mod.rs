//! Small ONNX models built in code.

use bytes::Bytes;
use heddle_ir::{Datum, Module, Tensor};
use heddle_onnx::proto::tensor_proto::DataType;
use heddle_onnx::proto::tensor_shape_proto::dimension::Value as DimValue;
use heddle_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use heddle_onnx::proto::type_proto::Value as TypeValue;
use heddle_onnx::proto::*;
use heddle_onnx::{ImportError, ImportOptions, Imported, load_bytes};
use prost::Message;

pub const FLOAT: i32 = DataType::Float as i32;
pub const INT64: i32 = DataType::Int64 as i32;
pub const BOOL: i32 = DataType::Bool as i32;

/// A node; `name` may be empty.
pub fn named(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let strings = |list: &[&str]| list.iter().map(|s| s.to_string()).collect();
    NodeProto {
        name: Some(name.into()),
        op_type: Some(op.into()),
        input: strings(inputs),
        output: strings(outputs),
        ..Default::default()
    }
}

/// A node without a name.
pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    named("", op, inputs, outputs)
}

/// A call of a function in the domain `local`.
pub fn call(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        domain: Some("local".into()),
        ..node(op, inputs, outputs)
    }
}

impl Attr for NodeProto {}

/// Attributes, chained.
pub trait Attr: Into<NodeProto> {
    fn attr(self, attribute: AttributeProto) -> NodeProto {
        let mut node = self.into();
        node.attribute.push(attribute);
        node
    }
    fn int(self, name: &str, value: i64) -> NodeProto {
        self.attr(AttributeProto {
            name: Some(name.into()),
            i: Some(value),
            ..Default::default()
        })
    }
    fn graph(self, name: &str, graph: GraphProto) -> NodeProto {
        self.attr(AttributeProto {
            name: Some(name.into()),
            g: Some(graph),
            ..Default::default()
        })
    }
    fn tensor(self, name: &str, tensor: TensorProto) -> NodeProto {
        self.attr(AttributeProto {
            name: Some(name.into()),
            t: Some(tensor),
            ..Default::default()
        })
    }
}

/// A declared tensor; sizes below 0 have the name `n`.
pub fn info(name: &str, dtype: i32, dims: &[i64]) -> ValueInfoProto {
    let dim = |&d: &i64| Dimension {
        value: Some(match d {
            0.. => dimension::Value::DimValue(d),
            _ => DimValue::DimParam("n".into()),
        }),
        ..Default::default()
    };
    let shape = TensorShapeProto {
        dim: dims.iter().map(dim).collect(),
    };
    shaped(name, dtype, Some(shape))
}

/// A declared tensor of any rank.
pub fn unranked(name: &str, dtype: i32) -> ValueInfoProto {
    shaped(name, dtype, None)
}

fn shaped(name: &str, dtype: i32, shape: Option<TensorShapeProto>) -> ValueInfoProto {
    let tensor = type_proto::Tensor {
        elem_type: Some(dtype),
        shape,
    };
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto {
            value: Some(TypeValue::TensorType(tensor)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A name without a type.
pub fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto {
        name: Some(name.into()),
        ..Default::default()
    }
}

/// Names without types.
pub fn names(list: &[&str]) -> Vec<ValueInfoProto> {
    list.iter().map(|n| untyped(n)).collect()
}

pub fn graph(
    name: &str,
    input: Vec<ValueInfoProto>,
    output: Vec<ValueInfoProto>,
    node: Vec<NodeProto>,
) -> GraphProto {
    GraphProto {
        name: Some(name.into()),
        input,
        output,
        node,
        ..Default::default()
    }
}

pub fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        dims: dims.to_vec(),
        data_type: Some(FLOAT),
        float_data: values.to_vec(),
        ..Default::default()
    }
}

pub fn ints(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        dims: dims.to_vec(),
        data_type: Some(INT64),
        int64_data: values.to_vec(),
        ..Default::default()
    }
}

pub fn function(
    name: &str,
    input: &[&str],
    output: &[&str],
    node: Vec<NodeProto>,
) -> FunctionProto {
    let strings = |list: &[&str]| list.iter().map(|s| s.to_string()).collect();
    FunctionProto {
        name: Some(name.into()),
        domain: Some("local".into()),
        input: strings(input),
        output: strings(output),
        node,
        ..Default::default()
    }
}

pub fn model(graph: GraphProto, functions: Vec<FunctionProto>) -> ModelProto {
    let opset = |domain: &str, version| OperatorSetIdProto {
        domain: Some(domain.into()),
        version: Some(version),
    };
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![opset("", 17), opset("local", 1)],
        graph: Some(graph),
        functions,
        ..Default::default()
    }
}

pub fn import(model: &ModelProto) -> Result<Module, ImportError> {
    Ok(import_with(model, &[])?.module)
}

/// Imports with values given for some inputs that have defaults.
pub fn import_with(model: &ModelProto, overrides: &[&str]) -> Result<Imported, ImportError> {
    let options = ImportOptions {
        folder: Some(heddle_interp::fold),
        overrides: overrides.iter().map(|name| name.to_string()).collect(),
        ..Default::default()
    };
    let imported = load_bytes(
        "model".as_ref(),
        Bytes::from(model.encode_to_vec()),
        None,
        &options,
    )?;
    if let Err(errors) = heddle_ir::verify::verify(&imported.module) {
        let text = heddle_ir::text::print(&imported.module);
        panic!("{}\n{text}", errors[0]);
    }
    Ok(imported)
}

pub fn run(model: &ModelProto, inputs: &[Tensor]) -> Vec<Datum> {
    run_with(model, &[], inputs)
}

/// Runs with values given for some inputs that have defaults.
pub fn run_with(model: &ModelProto, overrides: &[&str], inputs: &[Tensor]) -> Vec<Datum> {
    let module = import_with(model, overrides)
        .unwrap_or_else(|e| panic!("{e}"))
        .module;
    let inputs: Vec<Datum> = inputs.iter().cloned().map(Datum::from).collect();
    heddle_interp::run(&module, &inputs, &Default::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A fork on `c` between `then` and `otherwise`, each of which makes the value `r`.
pub fn fork(
    output: &str,
    cond: &str,
    then: Vec<NodeProto>,
    otherwise: Vec<NodeProto>,
) -> NodeProto {
    node("If", &[cond], &[output])
        .graph("then_branch", graph("then", vec![], names(&["r"]), then))
        .graph(
            "else_branch",
            graph("else", vec![], names(&["r"]), otherwise),
        )
}
