//! Lowers loops.
//!
//! Conditions, trip counts and small carried values are per-unit variables, which all units compute
//! alike. A larger carried value has two buffers: the next value is written to the other one, and
//! the back edge swaps them. Carried values that take each other's places are swapped, too. An
//! in-place update (scatter, update-slice) writes the carried buffer itself if the old value is
//! dead. A carried value whose size changes has memory for its limit (`grow`).

use std::collections::BTreeMap;

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, Entity, Inst, LoopForm, Region, TensorType, Type, Value};

use super::append::Appends;
use super::branch::Carried;
use super::grow::Grown;
use super::in_place::InPlace;
use super::{Cause, Lowerer, MAX_TRIPS, Result};
use crate::value::{Val, linear};
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Body, Buffer, BufferKind, Local, Stmt, Store};

/// The place of a loop's carried value.
enum Slot {
    /// Constant size.
    Fixed(Carried),
    /// Changing size.
    Grown(Grown),
}

/// The variables of a loop.
struct Head {
    /// Bound on the trip count: a variable, and the bound that memory is planned for.
    trip: Option<ExprId>,
    most: Option<ExprId>,
    /// A bound that memory is not planned for.
    expected: Option<ExprId>,
    /// The condition for another iteration.
    cond: Option<Local>,
    /// The iteration number.
    iteration: Local,
    /// The number of iterations done.
    count: Option<Local>,
}

