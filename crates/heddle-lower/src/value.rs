//! IR values during lowering: stored, per unit, or still expressions.
//!
//! Elementwise and view ops stay [`Lazy`] and become index arithmetic and scalar code in their
//! readers ("View ops become index arithmetic in their consumers rather than copies").

use std::rc::Rc;

use heddle_ir::op::{BinaryOp, CompareOp, PadMode};
use heddle_ir::{DType, Op};

use heddle_uprogram::expr::{Expr, ExprId, Narrow, Pool};
use heddle_uprogram::program::Buffer;

/// A value of a region that is being lowered.
#[derive(Clone, Debug)]
pub enum Val {
    /// An array in memory, row-major.
    Stored {
        /// The buffer.
        buffer: Buffer,
        /// The element type.
        dtype: DType,
        /// The size of each axis.
        shape: Vec<ExprId>,
    },
    /// A few elements that every unit holds or computes redundantly.
    Scalars {
        /// The element type.
        dtype: DType,
        /// The size of each axis.
        shape: Vec<ExprId>,
        /// The elements, in row-major order.
        elems: Vec<ExprId>,
    },
    /// An array that is computed where it is read.
    Lazy(Rc<Lazy>),
}

/// An array that is computed where it is read.
#[derive(Clone, Debug)]
pub struct Lazy {
    /// The element type.
    pub dtype: DType,
    /// The size of each axis.
    pub shape: Vec<ExprId>,
    /// The computation of an element.
    pub view: View,
    /// Elementwise ops per element, operands included.
    pub work: usize,
    /// Depth in nodes.
    pub depth: usize,
    /// True if reads contain a checked index, so that it may only be read where it has elements.
    pub checked: bool,
    /// True if its elements depend on per-unit values only.
    pub of_scalars: bool,
}

/// The computation of an element of a [`Lazy`] array.
#[derive(Clone, Debug)]
pub enum View {
    /// An elementwise op (unary, binary, comparison, select, cast) on operands that broadcast.
    Map(Op, Vec<Val>),
    /// Axis `i` is the operand's axis `perm[i]`.
    Transpose(Vec<usize>, Val),
    /// The same elements in row-major order.
    Reshape(Val),
    /// For each operand axis the result's axis, or none if squeezed.
    Axes(Vec<Option<usize>>, Val),
    /// Operand broadcast to the shape.
    Broadcast(Val),
    /// `start + i * step` along each axis.
    Slice(Vec<(ExprId, ExprId)>, Val),
    /// Operands side by side along an axis.
    Concat(usize, Vec<Val>),
    /// The operand after this many elements of each axis, the value elsewhere.
    Pad(Vec<ExprId>, Val, Val),
    /// The operand after this many elements of each axis, and elements of its own around it.
    Border(PadMode, Vec<ExprId>, Val),
    /// The operand's axis indexed by an array.
    Gather(usize, Val, Val),
    /// The operand's axis indexed by an array of its rank, element by element.
    GatherElements(usize, Val, Val),
    /// The operand indexed by tuples after this many axes that both share.
    GatherNd(usize, Val, Val),
    /// Elements spaced by these distances along each axis, with zeros between them.
    Spread(Vec<ExprId>, Val),
    /// `start + i * step`.
    Range(ExprId, ExprId),
}

