//! Arrays of which each unit gathers what all of them compute.

use crate::expr::Pool;
use crate::program::{Buffer, BufferKind, Operator, Share, UProgram};

/// Copies of an array in the shared memory of all units.
///
/// An operator that stores to it gathers: each unit computes its share and gives each number to all others, beside the count of gatherings
/// ("flags in the data"). It then takes all numbers of this count, one by one, as they come. So no unit waits for others besides, and
/// the operator has as much effect on each unit as if that had computed all results by itself. An operator that every unit runs
/// ([`Share::Every`]) stores to the unit's own copy alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Words of the shared memory before each copy.
    pub at: u32,
    /// Units of the launch. One that has no share says so to all others, since nobody may be two gatherings behind.
    pub units: u32,
}

impl BufferKind {
    /// The copies of an array that all units gather.
    pub fn gather(&self) -> Option<Gather> {
        match self {
            Self::Gathered(gather) => Some(*gather),
            _ => None,
        }
    }
}

impl UProgram {
    /// The arrays that all units gather.
    pub fn gathered(&self) -> impl Iterator<Item = (Buffer, Gather)> {
        let buffers = self.buffers.iter();
        buffers.filter_map(|(id, data)| Some((id, data.kind.gather()?)))
    }

    /// Words in which units give each other the numbers of any array, and behind them one for each unit that has none to give; `None` if
    /// units gather nothing.
    pub fn given_words(&self) -> Option<i64> {
        let (_, Gather { units, .. }) = self.gathered().next()?;
        let lens = self.gathered().map(|(id, _)| self.buffers[id].len);
        let most = lens.filter_map(|len| self.pool.as_int(len)).max()?;
        most.checked_add(i64::from(units))
    }
}

impl Operator {
    /// The array that the operator's units gather, if they do.
    pub fn gathers(&self, program: &UProgram) -> Option<Gather> {
        let to = program.buffers.get(self.body.store().buffer)?;
        to.kind.gather().filter(|_| self.share != Share::Every)
    }

    /// Of an operator whose units have shares along one axis, the parts that the axis consists of, of which a unit has all or none, and the
    /// unit with the first ones; `None` if their number is not known.
    pub fn grains(&self, pool: &Pool) -> Option<(i64, u32)> {
        let Share::Split(split) = self.share else {
            return None;
        };
        let period = pool.as_int(split.period).filter(|period| *period > 0)?;
        let grains = period.checked_add(split.grain.checked_sub(1)?)?;
        let is_whole = split.piece.is_none();
        Some((grains.checked_div(split.grain)?, split.first)).filter(|_| is_whole)
    }
}
