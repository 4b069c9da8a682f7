//! Modules and functions.

mod call;
mod check;
mod control;
mod node;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use heddle_ir::{
    DType, Dim, FuncBuilder, FuncId, Function, Loc, Module, Place, Signature, Type, Value,
};

use crate::error::{NodePlace, OpError, Result, Stop, TraceError, UnsupportedOp, invalid};
use crate::graph::{self, Arg, Graph, Node, SIZE, Size};
use crate::ops;
use crate::read::graphs;
use crate::scope::{Bound, Constants, Scope, dtype, no_constant, part};
use crate::size::Expr;

pub use check::ASSERTIONS;

/// Targets of control flow, which are lowered here.
pub const TARGETS: &[&str] = &[
    "associative_scan",
    "call",
    "check",
    "cond",
    "invoke_subgraph",
    "map",
    "scan",
    "switch",
    "while_loop",
    "while_loop_stack_output",
    "wrap_with_set_grad_enabled",
];

/// Nesting of regions that graphs may make, which leaves room below [`heddle_ir::MAX_NESTING`].
const MAX_REGIONS: usize = 200;

/// Most axes of a value.
const MAX_AXES: usize = 32;

/// Lowers a module.
pub fn lower(
    module: &graph::Module,
    constants: &Constants,
    folder: Option<heddle_ir::Folder>,
) -> Result<Module, TraceError> {
    let missing = unsupported(module);
    if !missing.is_empty() {
        return Err(TraceError::Unsupported(missing));
    }
    let mut lower = Lower {
        module,
        constants,
        folder,
        callees: HashMap::new(),
        refused: vec![],
        regions: 0,
        retries: 0,
    };
    let mut made = Module::default();
    let draws = drawing(module);
    // The entry is the first function.
    let rest = module.functions.iter().filter(|(n, _)| **n != module.entry);
    let entry = module.functions.get_key_value(&module.entry);
    let entry = entry.ok_or_else(|| TraceError::Graph {
        function: module.entry.clone(),
        message: "the entry does not exist".into(),
    })?;
    let all: Vec<_> = std::iter::once(entry).chain(rest).collect();
    for &(name, graph) in &all {
        let is_keyed = *name != module.entry && draws.contains(name.as_str());
        let signature = lower.signature(name, graph, is_keyed);
        let signature = signature.map_err(|error| TraceError::Graph {
            function: name.clone(),
            message: error.to_string(),
        })?;
        let id = made.declare(signature.clone());
        lower.callees.insert(
            name,
            Callee {
                id,
                signature,
                is_keyed,
            },
        );
    }
    for &(name, graph) in &all {
        let id = lower.callees[name.as_str()].id;
        made.functions[id] = lower.function(name, graph)?;
    }
    if !lower.refused.is_empty() {
        return Err(TraceError::Unsupported(lower.refused));
    }
    made.entries.insert(
        module.entry.clone(),
        lower.callees[module.entry.as_str()].id,
    );
    Ok(made)
}

/// A function that is called.
#[derive(Clone)]
struct Callee {
    id: FuncId,
    signature: Signature,
    /// Its last parameter is a key, as it draws random numbers.
    is_keyed: bool,
}

/// The lowering of a module.
pub struct Lower<'m> {
    module: &'m graph::Module,
    constants: &'m Constants,
    folder: Option<heddle_ir::Folder>,
    callees: HashMap<&'m str, Callee>,
    /// Nodes that are used in a way that is not supported.
    refused: Vec<UnsupportedOp>,
    /// Open regions.
    regions: usize,
    /// Loop bodies that were built anew.
    retries: usize,
}

/// The function that is being built.
pub struct Frame<'m> {
    pub b: FuncBuilder,
    name: &'m str,
    /// The key of the function's random numbers, if its caller gives one.
    key: Option<Value>,
    /// Iterations of the loops around, outermost first.
    iterations: Vec<Value>,
    /// The number of the next draw or call.
    draws: u64,
}

