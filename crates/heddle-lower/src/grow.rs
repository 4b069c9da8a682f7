//! Carried arrays whose size changes between iterations: growing lists, caches.
//!
//! A per-unit variable holds the size of each changing axis, and the launch computes a limit: the
//! first size plus, for each iteration, the most that it adds. Strides follow the limit, so that an
//! append writes behind the existing elements and moves nothing.
//!
//! The changing axes show when the body is lowered. Lowering then starts again with that knowledge,
//! so that constant axes cost nothing.

use std::collections::HashSet;

use heddle_ir::op::CompareOp;
use heddle_ir::{DType, Dim, Op, Region, TensorType, Value};

use super::{Lowerer, Result};
use crate::value::{Val, View, linear};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Buffer, Local, LocalData, LocalKind, Stmt, Store};

/// Carried values' axes whose sizes change: function, body parameter, axis.
pub(super) type Changing = HashSet<(String, Value, usize)>;

/// The place of a carried array whose size changes.
#[derive(Clone, Debug)]
pub(super) struct Grown {
    /// Its index among the loop's carried values.
    pub place: usize,
    /// Its memory.
    pub buffer: Buffer,
    dtype: DType,
    /// The size of each axis in memory; for a changing axis its limit.
    capacity: Vec<ExprId>,
    /// The axes that change.
    pub axes: Vec<Axis>,
}

/// An axis whose size changes.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Its index.
    pub axis: usize,
    /// The per-unit variable for its size.
    pub size: Local,
    /// Its upper bound.
    pub limit: Local,
    /// Its largest initial size.
    pub first: ExprId,
    /// The bound that the type states.
    pub stated: Option<u64>,
}

