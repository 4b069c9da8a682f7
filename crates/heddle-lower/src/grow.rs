//! Carried arrays whose size changes between iterations: growing lists, caches.
//!
//! A per-unit variable holds the size of each changing axis, and the launch computes a limit: the
//! first size plus, for each iteration, the most that it adds. Strides follow the limit, so that an
//! append writes behind the existing elements and moves nothing.
//!
//! An array with an axis without a limit is a segment. If it is the outermost axis, no stride
//! depends on it and an append moves nothing either. Where iterations append along another one, it
//! has room that doubles (`append`): readers of one place of an outer axis, such as an attention
//! head, read one stream. Otherwise the first such axis lies outermost in memory, whatever its place
//! in the array; the others have strides of their sizes, and each iteration writes the whole array
//! anew.
//!
//! The changing axes, and those without a limit, show when the body is lowered. Lowering then starts
//! again with that knowledge, so that constant axes cost nothing.

use std::collections::HashSet;

use heddle_ir::{DType, Dim, TensorType, Value};

use super::append::{Appends, Overwritten};
use super::{Cause, Lowerer, Result};
use crate::value::{Val, View, linear};
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Body, Buffer, Local, LocalData, LocalKind, Stmt, Store};

/// An axis of a carried value: function, body parameter, axis.
type Place = (String, Value, usize);

/// Carried values' axes whose sizes change.
#[derive(Default)]
pub(super) struct Changing {
    all: HashSet<Place>,
    /// Those without a limit.
    unlimited: HashSet<Place>,
    /// Carried values, of functions, whose elements are read after an append would write over them.
    read_late: HashSet<(String, Value)>,
}

impl Changing {
    /// The number of facts.
    pub(super) fn len(&self) -> usize {
        self.all.len() + self.unlimited.len() + self.read_late.len()
    }
}

/// The place of a carried array whose size changes.
#[derive(Clone, Debug)]
pub(super) struct Grown {
    /// The loop body's parameter.
    pub param: Value,
    /// Its memory.
    pub buffer: Buffer,
    pub dtype: DType,
    /// The size of each axis in memory; for a changing axis its limit or room, or its size if it has
    /// none.
    pub capacity: Vec<ExprId>,
    /// The array's axes in the order in which they lie in memory.
    order: Vec<usize>,
    /// The axes that change.
    pub axes: Vec<Axis>,
    /// Arrays that appends write over.
    pub over: Vec<Overwritten>,
    /// Iterations also write to its elements by index.
    pub is_written: bool,
}

/// An axis whose size changes.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Its index.
    pub axis: usize,
    /// The per-unit variable for its size.
    pub size: Local,
    /// Its limit, if it has one.
    pub limit: Option<Limit>,
    /// The size that its stride allows, if that is not the limit: a per-unit variable if it has no
    /// limit.
    pub room: Option<Local>,
    /// The number of elements that a room without a limit begins with, besides those of the first
    /// value.
    pub expected: Option<Local>,
    /// The bound that the type states.
    pub stated: Option<u64>,
}

/// The limit of an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// The size that the launch computes.
    pub most: Local,
    /// The largest initial size.
    pub first: ExprId,
}

impl Grown {
    /// The array in other memory, with so much room along an axis.
    pub(super) fn with_room(&self, buffer: Buffer, axis: usize, room: ExprId) -> Grown {
        let mut other = Grown {
            buffer,
            ..self.clone()
        };
        other.capacity[axis] = room;
        other
    }
}

impl Axis {
    /// True if its size is its stride's.
    fn is_dense(&self) -> bool {
        self.limit.is_none() && self.room.is_none()
    }
}

