//! Nodes: finds out what a node is, and binds its outputs.

use std::sync::Arc;

use heddle_ir::{DType, FuncBuilder, Loc, MAX_NESTING, Op, Type, TypeError, Value};

use super::graph::short_name;
use super::order::each_node;
use super::scope::{Attr, Binding, Frame};
use super::{Importer, MAX_INSTS, MAX_NODES, domain};
use crate::error::{ImportError, op_name};
use crate::ops::{self, NodeCx, OpError};
use crate::proto::{GraphProto, NodeProto};
use crate::types::{DimNames, convert};

/// A node that is being imported.
pub(super) struct At<'m> {
    pub node: &'m NodeProto,
    pub scope: usize,
    pub inputs: Vec<Binding>,
    pub attrs: Vec<Attr<'m>>,
    pub version: i64,
    pub loc: Arc<Loc>,
}

/// Why a node was not imported.
pub(super) enum Fail {
    /// Something about the node itself.
    Op(OpError),
    /// Something about what is in it, which has its place already.
    Inner(ImportError),
}

impl From<OpError> for Fail {
    fn from(e: OpError) -> Self {
        Fail::Op(e)
    }
}

impl From<TypeError> for Fail {
    fn from(e: TypeError) -> Self {
        Fail::Op(e.into())
    }
}

impl From<ImportError> for Fail {
    fn from(e: ImportError) -> Self {
        Fail::Inner(e)
    }
}

/// The node breaks the specification.
pub(super) fn invalid<T>(message: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Op(OpError::Invalid(message.into())))
}

/// Outputs in order.
pub(super) type Outputs = Result<Vec<Binding>, Fail>;

impl<'m> Importer<'m> {
    /// Imports a node and binds its outputs.
    pub(super) fn node(
        &mut self,
        f: &mut Frame<'m>,
        scope: usize,
        node: &'m NodeProto,
    ) -> Result<(), ImportError> {
        self.count(f)?;
        let name = format!("{}{}", f.scopes[scope].env.calls, short_name(node));
        let op = op_name(domain(node.domain()), node.op_type());
        let loc = Arc::new(Loc::Node {
            op: op.clone(),
            name: name.clone(),
        });
        f.b.set_loc(Some(loc.clone()));
        let error = |message: String, hint_text: String| ImportError::Node {
            op: op.clone(),
            name: name.clone(),
            message,
            hint_text,
        };
        let mut inputs = vec![];
        for input in &node.input {
            inputs.push(match f.lookup(scope, input) {
                _ if input.is_empty() => Binding::Absent,
                Some(binding) => binding,
                None => {
                    let message = format!("its input `{input}` is not defined");
                    return Err(error(message, String::new()));
                }
            });
        }
        let env = f.scopes[scope].env.clone();
        let attrs = node
            .attribute
            .iter()
            .filter_map(|a| match a.ref_attr_name() {
                "" => Some(Attr {
                    name: a.name(),
                    proto: a,
                    home: None,
                }),
                from => env.attrs.get(from).map(|&found| Attr {
                    name: a.name(),
                    ..found
                }),
            });
        let attrs = attrs.collect();
        let version = env.opsets.get(domain(node.domain())).copied();
        let at = At {
            node,
            scope,
            inputs,
            attrs,
            version: version.unwrap_or(1),
            loc,
        };
        let before = f.b.checkpoint();
        let (scopes, regions) = (f.scopes.len(), f.regions);
        f.path.push(node as *const _ as usize);
        let result = self.dispatch(f, &at, version.is_some());
        f.path.pop();
        let outputs = match result {
            Ok(outputs) => outputs,
            Err(Fail::Inner(e)) => return Err(e),
            Err(Fail::Op(OpError::Unsupported(reason))) => {
                // What was built of it goes, with the regions that it left open.
                f.b.rollback(&before);
                f.scopes.truncate(scopes);
                f.regions = regions;
                self.unsupported.add(node, at.version, &name, &reason);
                self.note_missing(f, scope, node);
                vec![Binding::Poison; node.output.len()]
            }
            Err(Fail::Op(e)) => {
                let types = at.inputs.iter().map(|b| match b {
                    Binding::Value(v) => {
                        f.b.func()
                            .values
                            .get(*v)
                            .map_or("?".into(), |v| v.ty.to_string())
                    }
                    _ => "none".to_owned(),
                });
                let hint = match e {
                    OpError::Type(_) => {
                        format!(
                            "the inputs' types are {}",
                            types.collect::<Vec<_>>().join(", ")
                        )
                    }
                    _ => String::new(),
                };
                return Err(error(e.to_string(), hint));
            }
        };
        for (i, output) in node.output.iter().enumerate() {
            if output.is_empty() {
                continue;
            }
            let Some(&binding) = outputs.get(i) else {
                let message = format!("it has {} outputs, but {} are named", outputs.len(), i + 1);
                return Err(error(message, String::new()));
            };
            if !f.define(scope, output, binding) {
                let message =
                    format!("its output `{output}` is defined already, as an input or initializer");
                return Err(error(message, String::new()));
            }
        }
        Ok(())
    }

