//! Appends to carried arrays: new elements are written behind the present ones, which stay in their
//! places.
//!
//! An iteration may append along several axes, and go back to the first elements of an axis before
//! it appends (`concat(x[:n], new)`). An axis without a limit that is not the outermost one has
//! room for more elements than it has: an append that exceeds the room doubles it and copies the
//! array.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Inst, Op, Region, Value, ValueDef};

use super::grow::Grown;
use super::in_place::writes_into;
use super::{Cause, Lowerer, Result};
use crate::value::Val;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::layout::stored_bytes;
use heddle_uprogram::program::{Buffer, Stmt};

/// Room that an axis gets at least when it has none for an append.
const LEAST_ROOM: i64 = 8;

/// Memory that a room begins with at most, in bytes.
const FIRST_ROOM: i64 = 4 << 20;

/// The concatenations that make a carried array's next value of the array in its place.
#[derive(Default)]
pub(super) struct Appends {
    /// Their results.
    pub results: Vec<Value>,
    /// Axes along which one may have more elements than the next value has.
    pub cut: Vec<usize>,
    /// Arrays that are written over.
    pub over: Vec<Overwritten>,
    /// Elements are written by index before or behind an append.
    pub is_written: bool,
    /// The number of iterations has a bound, though memory is not planned for it.
    pub is_expected: bool,
}

/// An array whose last elements are written over, which other instructions have to read before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overwritten {
    array: Value,
    /// The instruction that takes its first elements.
    cut: Inst,
    /// The result of the first append to these.
    append: Value,
}

