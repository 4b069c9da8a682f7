//! Inlines maps into their readers, where recomputation is cheaper than a store and a load.

use heddle_ir::op::{BinaryOp, UnaryOp};

use super::substitute::{Substitution, point_exprs};
use super::uses::{Uses, loads, only_loads};
use super::{discard, remove_each};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Local, OperatorId, Stmt, UProgram};

/// Arithmetic operations that an element's recomputation may cost in place of a store and a load.
const CHEAP: usize = 4;

/// Cost of a function (an exponential, a logarithm) in arithmetic operations.
const FUNCTION: usize = 16;

/// Limit on the expression nodes of an operator.
const LARGEST: usize = 400;

/// Inlines maps read by operators of the same block, where recomputation costs no more than memory
/// traffic: any map with a single reader, and cheap arithmetic with several.
///
/// Not inlined: reads of elements other than that at the reader's point; maps whose inputs are
/// overwritten before the reader runs.
pub fn inline_maps(program: &mut UProgram) {
    remove_each(program, inline);
}

/// Inlines the map at this place of a block, if that pays.
fn inline(
    program: &mut UProgram,
    uses: &mut Uses,
    block: &[Stmt],
    place: usize,
    map: OperatorId,
) -> bool {
    let op = &program.operators[map];
    let (Body::Map { store, value }, axes) = (&op.body, op.axes.clone()) else {
        return false;
    };
    let (store, value) = (*store, *value);
    let readers = uses.readers(store.buffer);
    if uses.sole_writer(program, store.buffer) != Some(map)
        || readers.is_empty()
        || is_checked(program, value)
        || (readers.len() - 1) * work(program, value) > CHEAP
        || !may_move(program, &block[place + 1..], &readers, value)
    {
        return false;
    }
    let mut bodies = vec![];
    for &reader in &readers {
        let Some(mut renamed) = aligned(program, reader, &axes) else {
            return false;
        };
        let element = renamed.apply(&mut program.pool, store.offset);
        let value = renamed.apply(&mut program.pool, value);
        let mut body = program.operators[reader].body.clone();
        if !only_loads(program, &body.exprs(), store.buffer, element) {
            return false;
        }
        let element = program.pool.add(Expr::Load(store.buffer, element));
        let mut inlined = Substitution::new([(element, value)]);
        for expr in point_exprs(&mut body) {
            *expr = inlined.apply(&mut program.pool, *expr);
        }
        // The remaining load is an operand that a kernel reads in place.
        if loads(program, body.exprs()).contains(&store.buffer)
            || nodes(program, &body.exprs()) > LARGEST
        {
            return false;
        }
        bodies.push((reader, body));
    }
    for (reader, body) in bodies {
        uses.remove(program, reader);
        program.operators[reader].body = body;
        uses.add(program, reader);
    }
    discard(program, uses, map);
    true
}

/// The map's axes renamed to those of a reader with as many points; axes common to both keep their
/// names.
fn aligned(
    program: &mut UProgram,
    reader: OperatorId,
    axes: &[(Local, ExprId)],
) -> Option<Substitution> {
    let op = &program.operators[reader];
    let mut own = op.axes.clone();
    if !matches!(op.body, Body::Contract(_)) {
        own.extend(op.body.axes());
    }
    if own.len() == axes.len() && axes.iter().all(|a| own.contains(a)) {
        return Some(Substitution::new([]));
    }
    Substitution::of_axes(&mut program.pool, axes, &own)
}

/// True if all readers follow in this block before the value's inputs change.
pub(super) fn may_move(
    program: &UProgram,
    after: &[Stmt],
    readers: &[OperatorId],
    value: ExprId,
) -> bool {
    let (reads, locals) = (loads(program, [value]), program.locals_of(value));
    let mut left = readers.to_vec();
    for stmt in after {
        match stmt {
            Stmt::Run(id) => {
                left.retain(|r| r != id);
                if reads.contains(&program.operators[*id].body.store().buffer) {
                    return false;
                }
            }
            Stmt::Let(local, _) if !locals.contains(local) => {}
            _ => return false,
        }
        if left.is_empty() {
            return true;
        }
    }
    false
}

/// True for a value with a checked index, which may only be evaluated at the map's own points.
pub(super) fn is_checked(program: &UProgram, value: ExprId) -> bool {
    program.pool.any(value, &|e| matches!(e, Expr::Index(..)))
}

/// Cost of an element in arithmetic operations.
pub(super) fn work(program: &UProgram, value: ExprId) -> usize {
    let mut work = 0usize;
    program.pool.walk(value, &mut |_, e| {
        work += match e {
            Expr::Num(..) | Expr::Local(_) | Expr::Load(..) => 0,
            Expr::Unary(op, ..) if is_cheap(op) => 1,
            Expr::Unary(..) => FUNCTION,
            Expr::Binary(op, ..) if op.is_function() => FUNCTION,
            Expr::Binary(BinaryOp::Div | BinaryOp::Mod | BinaryOp::Rem, ..) => FUNCTION,
            _ => 1,
        };
    });
    work
}

fn is_cheap(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(
        op,
        Neg | Abs | Sign | Floor | Ceil | Round | Trunc | Not | IsNan | IsInf
    )
}

fn nodes(program: &UProgram, exprs: &[ExprId]) -> usize {
    let mut count = 0;
    for &expr in exprs {
        program.pool.walk(expr, &mut |_, _| count += 1);
    }
    count
}
