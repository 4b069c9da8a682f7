//! Free names of graphs.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::messages::subgraphs;
use crate::proto::{GraphProto, NodeProto};

/// Names that graphs use but do not define, found once per graph.
#[derive(Default)]
pub struct Captures<'m> {
    known: HashMap<*const GraphProto, Rc<[&'m str]>>,
}

impl<'m> Captures<'m> {
    /// The names that the graph and those in it use before they define them, if they ever do.
    pub fn of(&mut self, graph: &'m GraphProto) -> Rc<[&'m str]> {
        if let Some(names) = self.known.get(&(graph as *const _)) {
            return names.clone();
        }
        let inputs = graph.input.iter().map(|i| i.name());
        let constants = graph.initializer.iter().map(|t| t.name());
        let mut defined: HashSet<&str> = inputs.chain(constants).collect();
        defined.extend(
            graph
                .sparse_initializer
                .iter()
                .filter_map(|s| Some(s.values.as_ref()?.name())),
        );
        let mut free = vec![];
        let mut seen = HashSet::new();
        let mut note = |name: &'m str, defined: &HashSet<&str>| {
            if !name.is_empty() && !defined.contains(name) && seen.insert(name) {
                free.push(name);
            }
        };
        for node in &graph.node {
            self.uses(node, &mut |name| note(name, &defined));
            defined.extend(node.output.iter().map(String::as_str));
        }
        for output in &graph.output {
            note(output.name(), &defined);
        }
        let names: Rc<[&str]> = free.into();
        self.known.insert(graph, names.clone());
        names
    }

    /// Visits the names that a node uses, itself and through its graphs.
    pub fn uses(&mut self, node: &'m NodeProto, visit: &mut dyn FnMut(&'m str)) {
        node.input
            .iter()
            .filter(|n| !n.is_empty())
            .for_each(|n| visit(n));
        for graph in subgraphs(node) {
            self.of(graph).iter().for_each(|n| visit(n));
        }
    }
}
