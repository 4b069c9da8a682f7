//! Nodes: tells which construct or operator a node is, imports it, and binds its outputs.

use std::sync::Arc;

use heddle_ir::{Loc, Op, TypeError, Value};

use super::messages::{domain, each_node, short_name, subgraphs};
use super::scope::{Attr, Binding, Frame};
use super::state::{At, Call, Construct, Fail, Importer, Outputs, invalid};
use super::versions::not_yet;
use crate::error::{ImportError, NodeError, OpError, Part, op_name};
use crate::ops::{self, Expand, NodeCx};
use crate::proto::NodeProto;
use crate::refusal::Refusal;
use crate::types::{DimNames, convert};

/// Nodes that may be imported, counting each time.
const MAX_NODES: usize = 1_000_000;

/// Instructions that may be emitted, counting those too that are thrown away again.
const MAX_INSTS: usize = 1_000_000;

impl<'m> Importer<'m> {
    /// Imports a node and binds its outputs.
    pub(super) fn node(
        &mut self,
        f: &mut Frame<'m>,
        scope: usize,
        node: &'m NodeProto,
    ) -> Result<(), ImportError> {
        self.count(f)?;
        let env = f.scopes[scope].env.clone();
        let version = env.opsets.get(domain(node.domain())).copied();
        let loc = Loc::Node {
            op: op_name(domain(node.domain()), node.op_type()),
            name: format!("{}{}", env.calls, short_name(node)),
            place: None,
        };
        let mut at = At {
            node,
            scope,
            inputs: vec![],
            attrs: attributes(f, scope, node),
            version: version.unwrap_or(1),
            loc: Arc::new(loc),
        };
        f.b.set_loc(Some(at.loc.clone()));
        for input in &node.input {
            let found = match input.as_str() {
                "" => Some(Binding::Absent),
                name => f.lookup(scope, name),
            };
            at.inputs.push(found.ok_or_else(|| {
                let message = format!("its input `{input}` is not defined");
                at.error(f, OpError::Invalid(message))
            })?);
        }
        let before = f.b.checkpoint();
        let (scopes, regions) = (f.scopes.len(), f.regions);
        f.path.push(node as *const _ as usize);
        let result = self.dispatch(f, &at, version.is_some());
        f.path.pop();
        let outputs = match result {
            Ok(outputs) => outputs,
            Err(Fail::Inner(e)) => return Err(e),
            Err(Fail::Op(OpError::Unsupported(reason))) => {
                // Its instructions so far go, with the regions that it left open.
                f.b.rollback(&before);
                f.scopes.truncate(scopes);
                f.regions = regions;
                self.unsupported.add(node, at.version, at.name(), reason);
                self.note_missing(f, scope, node);
                at.poison()
            }
            Err(Fail::Op(e)) => return Err(at.error(f, e)),
        };
        bind(f, &at, &outputs).map_err(|m| at.error(f, OpError::Invalid(m)))
    }

