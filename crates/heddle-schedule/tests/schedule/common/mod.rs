//! Helpers common to the tests.

pub mod grids;

use heddle_machine::Machine;
use heddle_schedule::select_kernels;
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Stmt, Sync};

/// A program in text form, lowered for two threads of a processor.
pub fn lowered(text: &str) -> UProgram {
    lowered_for(text, &Machine::reference_host(2))
}

/// A program in text form, lowered, with the kernels of a machine.
pub fn lowered_for(text: &str, machine: &Machine) -> UProgram {
    let module = heddle_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let lowered = heddle_lower::lower(&module);
    let mut program = lowered.unwrap_or_else(|e| panic!("{e}"));
    heddle_schedule::fuse(&mut program);
    heddle_schedule::read_rows(&mut program, machine);
    select_kernels(&mut program, machine);
    program
}

/// The statements that matter, in order: `r` run, `s` sync, `x` swap, loops and branches in
/// brackets.
pub fn shape(stmts: &[Stmt]) -> String {
    let text = stmts.iter().map(|stmt| match stmt {
        Stmt::Run(_) => "r".into(),
        Stmt::Sync(Sync::ALL) => "s".into(),
        Stmt::Sync(Sync::Warp) => "l".into(),
        Stmt::Sync(Sync::Unit) => "u".into(),
        Stmt::Sync(Sync::Wait { .. }) => "w".into(),
        Stmt::Sync(Sync::Near(_)) => "n".into(),
        Stmt::Sync(Sync::Cluster(_)) => "k".into(),
        Stmt::Sync(Sync::Resize) => String::new(),
        Stmt::Swap(..) => "x".into(),
        Stmt::Let(..) | Stmt::Check { .. } => String::new(),
        Stmt::Call(_) => "c".into(),
        Stmt::Fork(calls) => format!("f{}", calls.len()),
        Stmt::Loop { body, .. } => format!("({})", shape(body)),
        Stmt::If {
            then, otherwise, ..
        } => format!("[{}|{}]", shape(then), shape(otherwise)),
    });
    text.collect()
}
