//! Gives a map another layout, with its channels innermost, in all operators that touch it.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use super::offsets::{MapSizes, expr_of, last};
use super::prices::{price, vector_axis};
use super::weights::weights;
use crate::fuse::substitute::Substitution;
use crate::fuse::uses::Uses;
use crate::linear::Monomial;
use heddle_uprogram::contract::Access;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Buffer, BufferKind, Operator, OperatorId, Split, UProgram};
use heddle_uprogram::step::Step;

/// A reason to lay out a map, besides how the elements that operators touch then lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gain {
    /// Whatever it costs.
    Any,
    /// A copy is spared.
    Copy,
    /// A product reads it in place.
    Place,
    /// Nothing more.
    None,
}

/// Lays out a map `[image, channel, place]` of these channels and places as `[image, place, channel]`, with so many elements from a
/// place to the next one, if it is the program's own and each access to it can be rewritten, also in the `others`, which may yet take the
/// place of the operators of these names. Changes nothing and gives `None` if one cannot: of an operand that a kernel reads by strides, a
/// routine, or an offset whose parts are not known to be a channel and a place; or if operators would touch more elements that lie apart
/// and no copy is spared, or take longer by more than a copy would.
///
/// A map that a loop carries takes turns with others, which are laid out like it. Gives all that are laid out.
///
/// Maps and reductions then go along the channels innermost.
pub(super) fn lay_channels_last(
    program: &mut UProgram,
    (map, sizes): (Buffer, MapSizes),
    exempt: &BTreeSet<OperatorId>,
    others: &mut BTreeMap<OperatorId, Operator>,
    (gain, stays): (Gain, &dyn Fn(Buffer) -> bool),
) -> Option<BTreeSet<Buffer>> {
    let uses = Uses::of(program);
    let maps = uses.swapped_with(map)?;
    let is_own = |of: &Buffer| {
        let data = &program.buffers[*of];
        matches!(data.kind, BufferKind::Scratch)
            && data.procedure.is_none()
            && data.len == program.buffers[map].len
    };
    if !maps.iter().all(is_own) || maps.iter().any(|map| stays(*map)) {
        return None;
    }
    let users = |map: &Buffer| uses.readers(*map).into_iter().chain(uses.writers(*map));
    let ids: BTreeSet<OperatorId> = maps.iter().flat_map(users).collect();
    let (mut changed, mut replaced) = (BTreeMap::new(), BTreeMap::new());
    let (mut before, mut after) = (0.0, 0.0);
    let (mut dearer, mut copies) = (0.0, 0.0f64);
    let weights = weights(program);
    for id in &ids {
        let weight = weights.get(id).copied().unwrap_or(1.0);
        // A copy is made whenever the map has changed.
        if maps.iter().any(|map| uses.writers(*map).contains(id)) {
            copies = copies.max(weight);
        }
        if exempt.contains(id) {
            continue;
        }
        let op = program.operators[*id].clone();
        before += weight * apart(program, &op) as f64;
        dearer -= weight * price(program, &op);
        let op = all_laid_out(program, op, &maps, sizes)?;
        after += weight * apart(program, &op) as f64;
        dearer += weight * price(program, &op);
        changed.insert(*id, op);
        if let Some(other) = others.get(id) {
            let other = all_laid_out(program, other.clone(), &maps, sizes)?;
            replaced.insert(*id, other);
        }
    }
    let pays = match gain {
        Gain::Any | Gain::Copy => true,
        Gain::Place => after <= before,
        Gain::None => after < before && dearer < 0.0,
    };
    // With a copy the other operators would stay as they are.
    let copied = program.pool.as_int(program.buffers[map].len);
    let is_dear = copied.is_some_and(|elements| dearer > elements as f64 * copies.max(1.0));
    if !pays || is_dear && gain != Gain::Any {
        return None;
    }
    for (id, op) in changed {
        set_rows(program, &op);
        program.operators[id] = op;
    }
    others.extend(replaced);
    for map in &maps {
        program.buffers[*map].len = with_pitch(program, program.buffers[*map].len, sizes);
    }
    Some(maps)
}

/// An operator with its accesses to these maps rewritten.
fn all_laid_out(
    program: &mut UProgram,
    op: Operator,
    maps: &BTreeSet<Buffer>,
    sizes: MapSizes,
) -> Option<Operator> {
    let mut maps = maps.iter();
    maps.try_fold(op, |op, map| laid_out(program, op, *map, sizes))
}

