//! Scheduled programs with one synchronisation too few, or with one that is too weak.

use heddle_uprogram::UProgram;
use heddle_uprogram::program::{ProcedureId, Stmt, Sync, Team, Units};

/// A program in which one synchronisation is left out or replaced.
pub struct Mutant {
    /// The number of the synchronisation, those of the main program first.
    pub number: usize,
    pub sync: Sync,
    /// The synchronisation in its place.
    pub by: Option<Sync>,
    pub program: UProgram,
}

/// All mutants of a program. A resize orders nothing and stays.
pub fn mutants(program: &UProgram) -> Vec<Mutant> {
    let mut found = vec![];
    for number in 0.. {
        let mut n = number;
        let procedures = program.procedures.iter().map(|(_, p)| &p.body);
        let mut bodies = [&program.body].into_iter().chain(procedures);
        let Some(sync) = bodies.find_map(|body| nth_sync(body, &mut n)) else {
            break;
        };
        found.extend(weaker(sync).into_iter().map(|by| Mutant {
            number,
            sync,
            by,
            program: mutated(program, number, by),
        }));
    }
    found
}

/// Nothing, and the weaker synchronisations.
fn weaker(sync: Sync) -> Vec<Option<Sync>> {
    let mut weaker = vec![None];
    if sync == Sync::Unit {
        weaker.push(Some(Sync::Warp));
    }
    if let Sync::Near(of) = sync {
        let team = |index| Units::Team(Team { index, of });
        let [from, to] = [team(0), team(1)];
        weaker.extend([Some(Sync::Unit), Some(Sync::Wait { from, to })]);
    }
    if let Sync::Cluster(_) = sync {
        weaker.push(Some(Sync::Unit));
    }
    if let Sync::Wait { from, to } = sync {
        weaker.push(Some(Sync::Unit));
        let one = Units::One(0);
        if from == Units::All {
            weaker.push(Some(Sync::Wait { from: one, to }));
        }
        if to == Units::All {
            weaker.push(Some(Sync::Wait { from, to: one }));
        }
    }
    weaker
}

fn mutated(program: &UProgram, number: usize, by: Option<Sync>) -> UProgram {
    let (mut program, mut n) = (program.clone(), number);
    if !replace(&mut program.body, &mut n, by) {
        let ids: Vec<_> = program.procedures.keys().collect();
        let replaced = |id: &ProcedureId| replace(&mut program.procedures[*id].body, &mut n, by);
        assert!(ids.iter().any(replaced), "no synchronisation {number}");
    }
    program
}

fn nth_sync(stmts: &[Stmt], n: &mut usize) -> Option<Sync> {
    stmts.iter().find_map(|stmt| match stmt {
        // It orders nothing.
        Stmt::Sync(Sync::Resize) => None,
        Stmt::Sync(sync) if *n == 0 => Some(*sync),
        Stmt::Sync(_) => {
            *n -= 1;
            None
        }
        Stmt::Loop { body, .. } => nth_sync(body, n),
        Stmt::If {
            then, otherwise, ..
        } => nth_sync(then, n).or_else(|| nth_sync(otherwise, n)),
        _ => None,
    })
}

/// Puts another synchronisation, or none, in place of the one of this number; says whether it was
/// met.
fn replace(stmts: &mut Vec<Stmt>, n: &mut usize, by: Option<Sync>) -> bool {
    for k in 0..stmts.len() {
        let done = match &mut stmts[k] {
            Stmt::Sync(Sync::Resize) => false,
            Stmt::Sync(_) if *n == 0 => {
                match by {
                    Some(sync) => stmts[k] = Stmt::Sync(sync),
                    None => drop(stmts.remove(k)),
                }
                true
            }
            Stmt::Sync(_) => {
                *n -= 1;
                false
            }
            Stmt::Loop { body, .. } => replace(body, n, by),
            Stmt::If {
                then, otherwise, ..
            } => replace(then, n, by) || replace(otherwise, n, by),
            _ => false,
        };
        if done {
            return true;
        }
    }
    false
}
