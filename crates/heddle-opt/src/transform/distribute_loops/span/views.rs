//! Arrays indexed by the iteration number become slices in place of gathers.

use std::collections::HashMap;

use heddle_ir::{Inst, Op, Value};

use super::{Place, Result, Span};
use crate::transform::rebuild::Rebuild;

impl<'a> Span<'_, 'a> {
    /// For elements of arrays that are looked up by the iteration: those of all iterations in
    /// order, and before a loop over chunks those of all chunks.
    pub fn views(&self, rebuild: &mut Rebuild<'a>, place: &Place) -> Result<HashMap<Inst, Value>> {
        let mut views = HashMap::new();
        let func = self.body.func;
        for &inst in self.body.insts {
            let data = &func.insts[inst];
            let Op::Gather { axis } = data.op else {
                continue;
            };
            let [x, index] = data.args[..] else { continue };
            let Some(&x) = rebuild.values.get(&x) else {
                continue;
            };
            if index == self.body.parts.iteration
                && let Some(view) = self.view(rebuild, place, x, axis)?
            {
                views.insert(inst, view);
            }
        }
        Ok(views)
    }

    fn view(
        &self,
        rebuild: &mut Rebuild<'a>,
        place: &Place,
        x: Value,
        axis: usize,
    ) -> Result<Option<Value>> {
        let b = &mut rebuild.b;
        let Some(rank) = b.rank(x) else {
            return Ok(None);
        };
        let size = b.ty(x).as_tensor().and_then(|t| t.shape.as_ref());
        let Some(size) = size.map(|s| s[axis].clone()) else {
            return Ok(None);
        };
        let trip = self.body.parts.trip.map(|t| rebuild.values[&t]);
        let trips = trip.and_then(|t| b.known(t)?.first().cloned());
        let Some(trips) = trips else { return Ok(None) };
        let inside = match (size.as_const(), trips.as_const()) {
            (Some(size), Some(trips)) => trips <= size,
            _ => size.equals(&trips),
        };
        if !inside {
            return Ok(None);
        }
        let perm: Vec<usize> = std::iter::once(axis)
            .chain((0..rank).filter(|a| *a != axis))
            .collect();
        let x = match axis {
            0 => x,
            _ => b.op1(Op::Transpose { perm }, &[x])?,
        };
        let (from, to) = match place {
            Place::Whole => (None, self.count),
            Place::Chunk { done, .. } => (None, *done),
            Place::Rest { done, end } => (Some(*done), *end),
            Place::Padded { .. } | Place::Until { .. } => return Ok(None),
        };
        let rows = match (place, size.as_const()) {
            (Place::Whole, _) if size.equals(&self.dim) => x,
            (Place::Chunk { .. }, Some(n)) if b.known(to).is_some_and(|k| k[0].is(n)) => x,
            _ => {
                let from = match from {
                    Some(from) => b.vector_of(from)?,
                    None => b.i64s(&[0]),
                };
                let (to, step) = (b.vector_of(to)?, b.i64s(&[1]));
                b.op1(Op::Slice { axes: vec![0] }, &[x, from, to, step])?
            }
        };
        let Place::Chunk { chunks, .. } = place else {
            rebuild.state_rows(rows, &self.dim);
            return Ok(Some(rows));
        };
        let b = &mut rebuild.b;
        let front = [b.vector_of(*chunks)?, b.vector_of(self.count)?];
        let rest = b.sizes(x, 1..rank)?;
        let shape = b.join(&[front[0], front[1], rest])?;
        Ok(Some(b.op1(Op::Reshape, &[rows, shape])?))
    }
}
