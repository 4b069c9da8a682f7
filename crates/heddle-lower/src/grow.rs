//! Carried arrays whose size changes from one iteration to the next: the list of what was found, the cache of what was seen.
//!
//! Along an axis that changes, a variable of each unit holds the size, and the launch computes a limit: the first size and, for each
//! iteration, the most that one adds. The array lies in memory as if it had that size, so that what is appended goes behind what
//! is there, and nothing is moved.
//!
//! Which axes change shows when the body is lowered. Lowering starts anew with what it learnt, so that an axis that stays as it is costs
//! nothing.

use std::collections::HashSet;

use heddle_ir::op::CompareOp;
use heddle_ir::{DType, Dim, Op, Region, TensorType, Value};

use super::{Lowerer, Result};
use crate::value::{Val, View, linear};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Buffer, Local, LocalData, LocalKind, Stmt, Store};

/// Axes of carried values whose sizes change: the function, the body's parameter, the axis.
pub(super) type Changing = HashSet<(String, Value, usize)>;

/// The place of a carried array whose size changes.
#[derive(Clone, Debug)]
pub(super) struct Grown {
    /// Which of the loop's carried values it is.
    pub place: usize,
    /// Its memory.
    pub buffer: Buffer,
    dtype: DType,
    /// The size of each axis in memory: where it changes, its limit.
    capacity: Vec<ExprId>,
    /// The axes that change.
    pub axes: Vec<Axis>,
}

/// An axis whose size changes.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Which one.
    pub axis: usize,
    /// Each unit's variable for the size.
    pub size: Local,
    /// What it never exceeds.
    pub limit: Local,
    /// What it starts with at most.
    pub first: ExprId,
    /// What the type says that it never exceeds.
    pub stated: Option<u64>,
}

impl Lowerer<'_> {
    /// Whether an axis of a carried value is known to change.
    pub(super) fn changes(&self, param: Value, axis: usize) -> bool {
        let key = (self.f.sig.name.clone(), param, axis);
        !self.changing.is_empty() && self.changing.contains(&key)
    }

    /// Notes the axes of carried values whose next size is not the present one, if types leave it to the run.
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

    /// Gives a carried value of which some axes change its place and first value; what the body sees.
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

    /// Whether elements lie at the same places whatever the size: only the outermost axis changes.
    fn is_dense(&self, grown: &Grown) -> bool {
        let outer = grown.capacity.iter();
        let ones = outer.take_while(|&&size| self.program.pool.as_int(size) == Some(1));
        let outermost = ones.count();
        grown.axes.iter().all(|a| a.axis == outermost)
    }

    /// Whether a value is what lies at the array's place.
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

    /// Writes a value to the array's place, behind this many elements of an axis.
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

    /// Notes which concatenations of a body append to what a carried array holds and give its next value.
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

    /// Appends values to a carried array: the next one with this shape, whose elements up to the present size are those of the present one.
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

    /// Puts the next value in its place, unless it lies there: the memory that it lies in, to be exchanged with the array's.
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

    /// The variables that hold a carried array's sizes, and what they are next.
    pub(super) fn next_sizes(grown: &Grown, next: &Val) -> Vec<(Local, ExprId)> {
        let axes = grown.axes.iter();
        axes.map(|a| (a.size, next.shape()[a.axis])).collect()
    }
}
