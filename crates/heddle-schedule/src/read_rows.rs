//! Leaves out copies of rows that products read.
//!
//! It runs before [`select_kernels`](crate::select_kernels()), for machines whose kernels read rows by index.

use std::collections::HashSet;

use heddle_machine::Machine;
use smallvec::SmallVec;

use crate::cost::time;
use crate::fuse::substitute::Substitution;
use crate::fuse::uses::{Uses, loads};
use crate::fuse::{discard, for_each_block};
use crate::select_kernels::Kernels;
use heddle_uprogram::contract::{Access, Contract, rows, stride};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, BufferKind, Local, Operator, OperatorId, Stmt, Store, UProgram, for_each_stmt,
};

/// Removes copies of rows that only contractions read, as their first operands: these read the rows
/// where indices say, if that takes less time by the cost model.
///
/// Not removed: copies with another reader; rows that are computed or not contiguous along the
/// depth; rows of constants, which are read where the model's file has them; sources that change
/// before the contraction runs; checked indices that no contraction is sure to read.
pub fn read_rows(program: &mut UProgram, machine: &Machine) {
    for_each_block(program, &mut |program, uses, block| {
        let mut k = 0;
        while k < block.len() {
            match block[k] {
                Stmt::Run(copy) if replaced(program, machine, uses, &block[k + 1..], copy) => {
                    block.remove(k);
                }
                _ => k += 1,
            }
        }
    });
}

/// Lets the readers of a copy read its source, if they can and that pays.
fn replaced(
    program: &mut UProgram,
    machine: &Machine,
    uses: &mut Uses,
    after: &[Stmt],
    copy: OperatorId,
) -> bool {
    let op = program.operators[copy].clone();
    let Body::Map { store, value } = op.body else {
        return false;
    };
    let Expr::Load(source, _) = program.pool[value] else {
        return false;
    };
    let readers = uses.readers(store.buffer);
    if readers.is_empty()
        || uses.sole_writer(program, store.buffer) != Some(copy)
        || matches!(program.buffers[source].kind, BufferKind::Constant(_))
        || !may_move(program, after, &readers, value)
    {
        return false;
    }
    let mut price = 0.0;
    let mut bodies = vec![];
    for &reader in &readers {
        let Some(body) = reading(program, machine, (&op, store, value), reader) else {
            return false;
        };
        let old = &program.operators[reader];
        let mut new = old.clone();
        new.body = body.clone();
        price += time(machine, program, &new, new.share) - time(machine, program, old, old.share);
        bodies.push((reader, body));
    }
    if price >= time(machine, program, &op, op.share) {
        return false;
    }
    for (reader, mut body) in bodies {
        if let Body::Contract(c) = &mut body {
            c.a.access = Access::Computed;
        }
        uses.remove(program, reader);
        program.operators[reader].body = body;
        uses.add(program, reader);
    }
    discard(program, uses, copy);
    true
}

/// The body of a reader with the rows of the source as its first operand, with its layout.
fn reading(
    program: &mut UProgram,
    machine: &Machine,
    (copy, store, value): (&Operator, Store, ExprId),
    reader: OperatorId,
) -> Option<Body> {
    let op = program.operators[reader].clone();
    let Body::Contract(mut c) = op.body.clone() else {
        return None;
    };
    let others = [c.b.value, c.finish, c.store.offset];
    let Expr::Load(buffer, offset) = program.pool[c.a.value] else {
        return None;
    };
    let is_source = |buffer: &Buffer| *buffer == c.store.buffer;
    if buffer != store.buffer
        || loads(program, others).contains(&store.buffer)
        || loads(program, [value]).iter().any(is_source)
        || !matches!(c.a.access, Access::Computed)
    {
        return None;
    }
    Kernels::of(machine, c.dtype)?;
    let mut at = aligned(program, copy, store.offset, (&op, &c), offset)?;
    let pool = &mut program.pool;
    c.a.value = at.apply(pool, value);
    c.a.access = rows(pool, c.a.value, c.depth.0)?;
    let known = |size: ExprId| program.pool.as_int(size).is_some_and(|n| n > 0);
    let columns = op.axes.iter().find(|a| a.0 == c.columns)?.1;
    // Without columns or depth, nothing would check the indices.
    let is_evaluated = known(columns) && known(c.depth.1);
    let Access::Rows { buffer, .. } = c.a.access else {
        return None;
    };
    let same_type = program.buffers[buffer].dtype == c.dtype;
    (same_type && (is_evaluated || !is_checked(program, value))).then_some(Body::Contract(c))
}

