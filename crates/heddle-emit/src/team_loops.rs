//! What units of one team do alone, in the text: other units pass by the loops that run its operators only.

use std::collections::BTreeSet;

use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Buffer, Stmt, Sync, Team, Units, for_each_stmt};

/// The numbers of teams into which all units are divided; none if some teams are of the units of a call.
pub(crate) fn divisions(program: &UProgram) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for (_, procedure) in program.procedures.iter() {
        for_each_stmt(&procedure.body, &mut |stmt| {
            found.extend(division(program, stmt))
        });
    }
    if !found.is_empty() {
        return BTreeSet::new();
    }
    for_each_stmt(&program.body, &mut |stmt| {
        found.extend(division(program, stmt))
    });
    found
}

/// The number of teams, of one of which a statement is.
fn division(program: &UProgram, stmt: &Stmt) -> Option<u32> {
    let team = |units: &Units| match units {
        Units::Team(team) => Some(team.of),
        _ => None,
    };
    match stmt {
        Stmt::Run(id) => program.operators[*id].team.map(|team| team.of),
        Stmt::Sync(Sync::Wait { from, to }) => team(from).or(team(to)),
        _ => None,
    }
}

/// What an iteration does for units that pass by it.
#[derive(Debug)]
pub(crate) struct Passed {
    /// The team whose loop it is.
    pub team: Team,
    /// The number of waits that all units count.
    pub waits: usize,
    /// Names that change places: statements.
    pub swaps: Vec<Stmt>,
}

impl Passed {
    /// A loop of one team whose body does nothing else that other units need.
    pub fn of(program: &UProgram, body: &[Stmt]) -> Option<Self> {
        let team = body.iter().find_map(|stmt| match stmt {
            Stmt::Run(id) => program.operators[*id].team,
            _ => None,
        })?;
        let mut passed = Self {
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
                Stmt::Sync(Sync::Unit) | Stmt::Check { .. } => {}
                Stmt::Sync(Sync::Wait { from, to }) if (*from, *to) == (own, own) => {
                    passed.waits += 1;
                }
                // Done twice, exchanges of different names are undone.
                Stmt::Swap(a, b) if swapped.insert(*a) && swapped.insert(*b) => {
                    passed.swaps.push(stmt.clone());
                }
                _ => return None,
            }
        }
        Some(passed)
    }
}
