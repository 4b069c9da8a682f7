//! The last instance of a loop runs as alone.
//!
//! A loop that each instance leaves when it is done ends where one is left. That one goes on in a loop of its own, without a list
//! of those that go on, so nothing is parted, moved or waited for. One instance that iterates long after all others costs what
//! it costs alone.

use heddle_ir::op::CompareOp;
use heddle_ir::{Dim, FuncBuilder, LoopView, Op, Value};

use super::carried::{Found, Kind};
use super::lane::Lane;
use super::leave::written;
use super::set::Set;
use super::state::State;
use crate::batch::{Refusal, Result};

impl<'a> Set<'a> {
    /// May the last instance go on by itself? So it is where the loop carries rows alone, and has no scan outputs.
    pub(super) fn lasts_alone(&self, found: &Found, state: &State) -> bool {
        let is_row = |kind: &Kind| matches!(kind, Kind::Same | Kind::Rows);
        found.kinds.iter().all(is_row)
            && state.scans.is_none()
            && state.planned.is_empty()
            && self.now.is_none()
    }

    /// The results of a loop in whose state at most one instance is left, behind so many iterations.
    pub(super) fn with_last(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        found: &Found,
        state: &State,
        iterations: Value,
    ) -> Result<Vec<Value>> {
        let left = b.size(state.ids, 0)?;
        let one = b.i64(1);
        let is_left = b.compare(CompareOp::Eq, left, one)?;

        b.begin_region(&[]);
        let first = b.i64(0);
        let number = b.gather(state.ids, first)?;
        let (before, needs) = self.captured_with(&[view.body]);
        let needs = needs.into_iter().chain(view.trip);
        let needs: Vec<Value> = needs.filter(|v| !self.is_postponed(*v)).collect();
        let mut alone = self.one(b, &needs, number)?;
        alone.all_together(b, &before)?;
        let mut inits = vec![];
        for (&v, kind) in state.carried.iter().zip(&found.kinds) {
            inits.push(Lane::Same(match kind {
                Kind::Same => v,
                _ => b.gather(v, first)?,
            }));
        }
        let mut same = Found {
            kinds: vec![Kind::Same; inits.len()],
            parts: false,
        };
        let last = alone.all_alike(b, view, &inits, &mut same, Some(iterations))?;
        if last.len() != inits.len() {
            return Err(Refusal::NotEvaluated);
        }
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[state.ids])?;
        let mut all = vec![];
        for (lane, &result) in last.into_iter().zip(&state.results) {
            let own = lane.one(b, first)?;
            let rows = b.op1(Op::Unsqueeze { axes: vec![0] }, &[own])?;
            all.push(written(b, result, at, rows)?);
        }
        let then = b.end_region(&all);

        b.begin_region(&[]);
        let otherwise = b.end_region(&state.results);
        Ok(b.if_(is_left, then, otherwise)?)
    }

    /// One instance, with these values of its own.
    pub(super) fn one(
        &self,
        b: &mut FuncBuilder,
        needs: &[Value],
        number: Value,
    ) -> Result<Set<'a>> {
        let count = b.i64(1);
        let mut alone = Set::new(self.source, self.context, count, Dim::constant(1));
        for &value in needs {
            let own = match self.padded.get(&value) {
                Some(padded) => self.one_padded(b, value, padded, number)?,
                None => self.value(value)?.one(b, number)?,
            };
            alone.values.insert(value, Lane::Same(own));
        }
        Ok(alone)
    }
}
