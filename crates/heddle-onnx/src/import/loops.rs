//! `Loop`, and the loop that all looping operators are made of.

use heddle_ir::{DType, Dim, Op, Type, Value};

use super::Importer;
use super::node::{At, Fail, Outputs, enter, invalid, known_truth, scalar, stand_in};
use super::scope::{Binding, Frame};
use crate::error::ImportError;
use crate::ops::OpError;
use crate::proto::GraphProto;

/// What a loop runs over.
pub(super) struct LoopHead {
    pub trip: Option<Value>,
    pub cond: Option<Value>,
    pub carried: Vec<Binding>,
}

/// What one iteration yields; `None` is poison.
pub(super) struct Iteration {
    /// The condition for the next iteration; not used where the loop has none.
    pub cond: Option<Value>,
    pub carried: Vec<Option<Value>>,
    pub stacked: Vec<Option<Value>>,
}

/// Attempts after which dims that still change are given up.
const PRECISE_ATTEMPTS: usize = 3;

/// Attempts after which the shapes of values that still change are given up.
const RANKED_ATTEMPTS: usize = 6;

/// How often a body with an error is looked at again with wider types: not at every level of a deep nest.
const MAX_SECOND_LOOKS: usize = 32;

impl<'m> Importer<'m> {
    /// `Loop`, to the letter of the specification: where the condition is absent, the one that the body
    /// gives is ignored; the body's own condition input is the present condition.
    pub(super) fn loop_node(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        let (body, home) = at.graph("body")?;
        let carried = at.inputs.get(2..).unwrap_or_default().to_vec();
        if carried.iter().any(|c| matches!(c, Binding::Absent)) {
            return invalid("an initial value of a carried value is missing");
        }
        let count = carried.len();
        if body.input.len() != count + 2 || body.output.len() < count + 1 {
            return invalid(format!(
                "it carries {count} values, so its body must take {} inputs and give at least {} \
                 outputs, not {} and {}",
                count + 2,
                count + 1,
                body.input.len(),
                body.output.len()
            ));
        }
        let one = |f: &mut Frame, v: Option<Value>| v.map(|v| scalar(&mut f.b, v)).transpose();
        let trip = one(f, at.optional(0))?;
        let cond = one(f, at.optional(1))?;
        // Without a condition the body may still look at what it gave as one in the iteration before.
        let looks = cond.is_none() && self.looks_at_condition(body);
        let mut head = LoopHead {
            trip,
            cond,
            carried,
        };
        if looks {
            let yes = f.b.scalar(DType::Bool, 1.0);
            head.carried.push(Binding::Value(yes));
        }
        let mut import = |this: &mut Self, f: &mut Frame<'m>, i: Value, carried: &[Binding]| {
            let (carried, condition) = match looks {
                true => (&carried[..count], carried[count]),
                // Inside the loop it is true, or else nobody looks at it.
                false => (carried, Binding::Value(f.b.scalar(DType::Bool, 1.0))),
            };
            let args = [Binding::Value(i), condition]
                .into_iter()
                .chain(carried.iter().copied());
            let mut outputs = this.graph(f, body, Some(home), args.collect())?;
            let next = outputs[0].map(|v| scalar(&mut f.b, v)).transpose()?;
            let mut carried = outputs[1..=count].to_vec();
            if looks {
                carried.push(next);
            }
            Ok(Iteration {
                cond: next,
                carried,
                stacked: outputs.split_off(count + 1),
            })
        };
        let mut results = self.build_loop(f, at, head, &mut import)?;
        if looks {
            results.remove(count);
        }
        Ok(results)
    }

    /// Whether the body uses its condition input other than to pass it on as its condition output.
    fn looks_at_condition(&mut self, body: &'m GraphProto) -> bool {
        let name = body.input[1].name();
        // Follows the condition output back through `Identity`.
        let mut passed_on = vec![];
        let mut at = body.output[0].name();
        while at != name {
            let producer = body
                .node
                .iter()
                .find(|n| n.output.first().is_some_and(|o| o == at));
            match producer {
                Some(n)
                    if n.op_type() == "Identity" && n.input.len() == 1 && passed_on.len() < 8 =>
                {
                    passed_on.push(n as *const _);
                    at = &n.input[0];
                }
                _ => {
                    passed_on.clear();
                    break;
                }
            }
        }
        let mut looks = false;
        for node in body
            .node
            .iter()
            .filter(|n| !passed_on.contains(&(*n as *const _)))
        {
            self.captures.uses(node, &mut |n| looks |= n == name);
        }
        looks || body.output[1..].iter().any(|o| o.name() == name)
    }

    /// Emits a loop. Types of carried values start as those of the initial values and are widened until the
    /// body keeps them.
    pub(super) fn build_loop(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        head: LoopHead,
        body: Body<'_, 'm>,
    ) -> Outputs {
        let initial: Vec<_> = head.carried.iter().map(|b| known_type(f, b)).collect();
        let mut types = initial.clone();
        if let Some(earlier) = self.widened.get(&f.path) {
            for (ty, wide) in types.iter_mut().zip(earlier) {
                *ty = ty
                    .as_ref()
                    .map(|t| t.join(wide).unwrap_or_else(|| t.clone()));
            }
        }
        let before = f.b.checkpoint();
        let (scopes, regions) = (f.scopes.len(), f.regions);
        let mut first_error = None;
        let mut unwrap = vec![false; types.len()];
        for attempt in 0.. {
            let result = self.attempt(f, &types, body);
            f.regions = regions;
            let mut iteration = match result {
                Ok(iteration) => iteration,
                Err(e) if !may_depend_on_types(&e) => return Err(e),
                Err(e) => {
                    // The types at the start may be too narrow for a body that is never run with them.
                    let wide: Vec<_> = types
                        .iter()
                        .map(|t| t.as_ref().map(without_sizes))
                        .collect();
                    if first_error.is_some()
                        || wide == types
                        || self.second_looks >= MAX_SECOND_LOOKS
                    {
                        return Err(first_error.unwrap_or(e));
                    }
                    self.second_looks += 1;
                    first_error = Some(e);
                    types = wide;
                    f.b.rollback(&before);
                    f.scopes.truncate(scopes);
                    continue;
                }
            };
            // A loop may start with an optional and go on with what it holds.
            for (k, next) in iteration.carried.iter_mut().enumerate() {
                if let (Some(Type::Opt(_)), Some(v)) = (&types[k], *next)
                    && !matches!(f.b.ty(v), Type::Opt(_))
                {
                    *next = Some(f.b.op1(Op::OptSome, &[v])?);
                    unwrap[k] = true;
                }
            }
            let mut stable = true;
            for (k, (ty, next)) in types.iter_mut().zip(&iteration.carried).enumerate() {
                let next = next.map(|v| f.ty(v));
                let wider = match (&*ty, next) {
                    (Some(t), Some(n)) => match widen(t, &n, attempt) {
                        Some(wider) => Some(wider),
                        None => {
                            let message =
                                format!("carried value {k} is {t}, but the body gives {n}");
                            return invalid(message);
                        }
                    },
                    (t, n) => t.clone().or(n),
                };
                stable &= *ty == wider;
                *ty = wider;
            }
            if !stable {
                f.b.rollback(&before);
                f.scopes.truncate(scopes);
                continue;
            }
            let mut results = self.finish_loop(f, at, &head, &types, iteration, &before)?;
            for (result, _) in results
                .iter_mut()
                .zip(&unwrap)
                .filter(|(_, unwrap)| **unwrap)
            {
                if let Binding::Value(v) = *result {
                    *result = Binding::Value(f.b.op1(Op::OptGet, &[v])?);
                }
            }
            return Ok(results);
        }
        unreachable!("types can only be widened so often")
    }

    /// Opens the region and imports one iteration.
    fn attempt(
        &mut self,
        f: &mut Frame<'m>,
        types: &[Option<Type>],
        body: Body<'_, 'm>,
    ) -> Result<Iteration, Fail> {
        let known = types.iter().flatten().cloned();
        let params: Vec<_> = std::iter::once(Type::scalar(DType::I64))
            .chain(known)
            .collect();
        let (_, values) = f.b.begin_region(&params);
        enter(f)?;
        let mut rest = values[1..].iter().copied();
        let carried: Vec<_> = types
            .iter()
            .map(|t| Binding::from(t.as_ref().and_then(|_| rest.next())))
            .collect();
        body(self, f, values[0], &carried)
    }

    fn finish_loop(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        head: &LoopHead,
        types: &[Option<Type>],
        iteration: Iteration,
        before: &heddle_ir::builder::Checkpoint,
    ) -> Outputs {
        let Iteration {
            cond,
            carried,
            stacked,
        } = iteration;
        let initial: Option<Vec<Value>> = head
            .carried
            .iter()
            .map(|b| match b {
                Binding::Value(v) => Some(*v),
                _ => None,
            })
            .collect();
        // A condition that is always true is none.
        let is_true = |v: Value| known_truth(&f.b, v) == Some(true);
        let needed = head
            .cond
            .filter(|c| !(is_true(*c) && cond.is_some_and(is_true)));
        let yields: Option<Vec<Value>> = needed
            .map(|_| cond)
            .into_iter()
            .chain(carried)
            .chain(stacked.iter().copied())
            .collect();
        f.b.set_loc(Some(at.loc.clone()));
        if let (Some(initial), Some(yields)) = (initial, yields) {
            let known = types.iter().flatten().cloned().collect();
            self.widened.insert(f.path.clone(), known);
            let region = f.b.end_region(&yields);
            let results = f.b.loop_(head.trip, needed, &initial, region)?;
            return Ok(results.into_iter().map(Binding::Value).collect());
        }
        // Something is poison: only the types that are known go on.
        let stacked = stacked.iter().map(|v| match v.map(|v| f.ty(v)) {
            Some(Type::Tensor(mut t)) => {
                if let Some(shape) = &mut t.shape {
                    shape.insert(0, Dim::UNKNOWN);
                }
                Some(Type::Tensor(t))
            }
            _ => None,
        });
        let types: Vec<_> = types.iter().cloned().chain(stacked).collect();
        f.b.rollback(before);
        let mut results = vec![];
        for ty in types {
            let value = ty.map(|t| stand_in(&mut f.b, t)).transpose()?;
            results.push(Binding::from(value));
        }
        Ok(results)
    }
}

