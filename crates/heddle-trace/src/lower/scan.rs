//! Loops over the first axes of arrays.

use heddle_ir::Value;

use super::call::fits_input;
use super::node::Results;
use super::repeat::{Head, Iteration, as_inputs, fixed};
use super::{Frame, Lower};
use crate::error::{OpError, Stop};
use crate::graph::{Arg, Graph, Node};
use crate::scope::{Bound, Scope};

impl<'m> Lower<'m> {
    /// `scan`: carried values, and slices of arrays along their first axes.
    pub(super) fn scan(&mut self, f: &mut Frame<'m>, node: &'m Node, scope: &mut Scope) -> Results {
        let body = self.graph_at(node, 0)?;
        let (inits, xs) = (self.list_at(node, 1)?, self.list_at(node, 2)?);
        self.each(f, node, scope, body, inits, xs, 3)
    }

    /// `map`: a graph applied to slices of arrays along their first axes.
    pub(super) fn map(&mut self, f: &mut Frame<'m>, node: &'m Node, scope: &mut Scope) -> Results {
        let body = self.graph_at(node, 0)?;
        let xs = self.list_at(node, 1)?;
        self.each(f, node, scope, body, &[], xs, 2)
    }

    /// A loop over the first axis of `xs`. The list of captured values is argument `captured`.
    #[allow(clippy::too_many_arguments)]
    fn each(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
        body: &'m Graph,
        inits: &'m [Arg],
        xs: &'m [Arg],
        captured: usize,
    ) -> Results {
        let captured = self.list_at(node, captured)?;
        let (count, inputs) = (inits.len(), &body.inputs);
        if inputs.len() != count + xs.len() + captured.len() {
            let message = format!(
                "its graph has {} inputs, for {count} carried, {} sliced and {} captured values",
                inputs.len(),
                xs.len(),
                captured.len()
            );
            return Err(OpError::Invalid(message).into());
        }
        let inits = self.operands(f, scope, inits, &inputs[..count])?;
        let captured = self.operands(f, scope, captured, &inputs[count + xs.len()..])?;
        let (arrays, trip) = self.sliced(f, scope, xs)?;
        let scope = &*scope;
        let head = Head {
            trip: Some(trip),
            cond: None,
            inits: inits.into_iter().map(|b| b.value).collect(),
            fixed: fixed(body, count),
        };
        let results = self.repeat(f, head, &mut |s, f, i, values| {
            let mut args: Vec<Bound> = as_inputs(f, values, body)?.collect();
            for (x, input) in arrays.iter().zip(&inputs[count..]) {
                let slice = f.b.gather(*x, i)?;
                fits_input(f, slice, input)?;
                args.push(Bound::new(slice, input));
            }
            args.extend(captured.iter().copied());
            let mut next = s.graph(f, body, args, scope)?;
            if next.len() < count {
                let message = format!(
                    "its graph has {} results for {count} carried values",
                    next.len()
                );
                return Err(OpError::Invalid(message).into());
            }
            let stacked = next.split_off(count);
            Ok(Iteration {
                cond: None,
                next,
                stacked,
            })
        })?;
        Ok(results)
    }

    /// Arrays that have a first axis, and its size.
    pub(super) fn sliced(
        &self,
        f: &mut Frame<'m>,
        scope: &Scope,
        xs: &[Arg],
    ) -> std::result::Result<(Vec<Value>, Value), Stop> {
        let mut arrays = vec![];
        for x in xs {
            let pair = usize::from(scope.is_complex(x, self.constants));
            let x = scope.any(&mut f.b, x, self.constants)?;
            if f.b.rank(x).is_none_or(|rank| rank == pair) {
                let message = "a value to be sliced has no axis";
                return Err(OpError::Invalid(message.into()).into());
            }
            arrays.push(x);
        }
        let Some(&first) = arrays.first() else {
            return Err(OpError::Invalid("there is nothing to go over".into()).into());
        };
        let size = f.b.size(first, 0)?;
        Ok((arrays, size))
    }
}
