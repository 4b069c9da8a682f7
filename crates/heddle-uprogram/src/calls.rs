//! The calls of a program: their sites, the values kept over each, and the procedures that teams
//! enter.

use std::collections::{BTreeMap, BTreeSet};

use crate::live::{Names, kept_over_calls};
use crate::program::{CallId, ProcedureId, Stmt, UProgram, for_each_stmt};

/// The calls of a program.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// The place of each call in the order of the program's text, so that what is written does not depend on ids.
    pub places: BTreeMap<CallId, usize>,
    /// The values that a unit keeps over each call, besides the bytes that it uses of the callee's
    /// segments; a call without an entry keeps none.
    pub kept: BTreeMap<CallId, Names>,
    /// Calls by their callee.
    pub to: BTreeMap<ProcedureId, Vec<CallId>>,
    /// Calls inside forks.
    pub parts: BTreeSet<CallId>,
    /// Procedures that a team smaller than all units may be in.
    pub in_teams: BTreeSet<ProcedureId>,
}

impl Calls {
    /// The calls of a scheduled program.
    pub fn of(program: &UProgram) -> Calls {
        let mut to: BTreeMap<ProcedureId, Vec<CallId>> = BTreeMap::new();
        let (mut parts, mut places) = (BTreeSet::new(), BTreeMap::new());
        let bodies = program.procedures.iter().map(|(_, p)| &p.body);
        for body in bodies.chain([&program.body]) {
            for_each_stmt(body, &mut |stmt| {
                for id in stmt.calls() {
                    places.insert(*id, places.len());
                    to.entry(program.calls[*id].procedure)
                        .or_default()
                        .push(*id);
                    if matches!(stmt, Stmt::Fork(_)) {
                        parts.insert(*id);
                    }
                }
            });
        }
        let mut kept = kept_over_calls(program);
        for (&callee, calls) in &to {
            // The caller's part of a segment ends where the callee's begins.
            let segments: Vec<_> = program.segments(callee).collect();
            for call in calls.iter().filter(|_| !segments.is_empty()) {
                kept.entry(*call).or_default().buffers.extend(&segments);
            }
        }
        Calls {
            places,
            kept,
            to,
            in_teams: in_teams(program, &parts),
            parts,
        }
    }
}

/// The callees of these calls, and all procedures that those call.
fn in_teams(program: &UProgram, parts: &BTreeSet<CallId>) -> BTreeSet<ProcedureId> {
    let called = parts.iter().map(|id| program.calls[*id].procedure);
    let called: BTreeSet<_> = called.collect();
    let inner = called.iter().flat_map(|id| program.callees(*id));
    inner.chain(called.iter().copied()).collect()
}