/// The elements of a map of so many, with its channels innermost.
pub(super) fn with_pitch(
    program: &mut UProgram,
    len: ExprId,
    MapSizes {
        channels, pitch, ..
    }: MapSizes,
) -> ExprId {
    if pitch == channels {
        return len;
    }
    let [all, each] = [channels, pitch].map(Monomial::new);
    let places = Monomial::of(program, len).and_then(|len| len.over(&all));
    if let Some(laid) = places.and_then(|places| places.times(&each)) {
        return expr_of(program, &laid);
    }
    let pool = &mut program.pool;
    let [channels, pitch] = [channels, pitch].map(|n| pool.int(n));
    let places = pool.binary(BinaryOp::Div, DType::I64, len, channels);
    pool.product(places, pitch)
}

/// An operator with its accesses to the map rewritten. The rows of a chain may be of another length then ([`set_rows`]).
pub(super) fn laid_out(
    program: &mut UProgram,
    mut op: Operator,
    map: Buffer,
    sizes: MapSizes,
) -> Option<Operator> {
    match &op.body {
        Body::Contract(c) => {
            let is_map = |access| match access {
                Access::Strided { buffer, .. }
                | Access::Rows { buffer, .. }
                | Access::Windows { buffer, .. }
                | Access::Panels { buffer, .. } => buffer == map,
                Access::Computed => false,
            };
            if is_map(c.a.access) || is_map(c.b.access) {
                return None;
            }
        }
        Body::Map { .. } | Body::Fold { .. } | Body::Chain(_) => {}
        _ => return None,
    }
    let loads = program.pool.loads(op.body.exprs());
    let mut known = vec![];
    let is_read_by = |program: &UProgram, parts: &[ExprId]| {
        let loads = program.pool.loads(parts.iter().copied());
        loads.iter().any(|load| load.0 == map)
    };
    let sizes_of_axes: Vec<ExprId> = op.axes.iter().map(|a| a.1).collect();
    if is_read_by(program, &sizes_of_axes) {
        return None;
    }
    for (_, old) in loads.into_iter().filter(|load| load.0 == map) {
        // An element of the map says which one is read: one of both would keep its place.
        if is_read_by(program, &[old]) {
            return None;
        }
        let new = last(program, &op, old, sizes)?;
        let pool = &mut program.pool;
        let [old, new] = [old, new].map(|offset| pool.add(Expr::Load(map, offset)));
        known.push((old, new));
    }
    let store = op.body.store();
    let moved = match store.buffer == map {
        true => Some(last(program, &op, store.offset, sizes)?),
        false => None,
    };
    let mut values = Substitution::new(known);
    let pool = &mut program.pool;
    op.body.change_exprs(&mut |e| *e = values.apply(pool, *e));
    if let Some(offset) = moved {
        store_at(&mut op.body, offset)?;
        match op.body {
            Body::Contract(_) => {}
            Body::Chain(_) => exchange_rows(program, &mut op, offset),
            _ => go_along(program, &mut op, offset),
        }
    } else if is_reduction(&op.body) {
        go_along_elements(program, &mut op);
    }
    Some(op)
}

/// Changes the place of an operator's result.
fn store_at(body: &mut Body, offset: ExprId) -> Option<()> {
    match body {
        Body::Map { store, .. } | Body::Fold { store, .. } => store.offset = offset,
        Body::Contract(c) => c.store.offset = offset,
        Body::Chain(chain) => return store_at(&mut chain.steps.last_mut()?.body, offset),
        _ => return None,
    }
    Some(())
}

