//! Teams: parts of all units that run operators side by side.

use std::ops::Range;

use crate::program::Units;

/// Part `index` of all units, divided into `of` parts of neighbours that are as equal as can be. With fewer units than parts,
/// each part is one unit, and a unit may be several.
///
/// Layers of a stack that work on different steps at the same time are on a team each (Cocktailer §4.3 forks calls likewise;
/// here the statements stay where they are, and all units execute the control flow around them).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Team {
    /// The number of the part.
    pub index: u32,
    /// The number of parts, at least 1.
    pub of: u32,
}

impl Team {
    /// The most parts.
    pub const MOST: u32 = 1024;

    /// True if there is such a part.
    pub fn is_sound(self) -> bool {
        self.index < self.of && self.of <= Self::MOST
    }

    /// Its units, of so many.
    pub fn units(self, all: usize) -> Range<usize> {
        let border = |part: u32| all * part as usize / self.of as usize;
        let first = border(self.index);
        first..border(self.index + 1).max(first + 1)
    }

    /// The teams of a division into `of` that know, once each has waited for its neighbours, what these units knew.
    pub fn near(of: u32, knew: &[Units]) -> impl Iterator<Item = Team> {
        let learns = move |team: &Team| {
            knew.iter().any(|units| match units {
                Units::Team(other) => other.of == of && team.index.abs_diff(other.index) <= 1,
                Units::All | Units::One(_) => false,
            })
        };
        (0..of).map(move |index| Team { index, of }).filter(learns)
    }
}
