//! Ops that cut and join padded rows along the one axis that differs: it becomes the first, and the
//! rows ranges.

use heddle_ir::{FuncBuilder, Op};

use super::super::lane::Lane;
use super::super::set::Set;
use super::Padded;
use crate::batch::{Refusal, Result};

impl Set<'_> {
    /// An op along `axis`, of which operands differ in no other; `along_first` is the op along the
    /// first axis. The first `arrays` operands have the axis.
    pub(super) fn padded_along(
        &self,
        b: &mut FuncBuilder,
        along_first: &Op,
        axis: usize,
        args: &[Padded],
        arrays: usize,
    ) -> Result<Vec<Padded>> {
        let rank = args[0].rank();
        let others = (0..rank).filter(|k| *k != axis);
        let to_front: Vec<usize> = [axis].into_iter().chain(others).collect();
        let mut lanes = vec![];
        for (k, x) in args.iter().enumerate() {
            let x = match k < arrays {
                true => self.turned_padded(b, x, &to_front)?,
                false => x.clone(),
            };
            let lane = self.unpadded(b, &x)?;
            lanes.push(lane.ok_or(Refusal::SizesByRow(along_first.name()))?);
        }
        // Places that stand where the axis was.
        let width = match along_first {
            Op::Gather { .. } => args[1].rank(),
            _ => 1,
        };
        let found = match along_first {
            Op::Slice { axes } => match lanes[..] {
                [Lane::Ragged(x), ref bounds @ ..] => vec![self.slice(b, axes, x, bounds)?],
                _ => return Err(Refusal::NotEvaluated),
            },
            op => self.op(b, op, &lanes)?,
        };
        let behind = width..width + axis;
        let back = behind.chain(0..width).chain(width + axis..width + rank - 1);
        let back: Vec<usize> = back.collect();
        let mut results = vec![];
        for lane in found {
            let x = match lane {
                Lane::Ragged(x) => self.ranges_padded(b, x)?,
                lane => Padded::whole(b, lane.batched().ok_or(Refusal::NotEvaluated)?)?,
            };
            results.push(self.turned_padded(b, &x, &back)?);
        }
        Ok(results)
    }

    /// Rows with their axes in another order.
    fn turned_padded(&self, b: &mut FuncBuilder, x: &Padded, perm: &[usize]) -> Result<Padded> {
        if perm.is_sorted() {
            return Ok(x.clone());
        }
        let sizes: Vec<_> = perm.iter().map(|&axis| x.sizes[axis]).collect();
        let perm = perm.to_vec();
        let mut found = self.rule(b, &Op::Transpose { perm }, &[x.data], &sizes)?;
        found.pop().ok_or(Refusal::NotEvaluated)
    }
}
