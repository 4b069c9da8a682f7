//! Which iterations of a loop a span is made of, and their numbers.

use heddle_ir::Value;
use heddle_ir::op::BinaryOp;

use super::{Result, Span};
use crate::transform::distribute_loops::stop::Stop;
use crate::transform::rebuild::Rebuild;

/// Which iterations of the loop they are.
pub enum Place {
    /// All.
    Whole,
    /// Those of one chunk of many.
    Chunk {
        /// Which chunk, once inside the loop over chunks.
        index: Option<Value>,
        /// How many chunks there are.
        chunks: Value,
        /// How many iterations they have together.
        done: Value,
    },
    /// Those after the chunks.
    Rest {
        /// How many iterations the chunks have together.
        done: Value,
        /// How many there are in all.
        end: Value,
    },
    /// Those of one chunk, and behind them some that are in vain.
    Padded {
        /// The number of the first one.
        base: Value,
        /// How many there are.
        steps: Value,
        /// The number of the last one of the loop.
        last: Value,
    },
    /// As many of a chunk as a condition holds for: the first stage finds out.
    Until {
        /// The number of the first one.
        base: Value,
        /// How many there may be, at least 1.
        limit: Value,
    },
}

impl<'a> Span<'_, 'a> {
    /// The number of the first iteration, unless it is 0.
    pub(super) fn base(&self, rebuild: &mut Rebuild, place: &Place) -> Result<Option<Value>> {
        Ok(match place {
            Place::Whole => None,
            Place::Chunk { index, .. } => {
                let index = index.ok_or(Stop::Impossible)?;
                Some(rebuild.b.binary(BinaryOp::Mul, index, self.count)?)
            }
            Place::Rest { done, .. } => Some(*done),
            Place::Padded { base, .. } | Place::Until { base, .. } => Some(*base),
        })
    }

    /// The numbers of the iterations; `last` is repeated behind it.
    pub(super) fn iterations(
        &self,
        rebuild: &mut Rebuild<'a>,
        base: Option<Value>,
        last: Option<Value>,
    ) -> Result<Value> {
        let mut iterations = rebuild.b.iota(self.count)?;
        rebuild.state_rows(iterations, &self.dim);
        if let Some(base) = base {
            iterations = rebuild.b.binary(BinaryOp::Add, base, iterations)?;
        }
        if let Some(last) = last {
            iterations = rebuild.b.binary(BinaryOp::Min, iterations, last)?;
        }
        Ok(iterations)
    }
}
