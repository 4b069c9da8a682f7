//! The outline of an ONNX file as it stands, without importing it.

use std::collections::{BTreeMap, HashSet};

use heddle::DType;
use heddle_onnx::ops::dtype_of;
use heddle_onnx::proto::type_proto::Value as TypeValue;
use heddle_onnx::proto::{
    GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::dimension::Value as DimValue,
};

use super::outline::{Function, Node, Outline, Parameters, by_frequency};

/// The outline of a model that cannot be imported.
pub fn outline(model: &ModelProto) -> Outline {
    let mut outline = Outline::default();
    add_facts(&mut outline, model);
    let Some(graph) = &model.graph else {
        return outline;
    };
    let weights: HashSet<_> = graph.initializer.iter().map(TensorProto::name).collect();
    let (optional, inputs): (Vec<_>, Vec<_>) =
        graph.input.iter().partition(|i| weights.contains(i.name()));
    outline.inputs = inputs.into_iter().map(port).collect();
    outline.optional = optional.into_iter().map(port).collect();
    outline.outputs = graph.output.iter().map(port).collect();
    let local: HashSet<_> = model
        .functions
        .iter()
        .map(|f| (f.domain(), f.name()))
        .collect();
    let is_local = |n: &NodeProto| local.contains(&(n.domain(), n.op_type()));
    outline.functions.push(Function {
        name: "main".into(),
        signature: String::new(),
        nodes: nodes(&graph.node, &is_local),
    });
    for f in &model.functions {
        outline.functions.push(Function {
            name: qualified(f.domain(), f.name()),
            signature: format!("({}) -> ({})", f.input.join(", "), f.output.join(", ")),
            nodes: nodes(&f.node, &is_local),
        });
    }
    outline
}

/// Facts that only the file has: versions, weights and the operators that it is written with.
pub fn add_facts(outline: &mut Outline, model: &ModelProto) {
    let opsets = model.opset_import.iter().map(|o| match o.domain() {
        "" => o.version().to_string(),
        domain => format!("{domain} {}", o.version()),
    });
    outline
        .facts
        .push(("opset", opsets.collect::<Vec<_>>().join(", ")));
    if !model.producer_name().is_empty() {
        let producer = format!("{} {}", model.producer_name(), model.producer_version());
        outline
            .facts
            .push(("producer", producer.trim().to_string()));
    }
    let mut counts = Counts::default();
    if let Some(graph) = &model.graph {
        counts.graph(graph);
    }
    for f in &model.functions {
        counts.nodes(&f.node);
    }
    outline.parameters = counts.parameters;
    outline.ops = by_frequency(counts.ops);
}

#[derive(Default)]
struct Counts {
    ops: BTreeMap<String, usize>,
    parameters: Parameters,
}

impl Counts {
    fn graph(&mut self, graph: &GraphProto) {
        for tensor in &graph.initializer {
            self.tensor(tensor);
        }
        self.nodes(&graph.node);
    }

    fn nodes(&mut self, nodes: &[NodeProto]) {
        for node in nodes {
            *self.ops.entry(operator(node)).or_insert(0) += 1;
            for graph in graphs(node).map(|(_, g)| g) {
                self.graph(graph);
            }
            if node.op_type() == "Constant" {
                node.attribute
                    .iter()
                    .filter_map(|a| a.t.as_ref())
                    .for_each(|t| self.tensor(t));
            }
        }
    }

    fn tensor(&mut self, tensor: &TensorProto) {
        let size = |d: &i64| u64::try_from(*d).unwrap_or(0);
        let count = tensor.dims.iter().map(size).fold(1u64, u64::saturating_mul);
        let bits = element_type(tensor.data_type()).map_or(0, DType::bits) as u64;
        let p = &mut self.parameters;
        p.tensors += 1;
        p.elements = p.elements.saturating_add(count);
        p.bytes = p
            .bytes
            .saturating_add(count.saturating_mul(bits).div_ceil(8));
    }
}

/// The control flow among nodes.
fn nodes(list: &[NodeProto], is_local: &dyn Fn(&NodeProto) -> bool) -> Vec<Node> {
    list.iter().filter_map(|n| node(n, is_local)).collect()
}

fn node(proto: &NodeProto, is_local: &dyn Fn(&NodeProto) -> bool) -> Option<Node> {
    let first_output = proto.output.first().map_or("", String::as_str);
    let name = if proto.name().is_empty() {
        first_output
    } else {
        proto.name()
    };
    let input = |i: usize| proto.input.get(i).map_or("", String::as_str);
    if is_local(proto) {
        let mut node = Node::new("call", operator(proto));
        node.fact("at", format!("`{name}`"));
        return Some(node);
    }
    let mut node = Node::new(proto.op_type().to_ascii_lowercase(), format!("`{name}`"));
    match proto.op_type() {
        "If" => node.fact("on", input(0)),
        "Loop" => {
            node.fact("trip", input(0));
            node.fact("while", input(1));
            node.fact(
                "carries",
                proto.input.get(2..).unwrap_or_default().join("; "),
            );
        }
        "Scan" | "SequenceMap" => node.list("over", proto.input.clone()),
        _ if graphs(proto).next().is_none() => return None,
        _ => {}
    }
    for (label, graph) in graphs(proto) {
        let mut part = Node::new(label.trim_end_matches("_branch"), "");
        part.size = Some(
            graph
                .node
                .iter()
                .filter(|n| n.op_type() != "Constant")
                .count(),
        );
        part.children = nodes(&graph.node, is_local);
        node.children.push(part);
    }
    Some(node)
}

fn graphs(node: &NodeProto) -> impl Iterator<Item = (&str, &GraphProto)> {
    let each = node.attribute.iter();
    each.flat_map(|a| a.g.iter().chain(&a.graphs).map(|g| (a.name(), g)))
}

fn operator(node: &NodeProto) -> String {
    qualified(node.domain(), node.op_type())
}

fn qualified(domain: &str, name: &str) -> String {
    match domain {
        "" | "ai.onnx" => name.to_string(),
        domain => format!("{domain}::{name}"),
    }
}

fn port(info: &ValueInfoProto) -> (String, String) {
    let ty = info.r#type.as_ref().map_or("?".into(), type_text);
    (info.name().to_string(), ty)
}

/// A declared type in the text form's syntax.
fn type_text(ty: &TypeProto) -> String {
    let inner = |e: &Option<Box<TypeProto>>| e.as_ref().map_or("?".into(), |t| type_text(t));
    match &ty.value {
        Some(TypeValue::TensorType(t)) => {
            let dtype = element_type(t.elem_type()).map_or("?", DType::name);
            let Some(shape) = &t.shape else {
                return format!("{dtype}[..]");
            };
            let dim = |d: &Option<DimValue>| match d {
                Some(DimValue::DimValue(n)) => n.to_string(),
                Some(DimValue::DimParam(name)) if !name.is_empty() => name.clone(),
                _ => "?".into(),
            };
            let dims: Vec<_> = shape.dim.iter().map(|d| dim(&d.value)).collect();
            format!("{dtype}[{}]", dims.join(","))
        }
        Some(TypeValue::SequenceType(s)) => format!("seq<{}>", inner(&s.elem_type)),
        Some(TypeValue::OptionalType(o)) => format!("opt<{}>", inner(&o.elem_type)),
        Some(TypeValue::MapType(_)) => "map".into(),
        Some(TypeValue::SparseTensorType(_)) => "sparse tensor".into(),
        _ => "?".into(),
    }
}

fn element_type(number: i32) -> Option<DType> {
    dtype_of(i64::from(number)).ok()
}
