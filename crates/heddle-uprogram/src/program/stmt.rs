//! Statements, which every unit executes.

use super::{Buffer, CallId, Local, OperatorId};
use crate::expr::ExprId;

/// A statement that every unit executes.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Each unit runs its share.
    Run(OperatorId),
    /// Each unit computes a value for itself.
    Let(Local, ExprId),
    /// What two buffers name is exchanged.
    Swap(Buffer, Buffer),
    /// A counted loop with an exit.
    Loop {
        /// The iteration, from 0.
        iteration: Local,
        /// How often at most, if there is a limit.
        trip: Option<ExprId>,
        /// A `bool` that is looked at before each iteration.
        cond: Option<Local>,
        /// What is repeated.
        body: Vec<Stmt>,
        /// The node.
        name: String,
    },
    /// A branch.
    If {
        /// A `bool`.
        cond: ExprId,
        /// If so.
        then: Vec<Stmt>,
        /// If not.
        otherwise: Vec<Stmt>,
    },
    /// Each unit goes to a procedure and comes back.
    Call(CallId),
    /// The units part: each goes to one of these calls, or, where there are more calls than units, to several one after the
    /// other. The calls are of procedures without results in variables, and none touches what another one writes.
    Fork(Vec<CallId>),
    /// The run stops with an error of shapes unless this holds.
    Check {
        /// A `bool`.
        cond: ExprId,
        /// Two sizes that do not fit each other if it does not.
        sizes: [ExprId; 2],
        /// The node.
        name: String,
    },
    /// Units wait for each other.
    Sync(Sync),
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The lanes of each unit for each other.
    Unit,
    /// Some units for others: what these did before, those know after.
    Wait {
        /// Who is waited for.
        from: Units,
        /// Who waits.
        to: Units,
    },
}

/// Some units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// All of them.
    All,
    /// The one of this number, modulo how many there are.
    One(u32),
}

impl Sync {
    /// All wait for all.
    pub const ALL: Sync = Sync::Wait {
        from: Units::All,
        to: Units::All,
    };
}

impl Stmt {
    /// The expressions that it evaluates itself; a call's are with the [call](super::Call).
    pub fn exprs(&self) -> Vec<ExprId> {
        match self {
            Stmt::Let(_, value) => vec![*value],
            Stmt::If { cond, .. } => vec![*cond],
            Stmt::Loop { trip, .. } => trip.iter().copied().collect(),
            Stmt::Check { cond, sizes, .. } => vec![*cond, sizes[0], sizes[1]],
            _ => vec![],
        }
    }

    /// The calls that it makes itself.
    pub fn calls(&self) -> &[CallId] {
        match self {
            Stmt::Call(id) => std::slice::from_ref(id),
            Stmt::Fork(ids) => ids,
            _ => &[],
        }
    }
}

/// Calls `visit` with every statement, outer ones before those in them, in order.
pub fn for_each_stmt(block: &[Stmt], visit: &mut dyn FnMut(&Stmt)) {
    for stmt in block {
        visit(stmt);
        match stmt {
            Stmt::Loop { body, .. } => for_each_stmt(body, visit),
            Stmt::If {
                then, otherwise, ..
            } => {
                for_each_stmt(then, visit);
                for_each_stmt(otherwise, visit);
            }
            _ => {}
        }
    }
}