impl Val {
    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Val::Stored { dtype, .. } | Val::Scalars { dtype, .. } => *dtype,
            Val::Lazy(l) => l.dtype,
        }
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[ExprId] {
        match self {
            Val::Stored { shape, .. } | Val::Scalars { shape, .. } => shape,
            Val::Lazy(l) => &l.shape,
        }
    }

    /// Elementwise ops per element.
    pub fn work(&self) -> usize {
        if let Val::Lazy(l) = self { l.work } else { 0 }
    }

    /// Depth in nodes.
    pub fn depth(&self) -> usize {
        if let Val::Lazy(l) = self { l.depth } else { 0 }
    }

    /// True if reads contain a checked index.
    pub fn is_checked(&self) -> bool {
        matches!(self, Val::Lazy(l) if l.checked)
    }

    /// True if its elements depend on per-unit values only.
    pub fn is_of_scalars(&self) -> bool {
        match self {
            Val::Stored { .. } => false,
            Val::Scalars { .. } => true,
            Val::Lazy(l) => l.of_scalars,
        }
    }

    /// A lazy array.
    pub fn lazy(dtype: DType, shape: Vec<ExprId>, view: View) -> Val {
        let (operands, own): (Vec<&Val>, usize) = match &view {
            View::Map(_, args) => (args.iter().collect(), 1),
            View::Concat(_, args) => (args.iter().collect(), 0),
            View::Pad(_, x, v) => (vec![x, v], 0),
            View::Gather(_, x, i) | View::GatherElements(_, x, i) | View::GatherNd(_, x, i) => {
                (vec![x, i], 0)
            }
            View::Border(_, _, x) | View::Spread(_, x) => (vec![x], 0),
            View::Range(..) => (vec![], 1),
            View::Transpose(_, x)
            | View::Reshape(x)
            | View::Axes(_, x)
            | View::Broadcast(x)
            | View::Slice(_, x) => (vec![x], 0),
        };
        let work = own + operands.iter().map(|v| v.work()).sum::<usize>();
        let of_scalars = operands.iter().all(|v| v.is_of_scalars());
        let depth = 1 + operands.iter().map(|v| v.depth()).max().unwrap_or(0);
        let looks_up = matches!(
            view,
            View::Gather(..) | View::GatherElements(..) | View::GatherNd(..)
        );
        let checked = looks_up || operands.iter().any(|v| v.is_checked());
        Val::Lazy(Rc::new(Lazy {
            dtype,
            shape,
            view,
            work,
            depth,
            checked,
            of_scalars,
        }))
    }

    /// Is the buffer read where the value is?
    pub fn reads(&self, pool: &Pool, buffer: Buffer) -> bool {
        let loads = |exprs: &[ExprId]| {
            let loads = pool.loads(exprs.iter().copied());
            loads.iter().any(|(b, _)| *b == buffer)
        };
        let lazy = match self {
            Val::Stored { buffer: b, .. } => return *b == buffer,
            Val::Scalars { elems, .. } => return loads(elems),
            Val::Lazy(lazy) => lazy,
        };
        let any = |vals: &[&Val]| vals.iter().any(|v| v.reads(pool, buffer));
        match &lazy.view {
            View::Map(_, all) | View::Concat(_, all) => all.iter().any(|v| v.reads(pool, buffer)),
            View::Transpose(_, x)
            | View::Reshape(x)
            | View::Axes(_, x)
            | View::Broadcast(x)
            | View::Border(_, _, x)
            | View::Spread(_, x) => any(&[x]),
            View::Slice(bounds, x) => {
                let bounds = bounds.iter().flat_map(|&(start, step)| [start, step]);
                loads(&bounds.collect::<Vec<ExprId>>()) || any(&[x])
            }
            View::Pad(before, x, value) => loads(before) || any(&[x, value]),
            View::Gather(_, x, i) | View::GatherElements(_, x, i) | View::GatherNd(_, x, i) => {
                any(&[x, i])
            }
            View::Range(start, step) => loads(&[*start, *step]),
        }
    }

    /// The element at an index, which must be in bounds.
    pub fn read(&self, pool: &mut Pool, index: &[ExprId]) -> ExprId {
        debug_assert_eq!(index.len(), self.shape().len());
        match self {
            Val::Stored { buffer, shape, .. } => {
                let offset = linear(pool, shape, index);
                pool.add(Expr::Load(*buffer, offset))
            }
            Val::Scalars { dtype, elems, .. } => match index {
                [] => elems[0],
                [i] => pick(pool, *dtype, elems, *i),
                _ => {
                    let shape = self.shape().to_vec();
                    let offset = linear(pool, &shape, index);
                    pick(pool, *dtype, elems, offset)
                }
            },
            Val::Lazy(l) => l.read(pool, index),
        }
    }
}

