//! Stores without what no frame needs any more.
//!
//! If a store has grown to more than twice what was in use, the executor leaves its inner loop, and the
//! elements that are in no range are taken out. Ranges that overlap still do afterwards.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce};
use heddle_ir::{DType, FuncBuilder, Op, Value};

use super::drive::{Driver, cut};
use super::slots::RangeSlot;
use super::state::{State, combined, filled, put};
use super::stores::Range;
use crate::batch::Result;
use crate::instances::set::plus;

/// The least size that a store may have until it is tidied.
const LEAST_LIMIT: i64 = 1024;

impl Driver<'_> {
    /// Is a store to lose what is not in use? `None` without stores.
    pub(super) fn is_crowded(&self, b: &mut FuncBuilder, state: &State) -> Result<Option<Value>> {
        let mut any = None;
        for (&store, &limit) in state.stores.iter().zip(&state.limits) {
            let size = b.size(store, 0)?;
            let is_over = b.compare(CompareOp::Gt, size, limit)?;
            any = Some(match any {
                Some(others) => b.binary(BinaryOp::Or, others, is_over)?,
                None => is_over,
            });
        }
        Ok(any)
    }

    /// Takes the elements that are in no range out of all stores. Ranges of free frames are none.
    pub(super) fn tidied(&self, b: &mut FuncBuilder, mut state: State) -> Result<State> {
        if state.stores.is_empty() {
            return Ok(state);
        }
        let (zero, one, less) = (b.i64(0), b.i64(1), b.i64(-1));
        let free = cut(b, state.free, state.free_count)?;
        let none = filled(b, zero, state.free_count)?;
        for k in 0..self.slots.stores.len() {
            let is_own = |range: &&RangeSlot| range.store == k;
            let own: Vec<&RangeSlot> = self.slots.own.ranges.iter().filter(is_own).collect();
            let results = self.slots.results.ranges.iter().filter(is_own);
            let results: Vec<&RangeSlot> = results.collect();
            for range in &own {
                let all = [Some(range.start), Some(range.len), range.room];
                for slot in all.into_iter().flatten() {
                    state.slots[slot] = put(b, state.slots[slot], free, none)?;
                }
            }
            let ranges = own.iter().map(|slot| state.range(slot));
            let ranges = ranges.chain(results.iter().map(|slot| state.result_range(slot)));
            let ranges: Vec<Range> = ranges.collect();
            let starts: Vec<Value> = ranges.iter().map(|range| range.start).collect();
            let rooms = ranges.iter().map(|range| range.room.unwrap_or(range.len));
            let (starts, rooms) = (b.join(&starts)?, b.join(&rooms.collect::<Vec<_>>())?);
            let ends = plus(b, starts, rooms)?;
            // The number of ranges around each element, and behind the last one.
            let (size, count) = (b.size(state.stores[k], 0)?, b.size(starts, 0)?);
            let size = plus(b, size, one)?;
            let mut around = filled(b, zero, size)?;
            for (places, number) in [(starts, one), (ends, less)] {
                let numbers = filled(b, number, count)?;
                around = combined(b, around, places, ScatterReduce::Add, numbers)?;
            }
            let sum = |exclusive| Op::Cumulative {
                kind: ReduceOp::Sum,
                axis: 0,
                exclusive,
                reverse: false,
            };
            let around = b.op1(sum(false), &[around])?;
            let is_used = b.compare(CompareOp::Gt, around, zero)?;
            let (used, count) = self.top.those(b, is_used)?;
            state.stores[k] = b.gather(state.stores[k], used)?;
            let ones = b.cast(DType::I64, is_used)?;
            let places = b.op1(sum(true), &[ones])?;
            for range in own {
                state.slots[range.start] = b.gather(places, state.slots[range.start])?;
            }
            for range in results {
                state.results[range.start] = b.gather(places, state.results[range.start])?;
            }
            state.limits[k] = self.limit_beyond(b, count, state.free)?;
        }
        Ok(state)
    }

    /// The size that a store may have until it is tidied, by the number of elements in use and an
    /// array of all frames, of which each is read then.
    pub(super) fn limit_beyond(
        &self,
        b: &mut FuncBuilder,
        used: Value,
        frames: Value,
    ) -> Result<Value> {
        let (frames, least) = (b.size(frames, 0)?, b.i64(LEAST_LIMIT));
        let all = plus(b, used, frames)?;
        let all = plus(b, all, all)?;
        plus(b, all, least)
    }
}
