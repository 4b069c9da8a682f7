//! Statements, which every unit executes.

use crate::expr::ExprId;
use crate::ids::{Buffer, CallId, Local, OperatorId};
use crate::program::Team;

/// A statement that every unit executes.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Each unit runs its share of an operator.
    Run(OperatorId),
    /// Each unit computes a value redundantly.
    Let(Local, ExprId),
    /// Exchanges the memory of two names.
    Swap(Buffer, Buffer),
    /// A counted loop with an exit.
    Loop {
        /// The iteration number, from 0.
        iteration: Local,
        /// Bound on the trip count, if any.
        trip: Option<ExprId>,
        /// A `bool` read before each iteration.
        cond: Option<Local>,
        /// Its statements.
        body: Vec<Stmt>,
        /// The node.
        name: String,
    },
    /// A branch.
    If {
        /// A `bool`.
        cond: ExprId,
        /// The arm for true.
        then: Vec<Stmt>,
        /// The arm for false.
        otherwise: Vec<Stmt>,
    },
    /// All units call a procedure.
    Call(CallId),
    /// The units split into teams, one for each call; with more calls than units, a unit executes
    /// several in sequence. The callees have no results in variables, and no call touches memory
    /// that another one writes.
    Fork(Vec<CallId>),
    /// The run stops with a shape error if this is false.
    Check {
        /// A `bool`.
        cond: ExprId,
        /// The two sizes that do not match then.
        sizes: [ExprId; 2],
        /// The node.
        name: String,
    },
    /// Units wait for each other.
    Sync(Sync),
}

/// A synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The lanes of each warp wait for each other, where groups of them work on a point each.
    Warp,
    /// The lanes of each unit wait for each other.
    Unit,
    /// Units wait for others: what the latter did before happens before what the former do next.
    Wait {
        /// The units waited for.
        from: Units,
        /// The waiting units.
        to: Units,
    },
    /// Units wait for those of their own team and of its neighbours, where all units are so many teams: what each of those did
    /// before happens before what they do next. Layers of a stack, each on its team, hand values to the next one so.
    Near(u32),
    /// The units of a team, which a launch keeps together as a cluster, wait for each other by the device's own barrier.
    Cluster(Cluster),
    /// The number of units may change here: units leave or join, all meet if so, and all are numbered anew. Otherwise
    /// nobody waits. It is the first statement of a loop of the main program, outside of other loops.
    Resize,
}

/// A set of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Units {
    /// All of them.
    All,
    /// The unit of this number, modulo the number of units.
    One(u32),
    /// Those of a team.
    Team(Team),
}

/// A cluster of a launch: its units are neighbours, and each of the clusters has as many. A program that has one runs in clusters of
/// that size alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The cluster as a team of all units.
    pub team: Team,
    /// Its units.
    pub units: u32,
}

impl Sync {
    /// A barrier of all units.
    pub const ALL: Sync = Sync::Wait {
        from: Units::All,
        to: Units::All,
    };

    /// The units that are waited for, and those that wait, if they are not other ones for each unit.
    pub fn ends(self) -> Option<(Units, Units)> {
        match self {
            Sync::Wait { from, to } => Some((from, to)),
            Sync::Cluster(Cluster { team, .. }) => {
                let all = match team.of {
                    1 => Units::All,
                    _ => Units::Team(team),
                };
                Some((all, all))
            }
            Sync::Warp | Sync::Unit | Sync::Near(_) | Sync::Resize => None,
        }
    }

    /// True if all units wait for all.
    pub fn is_of_all(self) -> bool {
        self.ends() == Some((Units::All, Units::All))
    }
}

impl Cluster {
    /// The units of a launch.
    pub fn all_units(self) -> u32 {
        self.team.of.saturating_mul(self.units)
    }
}

impl Stmt {
    /// Its own expressions, without those of nested statements; a call's are in its
    /// [call](super::Call).
    pub fn exprs(&self) -> Vec<ExprId> {
        match self {
            Stmt::Let(_, value) => vec![*value],
            Stmt::If { cond, .. } => vec![*cond],
            Stmt::Loop { trip, .. } => trip.iter().copied().collect(),
            Stmt::Check { cond, sizes, .. } => vec![*cond, sizes[0], sizes[1]],
            _ => vec![],
        }
    }

    /// Its own calls.
    pub fn calls(&self) -> &[CallId] {
        match self {
            Stmt::Call(id) => std::slice::from_ref(id),
            Stmt::Fork(ids) => ids,
            _ => &[],
        }
    }

    /// Its nested blocks, a loop's body or the arms of a branch; empty ones in place of missing
    /// ones.
    pub fn blocks(&self) -> [&[Stmt]; 2] {
        match self {
            Stmt::Loop { body, .. } => [body, &[]],
            Stmt::If {
                then, otherwise, ..
            } => [then, otherwise],
            _ => [&[], &[]],
        }
    }

    /// A copy with other nested blocks; those that it has no place for must be empty.
    pub fn with_blocks(&self, [first, second]: [Vec<Stmt>; 2]) -> Stmt {
        match self {
            Stmt::Loop {
                iteration,
                trip,
                cond,
                name,
                ..
            } => Stmt::Loop {
                iteration: *iteration,
                trip: *trip,
                cond: *cond,
                body: first,
                name: name.clone(),
            },
            Stmt::If { cond, .. } => Stmt::If {
                cond: *cond,
                then: first,
                otherwise: second,
            },
            stmt => stmt.clone(),
        }
    }

    /// Its nested blocks, to change them.
    pub fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Vec<Stmt>> {
        let blocks = match self {
            Stmt::Loop { body, .. } => [Some(body), None],
            Stmt::If {
                then, otherwise, ..
            } => [Some(then), Some(otherwise)],
            _ => [None, None],
        };
        blocks.into_iter().flatten()
    }
}

/// Calls `visit` with every statement in order, outer ones before nested ones.
pub fn for_each_stmt(block: &[Stmt], visit: &mut dyn FnMut(&Stmt)) {
    for stmt in block {
        visit(stmt);
        let blocks = stmt.blocks().into_iter();
        blocks.for_each(|inner| for_each_stmt(inner, visit));
    }
}

/// The same, to change them.
pub fn for_each_stmt_mut(block: &mut [Stmt], visit: &mut dyn FnMut(&mut Stmt)) {
    for stmt in block {
        visit(stmt);
        stmt.blocks_mut()
            .for_each(|inner| for_each_stmt_mut(inner, visit));
    }
}