impl Lowerer<'_> {
    /// True if an axis of a carried value is known to change.
    pub(super) fn changes(&self, param: Value, axis: usize) -> bool {
        !self.changing.all.is_empty() && self.changing.all.contains(&self.axis_of(param, axis))
    }

    /// True if it is known to have no limit.
    pub(super) fn is_unlimited(&self, param: Value, axis: usize) -> bool {
        self.changing.unlimited.contains(&self.axis_of(param, axis))
    }

    fn axis_of(&self, param: Value, axis: usize) -> Place {
        (self.f.sig.name.clone(), param, axis)
    }

    /// Records that an axis of a carried value has no limit; lowering then starts again.
    pub(super) fn has_no_limit<T>(&mut self, param: Value, axis: usize) -> Result<T> {
        let place = self.axis_of(param, axis);
        self.changing.unlimited.insert(place);
        self.fail(Cause::Carried)
    }

    /// True if elements of a carried value are known to be read after an append would write over them.
    pub(super) fn is_read_late(&self, param: Value) -> bool {
        let place = (self.f.sig.name.clone(), param);
        self.changing.read_late.contains(&place)
    }

    /// Records that; lowering then starts again.
    pub(super) fn reads_late<T>(&mut self, param: Value) -> Result<T> {
        let place = (self.f.sig.name.clone(), param);
        self.changing.read_late.insert(place);
        self.fail(Cause::Carried)
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
                    found.push(self.axis_of(param, axis));
                }
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        self.changing.all.extend(found);
        self.fail(Cause::Carried)
    }

    /// Places a carried value with changing axes and stores its initial value; returns its value in
    /// the body.
    pub(super) fn enter_grown(
        &mut self,
        param: Value,
        t: &TensorType,
        first: &Val,
        appends: &Appends,
    ) -> Result<(Grown, Val)> {
        let mut capacity = self.carried_shape(t, first)?;
        let mut axes: Vec<Axis> = vec![];
        for axis in 0..capacity.len() {
            if !self.changes(param, axis) {
                continue;
            }
            let start = first.shape()[axis];
            let size = self.variable(DType::I64, "size");
            self.block.push(Stmt::Let(size, start));
            let limit = match self.is_unlimited(param, axis) {
                true => None,
                false => Some(self.limit(param, axis, start)?),
            };
            let is_inner = self.outermost(&capacity) < axis;
            let grows = limit.is_none() && is_inner && !appends.results.is_empty();
            let expected = (grows && appends.is_expected).then(|| self.launch_size("expected"));
            let room = match limit {
                Some(_) => appends
                    .cut
                    .contains(&axis)
                    .then(|| self.launch_size("room")),
                None => grows.then(|| {
                    let room = self.variable(DType::I64, "room");
                    let more = expected.map(|more| self.program.pool.local(more));
                    let first = more.map_or(start, |more| self.program.pool.sum(start, more));
                    self.block.push(Stmt::Let(room, first));
                    self.bounds.insert(room, None);
                    room
                }),
            };
            let bound = limit.map(|limit| self.program.pool.local(limit.most));
            self.bounds.insert(size, bound);
            let stride = room.or(limit.map(|limit| limit.most)).unwrap_or(size);
            capacity[axis] = self.program.pool.local(stride);
            let stated = match t.shape.as_ref().map(|dims| &dims[axis]) {
                Some(Dim::Unknown(stated)) => *stated,
                _ => None,
            };
            axes.push(Axis {
                axis,
                size,
                limit,
                room,
                expected,
                stated,
            });
        }
        let buffer = self.scratch(t.dtype, &capacity)?;
        let mut order: Vec<_> = (0..capacity.len()).collect();
        if let Some(dense) = axes.iter().find(|a| a.is_dense()) {
            let first = self.outermost(&capacity).min(dense.axis);
            order[first..=dense.axis].rotate_right(1);
        }
        let grown = Grown {
            param,
            buffer,
            dtype: t.dtype,
            capacity,
            order,
            axes,
            over: appends.over.clone(),
            is_written: appends.is_written,
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

    /// The limit of an axis with this initial size, which the loop's end defines.
    fn limit(&mut self, param: Value, axis: usize, start: ExprId) -> Result<Limit> {
        let Some(first) = self.upper_bound(start) else {
            return self.has_no_limit(param, axis);
        };
        let most = self.launch_size("limit");
        Ok(Limit { most, first })
    }

    /// A size that the launch computes.
    fn launch_size(&mut self, name: &str) -> Local {
        self.program.locals.push(LocalData {
            dtype: DType::I64,
            kind: LocalKind::Size,
            name: name.into(),
        })
    }

    /// The array with these sizes.
    pub(super) fn grown_value(&mut self, grown: &Grown, shape: Vec<ExprId>) -> Val {
        let (buffer, dtype) = (grown.buffer, grown.dtype);
        if self.is_dense(grown) {
            return Val::Stored {
                buffer,
                dtype,
                shape,
            };
        }
        let mut capacity = grown.capacity.clone();
        for a in grown.axes.iter().filter(|a| a.is_dense()) {
            capacity[a.axis] = shape[a.axis];
        }
        let mut stored = Val::Stored {
            buffer,
            dtype,
            shape: grown.order.iter().map(|&axis| capacity[axis]).collect(),
        };
        if !grown.order.is_sorted() {
            let places = 0..capacity.len();
            let of = |axis| grown.order.iter().position(|&a| a == axis);
            let places = places.filter_map(of).collect();
            stored = Val::lazy(dtype, capacity.clone(), View::Transpose(places, stored));
        }
        if capacity == shape {
            return stored;
        }
        let (zero, one) = (self.program.pool.int(0), self.program.pool.int(1));
        let all = vec![(zero, one); shape.len()];
        Val::lazy(dtype, shape, View::Slice(all, stored))
    }

    /// True if places do not depend on the size: only the outermost axis changes.
    pub(super) fn is_dense(&self, grown: &Grown) -> bool {
        let outermost = self.outermost(&grown.capacity);
        grown.axes.iter().all(|a| a.axis == outermost)
    }

    /// The axis that lies outermost in memory, apart from axes of size 1.
    fn outermost_axis(&self, grown: &Grown) -> usize {
        let dense = grown.axes.iter().find(|a| a.is_dense());
        dense.map_or_else(|| self.outermost(&grown.capacity), |a| a.axis)
    }

    /// The outermost axis that has a stride.
    fn outermost(&self, sizes: &[ExprId]) -> usize {
        let ones = sizes.iter();
        let ones = ones.take_while(|&&size| self.program.pool.as_int(size) == Some(1));
        ones.count()
    }

    /// True if a value lies at the array's place: it is the array, or begins where it begins.
    pub(super) fn lies_in(&self, val: &Val, grown: &Grown) -> bool {
        let pool = &self.program.pool;
        let first =
            |b: &(ExprId, ExprId)| (pool.as_int(b.0), pool.as_int(b.1)) == (Some(0), Some(1));
        match val {
            Val::Lazy(lazy) => match &lazy.view {
                View::Slice(bounds, x) => {
                    let outermost = self.outermost_axis(grown);
                    let is_stride = |a: &&Axis| a.is_dense() && a.axis != outermost;
                    let mut strides = grown.axes.iter().filter(is_stride);
                    bounds.iter().all(first)
                        && strides.all(|a| val.shape()[a.axis] == x.shape()[a.axis])
                        && self.lies_in(x, grown)
                }
                View::Transpose(places, x) => {
                    let of = |axis| grown.order.iter().position(|&a| a == axis);
                    places
                        .iter()
                        .enumerate()
                        .all(|(axis, &place)| of(axis) == Some(place))
                        && self.has_its_strides(x, grown)
                }
                _ => false,
            },
            val => grown.order.is_sorted() && self.has_its_strides(val, grown),
        }
    }

    /// True if a value lies in the array's memory, at the array's places.
    fn has_its_strides(&self, val: &Val, grown: &Grown) -> bool {
        let Val::Stored { buffer, shape, .. } = val else {
            return false;
        };
        let inner = self.outermost(&grown.capacity) + 1;
        let sizes = grown.order.iter().map(|&axis| grown.capacity[axis]);
        let same = || sizes.skip(inner).eq(shape.iter().copied().skip(inner));
        *buffer == grown.buffer && (self.is_dense(grown) || same())
    }

    /// Writes a value to the array's place, after this many elements of an axis.
    pub(super) fn store_from(&mut self, val: &Val, grown: &Grown, behind: Option<(usize, ExprId)>) {
        let (axes, mut index) = self.space(val.shape(), 0);
        let pool = &mut self.program.pool;
        let value = val.read(pool, &index);
        if let Some((axis, start)) = behind {
            index[axis] = pool.sum(start, index[axis]);
        }
        let outermost = self.outermost_axis(grown);
        let pool = &mut self.program.pool;
        // Inner axes are as far apart as there is room for, whatever is filled.
        let mut filled = grown.capacity.clone();
        for a in grown.axes.iter().filter(|a| a.axis == outermost) {
            filled[a.axis] = val.shape()[a.axis];
        }
        if let Some((axis, start)) = behind.filter(|(axis, _)| *axis == outermost) {
            filled[axis] = pool.sum(start, filled[axis]);
        }
        let in_memory = |all: &[ExprId]| {
            grown
                .order
                .iter()
                .map(|&axis| all[axis])
                .collect::<Vec<_>>()
        };
        let offset = linear(pool, &in_memory(&grown.capacity), &in_memory(&index));
        let grow = self.grown_to(grown.buffer, &filled);
        let store = Store {
            buffer: grown.buffer,
            offset,
        };
        self.run_growing(axes, Body::Map { store, value }, grow);
    }

    /// Puts the next value in its place, unless it is there; returns the buffer to swap with the
    /// array's.
    pub(super) fn advance_grown(&mut self, grown: &Grown, next: &Val) -> Result<Option<Buffer>> {
        if self.lies_in(next, grown) {
            return Ok(None);
        }
        if grown
            .axes
            .iter()
            .any(|a| a.room.is_some() && a.limit.is_none())
        {
            return self.fail(Cause::Carried);
        }
        let mut capacity = grown.capacity.clone();
        for a in grown.axes.iter().filter(|a| a.is_dense()) {
            capacity[a.axis] = next.shape()[a.axis];
        }
        let buffer = self.scratch(grown.dtype, &grown.capacity)?;
        let other = Grown {
            buffer,
            capacity,
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