/// Imports one iteration, given its number and the carried values.
pub(super) type Body<'a, 'm> = &'a mut dyn FnMut(
    &mut Importer<'m>,
    &mut Frame<'m>,
    Value,
    &[Binding],
) -> Result<Iteration, Fail>;

fn known_type(f: &Frame, binding: &Binding) -> Option<Type> {
    match binding {
        Binding::Value(v) => Some(f.ty(*v)),
        _ => None,
    }
}

/// A type that accepts both; after some attempts what differs is given up, so that it ends.
pub(super) fn widen(ty: &Type, next: &Type, attempt: usize) -> Option<Type> {
    let joined = ty.join(next)?;
    if joined == *ty || attempt < PRECISE_ATTEMPTS {
        return Some(joined);
    }
    match attempt < RANKED_ATTEMPTS {
        true => Some(joined.map_dims(&mut |d| match d {
            Dim::Unknown(_) => Dim::UNKNOWN,
            known => known.clone(),
        })),
        false => Some(without_shapes(&joined)),
    }
}

fn without_sizes(ty: &Type) -> Type {
    ty.map_dims(&mut |_| Dim::UNKNOWN)
}

fn without_shapes(ty: &Type) -> Type {
    match ty {
        Type::Tensor(t) => Type::unranked(t.dtype),
        Type::Seq(t) => Type::Seq(Box::new(without_shapes(t))),
        Type::Opt(t) => Type::Opt(Box::new(without_shapes(t))),
    }
}

/// Whether an error may go away with other types of carried values.
fn may_depend_on_types(e: &Fail) -> bool {
    match e {
        Fail::Op(OpError::Unsupported(_)) => false,
        Fail::Op(_) => true,
        Fail::Inner(e) => matches!(e, ImportError::Node { .. }),
    }
}