impl Lowerer<'_> {
    /// Lowers a `loop`.
    pub(super) fn repeat(&mut self, inst: Inst, form: LoopForm) -> Result<Vec<Val>> {
        let data = &self.f.insts[inst];
        let (region, name) = (data.regions[0], self.name.clone());
        let body = &self.f.regions[region];
        let args = data.args.iter().map(|v| self.values[v].clone());
        let args: Vec<_> = args.collect();
        let operands = form.operands(&args);
        let first = operands.inits;
        let stacked = &data.results[first.len()..];
        let head = self.head(inst, operands.trip, operands.cond, stacked)?;
        self.expect_trips(inst, head.iteration);
        let stacks = stacked.iter().map(|&v| self.stack(v, head.count));
        let stacks = stacks.collect::<Result<Vec<_>>>()?;
        // Values computed from the iteration number are bounded, too.
        let bound = head.most.and_then(|most| {
            let zero = self.program.pool.int(0);
            let pool = &mut self.program.pool;
            let most = pool.binary(BinaryOp::Max, DType::I64, most, zero);
            self.upper_bound(most)
        });
        self.bounds.insert(head.iteration, bound);
        let index = self.program.pool.local(head.iteration);
        let counter = Val::Scalars {
            dtype: DType::I64,
            shape: vec![],
            elems: vec![index],
        };
        self.values.insert(body.params[0], counter);
        let next = &body.yields[form.cond as usize..];
        let carried = self.enter_all(region, first, next, head.expected.is_some())?;

        let cells = carried.iter().filter_map(|slot| match slot {
            Slot::Fixed(Carried::Cell(buffer)) => Some(*buffer),
            Slot::Grown(grown) if self.is_dense(grown) => Some(grown.buffer),
            _ => None,
        });
        let cells = InPlace::of(self.f, region, cells.collect());
        let outer_cells = std::mem::replace(&mut self.in_place, cells);
        let outside = std::mem::take(&mut self.block);
        let first_inner = self.program.buffers.len();
        let mut yields = self.region(region)?;
        self.name.clone_from(&name);
        if let Some(local) = head.cond {
            let next = self.scalar(&yields.remove(0))?;
            self.block.push(Stmt::Let(local, next));
        }
        for (stack, val) in stacks.iter().zip(&yields[carried.len()..]) {
            let Val::Stored { buffer, shape, .. } = stack else {
                continue;
            };
            self.push(val, *buffer, shape, index);
        }
        if let Some(count) = head.count {
            let one = self.program.pool.int(1);
            let done = self.program.pool.sum(index, one);
            self.block.push(Stmt::Let(count, done));
        }
        self.note_changes(&body.params[1..], &yields)?;
        let grown = grown(&carried, &yields);
        self.set_limits(&grown, head.most)?;
        for (grown, _) in &grown {
            self.set_rooms(grown)?;
            self.set_first_rooms(grown, head.expected);
        }
        self.advance(&carried, &yields[..carried.len()], first_inner)?;

        let inner = std::mem::replace(&mut self.block, outside);
        self.in_place = outer_cells;
        self.block.push(Stmt::Loop {
            iteration: head.iteration,
            trip: head.trip,
            cond: head.cond,
            body: inner,
            name,
        });
        let carried = body.params[1..].iter().map(|p| self.values[p].clone());
        Ok(carried.chain(stacks).collect())
    }

    /// The variables of a loop, set before its first iteration.
    fn head(
        &mut self,
        inst: Inst,
        trip_count: Option<&Val>,
        first_cond: Option<&Val>,
        stacked: &[Value],
    ) -> Result<Head> {
        let (mut trip, mut most, mut expected, mut cond) = (None, None, None, None);
        if let Some(count) = trip_count {
            // Read before every iteration and kept over calls, hence a variable.
            let count = self.scalar(count)?;
            most = Some(count);
            trip = Some(self.let_expr(DType::I64, count));
        }
        if let Some(first) = first_cond {
            let first = self.scalar(first)?;
            let local = self.variable(DType::Bool, "go");
            self.block.push(Stmt::Let(local, first));
            cond = Some(local);
            let bound = most.and_then(|most| self.upper_bound(most));
            most = most.and_then(|most| self.planned_trips(inst, most));
            let is_none = |e| self.program.pool.as_int(e).is_some_and(|n| n > MAX_TRIPS);
            expected = bound.filter(|&bound| most.is_none() && !is_none(bound));
        }
        // Counts the iterations if scan outputs have a dynamic length.
        let is_open = |v: &Value| {
            let shape = self.f.ty(*v).as_tensor().and_then(|t| t.shape.as_ref());
            matches!(shape.and_then(|s| s.first()), Some(Dim::Unknown(_)))
        };
        let count =
            match !stacked.is_empty() && (first_cond.is_some() || stacked.iter().any(is_open)) {
                true => Some(self.iterations(most)),
                false => None,
            };
        Ok(Head {
            trip,
            most,
            expected,
            cond,
            iteration: self.variable(DType::I64, "iteration"),
            count,
        })
    }

    /// Places all carried values and stores their initial values.
    fn enter_all(
        &mut self,
        body: Region,
        first: &[Val],
        next: &[Value],
        is_expected: bool,
    ) -> Result<Vec<Slot>> {
        let params = &self.f.regions[body].params[1..];
        let mut carried = vec![];
        for ((&param, first), &next) in params.iter().zip(first).zip(next) {
            let appends = Appends {
                is_expected,
                ..self.appends_to(body, param, next)
            };
            let (slot, val) = self.enter(param, first, &appends)?;
            if let Slot::Grown(grown) = &slot {
                let appends = appends.results.into_iter().map(|v| (v, grown.clone()));
                self.appends.extend(appends);
            }
            carried.push(slot);
            self.expect_sizes(param, &val);
            self.values.insert(param, val);
        }
        Ok(carried)
    }

    /// Places a carried value and stores its initial value; returns its value in the body.
    fn enter(&mut self, param: Value, first: &Val, appends: &Appends) -> Result<(Slot, Val)> {
        let ty = self.f.ty(param).clone();
        let Type::Tensor(t) = &ty else {
            return self.fail(Cause::Container("carries"));
        };
        let rank = t.rank().unwrap_or(0);
        if (0..rank).any(|axis| self.changes(param, axis)) {
            let (grown, val) = self.enter_grown(param, t, first, appends)?;
            return Ok((Slot::Grown(grown), val));
        }
        let (carried, val) = self.enter_fixed(t, first)?;
        Ok((Slot::Fixed(carried), val))
    }

    fn enter_fixed(&mut self, t: &TensorType, first: &Val) -> Result<(Carried, Val)> {
        let shape = self.carried_shape(t, first)?;
        if let Some(count) = self.few_of(&shape) {
            let Val::Scalars { elems, .. } = self.let_elements(first, count) else {
                return self.fail(Cause::Form("scalars are needed"));
            };
            let locals: Vec<_> = elems
                .iter()
                .map(|&e| {
                    let local = self.variable(t.dtype, "carried");
                    self.block.push(Stmt::Let(local, e));
                    local
                })
                .collect();
            let elems = locals.iter().map(|&l| self.program.pool.local(l)).collect();
            return Ok((
                Carried::Few(locals),
                Val::Scalars {
                    dtype: t.dtype,
                    shape,
                    elems,
                },
            ));
        }
        let buffer = self.scratch(t.dtype, &shape)?;
        self.store_into(first, buffer);
        Ok((
            Carried::Cell(buffer),
            Val::Stored {
                buffer,
                dtype: t.dtype,
                shape,
            },
        ))
    }

    /// Advances to the next values: all are computed before any place changes. Buffers from
    /// `first_inner` on belong to the body: a next value in one of them is swapped in.
    fn advance(&mut self, carried: &[Slot], next: &[Val], first_inner: usize) -> Result<()> {
        let (mut swaps, mut lets): (Vec<(Buffer, Buffer)>, Vec<_>) = (vec![], vec![]);
        let taken = self.taken(carried, next);
        for (slot, val) in carried.iter().zip(next) {
            match slot {
                Slot::Fixed(Carried::Few(locals)) => {
                    let Val::Scalars { elems, dtype, .. } =
                        self.let_elements(val, locals.len() as i64)
                    else {
                        return self.fail(Cause::Form("scalars are needed"));
                    };
                    for (&local, e) in locals.iter().zip(elems) {
                        // Another carried variable may be this one's next value.
                        let copy = self.variable(dtype, "next");
                        self.block.push(Stmt::Let(copy, e));
                        lets.push((local, copy));
                    }
                }
                Slot::Grown(grown) => {
                    if let Some(other) = self.advance_grown(grown, val)? {
                        swaps.push((grown.buffer, other));
                    }
                    for (local, size) in Self::next_sizes(grown, val) {
                        let copy = self.variable(DType::I64, "next");
                        self.block.push(Stmt::Let(copy, size));
                        lets.push((local, copy));
                    }
                }
                Slot::Fixed(Carried::Cell(cell)) => match val {
                    Val::Stored { buffer, .. }
                        if buffer == cell || taken.get(cell) == Some(buffer) => {}
                    Val::Stored { buffer, .. }
                        if buffer.index() >= first_inner
                            && self.is_scratch(*buffer)
                            && self.is_as_large(*buffer, *cell)
                            && swaps.iter().all(|s| s.1 != *buffer) =>
                    {
                        swaps.push((*cell, *buffer));
                    }
                    val => {
                        let shape = val.shape().to_vec();
                        let other = self.scratch(val.dtype(), &shape)?;
                        self.store_into(val, other);
                        swaps.push((*cell, other));
                    }
                },
            }
        }
        let swaps = exchanges(taken).into_iter().chain(swaps);
        self.block.extend(swaps.map(|(a, b)| Stmt::Swap(a, b)));
        for (local, copy) in lets {
            let copy = self.program.pool.local(copy);
            self.block.push(Stmt::Let(local, copy));
        }
        Ok(())
    }

    /// Names of carried values whose next value lies in the memory of another one, with that one. Each is taken once.
    fn taken(&self, carried: &[Slot], next: &[Val]) -> BTreeMap<Buffer, Buffer> {
        let cell = |slot: &Slot| match slot {
            Slot::Fixed(Carried::Cell(buffer)) => Some(*buffer),
            _ => None,
        };
        let cells: Vec<Buffer> = carried.iter().filter_map(cell).collect();
        let memory = carried
            .iter()
            .zip(next)
            .filter_map(|(slot, val)| match val {
                Val::Stored { buffer, .. } => Some((cell(slot)?, *buffer)),
                _ => None,
            });
        let (stay, moved): (Vec<_>, Vec<_>) = memory.partition(|(own, next)| own == next);
        let mut taken = BTreeMap::new();
        for (own, next) in moved {
            let is_free = stay.iter().all(|s| s.1 != next) && taken.values().all(|t| *t != next);
            if cells.contains(&next) && self.is_as_large(own, next) && is_free {
                taken.insert(own, next);
            }
        }
        taken
    }

    fn is_scratch(&self, buffer: Buffer) -> bool {
        let kind = &self.program.buffers[buffer].kind;
        matches!(kind, BufferKind::Scratch | BufferKind::Segment)
    }

    /// True if each has room for the other's contents.
    fn is_as_large(&self, a: Buffer, b: Buffer) -> bool {
        match [a, b].map(|buffer| self.is_segment(buffer)) {
            [true, true] => true,
            [false, false] => self.program.buffers[a].len == self.program.buffers[b].len,
            _ => false,
        }
    }

    /// A variable that counts the iterations of a loop with a dynamic trip count, bounded by `trip`
    /// unless that means "no limit".
    fn iterations(&mut self, trip: Option<ExprId>) -> Local {
        let zero = self.program.pool.int(0);
        let is_limit = |trip: &ExprId| {
            self.program
                .pool
                .as_int(*trip)
                .is_none_or(|n| n <= MAX_TRIPS)
        };
        let bound = trip.filter(is_limit).and_then(|trip| {
            let pool = &mut self.program.pool;
            let most = pool.binary(BinaryOp::Max, DType::I64, trip, zero);
            self.upper_bound(most)
        });
        let count = self.variable(DType::I64, "iterations");
        self.block.push(Stmt::Let(count, zero));
        self.bounds.insert(count, bound);
        count
    }

    fn stack(&mut self, value: Value, count: Option<Local>) -> Result<Val> {
        let ty = self.f.ty(value).clone();
        let Type::Tensor(t) = &ty else {
            return self.fail(Cause::Container("stacks"));
        };
        let shape = match (count, &t.shape) {
            (Some(count), Some(dims)) => {
                let first = self.program.pool.local(count);
                let rest = dims.iter().skip(1).map(|d| self.size(d));
                let rest = rest.collect::<Result<Vec<_>>>()?;
                [&[first], rest.as_slice()].concat()
            }
            _ => self.shape_of(&ty)?,
        };
        Ok(Val::Stored {
            buffer: self.scratch(t.dtype, &shape)?,
            dtype: t.dtype,
            shape,
        })
    }

    /// Writes one element of a scan output.
    fn push(&mut self, val: &Val, buffer: Buffer, shape: &[ExprId], iteration: ExprId) {
        let (axes, index) = self.space(val.shape(), 0);
        let pool = &mut self.program.pool;
        let value = val.read(pool, &index);
        let place = [&[iteration], index.as_slice()].concat();
        let offset = linear(pool, shape, &place);
        let one = pool.int(1);
        let filled = [&[pool.sum(iteration, one)], &shape[1..]].concat();
        let grow = self.grown_to(buffer, &filled);
        let store = Store { buffer, offset };
        self.run_growing(axes, Body::Map { store, value }, grow);
    }
}

/// Swaps by which each name gets the memory that it takes. A name is swapped with the one that it takes from before that one
/// gets other memory.
fn exchanges(mut taken: BTreeMap<Buffer, Buffer>) -> Vec<(Buffer, Buffer)> {
    let mut swaps = vec![];
    loop {
        // Chains have a first name, whose memory no other name takes. The rest are circles.
        let is_first = |name: &&Buffer| taken.values().all(|other| other != *name);
        let first = taken.keys().find(is_first).or(taken.keys().next()).copied();
        let Some(first) = first else {
            return swaps;
        };
        let mut name = first;
        while let Some(other) = taken.remove(&name) {
            if other != first {
                swaps.push((name, other));
            }
            name = other;
        }
    }
}

/// The carried values of changing size, with their next values.
fn grown(carried: &[Slot], next: &[Val]) -> Vec<(Grown, Val)> {
    let grown = carried
        .iter()
        .zip(next)
        .filter_map(|(slot, next)| match slot {
            Slot::Grown(grown) => Some((grown.clone(), next.clone())),
            Slot::Fixed(_) => None,
        });
    grown.collect()
}
