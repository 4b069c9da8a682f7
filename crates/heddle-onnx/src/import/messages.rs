//! Facts about ONNX's messages that need no context: names, nested graphs, operator sets.

use std::collections::HashMap;

use super::versions::OPSETS;
use crate::error::ImportError;
use crate::proto::{GraphProto, NodeProto, OperatorSetIdProto};

/// The domain as tables know it: ONNX's own has two names.
pub fn domain(name: &str) -> &str {
    match name {
        "ai.onnx" => "",
        name => name,
    }
}

/// The node's name, else its first output, else its operator.
pub fn short_name(node: &NodeProto) -> &str {
    let output = || node.output.iter().find(|o| !o.is_empty());
    match node.name() {
        "" => output().map_or(node.op_type(), |o| o),
        name => name,
    }
}

/// The graphs that a node owns.
pub fn subgraphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    let attributes = node.attribute.iter();
    attributes.flat_map(|a| a.g.iter().chain(&a.graphs))
}

/// Visits nodes, those in subgraphs too.
pub fn each_node<'a>(nodes: &'a [NodeProto], visit: &mut dyn FnMut(&'a NodeProto)) {
    for node in nodes {
        visit(node);
        for graph in subgraphs(node) {
            each_node(&graph.node, visit);
        }
    }
}

/// Versions of operator sets by domain, checked for ONNX's own.
pub fn opsets(list: &[OperatorSetIdProto]) -> Result<HashMap<&str, i64>, ImportError> {
    let mut opsets = HashMap::new();
    for id in list {
        let (domain, version) = (domain(id.domain()), id.version());
        if domain.is_empty() && !OPSETS.contains(&version) {
            return Err(ImportError::Opset {
                domain: domain.to_owned(),
                version,
                min: *OPSETS.start(),
                max: *OPSETS.end(),
            });
        }
        opsets.insert(domain, version);
    }
    Ok(opsets)
}
