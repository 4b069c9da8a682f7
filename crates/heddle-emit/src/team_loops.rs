//! Loops that run operators of one team only. Units of other teams skip them.

use std::collections::BTreeSet;

use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Buffer, Stmt, Sync, Team, Units, for_each_stmt};

/// The numbers of teams into which all units are divided; none if some teams are of the units of a call.
pub(crate) fn team_counts(program: &UProgram) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for (_, procedure) in program.procedures.iter() {
        for_each_stmt(&procedure.body, &mut |stmt| {
            found.extend(team_count(program, stmt))
        });
    }
    if !found.is_empty() {
        return BTreeSet::new();
    }
    for_each_stmt(&program.body, &mut |stmt| {
        found.extend(team_count(program, stmt))
    });
    found
}

/// The number of teams in which a statement names one.
fn team_count(program: &UProgram, stmt: &Stmt) -> Option<u32> {
    let team = |units: Units| match units {
        Units::Team(team) => Some(team.of),
        _ => None,
    };
    match stmt {
        Stmt::Run(id) => program.operators[*id].team.map(|team| team.of),
        Stmt::Sync(sync) => sync.ends().and_then(|(from, to)| team(from).or(team(to))),
        _ => None,
    }
}

/// A loop of one team, with the effects of an iteration on other units.
#[derive(Debug)]
pub(crate) struct SkippedLoop {
    /// The team whose loop it is.
    pub team: Team,
    /// Waits that all units count.
    pub waits: usize,
    /// Its swaps, each of other names.
    pub swaps: Vec<Stmt>,
}

impl SkippedLoop {
    /// A loop of one team whose body does nothing else that other units need.
    pub fn of(program: &UProgram, body: &[Stmt]) -> Option<Self> {
        let team = body.iter().find_map(|stmt| match stmt {
            Stmt::Run(id) => program.operators[*id].team,
            _ => None,
        })?;
        let mut skipped = Self {
            team,
            waits: 0,
            swaps: vec![],
        };
        let mut swapped: BTreeSet<Buffer> = BTreeSet::new();
        let own = Units::Team(team);
        for stmt in body {
            match stmt {
                Stmt::Run(id) => {
                    let op = &program.operators[*id];
                    if op.team != Some(team) || op.grow.is_some() {
                        return None;
                    }
                }
                Stmt::Sync(Sync::Warp | Sync::Unit) | Stmt::Check { .. } => {}
                Stmt::Sync(Sync::Cluster(cluster)) if cluster.team == team => {}
                Stmt::Sync(Sync::Wait { from, to }) if (*from, *to) == (own, own) => {
                    skipped.waits += 1;
                }
                // Swaps of different names, done twice, are undone.
                Stmt::Swap(a, b) if swapped.insert(*a) && swapped.insert(*b) => {
                    skipped.swaps.push(stmt.clone());
                }
                _ => return None,
            }
        }
        Some(skipped)
    }
}