/// The copy's axes as those of a reader that loads its element at this offset.
fn aligned(
    program: &mut UProgram,
    copy: &Operator,
    stored: ExprId,
    (op, c): (&Operator, &Contract),
    offset: ExprId,
) -> Option<Substitution> {
    let own = op.axes.iter().filter(|a| a.0 != c.columns);
    let own: SmallVec<[(Local, ExprId); 4]> = own.copied().chain([c.depth]).collect();
    let stored = strides(program, &copy.axes, stored)?;
    let mut read = strides(program, &own, offset)?;
    let zero = program.pool.int(0);
    let mut pairs = vec![];
    for (&(axis, size), step) in copy.axes.iter().zip(stored) {
        let mut places = own.iter().zip(&mut read);
        let (found, step) = places.find(|(own, by)| own.1 == size && **by == step)?;
        // Each axis serves once.
        *step = zero;
        pairs.push((program.pool.local(axis), program.pool.local(found.0)));
    }
    let all_used = read.iter().all(|step| *step == zero);
    all_used.then(|| Substitution::new(pairs))
}

/// The stride of an offset along each axis, if it has no other part.
fn strides(
    program: &mut UProgram,
    axes: &[(Local, ExprId)],
    offset: ExprId,
) -> Option<SmallVec<[ExprId; 4]>> {
    let pool = &mut program.pool;
    let mut rest = offset;
    let mut steps = SmallVec::new();
    for axis in axes {
        let (step, other) = stride(pool, rest, axis.0)?;
        steps.push(step);
        rest = other;
    }
    (pool.as_int(rest) == Some(0)).then_some(steps)
}

/// True if all readers follow before the value's inputs change, and one of them is sure to run if
/// the value has checked indices.
pub(crate) fn may_move(
    program: &UProgram,
    after: &[Stmt],
    readers: &[OperatorId],
    value: ExprId,
) -> bool {
    let reads = loads(program, [value]);
    let locals: HashSet<Local> = program.locals_of(value).into_iter().collect();
    let changes = |stmt: &Stmt| match stmt {
        Stmt::Run(id) => reads.contains(&program.operators[*id].body.store().buffer),
        Stmt::Let(local, _) => locals.contains(local),
        Stmt::Loop { iteration, .. } => locals.contains(iteration),
        Stmt::If { .. } | Stmt::Check { .. } | Stmt::Sync(_) => false,
        Stmt::Swap(..) | Stmt::Call(_) | Stmt::Fork(_) => true,
    };
    let sure = |id: &OperatorId| {
        after
            .iter()
            .any(|s| matches!(s, Stmt::Run(run) if run == id))
    };
    if is_checked(program, value) && !readers.iter().any(sure) {
        return false;
    }
    let mut left = readers.to_vec();
    for stmt in after {
        let mut changed = false;
        for_each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
            changed |= changes(stmt);
            if let Stmt::Run(id) = stmt {
                left.retain(|reader| reader != id);
            }
        });
        if changed {
            return false;
        }
        if left.is_empty() {
            return true;
        }
    }
    false
}

fn is_checked(program: &UProgram, value: ExprId) -> bool {
    program.pool.any(value, &|e| matches!(e, Expr::Index(..)))
}