impl<'m> Lower<'m> {
    fn signature(&self, name: &str, graph: &Graph, is_keyed: bool) -> Result<Signature> {
        let mut names = HashMap::new();
        let symbols = stated_names(graph)?;
        let mut params = vec![];
        for input in &graph.inputs {
            let ty = declared(input, &symbols)?;
            params.push((unique(&input.name, &mut names), ty));
        }
        if is_keyed {
            params.push((unique("key", &mut names), Type::scalar(DType::U64)));
        }
        let mut names = HashMap::new();
        let values = values_of(graph);
        let mut results = vec![];
        for (i, output) in graph.outputs.iter().enumerate() {
            let (name, ty) = match output {
                Arg::None(_) => continue,
                Arg::Value(id) => match values.get(id) {
                    Some(value) => (value.name.clone(), declared(value, &symbols)?),
                    None => {
                        return invalid(format!("output {i} is value {id}, which does not exist"));
                    }
                },
                Arg::Constant(name) => {
                    let found = self.constants.get(name);
                    let tensor = found.ok_or_else(|| no_constant(name))?;
                    (name.clone(), tensor.ty())
                }
                Arg::Int(_) | Arg::Size(_) => (format!("output{i}"), Type::scalar(DType::I64)),
                Arg::Float(_) => (format!("output{i}"), Type::scalar(DType::F32)),
                Arg::Bool(_) => (format!("output{i}"), Type::scalar(DType::Bool)),
                _ => return invalid(format!("output {i} is no value")),
            };
            let name = graph.output_names.get(i).unwrap_or(&name);
            results.push((unique(name, &mut names), ty));
        }
        Ok(Signature {
            name: name.to_owned(),
            params,
            results,
            ..Default::default()
        })
    }

    fn function(&mut self, name: &'m str, graph: &'m Graph) -> Result<Function, TraceError> {
        let Callee {
            signature,
            is_keyed,
            ..
        } = self.callees[name].clone();
        let results = signature.results.clone();
        let mut b = FuncBuilder::new(signature);
        b.set_folder(self.folder);
        let mut args: Vec<Value> = b.params().to_vec();
        let key = is_keyed.then(|| args.pop()).flatten();
        let mut frame = Frame {
            b,
            name,
            key,
            iterations: vec![],
            draws: 0,
        };
        let f = &mut frame;
        let args = args.iter().zip(&graph.inputs);
        let args = args
            .map(|(&value, input)| Bound::new(value, input))
            .collect();
        let yields = self.graph(f, graph, args, &Scope::default())?;
        f.b.set_loc(None);
        let mut named = vec![];
        for ((name, ty), value) in results.into_iter().zip(yields) {
            let fitted = fit(&mut f.b, value, &ty).map_err(|error| TraceError::Graph {
                function: f.name.to_owned(),
                message: format!("its result `{name}`: {error}"),
            })?;
            named.push((name, fitted, ty));
        }
        let types: Vec<_> = named
            .iter()
            .map(|(n, _, ty)| (n.clone(), ty.clone()))
            .collect();
        let named: Vec<_> = named.into_iter().map(|(n, v, _)| (n, v)).collect();
        let mut function = frame.b.finish(&named);
        // Its callers were told these types.
        let mut signature = (*function.sig).clone();
        signature.results = types;
        function.sig = Arc::new(signature);
        Ok(function)
    }

    /// Appends a graph's nodes to the open region, and gives its results.
    fn graph(
        &mut self,
        f: &mut Frame<'m>,
        graph: &'m Graph,
        args: Vec<Bound>,
        around: &Scope,
    ) -> Result<Vec<Value>, TraceError> {
        let wrong = |f: &Frame, error: OpError| TraceError::Graph {
            function: f.name.to_owned(),
            message: error.to_string(),
        };
        let mut scope = around.inner();
        let loc = f.b.loc().cloned();
        for (input, arg) in graph.inputs.iter().zip(args) {
            scope.rebind(input, &arg).map_err(|e| wrong(f, e))?;
            scope.define(input.id, arg).map_err(|e| wrong(f, e))?;
        }
        for node in &graph.nodes {
            self.node(f, node, &mut scope)?;
        }
        f.b.set_loc(loc);
        let mut results = vec![];
        for output in &graph.outputs {
            if !matches!(output, Arg::None(_)) {
                let value = scope.value(&mut f.b, output, self.constants);
                results.push(value.map_err(|e| wrong(f, e))?);
            }
        }
        self.asserted(f, &scope, results)
            .map_err(|stop| match stop {
                Stop::Here(error) => wrong(f, error),
                Stop::Inner(error) => error,
            })
    }

