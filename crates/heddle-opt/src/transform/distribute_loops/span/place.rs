//! The iterations of a span, and their numbers.

use heddle_ir::Value;
use heddle_ir::op::BinaryOp;

use super::{Result, Span};
use crate::transform::distribute_loops::stop::Stop;
use crate::transform::rebuild::Rebuild;

/// The iterations of a span.
pub enum Place {
    /// All.
    Whole,
    /// Those of one of several chunks.
    Chunk {
        /// The chunk's index, once inside the loop over chunks.
        index: Option<Value>,
        /// Number of chunks.
        chunks: Value,
        /// Their number of iterations in total.
        done: Value,
    },
    /// Those after the chunks.
    Rest {
        /// Number of iterations in all chunks.
        done: Value,
        /// Trip count of the whole loop.
        end: Value,
    },
    /// Those of one chunk, padded to its size.
    Padded {
        /// The number of the first one.
        base: Value,
        /// Their number.
        steps: Value,
        /// The number of the last one of the loop.
        last: Value,
    },
    /// Those of a chunk up to an early exit, which the first stage finds.
    Until {
        /// The number of the first one.
        base: Value,
        /// Upper bound on their number, at least 1.
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

    /// The numbers of the iterations, padded by `last`.
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