impl Lowerer<'_> {
    /// True if an axis of a carried value is known to change.
    pub(super) fn changes(&self, param: Value, axis: usize) -> bool {
        let key = (self.f.sig.name.clone(), param, axis);
        !self.changing.is_empty() && self.changing.contains(&key)
    }

    /// Records the axes of carried values whose next size differs, where the type leaves them
    /// dynamic.
    pub(super) fn note_changes(&mut self, params: &[Value], next: &[Val]) -> Result<()> {
        let mut found = vec![];
        for (&param, next) in params.iter().zip(next) {
            let dims = self.f.ty(param).as_tensor().and_then(|t| t.shape.as_ref());
            let sizes = self.values[&param].shape().iter().zip(next.shape());
            for (axis, (dim, (now, next))) in dims.into_iter().flatten().zip(sizes).enumerate() {
                if matches!(dim, Dim::Unknown(_)) && now != next && !self.changes(param, axis) {
                    found.push((self.f.sig.name.clone(), param, axis));
                }
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        self.changing.extend(found);
        self.fail("carries an array whose size changes")
    }

    /// Places a carried value with changing axes and stores its initial value; returns its value in
    /// the body.
    pub(super) fn enter_grown(
        &mut self,
        place: usize,
        param: Value,
        t: &TensorType,
        first: &Val,
    ) -> Result<(Grown, Val)> {
        let mut capacity = self.carried_shape(t, first)?;
        let mut axes = vec![];
        for (axis, most) in capacity.iter_mut().enumerate() {
            if !self.changes(param, axis) {
                continue;
            }
            let start = first.shape()[axis];
            let Some(bound) = self.upper_bound(start) else {
                return self.fail(&format!(
                    "carried value {place} starts with a size that has no bound"
                ));
            };
            let size = self.variable(DType::I64, "size");
            self.block.push(Stmt::Let(size, start));
            let limit = self.program.locals.push(LocalData {
                dtype: DType::I64,
                kind: LocalKind::Size,
                name: "limit".into(),
            });
            *most = self.program.pool.local(limit);
            self.bounds.insert(size, *most);
            let stated = match t.shape.as_ref().map(|dims| &dims[axis]) {
                Some(Dim::Unknown(stated)) => *stated,
                _ => None,
            };
            axes.push(Axis {
                axis,
                size,
                limit,
                first: bound,
                stated,
            });
        }
        let buffer = self.scratch(t.dtype, &capacity)?;
        let grown = Grown {
            place,
            buffer,
            dtype: t.dtype,
            capacity,
            axes,
        };
        self.store_from(first, &grown, None);
        let sizes = grown.axes.iter().map(|a| self.program.pool.local(a.size));
        let sizes: Vec<_> = sizes.collect();
        let mut shape = grown.capacity.clone();
        for (a, size) in grown.axes.iter().zip(sizes) {
            shape[a.axis] = size;
        }
        let val = self.grown_value(&grown, shape);
        Ok((grown, val))
    }

    /// The array with these sizes.
    fn grown_value(&mut self, grown: &Grown, shape: Vec<ExprId>) -> Val {
        let (buffer, dtype) = (grown.buffer, grown.dtype);
        if self.is_dense(grown) {
            return Val::Stored {
                buffer,
                dtype,
                shape,
            };
        }
        let stored = Val::Stored {
            buffer,
            dtype,
            shape: grown.capacity.clone(),
        };
        let (zero, one) = (self.program.pool.int(0), self.program.pool.int(1));
        let all = vec![(zero, one); shape.len()];
        Val::lazy(dtype, shape, View::Slice(all, stored))
    }

    /// True if places do not depend on the size: only the outermost axis changes.
    fn is_dense(&self, grown: &Grown) -> bool {
        let outer = grown.capacity.iter();
        let ones = outer.take_while(|&&size| self.program.pool.as_int(size) == Some(1));
        let outermost = ones.count();
        grown.axes.iter().all(|a| a.axis == outermost)
    }

    /// True if a value lies at the array's place.
    fn lies_in(&self, val: &Val, grown: &Grown) -> bool {
        let stored =
            |val: &Val| matches!(val, Val::Stored { buffer, .. } if *buffer == grown.buffer);
        match val {
            Val::Lazy(lazy) => match &lazy.view {
                View::Slice(bounds, x) => {
                    let pool = &self.program.pool;
                    let whole = |b: &(ExprId, ExprId)| {
                        (pool.as_int(b.0), pool.as_int(b.1)) == (Some(0), Some(1))
                    };
                    stored(x) && x.shape() == grown.capacity && bounds.iter().all(whole)
                }
                _ => false,
            },
            val => stored(val),
        }
    }

    /// Writes a value to the array's place, after this many elements of an axis.
    fn store_from(&mut self, val: &Val, grown: &Grown, behind: Option<(usize, ExprId)>) {
        let (axes, mut index) = self.space(val.shape(), 0);
        let pool = &mut self.program.pool;
        let value = val.read(pool, &index);
        if let Some((axis, start)) = behind {
            index[axis] = pool.sum(start, index[axis]);
        }
        let offset = linear(pool, &grown.capacity, &index);
        let store = Store {
            buffer: grown.buffer,
            offset,
        };
        self.run(axes, Body::Map { store, value });
    }

    /// Finds the concatenations in a body that append to a carried array and yield its next value.
    pub(super) fn note_appends(&mut self, body: Region, param: Value, next: Value, grown: &Grown) {
        let [axis] = grown.axes.as_slice() else {
            return;
        };
        let Some(inst) = self.f.def_inst(next) else {
            return;
        };
        let data = &self.f.insts[inst];
        if data.op == (Op::Concat { axis: axis.axis })
            && data.args[0] == param
            && self.f.regions[body].insts.contains(&inst)
        {
            self.appends.insert(next, grown.clone());
        }
    }

    /// Appends values to a carried array. The result has this shape and keeps the current elements.
    pub(super) fn append(
        &mut self,
        grown: &Grown,
        parts: &[Val],
        shape: Vec<ExprId>,
    ) -> Result<Val> {
        let Axis {
            axis,
            size,
            limit,
            stated,
            ..
        } = grown.axes[0];
        let mut start = self.program.pool.local(size);
        if stated.is_some() {
            let limit = self.program.pool.local(limit);
            let fits = self
                .program
                .pool
                .compare(CompareOp::Le, DType::I64, shape[axis], limit);
            self.check(fits, shape[axis], limit);
        }
        for part in parts {
            let mut part = part.clone();
            let (_, index) = self.space(part.shape(), 0);
            let value = part.read(&mut self.program.pool, &index);
            let reads_it = |e| matches!(e, Expr::Load(buffer, _) if buffer == grown.buffer);
            if self.program.pool.any(value, &reads_it) {
                part = self.stored(&part)?;
            }
            self.store_from(&part, grown, Some((axis, start)));
            start = self.program.pool.sum(start, part.shape()[axis]);
        }
        Ok(self.grown_value(grown, shape))
    }

    /// Puts the next value in its place, unless it is there; returns the buffer to swap with the
    /// array's.
    pub(super) fn advance_grown(&mut self, grown: &Grown, next: &Val) -> Result<Option<Buffer>> {
        if self.lies_in(next, grown) {
            return Ok(None);
        }
        let buffer = self.scratch(grown.dtype, &grown.capacity)?;
        let other = Grown {
            buffer,
            ..grown.clone()
        };
        self.store_from(next, &other, None);
        Ok(Some(buffer))
    }

    /// The variables for a carried array's sizes, and their next values.
    pub(super) fn next_sizes(grown: &Grown, next: &Val) -> Vec<(Local, ExprId)> {
        let axes = grown.axes.iter();
        axes.map(|a| (a.size, next.shape()[a.axis])).collect()
    }
}
