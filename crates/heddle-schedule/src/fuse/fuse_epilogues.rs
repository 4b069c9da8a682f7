//! Fuses a map with the contraction whose result it reads, as its epilogue.

use std::collections::HashSet;

use super::regroup_axes::regroup_axes;
use super::substitute::Substitution;
use super::uses::{Uses, loads, only_loads};
use super::{discard, for_each_block};
use heddle_uprogram::expr::Expr;
use heddle_uprogram::program::{Body, Lanes, Local, Operator, OperatorId, Stmt, UProgram};

/// A map that reads the contraction's element at its own point becomes the contraction's epilogue,
/// so that sums never go to memory. The contraction moves to the place of the map. The two may divide
/// their points into axes differently, as a convolution and a map of its result do.
///
/// Not fused: maps that read other elements of the result, too (the gates of an LSTM); results with
/// other readers; contractions that would move over a loop or a branch.
pub fn fuse_epilogues(program: &mut UProgram) {
    for_each_block(program, &mut |program, uses, block| {
        let mut k = 0;
        while k < block.len() {
            if let Stmt::Run(map) = block[k]
                && let Some(from) = fuse_into(program, uses, block, k, map)
            {
                block.remove(from);
                // The fused operator may take part in another fusion.
                k = k.saturating_sub(1);
            }
            k += 1;
        }
    });
}

/// Fuses the map at this place of a block with an earlier contraction, whose place is returned.
fn fuse_into(
    program: &mut UProgram,
    uses: &mut Uses,
    block: &[Stmt],
    place: usize,
    map: OperatorId,
) -> Option<usize> {
    let Body::Map { .. } = program.operators[map].body else {
        return None;
    };
    let mut passed = vec![];
    for from in (0..place).rev() {
        match block[from] {
            Stmt::Run(id) => {
                if let Some(fused) = fused(program, uses, id, map)
                    && may_pass(program, &program.operators[id], &passed)
                {
                    uses.remove(program, map);
                    program.operators[map] = fused;
                    uses.add(program, map);
                    discard(program, uses, id);
                    return Some(from);
                }
                passed.push(Passed::Operator(id));
            }
            Stmt::Let(local, _) => passed.push(Passed::Let(local)),
            // It reads no result of a contraction that has no other reader.
            Stmt::Check { .. } => {}
            _ => return None,
        }
    }
    None
}

/// A statement between a contraction and its new place.
enum Passed {
    Operator(OperatorId),
    Let(Local),
}

/// True if an operator may move behind these statements.
fn may_pass(program: &UProgram, op: &Operator, passed: &[Passed]) -> bool {
    let exprs = op.body.exprs();
    let reads = loads(program, exprs.iter().copied());
    let locals: HashSet<_> = exprs.iter().flat_map(|&e| program.locals_of(e)).collect();
    passed.iter().all(|p| match p {
        Passed::Operator(id) => !reads.contains(&program.operators[*id].body.store().buffer),
        Passed::Let(local) => !locals.contains(local),
    })
}

/// The fused operator, if the map is the only reader of the result.
fn fused(
    program: &mut UProgram,
    uses: &Uses,
    contraction: OperatorId,
    map: OperatorId,
) -> Option<Operator> {
    let Body::Contract(contract) = program.operators[contraction].body.clone() else {
        return None;
    };
    let result = contract.store.buffer;
    if uses.sole_writer(program, result)? != contraction || uses.readers(result) != [map] {
        return None;
    }
    let (first, second) = (&program.operators[contraction], &program.operators[map]);
    let (axes, share) = (first.axes.clone(), first.share);
    let Body::Map { store, value } = second.body else {
        return None;
    };
    let (name, grow) = (second.name.clone(), second.grow);
    let second = second.clone();
    let pool = &mut program.pool;
    let (value, offset) = match Substitution::of_axes(pool, &second.axes, &axes) {
        Some(mut renamed) => {
            let value = renamed.apply(pool, value);
            (value, renamed.apply(pool, store.offset))
        }
        None => regroup_axes(program, &second, (store, value), &axes, contract.store)?,
    };
    if !only_loads(program, &[value, offset], result, contract.store.offset) {
        return None;
    }
    let pool = &mut program.pool;
    let element = pool.add(Expr::Load(result, contract.store.offset));
    let mut finished = Substitution::new([(element, contract.finish)]);
    let mut fused = contract;
    fused.finish = finished.apply(pool, value);
    fused.store = store;
    fused.store.offset = offset;
    let body = Body::Contract(fused);
    // An earlier epilogue may read the array that this one overwrites.
    if loads(program, body.exprs()).contains(&store.buffer) {
        return None;
    }
    Some(Operator {
        axes,
        team: None,
        share,
        lanes: Lanes::Apart,
        resident: None,
        grow,
        body,
        name,
    })
}
