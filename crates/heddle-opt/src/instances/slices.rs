//! Slices of arrays that differ in the size of their first axis.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{FuncBuilder, Op};

use super::lane::{Lane, Ragged};
use super::ragged_ops::value;
use super::set::Set;
use crate::batch::{Refusal, Result};

impl Set<'_> {
    /// A slice along the first axis and, with constant bounds, others.
    pub(super) fn slice(
        &self,
        b: &mut FuncBuilder,
        axes: &[usize],
        x: Ragged,
        bounds: &[Lane],
    ) -> Result<Lane> {
        if axes == [0] {
            return self.slice_first(b, x, bounds);
        }
        let all = bounds.iter().map(|&lane| constants(b, lane));
        let all: Option<Vec<Vec<i64>>> = all.collect();
        let all = all.ok_or(Refusal::SizesByRow("slice"))?;
        let part = |b: &mut FuncBuilder, from: usize, to: usize| -> Vec<_> {
            let parts = all.iter().map(|each| b.i64s(&each[from..to]));
            parts.map(Lane::Same).collect()
        };
        let (first, rest) = (part(b, 0, 1), part(b, 1, axes.len()));
        let op = Op::Slice {
            axes: axes[1..].to_vec(),
        };
        match self.along(b, &op, x, &rest)?[..] {
            [Lane::Ragged(x)] => self.slice_first(b, x, &first),
            _ => Err(Refusal::NotEvaluated),
        }
    }

    /// A slice of each range, with Python's bounds.
    fn slice_first(&self, b: &mut FuncBuilder, x: Ragged, bounds: &[Lane]) -> Result<Lane> {
        let [start, end, step] = *bounds else {
            return Err(Refusal::NotEvaluated);
        };
        let step = match constants(b, step).as_deref() {
            Some(&[step]) if step != 0 && step != i64::MIN => step,
            _ => return Err(Refusal::SizesByRow("slice")),
        };
        let (zero, one) = (b.i64(0), b.i64(1));
        if is_turn(b, bounds) {
            let last = b.binary(BinaryOp::Sub, x.lens, one)?;
            let starts = b.binary(BinaryOp::Add, x.starts, last)?;
            return Ok(Lane::Ragged(self.picked(b, x, starts, x.lens, -1)?));
        }
        // Forwards from the first to before the last; backwards the range moves down by one.
        let mut bound = |lane: Lane| -> Result<_> {
            let axis = match lane {
                Lane::Same(_) => 0,
                _ => 1,
            };
            let v = b.op1(Op::Squeeze { axes: vec![axis] }, &[value(lane)?])?;
            let is_negative = b.compare(CompareOp::Lt, v, zero)?;
            let from_end = b.binary(BinaryOp::Add, v, x.lens)?;
            let v = b.select(is_negative, from_end, v)?;
            let (low, high) = match step > 0 {
                true => (zero, x.lens),
                false => (b.i64(-1), b.binary(BinaryOp::Sub, x.lens, one)?),
            };
            let v = b.binary(BinaryOp::Max, v, low)?;
            Ok(b.binary(BinaryOp::Min, v, high)?)
        };
        let (start, end) = (bound(start)?, bound(end)?);
        let len = match step > 0 {
            true => b.binary(BinaryOp::Sub, end, start)?,
            false => b.binary(BinaryOp::Sub, start, end)?,
        };
        let mut lens = b.binary(BinaryOp::Max, len, zero)?;
        if step.abs() > 1 {
            // The first element, and those that steps reach behind it.
            let (by, first) = (b.i64(step.abs()), b.binary(BinaryOp::Min, lens, one)?);
            let behind = b.binary(BinaryOp::Sub, lens, first)?;
            let behind = b.binary(BinaryOp::Div, behind, by)?;
            lens = b.binary(BinaryOp::Add, first, behind)?;
        }
        let starts = match (step, constants(b, bounds[0]).as_deref()) {
            (1, Some(&[0])) => x.starts,
            _ => b.binary(BinaryOp::Add, x.starts, start)?,
        };
        Ok(Lane::Ragged(match step {
            1 => Ragged {
                starts,
                lens,
                is_packed: false,
                home: x.home.filter(|_| starts == x.starts),
                ..x
            },
            _ => self.picked(b, x, starts, lens, step)?,
        }))
    }
}

/// The elements, if they are constants.
fn constants(b: &FuncBuilder, lane: Lane) -> Option<Vec<i64>> {
    match lane {
        Lane::Same(v) => b.func().constant(v)?.to_vec::<i64>(),
        _ => None,
    }
}

/// A slice of all elements, from the last to the first.
fn is_turn(b: &FuncBuilder, bounds: &[Lane]) -> bool {
    let first = |&lane: &Lane| constants(b, lane)?.first().copied();
    let bounds: Option<Vec<i64>> = bounds.iter().map(first).collect();
    matches!(bounds.as_deref(), Some(&[-1 | i64::MAX, end, -1]) if end < -i64::from(u32::MAX))
}