/// Has the rows of a chain go along the axis along which an offset is contiguous, which is one of the chain's, if all its steps go along
/// the same axes and each element of a row is that of its point.
fn exchange_rows(program: &mut UProgram, op: &mut Operator, offset: ExprId) {
    let is_next = |a: &(_, _)| Step::of(program, offset, a.0) == Some(Step::by(1));
    let (Body::Chain(chain), Some(k)) = (&op.body, op.axes.iter().position(is_next)) else {
        return;
    };
    let (axis, before) = (op.axes[k], chain.steps[0].axes.clone());
    let pool = &mut program.pool;
    let at = before.iter().fold(pool.int(0), |at, (local, size)| {
        let local = pool.local(*local);
        let scaled = pool.product(at, *size);
        pool.sum(scaled, local)
    });
    let is_row = |buffer: Buffer| matches!(program.buffers[buffer].kind, BufferKind::Row);
    let (last, earlier) = (chain.steps.len() - 1, &chain.steps[..chain.steps.len() - 1]);
    let loads = program.pool.loads(op.body.exprs());
    let rows: Vec<_> = loads.into_iter().filter(|load| is_row(load.0)).collect();
    let is_plain = |body: &Body| matches!(body, Body::Map { .. } | Body::Fold { .. });
    let fits = op.axes.len() + before.len() > 1
        && chain
            .steps
            .iter()
            .all(|step| step.axes == before && is_plain(&step.body))
        && earlier.iter().all(|step| step.body.store().offset == at)
        && rows.iter().all(|row| row.1 == at);
    if !fits {
        return;
    }
    let to = program.pool.local(axis.0);
    let pairs = rows
        .into_iter()
        .map(|(row, _)| [at, to].map(|offset| program.pool.add(Expr::Load(row, offset))));
    let pairs: Vec<_> = pairs.map(|[old, new]| (old, new)).collect();
    let mut values = Substitution::new(pairs);
    let pool = &mut program.pool;
    op.body.change_exprs(&mut |e| *e = values.apply(pool, *e));
    let Body::Chain(chain) = &mut op.body else {
        return;
    };
    for (i, step) in chain.steps.iter_mut().enumerate() {
        step.axes = vec![axis];
        if i != last {
            store_at(&mut step.body, to);
        }
    }
    chain.axes.retain(|own| !before.contains(own));
    chain.axes.insert(0, axis);
    op.axes.remove(k);
    op.axes.extend(before);
    for split in op.share.splits_mut() {
        // The axis of the rows is none of the operator's.
        if split.axis >= k {
            *split = Split::whole(0, op.axes[0].1);
        }
    }
}

/// Gives the rows of a chain the lengths of its steps.
pub(super) fn set_rows(program: &mut UProgram, op: &Operator) {
    let Body::Chain(chain) = &op.body else {
        return;
    };
    for step in &chain.steps {
        let row = step.body.store().buffer;
        if program.buffers[row].kind.is_row() {
            let sizes: Vec<_> = step.axes.iter().map(|axis| axis.1).collect();
            program.buffers[row].len = program.pool.product_of(&sizes);
        }
    }
}

/// The accesses of an operator whose neighbouring elements lie apart: along the innermost axis, or the columns of a product.
fn apart(program: &UProgram, op: &Operator) -> usize {
    let (inner, values) = match &op.body {
        Body::Contract(c) => (Some(c.columns), vec![c.finish]),
        body => {
            let reduced = body.axes().last().map(|axis| axis.0);
            let inner = reduced.or_else(|| vector_axis(program, op));
            (inner, body.exprs().to_vec())
        }
    };
    let Some(inner) = inner else {
        return 0;
    };
    let loads = program.pool.loads(values).into_iter().map(|load| load.1);
    let accesses = loads.chain([op.body.store().offset]);
    let is_apart = |offset: &ExprId| {
        let step = Step::of(program, *offset, inner).and_then(|step| step.as_int());
        !matches!(step, Some(0 | 1))
    };
    accesses.filter(is_apart).count()
}

/// Makes the axis along which an offset is contiguous the innermost one.
fn go_along(program: &UProgram, op: &mut Operator, offset: ExprId) {
    let is_next = |a: &(_, _)| Step::of(program, offset, a.0) == Some(Step::by(1));
    if let Some(k) = op.axes.iter().position(is_next) {
        make_innermost(op, k);
    }
}

/// Makes the axis the innermost one along which a reduction's elements are read in the least time.
fn go_along_elements(program: &UProgram, op: &mut Operator) {
    for k in (0..op.axes.len()).rev().skip(1) {
        let mut other = op.clone();
        make_innermost(&mut other, k);
        if price(program, &other) < price(program, op) {
            *op = other;
        }
    }
}

/// True for a reduction, and for one with maps of its result at its point.
fn is_reduction(body: &Body) -> bool {
    match body {
        Body::Chain(chain) => chain.reduction().is_some(),
        body => matches!(body, Body::Fold { .. }),
    }
}

fn make_innermost(op: &mut Operator, k: usize) {
    let axis = op.axes.remove(k);
    op.axes.push(axis);
    for split in op.share.splits_mut() {
        match split.axis {
            // Neighbours belong together.
            axis if axis == k => *split = Split::whole(0, op.axes[0].1),
            axis if axis > k => split.axis -= 1,
            _ => {}
        }
    }
}
