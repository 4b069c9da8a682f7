//! Levels of units.

/// A level of the hierarchy of units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its place in the hierarchy.
    pub kind: LevelKind,
    /// The field's name for one of them: `vector lane`, `thread`, `cluster`, `CCX`, `grid`.
    pub name: &'static str,
    /// Members: lanes of a unit, units of a full group, units of the machine. The last group may have fewer.
    pub count: usize,
}

/// The place of a level in the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LevelKind {
    /// The lanes of one unit. They share registers or a near memory.
    Lanes,
    /// Units that share a cache, or synchronise faster among themselves: a CCX, a NUMA node, a thread-block cluster, an XCD.
    Group,
    /// All units, which share the farthest memory.
    All,
}

impl Level {
    /// The lanes of a unit.
    pub const fn lanes(name: &'static str, count: usize) -> Self {
        Self {
            kind: LevelKind::Lanes,
            name,
            count,
        }
    }

    /// The units of a full group.
    pub const fn group(name: &'static str, count: usize) -> Self {
        Self {
            kind: LevelKind::Group,
            name,
            count,
        }
    }

    /// The units of the machine.
    pub const fn all(name: &'static str, count: usize) -> Self {
        Self {
            kind: LevelKind::All,
            name,
            count,
        }
    }
}
