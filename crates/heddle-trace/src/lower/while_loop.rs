//! Loops that a condition ends.

use heddle_ir::Value;

use super::call::truth;
use super::node::Results;
use super::repeat::{Head, Iteration, as_inputs, fixed};
use super::{Frame, Lower};
use crate::error::{OpError, Stop};
use crate::graph::Node;
use crate::scope::Scope;

impl<'m> Lower<'m> {
    /// `while_loop`; with `stacks`, each carried value after each iteration is the result.
    pub(super) fn while_loop(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
        stacks: bool,
    ) -> Results {
        let (test, body) = (self.graph_at(node, 0)?, self.graph_at(node, 1)?);
        let (carried, captured) = (self.list_at(node, 2)?, self.list_at(node, 3)?);
        let count = carried.len();
        if body.inputs.len() != count + captured.len() || test.inputs.len() != body.inputs.len() {
            let (n, m) = (test.inputs.len(), body.inputs.len());
            let message = format!(
                "its graphs have {n} and {m} inputs; {count} values are carried and {} captured",
                captured.len()
            );
            return Err(OpError::Invalid(message).into());
        }
        let inits = self.operands(f, scope, carried, &body.inputs[..count])?;
        let captured = self.operands(f, scope, captured, &body.inputs[count..])?;
        let scope = &*scope;
        let evaluate = |s: &mut Self, f: &mut Frame<'m>, carried: &[Value]| {
            let carried = as_inputs(f, carried, test)?;
            let args = carried.chain(captured.iter().copied());
            let results = s.graph(f, test, args.collect(), scope)?;
            match results[..] {
                [result] => Ok(truth(f, result)?),
                _ => Err(Stop::Here(OpError::Invalid(
                    "its condition has not one result".into(),
                ))),
            }
        };
        let inits: Vec<Value> = inits.into_iter().map(|b| b.value).collect();
        let loc = f.b.loc().cloned();
        let first = evaluate(self, f, &inits)?;
        let head = Head {
            trip: None,
            cond: Some(first),
            fixed: fixed(body, count),
            inits,
        };
        let mut results = self.repeat(f, head, &mut |s, f, _, values| {
            let carried = as_inputs(f, values, body)?;
            let args = carried.chain(captured.iter().copied());
            let next = s.graph(f, body, args.collect(), scope)?;
            if next.len() != count {
                let message = format!("its body has {} results, not {count}", next.len());
                return Err(OpError::Invalid(message).into());
            }
            f.b.set_loc(loc.clone());
            let cond = Some(evaluate(s, f, &next)?);
            let stacked = if stacks { next.clone() } else { vec![] };
            Ok(Iteration {
                cond,
                next,
                stacked,
            })
        })?;
        match stacks {
            true => Ok(results.split_off(count)),
            false => Ok(results),
        }
    }
}
