//! The schedule without dependence analysis.

use heddle_uprogram::program::{Stmt, Sync, UProgram};

/// Puts a barrier before each operator and each scalar computed from memory, like compilers without
/// dependence analysis (Cocktailer §3.2). The baseline for [`place_syncs`](super::place_syncs).
pub fn sync_everywhere(program: &mut UProgram) {
    let body = std::mem::take(&mut program.body);
    program.body = block(program, body);
    let procedures: Vec<_> = program.procedures.keys().collect();
    for id in procedures {
        let body = std::mem::take(&mut program.procedures[id].body);
        program.procedures[id].body = block(program, body);
    }
}

fn block(program: &UProgram, stmts: Vec<Stmt>) -> Vec<Stmt> {
    let mut out = vec![];
    for mut stmt in stmts {
        let touches_memory = match &stmt {
            Stmt::Run(_) => true,
            Stmt::Let(_, value) => program.loads(*value),
            Stmt::Loop { trip, .. } => trip.is_some_and(|t| program.loads(t)),
            Stmt::If { cond, .. } | Stmt::Check { cond, .. } => program.loads(*cond),
            Stmt::Call(id) => {
                let lets = &program.calls[*id].lets;
                lets.iter().any(|(_, value)| program.loads(*value))
            }
            Stmt::Fork(_) => true,
            Stmt::Swap(..) => false,
            Stmt::Sync(_) => continue,
        };
        if touches_memory {
            out.push(Stmt::Sync(Sync::ALL));
        }
        let blocks = stmt.blocks_mut();
        blocks.for_each(|inner| *inner = block(program, std::mem::take(inner)));
        out.push(stmt);
    }
    out
}
