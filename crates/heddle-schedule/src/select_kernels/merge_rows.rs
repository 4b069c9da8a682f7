//! Merges leading axes into rows or columns.

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use crate::fuse::substitute::Substitution;
use heddle_uprogram::contract::{Contract, rows, strided};
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{Body, Local, Operator, Share, Split, UProgram};
use heddle_uprogram::step::{Step, offsets};

/// Merges leading axes that the second operand does not depend on into rows, if there are fewer
/// than `many` rows: one product with many rows is faster than many products with few. With a
/// single row, leading axes that the first operand does not depend on become columns.
///
/// Axes along which the operand or the result has other strides than along rows are not merged.
pub(super) fn merge_rows(program: &mut UProgram, op: &mut Operator, many: i64) {
    let Body::Contract(c) = &op.body else {
        return;
    };
    let own = [c.rows, Some(c.columns)];
    let batch = op.axes.iter().map(|a| a.0);
    let batch: Vec<Local> = batch.filter(|l| !own.contains(&Some(*l))).collect();
    let depends = |value| {
        let is_batch = |e| matches!(e, Expr::Local(local) if batch.contains(&local));
        program.pool.any(value, &is_batch)
    };
    let side = match (c.rows, depends(c.a.value), depends(c.b.value)) {
        (_, _, false) => Side::Rows,
        (None, false, true) => Side::Columns,
        _ => return,
    };
    let size = side.axis(c).and_then(|axis| size_of(op, axis));
    if size.is_some_and(|size| program.pool.as_int(size) >= Some(many)) {
        return;
    }
    let inner_first = batch.iter().rev();
    let merged = inner_first.take_while(|outer| merge(program, op, side, **outer));
    if merged.count() > 0
        && let Some(&(_, period)) = op.axes.first()
    {
        op.share = Share::Split(Split::whole(0, period));
    }
}

/// The operand whose outer axis grows.
#[derive(Clone, Copy)]
enum Side {
    Rows,
    Columns,
}

impl Side {
    fn axis(self, c: &Contract) -> Option<Local> {
        match self {
            Side::Rows => c.rows,
            Side::Columns => Some(c.columns),
        }
    }

    fn value(self, c: &mut Contract) -> &mut ExprId {
        match self {
            Side::Rows => &mut c.a.value,
            Side::Columns => &mut c.b.value,
        }
    }
}

fn size_of(op: &Operator, axis: Local) -> Option<ExprId> {
    op.axes.iter().find(|a| a.0 == axis).map(|a| a.1)
}

/// True if a first operand's rows begin anywhere, so that any axes can be rows.
fn reads_rows(pool: &mut Pool, side: Side, c: &Contract) -> bool {
    let depth = c.depth.0;
    matches!(side, Side::Rows)
        && strided(pool, c.a.value, c.rows, depth).is_none()
        && rows(pool, c.a.value, depth).is_some()
}

/// Merges an axis into the rows or columns; false if it must stay separate.
fn merge(program: &mut UProgram, op: &mut Operator, side: Side, outer: Local) -> bool {
    let Body::Contract(mut c) = op.body.clone() else {
        return false;
    };
    let Some(inner) = side.axis(&c) else {
        c.rows = Some(outer);
        op.body = Body::Contract(c);
        return true;
    };
    let (Some(count), Some(size)) = (size_of(op, outer), size_of(op, inner)) else {
        return false;
    };
    let axes = [outer, inner];
    let extent = Step::size(program, size);
    let even = |offset: &ExprId| {
        let [far, near] = axes.map(|axis| Step::of(program, *offset, axis));
        far.is_some() && far == near.and_then(|near| near.times(extent.as_ref()?))
    };
    let all_even = |expr| offsets(program, expr, &axes).is_some_and(|all| all.iter().all(even));
    let [value_is_even, finish_is_even] = [*side.value(&mut c), c.finish].map(all_even);
    if !even(&c.store.offset) {
        return false;
    }
    let pool = &mut program.pool;
    if !value_is_even && !reads_rows(pool, side, &c) {
        return false;
    }
    let (far, near, zero) = (pool.local(outer), pool.local(inner), pool.int(0));
    let parts = [BinaryOp::Div, BinaryOp::Mod];
    let [place, rest] = parts.map(|part| pool.binary(part, DType::I64, near, size));
    let mut first = Substitution::new([(far, zero)]);
    let mut divided = Substitution::new([(far, place), (near, rest)]);
    let mut merged = |pool: &mut Pool, expr, is_even| match is_even {
        true => first.apply(pool, expr),
        false => divided.apply(pool, expr),
    };
    let value = side.value(&mut c);
    *value = merged(pool, *value, value_is_even);
    c.store.offset = merged(pool, c.store.offset, true);
    c.finish = merged(pool, c.finish, finish_is_even);
    op.body = Body::Contract(c);
    let all = pool.product(count, size);
    op.axes.retain(|a| a.0 != outer);
    let merged = op.axes.iter_mut().filter(|a| a.0 == inner);
    merged.for_each(|a| a.1 = all);
    true
}
