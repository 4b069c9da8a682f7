//! `Loop`, and the loop that all looping constructs share.

use heddle_ir::{DType, Dim, Op, Type, TypeError, Value};

use super::scope::{Binding, Frame};
use super::state::{At, Fail, Importer, Outputs, enter, invalid};
use super::values::{known_truth, scalar, stand_ins};
use super::widen::{widen, without_sizes};
use crate::error::{ImportError, OpError};
use crate::proto::{GraphProto, ValueInfoProto};
use crate::types::{DimNames, convert};

/// The operands of a loop.
pub(super) struct LoopHead {
    pub trip: Option<Value>,
    pub cond: Option<Value>,
    pub carried: Vec<Binding>,
}

/// The yields of one iteration; `None` is poison.
pub(super) struct Iteration {
    /// The condition for the next iteration; not used where the loop has none.
    pub cond: Option<Value>,
    pub carried: Vec<Option<Value>>,
    pub stacked: Vec<Option<Value>>,
}

/// Retries of erring bodies with wider types, over the whole model: not one at every level of a
/// deep nest.
const MAX_RETRIES: usize = 32;

impl<'m> Importer<'m> {
    /// `Loop`, to the letter of the specification: where the condition is absent, the one that the
    /// body gives is ignored; the body's own condition input is the present condition.
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
        // Without a condition the body may still read its condition output of the iteration before.
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
                // Inside the loop it is true, or unused.
                false => (carried, Binding::Value(f.b.scalar(DType::Bool, 1.0))),
            };
            let fitted = [Binding::Value(i), condition].into_iter().zip(&body.input);
            let fitted = fitted.map(|(given, port)| as_declared(f, port, given));
            let fitted = fitted.collect::<Result<Vec<_>, _>>()?;
            let args = fitted.into_iter().chain(carried.iter().copied());
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

    /// True if the body uses its condition input other than to pass it on as its condition output.
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

    /// Emits a loop. Types of carried values start as those of the initial values and are widened
    /// until the body keeps them.
    pub(super) fn build_loop(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        head: LoopHead,
        body: Body<'_, 'm>,
    ) -> Outputs {
        let mut fit = Fit::new(self, f, &head);
        let before = f.b.checkpoint();
        let (scopes, regions) = (f.scopes.len(), f.regions);
        for attempt in 0.. {
            let result = self.attempt(f, &fit.types, body);
            f.regions = regions;
            match result {
                Ok(mut iteration) => {
                    fit.wrap_optionals(f, &mut iteration.carried)?;
                    if fit.accept(f, &iteration.carried, attempt)? {
                        let results =
                            self.finish_loop(f, at, &head, &fit.types, iteration, &before)?;
                        return fit.unwrap_optionals(f, results);
                    }
                }
                Err(e) => fit.retry(self, e)?,
            }
            f.b.rollback(&before);
            f.scopes.truncate(scopes);
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
        f.position.iterations.push(values[0]);
        let iteration = body(self, f, values[0], &carried);
        f.position.iterations.pop();
        iteration
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
        let initial: Option<Vec<Value>> = head.carried.iter().map(|b| b.value()).collect();
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
        // Something is poison: only the known types go on.
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
        Ok(stand_ins(f, types)?)
    }
}

/// One element with as many axes as an input of the body is declared to have: converters write
/// `[1]` where the specification says `[]`.
fn as_declared(f: &mut Frame, port: &ValueInfoProto, given: Binding) -> Result<Binding, TypeError> {
    let declared = port.r#type.as_ref();
    let declared = declared.and_then(|t| convert(t, &mut DimNames::default()).ok());
    let rank = declared.and_then(|t| t.as_tensor()?.rank());
    let (Some(rank @ 1..), Binding::Value(v)) = (rank, given) else {
        return Ok(given);
    };
    let axes = (0..rank).collect();
    Ok(Binding::Value(f.b.op1(Op::Unsqueeze { axes }, &[v])?))
}

