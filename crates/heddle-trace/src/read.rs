//! JSON to a graph, with bounds on its depth and size.

use serde::Deserialize;

use crate::error::TraceError;
use crate::graph::{Arg, Graph, Module, Node, VERSION};

/// Nesting of brackets in the text. A nested graph takes up to six.
pub const MAX_BRACKETS: usize = 400;
/// Nesting of graphs.
pub const MAX_GRAPHS: usize = 64;
/// Nodes, those of nested graphs included.
const MAX_NODES: usize = 1 << 20;
/// Bytes of text.
pub const MAX_BYTES: usize = 1 << 30;

/// Reads a module.
pub fn read(json: &str) -> Result<Module, TraceError> {
    let too_large = |what: String, limit| Err(TraceError::TooLarge { what, limit });
    if json.len() > MAX_BYTES {
        return too_large(format!("{} bytes", json.len()), MAX_BYTES);
    }
    let depth = nesting(json);
    if depth > MAX_BRACKETS {
        return too_large(format!("brackets nested {depth} deep"), MAX_BRACKETS);
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.disable_recursion_limit();
    let module = Module::deserialize(&mut reader).and_then(|m| reader.end().map(|()| m));
    let module = module.map_err(|error| TraceError::Json {
        message: error.to_string(),
    })?;
    if module.version != VERSION {
        let found = module.version;
        return Err(TraceError::Version { found });
    }
    check(&module)?;
    Ok(module)
}

/// Checks the bounds of a module.
pub fn check(module: &Module) -> Result<(), TraceError> {
    let too_large = |what: String, limit| Err(TraceError::TooLarge { what, limit });
    let mut nodes = 0;
    for graph in module.functions.values() {
        let depth = measure(graph, 1, &mut nodes);
        if depth > MAX_GRAPHS {
            return too_large(format!("graphs nested {depth} deep"), MAX_GRAPHS);
        }
    }
    if nodes > MAX_NODES {
        return too_large(format!("{nodes} nodes"), MAX_NODES);
    }
    Ok(())
}

/// The depth of brackets outside of strings.
pub fn nesting(json: &str) -> usize {
    let (mut depth, mut most) = (0usize, 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                most = most.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// The depth of graphs; adds up their nodes.
fn measure(graph: &Graph, depth: usize, nodes: &mut usize) -> usize {
    *nodes += graph.nodes.len();
    let inner = graph.nodes.iter().flat_map(graphs);
    inner
        .map(|g| measure(g, depth + 1, nodes))
        .max()
        .unwrap_or(depth)
}

/// The graphs among a node's arguments.
pub fn graphs(node: &Node) -> Vec<&Graph> {
    fn collect<'a>(arg: &'a Arg, found: &mut Vec<&'a Graph>) {
        match arg {
            Arg::Graph(graph) => found.push(graph),
            Arg::List(list) => list.iter().for_each(|arg| collect(arg, found)),
            _ => {}
        }
    }
    let mut found = vec![];
    for arg in node.args.iter().chain(node.kwargs.values()) {
        collect(arg, &mut found);
    }
    found
}
