//! The neutral graph, as JSON states it. `docs/trace.md` is the page for those who write one.

use std::collections::BTreeMap;
use std::fmt;

use heddle_ir::OneLine;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The version of the form that this crate reads.
pub const VERSION: u32 = 1;

/// A traced program: functions, which may call each other and themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// [`VERSION`].
    pub version: u32,
    /// The function that a run begins with.
    pub entry: String,
    /// All functions, by name.
    pub functions: BTreeMap<String, Graph>,
}

/// A function's body, or a nested graph of control flow, which sees no value of the graph around it but those that are
/// given to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// Parameters.
    pub inputs: Vec<Value>,
    /// Nodes in the order in which they are evaluated.
    pub nodes: Vec<Node>,
    /// Results.
    pub outputs: Vec<Arg>,
    /// Names of the results, if there are any, in the place of those of their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_names: Vec<String>,
}

/// A value: an array, or a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Its number, unique in its graph.
    pub id: i64,
    /// A name for people; an entry's inputs are given by it.
    pub name: String,
    /// The element type, or [`SIZE`].
    #[serde(rename = "type")]
    pub ty: String,
    /// Size of each axis. Empty for a size.
    #[serde(default)]
    pub shape: Vec<Size>,
}

/// The type of a value that is an integer outside of arrays, such as a size.
pub const SIZE: &str = "size";

/// A size: a number, or an expression in named sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// A size that is the same in every run.
    Int(i64),
    /// An expression; the grammar is at [`crate::size`].
    Expr(String),
}

/// An operator applied to arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The operator, such as `aten.add.Tensor`.
    pub target: String,
    /// Arguments by position.
    #[serde(default)]
    pub args: Vec<Arg>,
    /// Arguments by name.
    #[serde(default)]
    pub kwargs: BTreeMap<String, Arg>,
    /// The results.
    #[serde(default)]
    pub results: Vec<Value>,
    /// The line of source that the node comes from.
    #[serde(default)]
    pub place: Option<Place>,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The line's text; may be empty.
    #[serde(default)]
    pub text: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", OneLine(&self.file), self.line)
    }
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arg {
    /// A value of the same graph, defined before.
    Value(i64),
    /// An integer.
    Int(i64),
    /// A float.
    Float(Float),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(String),
    /// Nothing: `{"none": true}`.
    None(bool),
    /// An element type.
    DType(String),
    /// A list.
    List(Vec<Arg>),
    /// A nested graph.
    Graph(Graph),
    /// A function of the module.
    Function(String),
    /// A constant, handed over beside the graph.
    Constant(String),
    /// A size.
    Size(Size),
}

/// A float, which JSON states as a number or as `"inf"`, `"-inf"` or `"nan"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Float(pub f64);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            x if x.is_nan() => to.serialize_str("nan"),
            f64::INFINITY => to.serialize_str("inf"),
            f64::NEG_INFINITY => to.serialize_str("-inf"),
            x => to.serialize_f64(x),
        }
    }
}

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Float;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"inf\", \"-inf\" or \"nan\"")
            }
            fn visit_f64<E: de::Error>(self, x: f64) -> Result<Float, E> {
                Ok(Float(x))
            }
            fn visit_i64<E: de::Error>(self, x: i64) -> Result<Float, E> {
                Ok(Float(x as f64))
            }
            fn visit_u64<E: de::Error>(self, x: u64) -> Result<Float, E> {
                Ok(Float(x as f64))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Float, E> {
                match text {
                    "inf" | "Infinity" => Ok(Float(f64::INFINITY)),
                    "-inf" | "-Infinity" => Ok(Float(f64::NEG_INFINITY)),
                    "nan" | "NaN" => Ok(Float(f64::NAN)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        from.deserialize_any(Reader)
    }
}
