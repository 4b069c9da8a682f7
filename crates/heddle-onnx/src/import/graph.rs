//! Graphs: inputs, initializers, nodes in order, outputs.

use std::collections::{HashMap, HashSet};

use heddle_ir::{FuncBuilder, Tensor, Value};

use super::messages::short_name;
use super::order::order;
use super::scope::{Binding, Frame};
use super::state::Importer;
use crate::error::{ImportError, graph_error};
use crate::proto::{GraphProto, NodeProto, SparseTensorProto, TensorProto};
use crate::sparse::dense;

impl<'m> Importer<'m> {
    /// Imports a graph into the open region and returns its outputs; `None` for those that are
    /// poison.
    ///
    /// `args` are its inputs; an input that is absent gets its initializer. `parent` is the scope
    /// around it.
    pub(super) fn graph(
        &mut self,
        f: &mut Frame<'m>,
        graph: &'m GraphProto,
        parent: Option<usize>,
        args: Vec<Binding>,
    ) -> Result<Vec<Option<Value>>, ImportError> {
        let scope = f.open(parent);
        let fail = |message: String| graph_error(&format!("graph `{}`", graph.name()), message);
        let twice = |name: &str| fail(format!("`{name}` is defined twice"));
        f.declare(scope, &graph.value_info);
        // The outputs of a loop's body are carried: their rank may be another one in each iteration.
        let is_body = parent.is_some() && !graph.input.is_empty();
        if !is_body {
            f.declare(scope, &graph.output);
        }
        let mut given = HashSet::new();
        let mut absent = vec![];
        for (i, input) in graph.input.iter().enumerate() {
            let name = input.name();
            match args.get(i) {
                None | Some(Binding::Absent) => absent.push(name),
                Some(arg) => {
                    given.insert(name);
                    if !f.define(scope, name, *arg) {
                        return Err(twice(name));
                    }
                }
            }
        }
        f.b.set_loc(None);
        for proto in &graph.initializer {
            // The initializer of a given input is an unused default.
            if given.contains(proto.name()) {
                continue;
            }
            let replaced = match self.is_main(graph) {
                true => self.options.constants.get(proto.name()).cloned(),
                false => None,
            };
            let value = f.b.constant(match replaced {
                Some(tensor) => tensor,
                None => self.stored(proto)?,
            });
            if !f.define(scope, proto.name(), Binding::Value(value)) {
                return Err(twice(proto.name()));
            }
        }
        for proto in &graph.sparse_initializer {
            let name = proto.values.as_ref().map_or("", |v| v.name());
            if given.contains(name) {
                continue;
            }
            let value = self.sparse(&mut f.b, proto)?;
            if !f.define(scope, name, Binding::Value(value)) {
                return Err(twice(name));
            }
        }
        for name in absent {
            if f.lookup(scope, name).is_none() && !f.define(scope, name, Binding::Absent) {
                return Err(twice(name));
            }
        }
        let place = || format!("graph `{}`", graph.name());
        // Graphs nest in functions, which nest deeper than graphs alone may.
        stacker::maybe_grow(128 << 10, 4 << 20, || {
            self.nodes(f, scope, &graph.node, &place)
        })?;
        let outputs = graph
            .output
            .iter()
            .map(|o| match f.lookup(scope, o.name()) {
                Some(Binding::Value(v)) => Ok(Some(v)),
                Some(Binding::Poison) => Ok(None),
                _ => Err(fail(format!("output `{}` is not defined", o.name()))),
            });
        let outputs = outputs.collect();
        f.scopes.truncate(scope);
        outputs
    }

    fn is_main(&self, graph: &GraphProto) -> bool {
        let main = self.model.graph.as_ref();
        main.is_some_and(|main| std::ptr::eq(main, graph))
    }

    /// Imports nodes, sorted if they have to be.
    pub(super) fn nodes(
        &mut self,
        f: &mut Frame<'m>,
        scope: usize,
        nodes: &'m [NodeProto],
        place: &dyn Fn() -> String,
    ) -> Result<(), ImportError> {
        each_output_once(nodes).map_err(|message| graph_error(&place(), message))?;
        let order = order(nodes, &mut self.captures, &|name| {
            f.lookup(scope, name).is_some()
        });
        let order = order.map_err(|cycle| {
            let name = |i: &usize| format!("`{}`", short_name(&nodes[*i]));
            let names: Vec<_> = cycle.iter().take(8).map(name).collect();
            let more = if cycle.len() > 8 { ", …" } else { "" };
            let message = format!(
                "nodes wait for each other in a cycle: {}{more}",
                names.join(", ")
            );
            graph_error(&place(), message)
        })?;
        for i in order {
            self.node(f, scope, &nodes[i])?;
        }
        Ok(())
    }

    /// A stored tensor.
    fn stored(&self, proto: &TensorProto) -> Result<Tensor, ImportError> {
        self.store
            .tensor(proto)
            .map_err(|message| ImportError::Tensor {
                name: proto.name().to_owned(),
                message,
            })
    }

    /// A sparse tensor: zeros with values scattered into them. It is made at run time, where memory
    /// is guarded.
    fn sparse(&self, b: &mut FuncBuilder, proto: &SparseTensorProto) -> Result<Value, ImportError> {
        let empty = TensorProto::default();
        let values = proto.values.as_ref().unwrap_or(&empty);
        let indices = proto.indices.as_ref().unwrap_or(&empty);
        let (values, indices) = (self.stored(values)?, self.stored(indices)?);
        dense(b, values, indices, &proto.dims).map_err(|e| ImportError::Tensor {
            name: proto.values.as_ref().map_or("", |v| v.name()).to_owned(),
            message: e.to_string(),
        })
    }
}

/// Checks that no two outputs of nodes have the same name; the error names both nodes.
fn each_output_once(nodes: &[NodeProto]) -> Result<(), String> {
    let mut producers: HashMap<&str, &NodeProto> = HashMap::new();
    for node in nodes {
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            let Some(first) = producers.insert(output, node) else {
                continue;
            };
            let (first, second) = (titled(first), titled(node));
            return Err(match first == second {
                true => format!("`{output}` is twice an output of {first}"),
                false => format!("`{output}` is an output of both {first} and {second}"),
            });
        }
    }
    Ok(())
}

/// Checks that a graph lists no output twice: results are told apart by name.
pub(super) fn each_result_once(graph: &GraphProto) -> Result<(), ImportError> {
    let mut seen = HashSet::new();
    let Some(twice) = graph.output.iter().find(|o| !seen.insert(o.name())) else {
        return Ok(());
    };
    let name = twice.name();
    let makes = |node: &&NodeProto| node.output.iter().any(|o| o == name);
    let from = match graph.node.iter().find(makes) {
        Some(node) => format!(", which {} makes,", titled(node)),
        None => String::new(),
    };
    let message = format!("output `{name}`{from} is listed twice");
    Err(graph_error(&format!("graph `{}`", graph.name()), message))
}

/// A node with its operator, for messages.
fn titled(node: &NodeProto) -> String {
    format!("{} node `{}`", node.op_type(), short_name(node))
}