impl Lowerer<'_> {
    /// The concatenations of a body that make a carried array's next value, maybe with writes to
    /// its elements between them; none if it is not made so.
    pub(super) fn appends_to(&self, body: Region, param: Value, next: Value) -> Appends {
        let (mut appends, mut at) = (Appends::default(), next);
        if self.is_read_late(param) {
            return appends;
        }
        let (mut sliced, mut over) = (vec![], None);
        while at != param {
            let inst = self.f.def_inst(at);
            let inst = inst.filter(|inst| self.f.regions[body].insts.contains(inst));
            let Some(inst) = inst else {
                return Appends::default();
            };
            let data = &self.f.insts[inst];
            match &data.op {
                Op::Concat { axis } if self.changes(param, *axis) => {
                    appends.results.push(at);
                    appends.cut.extend(sliced.contains(axis).then_some(*axis));
                }
                Op::Slice { axes }
                    if axes.iter().all(|&axis| self.changes(param, axis))
                        && self.is_prefix(inst) =>
                {
                    sliced.extend(axes.clone());
                    // Elements behind it are overwritten only if there is an append.
                    over = appends.results.last().copied();
                }
                op if writes_into(op) => appends.is_written = true,
                _ => return Appends::default(),
            }
            at = data.args[0];
            let (array, cut) = (at, inst);
            appends
                .over
                .extend(over.map(|append| Overwritten { array, cut, append }));
        }
        // Writes stay in the array if its elements never move, and none is cut.
        let rank = self.f.ty(param).as_tensor().and_then(|t| t.rank());
        let is_inner = (1..rank.unwrap_or(0)).any(|axis| self.changes(param, axis));
        match appends.is_written && (is_inner || !sliced.is_empty()) {
            true => Appends::default(),
            false => appends,
        }
    }

    /// Defines the room of axes with a limit that appends may exceed before they are cut.
    pub(super) fn set_rooms(&mut self, grown: &Grown) -> Result<()> {
        let of_it = self.appends.iter().filter(|(_, g)| g.param == grown.param);
        let mut appends: Vec<_> = of_it.map(|(value, _)| *value).collect();
        appends.sort();
        for a in &grown.axes {
            let (Some(room), Some(limit)) = (a.room, a.limit) else {
                continue;
            };
            let mut most = self.program.pool.local(limit.most);
            for append in &appends {
                let size = self.values[append].shape()[a.axis];
                let Some(size) = self.upper_bound(size) else {
                    return self.has_no_limit(grown.param, a.axis);
                };
                let pool = &mut self.program.pool;
                most = pool.binary(BinaryOp::Max, DType::I64, most, size);
            }
            self.program.derived.push((room, most));
        }
        Ok(())
    }

    /// Defines the rooms that axes without a limit begin with: for the appends of all expected
    /// iterations, as far as that is little memory. More appends double the room.
    pub(super) fn set_first_rooms(&mut self, grown: &Grown, iterations: Option<ExprId>) {
        for a in &grown.axes {
            let Some(expected) = a.expected else {
                continue;
            };
            let more = iterations.and_then(|n| self.first_room(grown, a.axis, n));
            let more = more.unwrap_or_else(|| self.program.pool.int(0));
            self.program.derived.push((expected, more));
        }
    }

    /// The number of elements along an axis that so many iterations append, or that little memory
    /// has room for; `None` if an iteration's elements, or another axis, have no bound.
    fn first_room(&mut self, grown: &Grown, axis: usize, iterations: ExprId) -> Option<ExprId> {
        let mut bytes = self.program.pool.int(stored_bytes(grown.dtype));
        for (other, &size) in grown.capacity.iter().enumerate() {
            if other != axis {
                let size = self.upper_bound(size)?;
                bytes = self.little_product(bytes, size);
            }
        }
        let of_it = self.appends.iter().filter(|(_, g)| g.param == grown.param);
        let mut appends: Vec<_> = of_it.map(|(value, _)| *value).collect();
        appends.sort();
        let mut growth = self.program.pool.int(0);
        for append in appends {
            let data = &self.f.insts[self.f.def_inst(append)?];
            if data.op != (Op::Concat { axis }) {
                continue;
            }
            for part in &data.args[1..] {
                let size = self.values[part].shape()[axis];
                let size = self.upper_bound(size)?;
                growth = self.program.pool.sum(growth, size);
            }
        }
        let more = self.little_product(iterations, growth);
        let pool = &mut self.program.pool;
        let (one, little) = (pool.int(1), pool.int(FIRST_ROOM));
        let bytes = pool.binary(BinaryOp::Max, DType::I64, bytes, one);
        let fits = pool.binary(BinaryOp::Div, DType::I64, little, bytes);
        Some(pool.binary(BinaryOp::Min, DType::I64, more, fits))
    }

    /// The product of numbers, each at most [`FIRST_ROOM`], so that it does not overflow.
    fn little_product(&mut self, a: ExprId, b: ExprId) -> ExprId {
        let pool = &mut self.program.pool;
        let (zero, little) = (pool.int(0), pool.int(FIRST_ROOM));
        let [a, b] = [a, b].map(|e| {
            let e = pool.binary(BinaryOp::Max, DType::I64, e, zero);
            pool.binary(BinaryOp::Min, DType::I64, e, little)
        });
        pool.product(a, b)
    }

    /// True for a slice from the first element on, without gaps.
    fn is_prefix(&self, slice: Inst) -> bool {
        let args = &self.f.insts[slice].args;
        let all = |arg: Value, n: i64| {
            let ints = self.f.constant(arg).and_then(|t| t.to_i64s());
            ints.is_some_and(|ints| ints.iter().all(|&i| i == n))
        };
        all(args[1], 0) && all(args[3], 1)
    }

    /// Checks that an append writes over no elements that are read later; records it otherwise, and lowering then starts again.
    pub(super) fn check_readers(&mut self, grown: &Grown, append: Value) -> Result<()> {
        let over = grown.over.iter().filter(|over| over.append == append);
        match over.copied().any(|over| self.is_read_after(grown, over)) {
            true => self.reads_late(grown.param),
            false => Ok(()),
        }
    }

    /// True if an instruction behind the append reads an array that it writes over, maybe by way of a value that is computed where
    /// it is read.
    fn is_read_after(&mut self, grown: &Grown, over: Overwritten) -> bool {
        let (ValueDef::Param(body, _), Some(append)) =
            (self.f.values[grown.param].def, self.f.def_inst(over.append))
        else {
            return true;
        };
        let body = &self.f.regions[body];
        let mut arrays = vec![over.array];
        let mut next = 0;
        while let Some(&array) = arrays.get(next) {
            next += 1;
            let mut is_behind = false;
            for &inst in &body.insts {
                let reads = inst != over.cut && self.reads(inst, array);
                if reads && is_behind {
                    return true;
                }
                is_behind |= inst == append;
                if !reads || is_behind {
                    continue;
                }
                for &result in &self.f.insts[inst].results {
                    let val = self.values.get(&result).cloned();
                    let is_new = !arrays.contains(&result);
                    if is_new && val.is_some_and(|val| self.loads(&val, grown.buffer)) {
                        arrays.push(result);
                    }
                }
            }
            if body.yields.contains(&array) {
                return true;
            }
        }
        false
    }

    /// True if an instruction, or one in its regions, reads elements of a value.
    fn reads(&self, inst: Inst, value: Value) -> bool {
        let data = &self.f.insts[inst];
        let below = |&region: &Region| {
            let region = &self.f.regions[region];
            let mut insts = region.insts.iter();
            region.yields.contains(&value) || insts.any(|&inner| self.reads(inner, value))
        };
        let is_operand = data.args.contains(&value) && !matches!(data.op, Op::Shape);
        is_operand || data.regions.iter().any(below)
    }

    /// True if a value is computed from the elements in a buffer where it is read.
    fn loads(&mut self, val: &Val, buffer: Buffer) -> bool {
        let (_, index) = self.space(val.shape(), 0);
        let element = val.read(&mut self.program.pool, &index);
        let is_load = |e| matches!(e, Expr::Load(from, _) if from == buffer);
        self.program.pool.any(element, &is_load)
    }

    /// Appends values along an axis to what is left of a carried array, which lies in its place.
    /// The result has this shape.
    pub(super) fn append(
        &mut self,
        grown: &Grown,
        axis: usize,
        args: &[Val],
        shape: Vec<ExprId>,
    ) -> Result<Val> {
        let [whole, parts @ ..] = args else {
            return self.fail(Cause::Form("a concatenation of nothing"));
        };
        // A write went to other memory if a later instruction reads the array as it was.
        if grown.is_written && !self.lies_in(whole, grown) {
            return self.reads_late(grown.param);
        }
        let along = grown.axes.iter().find(|a| a.axis == axis);
        let along = along.filter(|a| a.room.is_none());
        if let Some((limit, _)) = along.and_then(|a| a.limit.zip(a.stated)) {
            let limit = self.program.pool.local(limit.most);
            let pool = &mut self.program.pool;
            let fits = pool.compare(CompareOp::Le, DType::I64, shape[axis], limit);
            self.check(fits, shape[axis], limit);
        }
        // They are read before an element moves or is written over.
        let parts = parts.iter().map(|part| self.apart_from(part, grown));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        self.make_room(grown, axis, whole, shape[axis])?;
        let mut start = whole.shape()[axis];
        for part in parts {
            self.store_from(&part, grown, Some((axis, start)));
            start = self.program.pool.sum(start, part.shape()[axis]);
        }
        Ok(self.grown_value(grown, shape))
    }

    /// A value that is not computed from a carried array's memory where it is read.
    fn apart_from(&mut self, val: &Val, grown: &Grown) -> Result<Val> {
        if !self.loads(val, grown.buffer) {
            return Ok(val.clone());
        }
        match val {
            Val::Stored { dtype, shape, .. } if !grown.over.is_empty() => {
                let buffer = self.scratch(*dtype, shape)?;
                self.store_into(val, buffer);
                let (dtype, shape) = (*dtype, shape.clone());
                Ok(Val::Stored {
                    buffer,
                    dtype,
                    shape,
                })
            }
            val => self.stored(val),
        }
    }

    /// Moves a carried array so that an axis has room for this size. The room doubles, so that an
    /// element moves a constant number of times on average.
    fn make_room(&mut self, grown: &Grown, axis: usize, whole: &Val, size: ExprId) -> Result<()> {
        let along = grown.axes.iter().find(|a| a.axis == axis);
        let along = along.filter(|a| a.limit.is_none());
        let Some(room) = along.and_then(|a| a.room) else {
            return Ok(());
        };
        let size = self.let_expr(DType::I64, size);
        let pool = &mut self.program.pool;
        let (now, two) = (pool.local(room), pool.int(2));
        let cond = pool.compare(CompareOp::Lt, DType::I64, now, size);
        let double = pool.product(size, two);
        let least = pool.int(LEAST_ROOM);
        let double = pool.binary(BinaryOp::Max, DType::I64, double, least);
        let outside = std::mem::take(&mut self.block);
        let more = self.variable(DType::I64, "room");
        self.block.push(Stmt::Let(more, double));
        let more = self.program.pool.local(more);
        let other = self.scratch(grown.dtype, &grown.capacity)?;
        self.store_from(whole, &grown.with_room(other, axis, more), None);
        self.block.push(Stmt::Swap(grown.buffer, other));
        self.block.push(Stmt::Let(room, more));
        let then = std::mem::replace(&mut self.block, outside);
        self.block.push(Stmt::If {
            cond,
            then,
            otherwise: vec![],
        });
        Ok(())
    }
}