impl Lazy {
    fn read(&self, pool: &mut Pool, index: &[ExprId]) -> ExprId {
        match &self.view {
            View::Map(op, args) => {
                let types: Vec<_> = args.iter().map(Val::dtype).collect();
                let at: Vec<_> = args
                    .iter()
                    .map(|a| read_broadcast(pool, a, &self.shape, index))
                    .collect();
                apply(pool, op, &types, &at)
            }
            View::Transpose(perm, x) => {
                let mut inner = vec![index.first().copied(); perm.len()];
                for (i, &p) in perm.iter().enumerate() {
                    inner[p] = Some(index[i]);
                }
                let inner: Vec<_> = inner.into_iter().flatten().collect();
                x.read(pool, &inner)
            }
            View::Reshape(x) => {
                let inner = regrouped(pool, &self.shape, index, x.shape());
                x.read(pool, &inner)
            }
            View::Axes(axes, x) => {
                let zero = pool.int(0);
                let inner: Vec<_> = axes
                    .iter()
                    .map(|a| a.map_or(zero, |axis| index[axis]))
                    .collect();
                x.read(pool, &inner)
            }
            View::Broadcast(x) => read_broadcast(pool, x, &self.shape, index),
            View::Slice(bounds, x) => {
                let inner: Vec<_> = bounds
                    .iter()
                    .zip(index)
                    .map(|(&(start, step), &i)| {
                        let by = pool.product(i, step);
                        pool.sum(by, start)
                    })
                    .collect();
                x.read(pool, &inner)
            }
            View::Concat(axis, parts) => self.read_concat(pool, *axis, parts, index),
            View::Pad(before, x, value) => self.read_pad(pool, before, x, value, index),
            View::Gather(axis, x, indices) => {
                let width = indices.shape().len();
                let i = indices.read(pool, &index[*axis..axis + width]);
                let i = pool.cast(indices.dtype(), DType::I64, i);
                let i = pool.index(i, x.shape()[*axis]);
                let inner = [&index[..*axis], &[i], &index[axis + width..]].concat();
                x.read(pool, &inner)
            }
            View::GatherElements(axis, x, indices) => {
                let i = indices.read(pool, index);
                let i = pool.cast(indices.dtype(), DType::I64, i);
                let mut inner = index.to_vec();
                inner[*axis] = pool.index(i, x.shape()[*axis]);
                x.read(pool, &inner)
            }
            View::GatherNd(batch, x, indices) => {
                let tuples = indices.shape().len() - 1;
                let depth = x.shape().len() - (index.len() - tuples) - batch;
                let mut inner = index[..*batch].to_vec();
                for k in 0..depth {
                    let at = pool.int(k as i64);
                    let i = indices.read(pool, &[&index[..tuples], &[at]].concat());
                    let i = pool.cast(indices.dtype(), DType::I64, i);
                    inner.push(pool.index(i, x.shape()[batch + k]));
                }
                inner.extend(&index[tuples..]);
                x.read(pool, &inner)
            }
            View::Spread(by, x) => {
                let (one, none) = (pool.int(1), pool.int(0));
                let mut hit = pool.add(Expr::Num(DType::Bool, 1));
                let mut inner = vec![];
                for (&i, &by) in index.iter().zip(by) {
                    if by == one {
                        inner.push(i);
                        continue;
                    }
                    let rest = pool.binary(BinaryOp::Mod, DType::I64, i, by);
                    let whole = pool.compare(CompareOp::Eq, DType::I64, rest, none);
                    hit = pool.and(hit, whole);
                    inner.push(pool.binary(BinaryOp::Div, DType::I64, i, by));
                }
                let own = x.read(pool, &inner);
                let zero = pool.add(Expr::Num(self.dtype, 0));
                pool.select(self.dtype, hit, own, zero)
            }
            View::Border(mode, before, x) => {
                let inner: Vec<_> = (index.iter().zip(before).zip(x.shape()))
                    .map(|((&i, &before), &size)| bordered(pool, *mode, i, before, size))
                    .collect();
                x.read(pool, &inner)
            }
            View::Range(start, step) => {
                let i = pool.cast(DType::I64, self.dtype, index[0]);
                let by = pool.binary(BinaryOp::Mul, self.dtype, i, *step);
                pool.binary(BinaryOp::Add, self.dtype, *start, by)
            }
        }
    }

    fn read_concat(&self, pool: &mut Pool, axis: usize, parts: &[Val], index: &[ExprId]) -> ExprId {
        // Each operand's start is the sum of the sizes before it; the last one needs no test.
        let mut starts = vec![pool.int(0)];
        for part in parts {
            let next = pool.sum(starts[starts.len() - 1], part.shape()[axis]);
            starts.push(next);
        }
        let at = |pool: &mut Pool, k: usize| {
            let mut inner = index.to_vec();
            let i = pool.binary(BinaryOp::Sub, DType::I64, index[axis], starts[k]);
            let always = pool.add(Expr::Num(DType::Bool, 1));
            let inside = within(pool, always, i, parts[k].shape()[axis]);
            inner[axis] = clamped(pool, inside, i);
            parts[k].read(pool, &inner)
        };
        let mut value = at(pool, parts.len() - 1);
        for k in (0..parts.len() - 1).rev() {
            let own = at(pool, k);
            let cond = pool.compare(CompareOp::Lt, DType::I64, index[axis], starts[k + 1]);
            value = pool.select(self.dtype, cond, own, value);
        }
        value
    }