    fn node(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
    ) -> Result<(), TraceError> {
        let at = place(f.name, node);
        let place = at.place.as_ref().map(|place| Place {
            file: place.file.clone(),
            line: place.line,
        });
        let loc = Loc::Node {
            op: node.target.clone(),
            name: at.name.clone(),
            place,
        };
        f.b.set_loc(Some(Arc::new(loc)));
        let (before, regions) = (f.b.checkpoint(), self.regions);
        let iterations = f.iterations.len();
        let lowered = match self.apply(f, node, scope) {
            Err(Stop::Inner(error)) => return Err(error),
            Err(Stop::Here(OpError::Unsupported(reason))) => {
                f.b.rollback(&before);
                f.iterations.truncate(iterations);
                self.regions = regions;
                let stand_ins = stand_ins(f, node);
                note(&mut self.refused, at.clone(), Some(reason));
                stand_ins
            }
            Err(Stop::Here(error)) => Err(error),
            Ok(values) => Ok(values),
        };
        let bound = lowered.and_then(|values| scope.bind_results(&f.b, node, values));
        bound.map_err(|error| TraceError::Node {
            at: Box::new(at),
            error,
        })
    }
}

/// Values in place of the results of a node that is refused, so that all such nodes are found.
fn stand_ins(f: &mut Frame, node: &Node) -> Result<Vec<Value>> {
    let mut values = vec![];
    for result in &node.results {
        let ty = match part(&result.ty) {
            None => declared(result, &HashSet::new())?,
            Some(part) => {
                let mut dims = vec![Dim::UNKNOWN; result.shape.len()];
                dims.push(Dim::constant(2));
                Type::tensor(part, dims)
            }
        };
        values.push(f.b.failure("not supported", &ty)?);
    }
    Ok(values)
}

/// A node for messages.
fn place(function: &str, node: &Node) -> NodePlace {
    NodePlace {
        function: function.to_owned(),
        name: node
            .results
            .first()
            .map_or_else(String::new, |r| r.name.clone()),
        target: node.target.clone(),
        place: node.place.clone(),
    }
}

/// Notes a refusal, once for each target and reason.
fn note(refused: &mut Vec<UnsupportedOp>, at: NodePlace, reason: Option<String>) {
    let same = |op: &&mut UnsupportedOp| op.at.target == at.target && op.reason == reason;
    match refused.iter_mut().find(same) {
        Some(op) => op.count += 1,
        None => refused.push(UnsupportedOp {
            at,
            reason,
            count: 1,
        }),
    }
}

/// All nodes without a lowering.
fn unsupported(module: &graph::Module) -> Vec<UnsupportedOp> {
    fn visit(function: &str, graph: &Graph, found: &mut Vec<UnsupportedOp>) {
        for node in &graph.nodes {
            let target = node.target.as_str();
            let is_here = TARGETS.iter().chain(ASSERTIONS).any(|t| *t == target);
            if !is_here && !ops::is_target(target) {
                note(found, place(function, node), None);
            }
            for inner in graphs(node) {
                visit(function, inner, found);
            }
        }
    }
    let mut found = vec![];
    for (name, graph) in &module.functions {
        visit(name, graph, &mut found);
    }
    found
}

