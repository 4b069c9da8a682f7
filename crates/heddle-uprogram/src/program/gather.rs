//! Arrays of which each unit gathers what all of them compute.

use crate::expr::Pool;
use crate::program::{Buffer, BufferKind, Operator, Share, Team, UProgram};

/// Copies of an array in the shared memory of all units, or of those of a team.
///
/// An operator that stores to it gathers: each unit computes its share and gives each number to all others, beside the count of gatherings
/// ("flags in the data"). It then takes all numbers of this count, one by one, as they come. So no unit waits for others besides, and
/// the operator has as much effect on each unit as if that had computed all results by itself. An operator that every unit runs
/// ([`Share::Every`]) stores to the unit's own copy alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Words of the shared memory before each copy.
    pub at: u32,
    /// Units of the launch. One of those that gather and have no share says so, since nobody may be two gatherings behind.
    pub units: u32,
    /// The team whose units gather; `None`: all do.
    pub team: Option<Team>,
}

/// The words in which units give each other numbers, for one gathering: those of the largest array, and one for each unit that has none to
/// give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// For arrays that all units gather; 0 if there are none.
    pub of_all: i64,
    /// For arrays that a team gathers; 0 if there are none.
    pub of_team: i64,
    /// The number of teams.
    pub teams: u32,
}

impl Given {
    /// The words of all, for two gatherings each.
    pub fn words(self) -> i64 {
        2 * (self.of_all + i64::from(self.teams) * self.of_team)
    }

    /// The first of the words of a team, or of all units.
    pub fn first(self, team: Option<Team>) -> i64 {
        team.map_or(0, |team| {
            2 * (self.of_all + i64::from(team.index) * self.of_team)
        })
    }

    /// Those of one gathering.
    pub fn each(self, team: Option<Team>) -> i64 {
        match team {
            Some(_) => self.of_team,
            None => self.of_all,
        }
    }
}

impl Gather {
    /// The most units that gather.
    pub fn most_units(self) -> u32 {
        self.team
            .map_or(self.units, |team| self.units.div_ceil(team.of.max(1)))
    }
}

impl BufferKind {
    /// The copies of an array that units gather.
    pub fn gather(&self) -> Option<Gather> {
        match self {
            Self::Gathered(gather) => Some(*gather),
            _ => None,
        }
    }

    /// True for memory of which each unit has a whole copy for itself.
    pub fn is_of_each(&self) -> bool {
        match self {
            Self::Own => true,
            Self::Gathered(gather) => gather.team.is_none(),
            _ => false,
        }
    }
}

impl UProgram {
    /// The arrays that units gather.
    pub fn gathered(&self) -> impl Iterator<Item = (Buffer, Gather)> {
        let buffers = self.buffers.iter();
        buffers.filter_map(|(id, data)| Some((id, data.kind.gather()?)))
    }

    /// The words in which units give each other numbers; `None` if they gather nothing.
    pub fn given(&self) -> Option<Given> {
        let mut given = None;
        for (id, gather) in self.gathered() {
            let given = given.get_or_insert(Given::default());
            let numbers = self.pool.as_int(self.buffers[id].len).unwrap_or(0);
            let words = numbers.saturating_add(i64::from(gather.most_units()));
            match gather.team {
                Some(team) => {
                    given.of_team = given.of_team.max(words);
                    given.teams = given.teams.max(team.of);
                }
                None => given.of_all = given.of_all.max(words),
            }
        }
        given
    }
}

impl Operator {
    /// The array that the operator's units gather, if they do.
    pub fn gathers(&self, program: &UProgram) -> Option<Gather> {
        let to = program.buffers.get(self.body.store().buffer)?;
        to.kind.gather().filter(|_| self.share != Share::Every)
    }

    /// The number of parts that an operator's split axis consists of, each of which one unit has, and the unit with the first ones; `None` if
    /// the number is not known, or if shares are not along one axis.
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