    fn read_pad(
        &self,
        pool: &mut Pool,
        before: &[ExprId],
        x: &Val,
        value: &Val,
        index: &[ExprId],
    ) -> ExprId {
        let mut inside = pool.add(Expr::Num(DType::Bool, 1));
        let mut inner = vec![];
        for (k, &i) in index.iter().enumerate() {
            let j = pool.binary(BinaryOp::Sub, DType::I64, i, before[k]);
            inner.push(j);
            if pool.as_int(before[k]) == Some(0) && x.shape()[k] == self.shape[k] {
                continue;
            }
            inside = within(pool, inside, j, x.shape()[k]);
        }
        let inner: Vec<_> = inner
            .into_iter()
            .map(|j| clamped(pool, inside, j))
            .collect();
        let own = x.read(pool, &inner);
        let other = value.read(pool, &[]);
        pool.select(self.dtype, inside, own, other)
    }
}

/// The source of element `i` of an axis with `before` elements of padding.
fn bordered(pool: &mut Pool, mode: PadMode, i: ExprId, before: ExprId, size: ExprId) -> ExprId {
    let i = pool.difference(i, before);
    let (zero, one) = (pool.int(0), pool.int(1));
    let last = pool.difference(size, one);
    match mode {
        PadMode::Edge | PadMode::Constant => {
            let i = pool.binary(BinaryOp::Max, DType::I64, i, zero);
            pool.binary(BinaryOp::Min, DType::I64, i, last)
        }
        PadMode::Wrap => pool.binary(BinaryOp::Mod, DType::I64, i, size),
        // Triangle wave; with one element both the period and the remainder are 0.
        PadMode::Reflect => {
            let period = pool.sum(last, last);
            let i = pool.binary(BinaryOp::Mod, DType::I64, i, period);
            let back = pool.difference(period, i);
            pool.binary(BinaryOp::Min, DType::I64, i, back)
        }
    }
}

/// `cond && 0 <= i && i < size`.
pub fn within(pool: &mut Pool, cond: ExprId, i: ExprId, size: ExprId) -> ExprId {
    let zero = pool.int(0);
    let low = pool.compare(CompareOp::Ge, DType::I64, i, zero);
    let high = pool.compare(CompareOp::Lt, DType::I64, i, size);
    let both = pool.and(low, high);
    pool.and(cond, both)
}

/// The index if the condition holds, otherwise 0: in bounds, and its value unused.
pub fn clamped(pool: &mut Pool, inside: ExprId, index: ExprId) -> ExprId {
    let zero = pool.int(0);
    pool.select(DType::I64, inside, index, zero)
}

/// The offset of an index in a row-major array.
pub fn linear(pool: &mut Pool, shape: &[ExprId], index: &[ExprId]) -> ExprId {
    let mut offset = pool.int(0);
    for (&size, &i) in shape.iter().zip(index) {
        offset = joined(pool, offset, size, i);
    }
    offset
}

/// `high * size + low`, of non-negative indices. A quotient and remainder of the same division
/// cancel: one reshape undoes another.
fn joined(pool: &mut Pool, high: ExprId, size: ExprId, low: ExprId) -> ExprId {
    if let Expr::Binary(BinaryOp::Mod, DType::I64, whole, by) = pool[low]
        && by == size
    {
        let quotient = pool.binary(BinaryOp::Div, DType::I64, whole, size);
        if high == quotient {
            return whole;
        }
        if let Expr::Binary(BinaryOp::Add, DType::I64, rest, last) = pool[high]
            && last == quotient
        {
            let scaled = pool.product(rest, size);
            return pool.sum(scaled, whole);
        }
    }
    let scaled = pool.product(high, size);
    pool.sum(scaled, low)
}

