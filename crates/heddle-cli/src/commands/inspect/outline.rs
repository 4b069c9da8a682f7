//! The outline of a model, from the IR or from a file.

use heddle_onnx::UnsupportedOp;
use serde_json::{Value, json};

use super::compiled::Compiled;

/// A model in outline.
#[derive(Debug, Default)]
pub struct Outline {
    /// Facts about the file, as `opset: 17`.
    pub facts: Vec<(&'static str, String)>,
    /// Names and types.
    pub inputs: Vec<(String, String)>,
    /// Names and types of inputs that have a default value.
    pub optional: Vec<(String, String)>,
    /// Names and types.
    pub outputs: Vec<(String, String)>,
    /// Bounds of named sizes, as `n`, `1 to 64`.
    pub sizes: Vec<(String, String)>,
    /// Weights, or constants where the file does not tell them apart.
    pub parameters: Parameters,
    /// Names of operators in the file, with their counts; the most frequent first.
    pub ops: Vec<(String, usize)>,
    /// The ops of the graph IR, the same way; none where the model cannot be imported.
    pub ir_ops: Vec<(String, usize)>,
    /// Control flow: one tree for each function, the entry first.
    pub functions: Vec<Function>,
    /// Functions that call themselves, directly or through each other.
    pub recursion: Vec<Vec<String>>,
    /// Unsupported operators.
    pub unsupported: Vec<UnsupportedOp>,
    /// The compiled form, if it was asked for.
    pub compiled: Option<Compiled>,
}

/// Weights.
#[derive(Debug, Default, Clone, Copy)]
pub struct Parameters {
    /// Arrays.
    pub tensors: u64,
    /// Their elements together.
    pub elements: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// A function's control flow.
#[derive(Debug)]
pub struct Function {
    /// The name.
    pub name: String,
    /// Parameters and results, as `(x: f32[n]) -> (y: f32[n])`.
    pub signature: String,
    /// Control flow.
    pub nodes: Vec<Node>,
}

/// A piece of control flow.
#[derive(Debug)]
pub struct Node {
    /// `loop`, `if`, `call` or, for a part of one, its name: `body`, `then`, `else`.
    pub kind: String,
    /// The node's name in the model; for calls the callee's.
    pub name: String,
    /// Labelled facts, as `trip`: `64`.
    pub facts: Vec<(&'static str, String)>,
    /// Labelled lists, as `carries`: values with their types.
    pub lists: Vec<(&'static str, Vec<String>)>,
    /// Number of operators directly inside.
    pub size: Option<usize>,
    /// Nodes inside.
    pub children: Vec<Node>,
}

impl Node {
    /// A node without facts.
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            name: name.into(),
            facts: vec![],
            lists: vec![],
            size: None,
            children: vec![],
        }
    }

    /// Adds a fact, unless it is empty.
    pub fn fact(&mut self, label: &'static str, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.facts.push((label, text));
        }
    }

    /// Adds a list, unless it is empty.
    pub fn list(&mut self, label: &'static str, items: Vec<String>) {
        if !items.is_empty() {
            self.lists.push((label, items));
        }
    }

    fn document(&self) -> Value {
        let mut value = json!({"kind": self.kind, "name": self.name});
        for (label, text) in &self.facts {
            value[label] = json!(text);
        }
        for (label, items) in &self.lists {
            value[label] = json!(items);
        }
        if let Some(size) = self.size {
            value["ops"] = json!(size);
        }
        if !self.children.is_empty() {
            value["inside"] = self.children.iter().map(Node::document).collect();
        }
        value
    }
}

impl Outline {
    /// The JSON form.
    pub fn document(&self) -> Value {
        let ports = |list: &[(String, String)]| -> Value {
            list.iter()
                .map(|(name, ty)| json!({"name": name, "type": ty}))
                .collect()
        };
        let counts = |list: &[(String, usize)]| -> Value {
            Value::Object(list.iter().map(|(op, n)| (op.clone(), json!(n))).collect())
        };
        let facts = self
            .facts
            .iter()
            .map(|(k, v)| (k.to_string(), json!(v)))
            .collect();
        let sizes = self
            .sizes
            .iter()
            .map(|(k, v)| (k.clone(), json!(v)))
            .collect();
        let mut document = json!({
            "facts": Value::Object(facts),
            "inputs": ports(&self.inputs),
            "optional_inputs": ports(&self.optional),
            "outputs": ports(&self.outputs),
            "sizes": Value::Object(sizes),
            "parameters": {
                "tensors": self.parameters.tensors,
                "elements": self.parameters.elements,
                "bytes": self.parameters.bytes,
            },
            "ops": counts(&self.ops),
            "ir_ops": counts(&self.ir_ops),
            "functions": self.functions.iter().map(|f| json!({
                "name": f.name,
                "signature": f.signature,
                "control_flow": f.nodes.iter().map(Node::document).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "recursion": self.recursion,
            "unsupported": self.unsupported.iter().map(|u| json!({
                "domain": u.domain,
                "op": u.op,
                "version": u.version,
                "count": u.count,
                "nodes": u.nodes,
                "reason": u.reason.to_string(),
            })).collect::<Vec<_>>(),
        });
        if let Some(compiled) = &self.compiled {
            document["compiled"] = compiled.document();
        }
        document
    }
}

/// Counts, the most frequent first and by name among equals.
pub fn by_frequency(counts: std::collections::BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut list: Vec<_> = counts.into_iter().collect();
    list.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    list
}