    /// Guards against models that unfold without end.
    fn count(&mut self, f: &Frame<'m>) -> Result<(), ImportError> {
        self.nodes += 1;
        let insts = f.b.func().insts.len();
        for (number, limit, part) in [
            (self.nodes, MAX_NODES, Part::Node),
            (insts, MAX_INSTS, Part::Instruction),
        ] {
            if number > limit {
                return Err(ImportError::TooLarge { limit, part });
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, f: &mut Frame<'m>, at: &At<'m>, versioned: bool) -> Outputs {
        if let Some(call) = self.call_of(f, at) {
            return (self.constructs.call)(self, f, at, call);
        }
        let (domain, op) = (domain(at.node.domain()), at.node.op_type());
        let import = match (self.constructs.control(domain, op), ops::lookup(domain, op)) {
            (Some(construct), _) => Import::Control(construct),
            (None, Some(expand)) => Import::Expand(expand),
            (None, None) => return Err(Refusal::UnknownOperator.into()),
        };
        if domain.is_empty()
            && let Some(refusal) = not_yet(op, at.version)
        {
            return Err(refusal.into());
        }
        if domain.is_empty() && !versioned {
            return invalid("the model does not say which version of ONNX's operators it uses");
        }
        let given = at.node.input.iter().rposition(|n| !n.is_empty());
        let given = given.map_or(0, |i| i + 1);
        if let Some(max) = ops::max_inputs(domain, op).filter(|max| given > *max) {
            return invalid(format!("it has {given} inputs, but takes at most {max}"));
        }
        if at.inputs.iter().any(|i| matches!(i, Binding::Poison)) {
            self.note_missing(f, at.scope, at.node);
            return Ok(at.poison());
        }
        match import {
            Import::Control(construct) => construct(self, f, at),
            Import::Expand(expand) => self.expand(f, at, expand),
        }
    }

    /// The call that a node is, if it is one.
    fn call_of(&self, f: &Frame<'m>, at: &At<'m>) -> Option<Call<'m>> {
        let (domain, op) = (domain(at.node.domain()), at.node.op_type());
        let mut around = f.scopes[at.scope].env.recursions.iter().rev();
        if let Some(around) = around.find(|r| r.name == op && !op.is_empty()) {
            return Some(Call::Enclosing(around.clone()));
        }
        if let Some(&function) = self.functions.get(&(domain, op, at.node.overload())) {
            let (address, calls) = (&(function as *const _), &self.calls);
            return Some(match () {
                _ if calls.recursive.contains(address) => Call::Recursive(function),
                _ if calls.shared.contains(address) => Call::Shared(function),
                _ => Call::InPlace(function),
            });
        }
        let recursion = op == "Recursion" && at.attr("body").is_some();
        recursion.then_some(Call::Recursion)
    }

    /// Runs the expansion of a data-flow operator. Inputs have the ranks that the operator fixes.
    fn expand(&mut self, f: &mut Frame<'m>, at: &At<'m>, expand: Expand) -> Outputs {
        let mut inputs: Vec<_> = at.inputs.iter().map(|b| b.value()).collect();
        for i in 0..inputs.len() {
            if let Some(v) = inputs[i].filter(|v| is_unranked(f, *v))
                && let Some(rank) = fixed_rank(f, at, &inputs, i)
            {
                inputs[i] = Some(with_rank(f, v, rank)?);
            }
        }
        let results = self.expand_on(f, at, expand, inputs)?;
        Ok(results.into_iter().map(Binding::Value).collect())
    }

    /// Runs an expansion on these inputs.
    pub(super) fn expand_on<T>(
        &self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        expand: impl FnOnce(&mut NodeCx) -> Result<T, OpError>,
        inputs: Vec<Option<Value>>,
    ) -> Result<T, OpError> {
        let store = self.store;
        let mut cx = NodeCx {
            b: &mut f.b,
            node: at.node,
            inputs,
            opset: at.version,
            attrs: at.attrs.iter().map(|a| (a.name, a.proto)).collect(),
            load: &|proto| store.tensor(proto).map_err(OpError::Invalid),
            position: &f.position,
            draws: &self.draws,
        };
        expand(&mut cx)
    }

    /// Notes all unknown operators in the node's graphs, without importing them.
    pub(super) fn note_missing(&mut self, f: &Frame<'m>, scope: usize, node: &'m NodeProto) {
        let env = &f.scopes[scope].env;
        for graph in subgraphs(node) {
            each_node(&graph.node, &mut |n| {
                let (domain, op) = (domain(n.domain()), n.op_type());
                let known = op == "Recursion"
                    || self.constructs.control(domain, op).is_some()
                    || ops::lookup(domain, op).is_some()
                    || self.functions.contains_key(&(domain, op, n.overload()))
                    || env.recursions.iter().any(|r| r.name == op);
                if !known {
                    let version = env.opsets.get(domain).copied().unwrap_or(1);
                    let name = format!("{}{}", env.calls, short_name(n));
                    self.unsupported
                        .add(n, version, &name, Refusal::UnknownOperator);
                }
            });
        }
    }
}

/// The importer of a node that is no call.
enum Import {
    Control(Construct),
    Expand(Expand),
}

impl At<'_> {
    /// The node's name after the calls that lead to it.
    fn name(&self) -> &str {
        match &*self.loc {
            Loc::Node { name, .. } => name,
            _ => short_name(self.node),
        }
    }