/// The element of an operand that broadcasts to a shape, at an index into that shape.
fn read_broadcast(pool: &mut Pool, x: &Val, shape: &[ExprId], index: &[ExprId]) -> ExprId {
    let (one, zero) = (pool.int(1), pool.int(0));
    let skip = index.len() - x.shape().len();
    let mut inner = vec![];
    for (k, &size) in x.shape().iter().enumerate() {
        let i = index[skip + k];
        inner.push(match pool.as_int(size) {
            Some(1) => zero,
            Some(_) => i,
            None if size == shape[skip + k] => i,
            // The size may be 1 at run time.
            None => {
                let single = pool.compare(CompareOp::Eq, DType::I64, size, one);
                pool.select(DType::I64, single, zero, i)
            }
        });
    }
    x.read(pool, &inner)
}

fn pick(pool: &mut Pool, dtype: DType, elems: &[ExprId], index: ExprId) -> ExprId {
    if let Some(&known) = pool
        .as_int(index)
        .and_then(|i| elems.get(usize::try_from(i).ok()?))
    {
        return known;
    }
    // Reads out of bounds are never evaluated: the enclosing loop is empty, or a choice takes its
    // other arm.
    let Some((&last, rest)) = elems.split_last() else {
        return pool.add(Expr::Num(dtype, 0));
    };
    let mut value = last;
    for (k, &e) in rest.iter().enumerate().rev() {
        let k = pool.int(k as i64);
        let cond = pool.compare(CompareOp::Eq, DType::I64, index, k);
        value = pool.select(dtype, cond, e, value);
    }
    value
}

fn apply(pool: &mut Pool, op: &Op, types: &[DType], at: &[ExprId]) -> ExprId {
    match op {
        Op::Unary(kind) => pool.add(Expr::Unary(*kind, types[0], at[0])),
        Op::Binary(kind) => pool.binary(*kind, types[0], at[0], at[1]),
        Op::Compare(kind) => pool.compare(*kind, types[0], at[0], at[1]),
        Op::Select => pool.select(types[1], at[0], at[1], at[2]),
        Op::Cast {
            to,
            saturate,
            round,
        } if to.is_small_float() => {
            let wide = pool.cast(types[0], DType::F64, at[0]);
            let narrow = Narrow {
                to: *to,
                saturate: *saturate,
                round: *round,
            };
            pool.add(Expr::Narrow(narrow, wide))
        }
        Op::Cast { to, .. } => pool.cast(types[0], *to, at[0]),
        Op::Bitcast { to } => pool.bits(types[0], *to, at[0]),
        other => unreachable!("{} is not elementwise", other.name()),
    }
}

/// The index into `inner` of the element at `index` of `outer`, split into groups of axes with
/// equal products, to divide as little as possible.
fn regrouped(pool: &mut Pool, outer: &[ExprId], index: &[ExprId], inner: &[ExprId]) -> Vec<ExprId> {
    let (one, zero) = (pool.int(1), pool.int(0));
    let axes = outer.iter().copied().zip(index.iter().copied());
    let (outer, index): (Vec<_>, Vec<_>) = axes.filter(|a| a.0 != one).unzip();
    let mut result = vec![];
    let (mut from, mut to) = (0, 0);
    while to < inner.len() {
        if inner[to] == one {
            result.push(zero);
            to += 1;
            continue;
        }
        let (first, start) = (from, to);
        let (mut have, mut want) = (one, inner[to]);
        to += 1;
        // Sizes not provably equal join all remaining axes.
        while have != want && (from < outer.len() || to < inner.len()) {
            let more =
                matches!((pool.as_int(have), pool.as_int(want)), (Some(h), Some(w)) if h > w);
            if from == outer.len() || more && to < inner.len() {
                want = pool.product(want, inner[to]);
                to += 1;
            } else {
                have = pool.product(have, outer[from]);
                from += 1;
            }
        }
        let offset = linear(pool, &outer[first..from], &index[first..from]);
        result.extend(split(pool, offset, &inner[start..to]));
    }
    result
}

/// The index of the element at an offset of a row-major array.
pub fn split(pool: &mut Pool, offset: ExprId, shape: &[ExprId]) -> Vec<ExprId> {
    let mut rest = offset;
    let mut index = vec![];
    for (k, &size) in shape.iter().enumerate().rev() {
        if k == 0 {
            index.push(rest);
        } else {
            index.push(pool.binary(BinaryOp::Mod, DType::I64, rest, size));
            rest = pool.binary(BinaryOp::Div, DType::I64, rest, size);
        }
    }
    index.reverse();
    index
}