/// The types of a loop's carried values while they are fitted to its body.
struct Fit {
    types: Vec<Option<Type>>,
    /// Carried values that start as an optional and go on with its element.
    unwrap: Vec<bool>,
    /// The error that the body ended in before its types were widened.
    first_error: Option<Fail>,
}

impl Fit {
    /// Starts from the types of the initial values, or those at which an earlier import of the loop
    /// arrived.
    fn new(importer: &Importer, f: &Frame, head: &LoopHead) -> Self {
        let initial = head.carried.iter().map(|b| b.value().map(|v| f.ty(v)));
        let mut types: Vec<_> = initial.collect();
        if let Some(earlier) = importer.widened.get(&f.path) {
            for (ty, wide) in types.iter_mut().zip(earlier) {
                let join = |t: &Type| t.join(wide).unwrap_or_else(|| t.clone());
                *ty = ty.as_ref().map(join);
            }
        }
        Self {
            unwrap: vec![false; types.len()],
            types,
            first_error: None,
        }
    }

    /// Gives up the sizes after an error: the initial types may be too narrow for a body that is
    /// never run with them.
    fn retry(&mut self, importer: &mut Importer, error: Fail) -> Result<(), Fail> {
        if !may_depend_on_types(&error) {
            return Err(error);
        }
        let wide = self.types.iter().map(|t| t.as_ref().map(without_sizes));
        let wide: Vec<_> = wide.collect();
        let exhausted = wide == self.types || importer.retries >= MAX_RETRIES;
        if self.first_error.is_some() || exhausted {
            return Err(self.first_error.take().unwrap_or(error));
        }
        importer.retries += 1;
        self.first_error = Some(error);
        self.types = wide;
        Ok(())
    }

    /// Wraps next values whose initial value is an optional: a loop may go on with its element.
    fn wrap_optionals(&mut self, f: &mut Frame, next: &mut [Option<Value>]) -> Result<(), Fail> {
        for (k, next) in next.iter_mut().enumerate() {
            if let (Some(Type::Opt(_)), Some(v)) = (&self.types[k], *next)
                && !matches!(f.b.ty(v), Type::Opt(_))
            {
                *next = Some(f.b.op1(Op::OptSome, &[v])?);
                self.unwrap[k] = true;
            }
        }
        Ok(())
    }

    /// Widens the types to take the next values too; `true` if they took them already.
    fn accept(&mut self, f: &Frame, next: &[Option<Value>], attempt: usize) -> Result<bool, Fail> {
        let mut stable = true;
        for (k, (ty, next)) in self.types.iter_mut().zip(next).enumerate() {
            let wider = match (&*ty, next.map(|v| f.ty(v))) {
                (Some(t), Some(n)) => match widen(t, &n, attempt) {
                    Some(wider) => Some(wider),
                    None => {
                        return invalid(format!(
                            "carried value {k} is {t}, but the body gives {n}"
                        ));
                    }
                },
                (t, n) => t.clone().or(n),
            };
            stable &= *ty == wider;
            *ty = wider;
        }
        Ok(stable)
    }

    /// Undoes [`wrap_optionals`](Self::wrap_optionals) on the loop's results.
    fn unwrap_optionals(&self, f: &mut Frame, mut results: Vec<Binding>) -> Outputs {
        for (result, unwrap) in results.iter_mut().zip(&self.unwrap) {
            if let (Binding::Value(v), true) = (*result, *unwrap) {
                *result = Binding::Value(f.b.op1(Op::OptGet, &[v])?);
            }
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

/// True if an error may vanish with other types of carried values.
fn may_depend_on_types(e: &Fail) -> bool {
    match e {
        Fail::Op(OpError::Unsupported(_)) => false,
        Fail::Op(_) => true,
        Fail::Inner(e) => matches!(e, ImportError::Node(_)),
    }
}