    /// Guards against models that unfold without end.
    fn count(&mut self, f: &Frame<'m>) -> Result<(), ImportError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(ImportError::TooLarge {
                limit: MAX_NODES,
                what: "nodes",
            });
        }
        if f.b.func().insts.len() > MAX_INSTS {
            return Err(ImportError::TooLarge {
                limit: MAX_INSTS,
                what: "instructions",
            });
        }
        Ok(())
    }

    fn dispatch(&mut self, f: &mut Frame<'m>, at: &At<'m>, versioned: bool) -> Outputs {
        let node = at.node;
        let (domain, op) = (domain(node.domain()), node.op_type());
        let env = f.scopes[at.scope].env.clone();
        if let Some(around) = env
            .recursions
            .iter()
            .rev()
            .find(|r| r.name == op && !op.is_empty())
        {
            return self.call_enclosing(f, at, around);
        }
        if let Some(&function) = self.functions.get(&(domain, op, node.overload())) {
            return match self.recursive.contains(&(function as *const _)) {
                true => self.call_recursive(f, at, function),
                false => self.call_in_place(f, at, function),
            };
        }
        if op == "Recursion" && at.attrs.iter().any(|a| a.name == "body") {
            return self.recursion_node(f, at);
        }
        let control = match (domain, op) {
            ("", "If") => Some(Self::if_node as fn(&mut Self, &mut Frame<'m>, &At<'m>) -> Outputs),
            ("", "Loop") => Some(Self::loop_node as _),
            ("", "Scan") => Some(Self::scan_node as _),
            ("", "SequenceMap") => Some(Self::sequence_map as _),
            ("ai.onnx.preview", "FlexAttention") => Some(Self::flex_attention as _),
            _ => None,
        };
        let poisoned = at.inputs.iter().any(|i| matches!(i, Binding::Poison));
        if control.is_none() && ops::lookup(domain, op).is_none() {
            return Err(
                OpError::Unsupported("there is no such operator or function".into()).into(),
            );
        }
        if let Some(reason) = super::versions::too_old(op, at.version).filter(|_| domain.is_empty())
        {
            return Err(OpError::Unsupported(reason).into());
        }
        if domain.is_empty() && !versioned {
            return invalid("the model does not say which version of ONNX's operators it uses");
        }
        let given = node
            .input
            .iter()
            .rposition(|n| !n.is_empty())
            .map_or(0, |i| i + 1);
        if let Some(max) = ops::max_inputs(domain, op).filter(|max| given > *max) {
            return invalid(format!("it has {given} inputs, but takes at most {max}"));
        }
        if poisoned {
            self.note_missing(f, at.scope, node);
            return Ok(vec![Binding::Poison; node.output.len()]);
        }
        match (control, ops::lookup(domain, op)) {
            (Some(import), _) => import(self, f, at),
            (_, Some(expand)) => self.expand(f, at, expand),
            _ => unreachable!("checked above"),
        }
    }

    /// Runs the expansion of a data-flow operator. If it fails for an input whose rank is not known but declared, it
    /// is run again on an input that the program checks to have that rank.
    fn expand(&mut self, f: &mut Frame<'m>, at: &At<'m>, expand: ops::Expand) -> Outputs {
        let value = |b: &Binding| match b {
            Binding::Value(v) => Some(*v),
            _ => None,
        };
        let inputs: Vec<_> = at.inputs.iter().map(value).collect();
        let unranked = |v: &Value| f.b.ty(*v).as_tensor().is_some_and(|t| t.shape.is_none());
        let before = inputs
            .iter()
            .flatten()
            .any(unranked)
            .then(|| f.b.checkpoint());
        let result = self.expand_on(f, at, expand, inputs.clone());
        let (Err(OpError::Unsupported(_)), Some(before)) = (&result, before) else {
            return Ok(result?.into_iter().map(Binding::Value).collect());
        };
        f.b.rollback(&before);
        let mut checked = vec![];
        for (name, input) in at.node.input.iter().zip(&inputs) {
            checked.push(
                input
                    .map(|v| check_rank(f, at.scope, name, v))
                    .transpose()?,
            );
        }
        let again = match checked == inputs {
            true => result,
            false => self.expand_on(f, at, expand, checked),
        };
        Ok(again?.into_iter().map(Binding::Value).collect())
    }

    /// Runs an expansion on these inputs.
    pub(super) fn expand_on(
        &self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        expand: ops::Expand,
        inputs: Vec<Option<Value>>,
    ) -> Result<Vec<Value>, OpError> {
        let store = self.store;
        let mut cx = NodeCx {
            b: &mut f.b,
            node: at.node,
            inputs,
            opset: at.version,
            attrs: at.attrs.iter().map(|a| (a.name, a.proto)).collect(),
            load: &|proto| store.tensor(proto).map_err(OpError::Invalid),
        };
        expand(&mut cx)
    }

    /// Notes all operators in the node's graphs that nothing is known of, without importing them.
    pub(super) fn note_missing(&mut self, f: &Frame<'m>, scope: usize, node: &'m NodeProto) {
        let env = &f.scopes[scope].env;
        for graph in super::order::subgraphs(node) {
            each_node(&graph.node, &mut |n| {
                let (domain, op) = (domain(n.domain()), n.op_type());
                let control =
                    domain.is_empty() && matches!(op, "If" | "Loop" | "Scan" | "SequenceMap");
                let known = control
                    || op == "Recursion"
                    || ops::lookup(domain, op).is_some()
                    || self.functions.contains_key(&(domain, op, n.overload()))
                    || env.recursions.iter().any(|r| r.name == op);
                if !known {
                    let version = env.opsets.get(domain).copied().unwrap_or(1);
                    let name = format!("{}{}", env.calls, short_name(n));
                    let reason = "there is no such operator or function";
                    self.unsupported.add(n, version, &name, reason);
                }
            });
        }
    }
}

