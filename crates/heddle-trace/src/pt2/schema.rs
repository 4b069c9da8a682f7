//! The JSON of `torch/_export/serde/schema.py`, as far as it is read. Unknown fields are skipped: a larger minor version adds some.

use std::collections::HashMap;

use serde::Deserialize;

use crate::graph::Float;

#[derive(Debug, Deserialize)]
pub struct Program {
    pub graph_module: GraphModule,
}

/// The version alone, which is read first.
#[derive(Debug, Deserialize)]
pub struct Versioned {
    pub schema_version: Version,
}

#[derive(Debug, Deserialize)]
pub struct Version {
    pub major: i64,
    pub minor: i64,
}

#[derive(Debug, Deserialize)]
pub struct GraphModule {
    pub graph: Graph,
    pub signature: Signature,
    #[serde(default)]
    pub module_call_graph: Vec<Call>,
    #[serde(default)]
    pub treespec_namedtuple_fields: HashMap<String, NamedTuple>,
}

#[derive(Debug, Deserialize)]
pub struct NamedTuple {
    pub field_names: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Call {
    pub fqn: String,
    pub signature: Option<CallSignature>,
}

#[derive(Debug, Deserialize)]
pub struct CallSignature {
    pub out_spec: String,
}

#[derive(Debug, Deserialize)]
pub struct Graph {
    pub inputs: Vec<Argument>,
    pub outputs: Vec<Argument>,
    pub nodes: Vec<Node>,
    pub tensor_values: HashMap<String, TensorMeta>,
    #[serde(default)]
    pub sym_int_values: HashMap<String, SymInt>,
}

#[derive(Debug, Deserialize)]
pub struct Node {
    pub target: String,
    pub inputs: Vec<NamedArgument>,
    pub outputs: Vec<Argument>,
    #[serde(default)]
    pub metadata: HashMap<String, String>,
    #[serde(default)]
    pub name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct NamedArgument {
    pub name: String,
    pub arg: Argument,
    #[serde(default)]
    pub kind: Option<i64>,
}

/// [`NamedArgument::kind`] of an argument by position.
pub const POSITIONAL: i64 = 1;
/// [`NamedArgument::kind`] of an argument by name.
pub const KEYWORD: i64 = 2;

/// The variants have the schema's names.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::enum_variant_names)]
pub enum Argument {
    AsNone(serde::de::IgnoredAny),
    AsTensor(Named),
    AsTensors(Vec<Named>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsFloat(Float),
    AsFloats(Vec<Float>),
    AsString(String),
    AsStrings(Vec<String>),
    AsSymInt(SymIntArgument),
    AsSymInts(Vec<SymIntArgument>),
    AsScalarType(i64),
    AsMemoryFormat(i64),
    AsLayout(i64),
    AsDevice(Device),
    AsBool(bool),
    AsBools(Vec<bool>),
    AsSymBool(SymBoolArgument),
    AsSymBools(Vec<SymBoolArgument>),
    AsGraph(Box<GraphArgument>),
    AsOptionalTensors(Vec<OptionalTensor>),
    AsCustomObj(CustomObj),
    AsOperator(String),
    AsSymFloat(SymFloatArgument),
    AsSymFloats(Vec<SymFloatArgument>),
    AsOptionalTensor(OptionalTensor),
    AsComplex(serde::de::IgnoredAny),
    AsNestedTensors(Vec<Vec<Named>>),
    AsIntLists(Vec<Vec<i64>>),
    AsStringToArgument(serde::de::IgnoredAny),
    AsFloatLists(Vec<Vec<Float>>),
}

#[derive(Debug, Deserialize)]
pub struct Named {
    pub name: String,
}

#[derive(Debug, Deserialize)]
pub struct CustomObj {
    pub class_fqn: String,
}

#[derive(Debug, Deserialize)]
pub struct Device {
    #[serde(rename = "type")]
    pub ty: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SymIntArgument {
    AsName(String),
    AsInt(i64),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SymFloatArgument {
    AsName(String),
    AsFloat(Float),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SymBoolArgument {
    AsName(String),
    AsBool(bool),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionalTensor {
    AsTensor(Named),
    AsNone(serde::de::IgnoredAny),
}

#[derive(Debug, Deserialize)]
pub struct GraphArgument {
    pub graph: Graph,
}

#[derive(Clone, Debug, Deserialize)]
pub struct TensorMeta {
    pub dtype: i64,
    pub sizes: Vec<SymInt>,
    pub strides: Vec<SymInt>,
    pub storage_offset: SymInt,
    pub layout: i64,
}

/// [`TensorMeta::layout`] of an array with strides.
pub const STRIDED: i64 = 7;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SymInt {
    AsExpr(SymExpr),
    AsInt(i64),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SymExpr {
    pub expr_str: String,
}

#[derive(Debug, Deserialize)]
pub struct Signature {
    pub input_specs: Vec<InputSpec>,
    pub output_specs: Vec<OutputSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputSpec {
    UserInput { arg: Argument },
    Parameter { parameter_name: String },
    Buffer { buffer_name: String },
    TensorConstant { tensor_constant_name: String },
    CustomObj { arg: CustomObj },
    Token(serde::de::IgnoredAny),
    ConstantInput { name: String },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSpec {
    UserOutput(serde::de::IgnoredAny),
    LossOutput(serde::de::IgnoredAny),
    BufferMutation { buffer_name: String },
    GradientToParameter(serde::de::IgnoredAny),
    GradientToUserInput(serde::de::IgnoredAny),
    UserInputMutation { user_input_name: String },
    Token(serde::de::IgnoredAny),
    ParameterMutation { parameter_name: String },
}

/// `data/weights/NAME_weights_config.json` and that of constants.
#[derive(Debug, Deserialize)]
pub struct PayloadConfig {
    pub config: HashMap<String, Payload>,
}

#[derive(Debug, Deserialize)]
pub struct Payload {
    pub path_name: String,
    pub use_pickle: bool,
    pub tensor_meta: Option<TensorMeta>,
}

/// The name of an element type in the neutral graph, or PyTorch's if there is none.
pub fn dtype(number: i64) -> Result<&'static str, &'static str> {
    Ok(match number {
        1 => "u8",
        2 => "i8",
        3 => "i16",
        4 => "i32",
        5 => "i64",
        6 => "f16",
        7 => "f32",
        8 => "f64",
        12 => "bool",
        13 => "bf16",
        9..=11 => return Err("complex"),
        28 => return Err("uint16"),
        29 => return Err("float8_e4m3fn"),
        30 => return Err("float8_e5m2"),
        31 => return Err("float8_e4m3fnuz"),
        32 => return Err("float8_e5m2fnuz"),
        33 => return Err("float8_e8m0fnu"),
        34 => return Err("uint32"),
        35 => return Err("uint64"),
        _ => return Err("an unknown type"),
    })
}
