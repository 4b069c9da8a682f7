//! The newest frames first, where the frames that are allowed run short.
//!
//! The list of frames that are ready begins with the newest: those that a step made, then those
//! whose calls returned in it. If there may be no more frames, and too few are free for the calls of
//! all that are ready, the block of the first runs, and only for so many of its frames that half of
//! the free ones are left to the calls of these. So a recursion goes down before it goes on in
//! breadth, and gives frames back.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{DType, FuncBuilder, Op, Value};

use super::drive::Driver;
use super::state::State;
use crate::batch::Result;

impl Driver<'_> {
    /// The block that runs next, and the number of its frames that do: all of the first block, or
    /// some of the newest frame's.
    pub(super) fn next(&self, b: &mut FuncBuilder, state: &State) -> Result<(Value, Value)> {
        let (first, all) = self.first(b, state.at)?;
        let Some(limit) = self.limit else {
            return Ok((first, all));
        };
        let (zero, one, two) = (b.i64(0), b.i64(1), b.i64(2));
        let (ready, most) = (b.size(state.ready, 0)?, b.i64(self.slots.most_calls as i64));
        let need = b.binary(BinaryOp::Mul, ready, most)?;
        let lacks = b.compare(CompareOp::Lt, state.free_count, need)?;
        let (count, limit) = (b.size(state.free, 0)?, b.i64(limit));
        let is_full = b.compare(CompareOp::Ge, count, limit)?;
        let is_short = b.binary(BinaryOp::And, lacks, is_full)?;
        // Without a frame that is ready, the number of any block will do.
        let none = b.i64s(&[0]);
        let numbers = b.join(&[state.at, none])?;
        let newest = b.gather(numbers, zero)?;
        let same = b.compare(CompareOp::Eq, state.at, newest)?;
        let same = b.cast(DType::I64, same)?;
        let there = self.top.total(b, same)?;
        let calls = self.calls(b, newest)?;
        let each = b.binary(BinaryOp::Max, calls, one)?;
        let each = b.binary(BinaryOp::Mul, each, two)?;
        let few = b.binary(BinaryOp::Div, state.free_count, each)?;
        let few = b.binary(BinaryOp::Max, few, one)?;
        let few = b.binary(BinaryOp::Min, few, there)?;
        let has_calls = b.compare(CompareOp::Lt, zero, calls)?;
        let some = b.select(has_calls, few, there)?;
        let number = b.select(is_short, newest, first)?;
        Ok((number, b.select(is_short, some, all)?))
    }

    /// The frames that run, `bool` for each that is ready: the first of those in the next block.
    pub(super) fn running(&self, b: &mut FuncBuilder, state: &State) -> Result<Value> {
        let is_there = b.compare(CompareOp::Eq, state.at, state.number)?;
        if self.limit.is_none() {
            return Ok(is_there);
        }
        let ones = b.cast(DType::I64, is_there)?;
        let before = Op::Cumulative {
            kind: ReduceOp::Sum,
            axis: 0,
            exclusive: true,
            reverse: false,
        };
        let before = b.op1(before, &[ones])?;
        let is_in = b.compare(CompareOp::Lt, before, state.count)?;
        Ok(b.binary(BinaryOp::And, is_there, is_in)?)
    }
}
