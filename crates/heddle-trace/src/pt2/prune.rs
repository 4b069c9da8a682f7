//! Removes nodes that nothing reads.

use std::collections::HashSet;

use crate::graph::{Arg, Graph};
use crate::lower::ASSERTIONS;

/// The graph without dead nodes. Assertions stay, and nodes of which `begins` says that a name of a size begins there.
pub fn prune(mut graph: Graph, begins: &[bool]) -> Graph {
    let mut read = HashSet::new();
    graph.outputs.iter().for_each(|arg| visit(arg, &mut read));
    let mut kept = vec![];
    for (node, begins) in graph.nodes.into_iter().zip(begins).rev() {
        let stays = *begins || ASSERTIONS.contains(&node.target.as_str());
        if stays || node.results.iter().any(|r| read.contains(&r.id)) {
            let args = node.args.iter().chain(node.kwargs.values());
            args.for_each(|arg| visit(arg, &mut read));
            kept.push(node);
        }
    }
    kept.reverse();
    graph.nodes = kept;
    graph
}

fn visit(arg: &Arg, read: &mut HashSet<i64>) {
    match arg {
        Arg::Value(id) => {
            read.insert(*id);
        }
        Arg::List(list) => list.iter().for_each(|arg| visit(arg, read)),
        _ => {}
    }
}

/// Names of constants that a graph reads.
pub fn constants(graph: &Graph) -> HashSet<String> {
    fn collect(arg: &Arg, found: &mut HashSet<String>) {
        match arg {
            Arg::Constant(name) => {
                found.insert(name.clone());
            }
            Arg::List(list) => list.iter().for_each(|arg| collect(arg, found)),
            Arg::Graph(graph) => found.extend(constants(graph)),
            _ => {}
        }
    }
    let mut found = HashSet::new();
    let args = graph
        .nodes
        .iter()
        .flat_map(|n| n.args.iter().chain(n.kwargs.values()));
    for arg in args.chain(&graph.outputs) {
        collect(arg, &mut found);
    }
    found
}