    /// The error of this node.
    fn error(&self, f: &Frame, error: OpError) -> ImportError {
        let values = &f.b.func().values;
        let ty = |b: &Binding| Some(values.get(b.value()?)?.ty.clone());
        let node = NodeError {
            op: op_name(domain(self.node.domain()), self.node.op_type()),
            version: self.version,
            name: self.name().to_owned(),
            error,
            input_types: self.inputs.iter().map(ty).collect(),
        };
        Box::new(node).into()
    }
}

/// The node's attributes, with references to those of the function around resolved.
fn attributes<'m>(f: &Frame<'m>, scope: usize, node: &'m NodeProto) -> Vec<Attr<'m>> {
    let env = &f.scopes[scope].env;
    let resolve = |proto: &'m crate::proto::AttributeProto| {
        let name = proto.name();
        match proto.ref_attr_name() {
            "" => Some(Attr {
                name,
                proto,
                home: None,
            }),
            from => env.attrs.get(from).map(|&found| Attr { name, ..found }),
        }
    };
    node.attribute.iter().filter_map(resolve).collect()
}

/// Gives the outputs their names. An output whose rank is not inferred but declared has that one,
/// which the program checks when it runs. An error is a message.
fn bind<'m>(f: &mut Frame<'m>, at: &At<'m>, outputs: &[Binding]) -> Result<(), String> {
    for (i, output) in at
        .node
        .output
        .iter()
        .enumerate()
        .filter(|o| !o.1.is_empty())
    {
        let Some(&binding) = outputs.get(i) else {
            let (count, named) = (outputs.len(), i + 1);
            return Err(format!("it has {count} outputs, but {named} are named"));
        };
        let binding = match binding {
            Binding::Value(v) if is_unranked(f, v) => {
                let declared = f.declared(at.scope, output);
                let declared = declared.and_then(|t| convert(t, &mut DimNames::default()).ok());
                match declared.and_then(|t| t.as_tensor()?.rank()) {
                    Some(rank) => Binding::Value(with_rank(f, v, rank).map_err(|e| e.to_string())?),
                    None => binding,
                }
            }
            _ => binding,
        };
        if !f.define(at.scope, output, binding) {
            return Err(format!(
                "its output `{output}` is defined already, as an input or initializer"
            ));
        }
    }
    Ok(())
}

fn is_unranked(f: &Frame, v: Value) -> bool {
    let tensor = f.b.ty(v).as_tensor();
    tensor.is_some_and(|t| t.shape.is_none())
}

/// The rank that a node's operator fixes for one of its inputs.
fn fixed_rank(f: &Frame, at: &At, inputs: &[Option<Value>], input: usize) -> Option<usize> {
    let shape = |i: usize| {
        f.b.ty(inputs.get(i).copied()??)
            .as_tensor()?
            .shape
            .as_deref()
    };
    let known = ops::Known {
        rank: &|i| Some(shape(i)?.len()),
        count: &|i| match shape(i)? {
            [count] => usize::try_from(count.as_const()?).ok(),
            _ => None,
        },
        listed: &|name| {
            let proto = at.attr(name)?.proto;
            Some(proto.ints.len().max(proto.floats.len()))
        },
    };
    ops::fixed_rank(domain(at.node.domain()), at.node.op_type(), input, &known)
}

/// A value with this rank: the program checks it when it runs.
fn with_rank(f: &mut Frame, v: Value, rank: usize) -> Result<Value, TypeError> {
    let b = &mut f.b;
    let shape = b.op1(Op::Shape, &[v])?;
    let count = b.i64s(&[rank as i64]);
    let shape = b.op1(Op::Reshape, &[shape, count])?;
    b.op1(Op::Reshape, &[v, shape])
}
