//! `associative_scan`, as a loop from the first slice on.

use heddle_ir::Op;
use heddle_ir::op::{BinaryOp, ReduceOp};

use super::call::fits_input;
use super::node::Results;
use super::repeat::{Head, Iteration, as_inputs};
use super::{Frame, Lower, fit};
use crate::error::OpError;
use crate::graph::Node;
use crate::scope::{Bound, Scope};

impl<'m> Lower<'m> {
    /// `associative_scan`: what a graph makes of each first part of arrays along their first axes, combined from the first slice on.
    pub(super) fn associative_scan(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
    ) -> Results {
        let body = self.graph_at(node, 0)?;
        let (xs, captured) = (self.list_at(node, 1)?, self.list_at(node, 2)?);
        let (count, inputs) = (xs.len(), &body.inputs);
        if inputs.len() != 2 * count + captured.len() {
            let message = format!(
                "its graph has {} inputs, for twice {count} slices and {} captured values",
                inputs.len(),
                captured.len()
            );
            return Err(OpError::Invalid(message).into());
        }
        let captured = self.operands(f, scope, captured, &inputs[2 * count..])?;
        let (arrays, size) = self.sliced(f, scope, xs)?;
        let (zero, one) = (f.b.i64(0), f.b.i64(1));
        let [from, to] = [f.b.i64s(&[0]), f.b.i64s(&[1])];
        let rest = f.b.binary(BinaryOp::Sub, size, one)?;
        let trip = f.b.binary(BinaryOp::Max, rest, zero)?;
        let mut heads = vec![];
        let mut inits = vec![];
        for &x in &arrays {
            let axes = vec![0];
            let head = f.b.op1(Op::Slice { axes }, &[x, from, to, to])?;
            heads.push(head);
            // The first slice; of no slices, a value that no iteration reads.
            let (kind, axes, keep) = (ReduceOp::Max, vec![0], false);
            inits.push(f.b.op1(Op::Reduce { kind, axes, keep }, &[head])?);
        }
        let scope = &*scope;
        let fixed = inputs[..count].iter().map(|i| vec![true; i.shape.len()]);
        let head = Head {
            trip: Some(trip),
            cond: None,
            fixed: fixed.collect(),
            inits,
        };
        let mut results = self.repeat(f, head, &mut |s, f, i, values| {
            let mut args: Vec<Bound> = as_inputs(f, values, body)?.collect();
            let place = f.b.binary(BinaryOp::Add, i, one)?;
            for (x, input) in arrays.iter().zip(&inputs[count..]) {
                let slice = f.b.gather(*x, place)?;
                fits_input(f, slice, input)?;
                args.push(Bound::new(slice, input));
            }
            args.extend(captured.iter().copied());
            let next = s.graph(f, body, args, scope)?;
            if next.len() != count {
                let message = format!("its graph has {} results, not {count}", next.len());
                return Err(OpError::Invalid(message).into());
            }
            let stacked = next.clone();
            Ok(Iteration {
                cond: None,
                next,
                stacked,
            })
        })?;
        let stacked = results.split_off(count);
        let mut whole = vec![];
        for ((&x, head), rest) in arrays.iter().zip(heads).zip(stacked) {
            let y = f.b.op1(Op::Concat { axis: 0 }, &[head, rest])?;
            let ty = f.b.ty(x).clone();
            whole.push(fit(&mut f.b, y, &ty)?);
        }
        Ok(whole)
    }
}
