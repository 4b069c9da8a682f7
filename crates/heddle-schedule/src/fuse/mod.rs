//! Fuses operators: fewer intermediate results, fewer synchronisations.
//!
//! All of it happens before operators are dealt out to units, and each step leaves a program that means the same.

mod fuse_epilogues;
mod fuse_rows;
mod inline_maps;
pub(crate) mod substitute;
mod uses;

pub use fuse_epilogues::fuse_epilogues;
pub use fuse_rows::fuse_rows;
pub use inline_maps::inline_maps;

use heddle_uprogram::program::{OperatorId, Stmt, UProgram};
use uses::Uses;

/// Fuses what is worth it.
pub fn fuse(program: &mut UProgram) {
    inline_maps(program);
    fuse_epilogues(program);
    fuse_rows(program);
    program.drop_idle_operators();
}

/// Calls `rewrite` with every block, inner ones before those around them, and with who uses what.
fn for_each_block(
    program: &mut UProgram,
    rewrite: &mut dyn FnMut(&mut UProgram, &mut Uses, &mut Vec<Stmt>),
) {
    let mut uses = Uses::of(program);
    let mut body = std::mem::take(&mut program.body);
    in_block(program, &mut uses, &mut body, rewrite);
    program.body = body;
    let procedures: Vec<_> = program.procedures.keys().collect();
    for id in procedures {
        let mut body = std::mem::take(&mut program.procedures[id].body);
        in_block(program, &mut uses, &mut body, rewrite);
        program.procedures[id].body = body;
    }
}

fn in_block(
    program: &mut UProgram,
    uses: &mut Uses,
    block: &mut Vec<Stmt>,
    rewrite: &mut dyn FnMut(&mut UProgram, &mut Uses, &mut Vec<Stmt>),
) {
    for stmt in block.iter_mut() {
        match stmt {
            Stmt::Loop { body, .. } => in_block(program, uses, body, rewrite),
            Stmt::If {
                then, otherwise, ..
            } => {
                in_block(program, uses, then, rewrite);
                in_block(program, uses, otherwise, rewrite);
            }
            _ => {}
        }
    }
    rewrite(program, uses, block);
}

/// Takes an operator out of the program, and the memory that only it wrote.
fn discard(program: &mut UProgram, uses: &mut Uses, id: OperatorId) {
    uses.remove(program, id);
    let buffer = program.operators[id].body.store().buffer;
    program.buffers[buffer].len = program.pool.int(0);
}