impl<'m> At<'m> {
    /// A graph attribute, and the scope in which it lives.
    pub fn graph(&self, name: &str) -> Result<(&'m GraphProto, usize), Fail> {
        let attr = self.attrs.iter().find(|a| a.name == name);
        match attr.and_then(|a| Some((a.proto.g.as_ref()?, a.home.unwrap_or(self.scope)))) {
            Some(found) => Ok(found),
            None => invalid(format!("attribute `{name}` is missing or holds no graph")),
        }
    }

    /// An integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attrs.iter().find(|a| a.name == name)?.proto.i
    }

    /// A list of integers; empty when the attribute is missing.
    pub fn ints(&self, name: &str) -> &'m [i64] {
        let attr = self.attrs.iter().find(|a| a.name == name);
        attr.map_or(&[], |a| &a.proto.ints)
    }

    /// An input that must be there and is no poison.
    pub fn input(&self, i: usize) -> Result<Value, Fail> {
        match self.optional(i) {
            Some(v) => Ok(v),
            None => invalid(format!("input {i} is missing")),
        }
    }

    /// An input that may be absent.
    pub fn optional(&self, i: usize) -> Option<Value> {
        match self.inputs.get(i) {
            Some(Binding::Value(v)) => Some(*v),
            _ => None,
        }
    }
}

/// Counts an open region; an error when there are too many.
pub(super) fn enter(f: &mut Frame) -> Result<(), Fail> {
    f.regions += 1;
    match f.regions < MAX_NESTING {
        true => Ok(()),
        false => invalid(format!(
            "control flow nests deeper than {MAX_NESTING} levels"
        )),
    }
}

/// A value of one element as a scalar.
pub(super) fn scalar(b: &mut FuncBuilder, v: Value) -> Result<Value, TypeError> {
    if b.ty(v).as_tensor().is_some_and(|t| t.rank() == Some(0)) {
        return Ok(v);
    }
    let shape = b.i64s(&[]);
    b.op1(Op::Reshape, &[v, shape])
}

/// The truth of a scalar, if it is the same in every run.
pub(super) fn known_truth(b: &FuncBuilder, v: Value) -> Option<bool> {
    let constant = b.func().constant(v).filter(|t| t.dtype() == DType::Bool);
    match (constant.map(|t| &t.bytes()[..]), b.known(v)) {
        (Some([byte]), _) => Some(*byte != 0),
        (_, Some([dim])) => dim.as_const().map(|c| c != 0),
        _ => None,
    }
}

/// Some value of a type. It stands in programs that are only built to find types, and never runs.
pub(super) fn stand_in(b: &mut FuncBuilder, ty: Type) -> Result<Value, TypeError> {
    let none = b.op1(Op::OptNone { elem: ty }, &[])?;
    b.op1(Op::OptGet, &[none])
}

/// A value whose rank is not known but declared: the program checks the rank when it runs.
fn check_rank(f: &mut Frame, scope: usize, name: &str, v: Value) -> Result<Value, TypeError> {
    let unranked = f.b.ty(v).as_tensor().is_some_and(|t| t.shape.is_none());
    let declared = f.declared(scope, name).filter(|_| unranked);
    let declared = declared.and_then(|t| convert(t, &mut DimNames::default()).ok());
    let Some(rank) = declared.and_then(|t| t.as_tensor()?.rank()) else {
        return Ok(v);
    };
    let b = &mut f.b;
    let shape = b.op1(Op::Shape, &[v])?;
    let count = b.i64s(&[rank as i64]);
    let shape = b.op1(Op::Reshape, &[shape, count])?;
    b.op1(Op::Reshape, &[v, shape])
}
