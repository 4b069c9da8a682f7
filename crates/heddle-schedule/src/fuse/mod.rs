//! Fuses operators, for fewer intermediate results and fewer synchronisations.
//!
//! It runs before operators are split; each step preserves the program's meaning.

mod fuse_epilogues;
mod fuse_rows;
mod inline_maps;
mod inline_operands;
mod place_parts;
mod regroup_axes;
pub(crate) mod substitute;
pub(crate) mod uses;

pub use fuse_epilogues::fuse_epilogues;
pub use fuse_rows::fuse_rows;
pub use inline_maps::inline_maps;
pub(crate) use inline_operands::{half_operands, inline_operands};
pub use place_parts::place_parts;

use heddle_uprogram::program::{OperatorId, Stmt, UProgram};
use uses::Uses;

/// Runs all fusions.
pub fn fuse(program: &mut UProgram) {
    inline_maps(program);
    place_parts(program);
    fuse_epilogues(program);
    fuse_rows(program);
    program.drop_idle_operators();
}

/// Calls `rewrite` with every block, inner ones first, and with the uses of buffers.
pub(crate) fn for_each_block(
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
        let blocks = stmt.blocks_mut();
        blocks.for_each(|inner| in_block(program, uses, inner, rewrite));
    }
    rewrite(program, uses, block);
}

/// Leaves out the operators that `inline` has its readers compute: it takes a block, a place in it and the operator there, and is true if
/// nothing reads the operator's result any more.
fn remove_each(
    program: &mut UProgram,
    inline: fn(&mut UProgram, &mut Uses, &[Stmt], usize, OperatorId) -> bool,
) {
    for_each_block(program, &mut |program, uses, block| {
        let mut k = 0;
        while k < block.len() {
            match block[k] {
                Stmt::Run(id) if inline(program, uses, block, k, id) => drop(block.remove(k)),
                _ => k += 1,
            }
        }
    });
}

/// Removes an operator and its result buffer.
pub(crate) fn discard(program: &mut UProgram, uses: &mut Uses, id: OperatorId) {
    uses.remove(program, id);
    let buffer = program.operators[id].body.store().buffer;
    program.buffers[buffer].len = program.pool.int(0);
}
