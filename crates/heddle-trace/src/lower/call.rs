//! Calls of functions, and graphs in place.

use heddle_ir::{DType, Op, Type, Value};

use super::node::Results;
use super::{Frame, Lower};
use crate::error::{OpError, Result, Stop, invalid};
use crate::graph::{self, Arg, Graph, Node, SIZE};
use crate::scope::{Bound, Scope, dtype, form, part};

impl<'m> Lower<'m> {
    /// `call`: a function of the module, which may be the one that is being built.
    pub(super) fn call(&mut self, f: &mut Frame<'m>, node: &'m Node, scope: &mut Scope) -> Results {
        let Some(Arg::Function(name)) = node.args.first() else {
            return invalid("its first argument is no function").map_err(Stop::Here);
        };
        let Some((name, graph)) = self.module.functions.get_key_value(name) else {
            return invalid(format!("there is no function `{name}`")).map_err(Stop::Here);
        };
        let rest = match &node.args[1..] {
            [Arg::List(list)] => list,
            flat => flat,
        };
        let bound = self.operands(f, scope, rest, &graph.inputs)?;
        let mut args: Vec<Value> = bound.into_iter().map(|b| b.value).collect();
        let callee = self.callees[name.as_str()].clone();
        if callee.is_keyed {
            args.push(call_key(f)?);
        }
        Ok(f.b.call(callee.id, &callee.signature, &args)?)
    }

    /// `invoke_subgraph`, `wrap_with_set_grad_enabled`: the graph in place. Other arguments are not looked at.
    pub(super) fn subgraph(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
    ) -> Results {
        let place = node
            .args
            .iter()
            .position(|arg| matches!(arg, Arg::Graph(_)));
        let Some(Arg::Graph(graph)) = place.map(|i| &node.args[i]) else {
            return invalid("it has no graph").map_err(Stop::Here);
        };
        let after = &node.args[place.unwrap_or(0) + 1..];
        let lists = after.iter().find_map(|arg| match arg {
            Arg::List(list) => Some(list.as_slice()),
            _ => None,
        });
        let args = self.operands(f, scope, lists.unwrap_or(after), &graph.inputs)?;
        Ok(self.graph(f, graph, args, scope)?)
    }

    /// Arguments as values of the types that a graph's inputs state.
    pub(super) fn operands(
        &self,
        f: &mut Frame<'m>,
        scope: &Scope,
        args: &[Arg],
        inputs: &[graph::Value],
    ) -> Result<Vec<Bound>> {
        if args.len() != inputs.len() {
            let (n, m) = (args.len(), inputs.len());
            return invalid(format!("{n} operands are given to a graph of {m} inputs"));
        }
        let pairs = args.iter().zip(inputs);
        pairs
            .map(|(arg, input)| {
                let is_complex = part(&input.ty).is_some();
                let value = match (arg, input.ty.as_str()) {
                    (Arg::Int(n), name) if name != SIZE => f.b.scalar(dtype(name)?, *n as f64),
                    (Arg::Float(x), name) if name != SIZE => f.b.scalar(dtype(name)?, x.0),
                    _ if is_complex != scope.is_complex(arg, self.constants) => {
                        let kinds = ["real", "complex"].map(|kind| format!("{kind} numbers"));
                        let [given, wanted] = match is_complex {
                            true => kinds,
                            false => [kinds[1].clone(), kinds[0].clone()],
                        };
                        let name = &input.name;
                        return invalid(format!(
                            "input `{name}` of its graph is of {wanted}, and is given {given}"
                        ));
                    }
                    _ => scope.any(&mut f.b, arg, self.constants)?,
                };
                fits_input(f, value, input)?;
                Ok(Bound::new(value, input))
            })
            .collect()
    }

    /// A graph among the arguments.
    pub(super) fn graph_at(&self, node: &'m Node, i: usize) -> Result<&'m Graph> {
        match node.args.get(i) {
            Some(Arg::Graph(graph)) => Ok(graph),
            _ => invalid(format!("argument {i} is no graph")),
        }
    }

    /// A list among the arguments; empty if it is left out.
    pub(super) fn list_at(&self, node: &'m Node, i: usize) -> Result<&'m [Arg]> {
        match node.args.get(i) {
            Some(Arg::List(list)) => Ok(list),
            None | Some(Arg::None(_)) => Ok(&[]),
            _ => invalid(format!("argument {i} is no list")),
        }
    }
}

/// Checks a value against what an input states.
pub(super) fn fits_input(f: &Frame, value: Value, input: &graph::Value) -> Result<()> {
    let ty = f.b.ty(value);
    let (want, axes) = form(input)?;
    match ty.as_tensor() {
        Some(t) if t.dtype == want && t.rank() == Some(axes) => Ok(()),
        _ => {
            let name = &input.name;
            invalid(format!(
                "input `{name}` of its graph is {want} with {axes} axes, not {ty}"
            ))
        }
    }
}

/// The key of a callee's random numbers in this evaluation of the call.
fn call_key(f: &mut Frame) -> Result<Value> {
    let mut key = match f.key {
        Some(key) => key,
        None => f.b.op1(Op::RunKey, &[])?,
    };
    let number = f.b.key(f.draws);
    f.draws += 1;
    for number in std::iter::once(number).chain(f.iterations.clone()) {
        key = f.b.fold_in(key, number)?;
    }
    Ok(key)
}

/// A condition as `bool[]`.
pub(super) fn truth(f: &mut Frame, value: Value) -> Result<Value> {
    let Some(ty) = f.b.ty(value).as_tensor().cloned() else {
        return invalid("the condition is no array");
    };
    if ty.dtype != DType::Bool && !ty.dtype.is_arith() {
        return Err(OpError::Invalid(format!(
            "the condition is {}",
            Type::Tensor(ty)
        )));
    }
    let value = f.b.cast(DType::Bool, value)?;
    if ty.rank() == Some(0) {
        return Ok(value);
    }
    let one = f.b.i64s(&[]);
    Ok(f.b.op1(Op::Reshape, &[value, one])?)
}
