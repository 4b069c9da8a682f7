//! Results that each unit has for itself are there where it reads them.

use std::collections::BTreeSet;

use super::{ScheduleError, buffer_name, operator_name};
use crate::expr::ExprId;
use crate::program::{Buffer, Share, Stmt, Sync, UProgram};

/// Checks that each unit has computed what it reads of its own, on every path, and after the last place at which units may have joined.
pub fn verify_own(program: &UProgram) -> Result<(), ScheduleError> {
    for (_, procedure) in program.procedures.iter() {
        block(program, &procedure.body, &mut BTreeSet::new())?;
    }
    block(program, &program.body, &mut BTreeSet::new())
}

/// `made` are the results that every unit has.
fn block(
    program: &UProgram,
    stmts: &[Stmt],
    made: &mut BTreeSet<Buffer>,
) -> Result<(), ScheduleError> {
    for stmt in stmts {
        let check = |exprs: &[ExprId], reader: &dyn Fn() -> String| {
            let mut loads = program.loads_of(exprs).into_iter().map(|load| load.0);
            let is_own = |b: &Buffer| {
                let kind = &program.buffers[*b].kind;
                kind.is_of_each() || kind.gather().is_some()
            };
            match loads.find(|b| is_own(b) && !made.contains(b)) {
                None => Ok(()),
                Some(buffer) => Err(ScheduleError::Own {
                    reader: reader(),
                    buffer: buffer_name(program, buffer),
                }),
            }
        };
        check(&stmt.exprs(), &|| "a statement of every unit".into())?;
        for call in stmt.calls() {
            let call = &program.calls[*call];
            let args: Vec<_> = call.lets.iter().map(|l| l.1).collect();
            check(&args, &|| format!("call {}", call.name))?;
        }
        match stmt {
            Stmt::Run(id) => {
                let op = &program.operators[*id];
                check(&op.exprs(), &|| operator_name(program, *id))?;
                if op.share == Share::Every || op.gathers(program).is_some() {
                    made.insert(op.body.store().buffer);
                }
            }
            Stmt::Swap(a, b) => {
                let both = [*a, *b].map(|buffer| made.remove(&buffer));
                let now = [*b, *a].into_iter().zip(both);
                made.extend(
                    now.filter(|(_, is_made)| *is_made)
                        .map(|(buffer, _)| buffer),
                );
            }
            // Units that join have computed nothing.
            Stmt::Sync(Sync::Resize) => made.clear(),
            Stmt::Loop { body, .. } => {
                if let Some(Stmt::Sync(Sync::Resize)) = body.first() {
                    made.clear();
                }
                // It may not be entered, and is entered again with what an iteration leaves.
                loop {
                    let mut end = made.clone();
                    block(program, body, &mut end)?;
                    let before = made.len();
                    made.retain(|buffer| end.contains(buffer));
                    if made.len() == before {
                        break;
                    }
                }
            }
            Stmt::If {
                then, otherwise, ..
            } => {
                let mut other = made.clone();
                block(program, then, made)?;
                block(program, otherwise, &mut other)?;
                made.retain(|buffer| other.contains(buffer));
            }
            _ => {}
        }
    }
    Ok(())
}
