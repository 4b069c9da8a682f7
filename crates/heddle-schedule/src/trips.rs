//! Estimated trip counts, and numbers of executions.

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use crate::cost::estimate;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Local, Stmt, UProgram};

/// Assumed number of executions of a loop with a dynamic trip count, and of a procedure.
pub(super) const UNKNOWN_TRIP: f64 = 64.0;

/// Estimated trip count of a loop with this iteration number: the expected one, or a bound; bounded chunks count as full. A count that is
/// computed from sizes follows from their estimates, so that a loop over chunks of steps has fewer than one over steps.
pub(super) fn trips(program: &UProgram, iteration: Local, trip: Option<ExprId>) -> f64 {
    if let Some(&expected) = program.expected.get(&iteration) {
        return expected;
    }
    let Some(trip) = trip else {
        return UNKNOWN_TRIP;
    };
    let exact = |e: ExprId| program.pool.as_int(e).map(|n| n as f64);
    let most = |e: ExprId| match program.pool[e] {
        Expr::Binary(BinaryOp::Min, DType::I64, a, b) => exact(a).or_else(|| exact(b)),
        _ => exact(e),
    };
    let definition = computed(program, trip);
    let known = most(trip).or_else(|| most(definition?));
    known.unwrap_or_else(|| estimate(program, definition.unwrap_or(trip)))
}

/// The definition of a variable, if it is unique.
fn computed(program: &UProgram, variable: ExprId) -> Option<ExprId> {
    let Expr::Local(local) = program.pool[variable] else {
        return None;
    };
    let mut found = vec![];
    program.for_each_stmt(&mut |stmt| match stmt {
        Stmt::Let(l, expr) if *l == local => found.push(*expr),
        _ => {}
    });
    match found[..] {
        [expr] => Some(expr),
        _ => None,
    }
}

/// Calls `see` with each statement of the program and its procedures, and its estimated number of
/// executions.
pub(super) fn visit_all(program: &UProgram, see: &mut dyn FnMut(&Stmt, f64)) {
    visit(program, &program.body, 1.0, see);
    for (_, procedure) in program.procedures.iter() {
        visit(program, &procedure.body, UNKNOWN_TRIP, see);
    }
}

/// Calls `see` with each statement and its estimated number of executions.
pub(super) fn visit(
    program: &UProgram,
    stmts: &[Stmt],
    often: f64,
    see: &mut dyn FnMut(&Stmt, f64),
) {
    for stmt in stmts {
        see(stmt, often);
        match stmt {
            Stmt::Loop {
                iteration,
                trip,
                body,
                ..
            } => {
                let often = often * trips(program, *iteration, *trip);
                visit(program, body, often, see);
            }
            Stmt::If {
                then, otherwise, ..
            } => {
                visit(program, then, often / 2.0, see);
                visit(program, otherwise, often / 2.0, see);
            }
            _ => {}
        }
    }
}