/// Functions that draw random numbers, or call one that does.
fn drawing(module: &graph::Module) -> HashSet<&str> {
    fn visit<'m>(graph: &'m Graph, calls: &mut Vec<&'m str>) -> bool {
        let mut draws = false;
        for node in &graph.nodes {
            draws |= ops::is_random(node);
            calls.extend(node.args.iter().filter_map(|arg| match arg {
                Arg::Function(name) => Some(name.as_str()),
                _ => None,
            }));
            for inner in graphs(node) {
                draws |= visit(inner, calls);
            }
        }
        draws
    }
    let mut calls = BTreeMap::new();
    let mut found = HashSet::new();
    for (name, graph) in &module.functions {
        let mut called = vec![];
        if visit(graph, &mut called) {
            found.insert(name.as_str());
        }
        calls.insert(name.as_str(), called);
    }
    loop {
        let more = calls.iter().filter(|(name, called)| {
            !found.contains(*name) && called.iter().any(|c| found.contains(c))
        });
        let more: Vec<&str> = more.map(|(name, _)| *name).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Names of sizes that are the size of an axis of an input.
fn stated_names(graph: &Graph) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    for size in graph.inputs.iter().flat_map(|input| &input.shape) {
        if let Size::Expr(text) = size
            && let Expr::Name(name) = Expr::parse(text).map_err(OpError::Invalid)?
        {
            names.insert(name);
        }
    }
    Ok(names)
}

/// The type that a value states, in these names of sizes.
fn declared(value: &graph::Value, names: &HashSet<String>) -> Result<Type> {
    if value.ty == SIZE {
        return Ok(Type::scalar(DType::I64));
    }
    let dtype = dtype(&value.ty)?;
    if value.shape.len() > MAX_AXES {
        return invalid(format!("`{}` has {} axes", value.name, value.shape.len()));
    }
    let mut dims = vec![];
    for size in &value.shape {
        dims.push(match size {
            Size::Int(n) if *n < 0 => {
                return invalid(format!("`{}` has the size {n}", value.name));
            }
            Size::Int(n) => Dim::constant(*n),
            Size::Expr(text) => {
                let expr = Expr::parse(text).map_err(OpError::Invalid)?;
                expr.dim(&|name| match names.contains(name) {
                    true => Dim::sym(name),
                    false => Dim::UNKNOWN,
                })
            }
        });
    }
    if dims.iter().filter_map(Dim::as_const).any(|n| n < 0) {
        return invalid(format!("`{}` has a negative size", value.name));
    }
    Ok(Type::tensor(dtype, dims))
}

/// All values of a graph, by id.
fn values_of(graph: &Graph) -> HashMap<i64, &graph::Value> {
    let results = graph.nodes.iter().flat_map(|node| &node.results);
    graph
        .inputs
        .iter()
        .chain(results)
        .map(|v| (v.id, v))
        .collect()
}

fn unique(name: &str, taken: &mut HashMap<String, usize>) -> String {
    let mut found = name.to_owned();
    // The last number that a repetition of the name has.
    let mut number = taken.get(name).copied().unwrap_or(1);
    while taken.contains_key(&found) {
        number += 1;
        found = format!("{name}_{number}");
    }
    taken.insert(name.to_owned(), number);
    taken.insert(found.clone(), 1);
    found
}

/// A value as one of a type, whose sizes are checked by the run where they are not known to agree.
fn fit(b: &mut FuncBuilder, value: Value, ty: &Type) -> Result<Value> {
    let found = b.ty(value).clone();
    if ty.accepts(&found) {
        return Ok(value);
    }
    let (Some(want), Some(have)) = (ty.as_tensor(), found.as_tensor()) else {
        return invalid(format!("a value of type {found} cannot be {ty}"));
    };
    let (Some(dims), Some(given)) = (&want.shape, &have.shape) else {
        return invalid(format!("a value of type {found} cannot be {ty}"));
    };
    if !found.compatible(ty) {
        return invalid(format!("a value of type {found} cannot be {ty}"));
    }
    let mut sizes = vec![];
    for (axis, (dim, given)) in dims.iter().zip(given).enumerate() {
        let stated = match dim.accepts(given) {
            true => None,
            false => b.size_of(dim)?,
        };
        let size = match stated {
            Some(size) => size,
            None => b.size(value, axis)?,
        };
        sizes.push(b.vector_of(size)?);
    }
    let shape = b.join(&sizes)?;
    Ok(b.op1(heddle_ir::Op::Reshape, &[value, shape])?)
}
