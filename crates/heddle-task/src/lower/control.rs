//! Lowers branches and loops.
//!
//! Conditions, trip counts and carried values of a few elements are variables of each unit; all units compute them alike
//! and take the same path. A larger carried value is a buffer; the next value is written to another one, and the end of an
//! iteration exchanges the two. An update in place (scatter, update-slice) writes the carried buffer itself when nobody reads the old value.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, Entity, Inst, TensorType, Type};

use super::grow::Grown;
use super::{Lowerer, Result};
use crate::expr::ExprId;
use crate::program::{Body, Buffer, BufferKind, Local, Stmt, Store};
use crate::value::{Val, linear};

/// The place of a carried value in the body, or of a branch's result.
pub(super) enum Carried {
    /// Variables of each unit, for each element.
    Few(Vec<Local>),
    /// A buffer.
    Cell(Buffer),
}

/// The place of a loop's carried value.
enum Slot {
    /// One of its size.
    Fixed(Carried),
    /// One for whatever size it gets.
    Grown(Grown),
}

impl Lowerer<'_> {
    /// Lowers an `if`.
    pub(super) fn branch(&mut self, inst: Inst) -> Result<Vec<Val>> {
        let data = &self.f.insts[inst];
        let cond = self.values[&data.args[0]].clone();
        let cond = self.scalar(&cond)?;
        let cond = self.let_expr(DType::Bool, cond);
        let name = self.name.clone();
        let mut results = vec![];
        for &value in &data.results {
            results.push(match self.is_open(value) {
                true => self.open_result(value)?,
                false => self.arm_result(value)?,
            });
        }
        let (mut arms, mut shapes) = (vec![], vec![]);
        for &region in &data.regions {
            let outside = std::mem::take(&mut self.block);
            let slots = results.iter().zip(&data.results);
            for (&value, (result, &of)) in self.f.regions[region].yields.iter().zip(slots) {
                // Only what the arm itself makes can be made in place.
                let made = |inst| self.f.regions[region].insts.contains(&inst);
                if let Carried::Cell(buffer) = result.0
                    && !self.is_open(of)
                    && self.f.def_inst(value).is_some_and(made)
                {
                    self.places.insert(value, buffer);
                }
            }
            let yields = self.region(region)?;
            self.name.clone_from(&name);
            for (value, (slot, _)) in yields.iter().zip(&results) {
                match slot {
                    Carried::Cell(buffer) => self.deliver(value, *buffer),
                    Carried::Few(locals) => self.set(locals, value)?,
                }
            }
            arms.push(std::mem::replace(&mut self.block, outside));
            shapes.push(
                yields
                    .iter()
                    .map(|y| y.shape().to_vec())
                    .collect::<Vec<_>>(),
            );
        }
        for (k, &value) in data.results.iter().enumerate() {
            if self.is_open(value) {
                let sides = [shapes[0][k].clone(), shapes[1][k].clone()];
                results[k].1 = self.joined(value, &results[k].1, cond, sides, &mut arms)?;
            }
        }
        let otherwise = arms.pop().unwrap_or_default();
        let then = arms.pop().unwrap_or_default();
        self.block.push(Stmt::If {
            cond,
            then,
            otherwise,
        });
        Ok(results.into_iter().map(|r| r.1).collect())
    }

    /// The place of a branch's result, which both arms write, and what it is afterwards.
    fn arm_result(&mut self, value: heddle_ir::Value) -> Result<(Carried, Val)> {
        let ty = self.f.ty(value).clone();
        let Type::Tensor(t) = &ty else {
            return self.fail("gives a sequence or optional");
        };
        let (dtype, shape) = (t.dtype, self.shape_of(&ty)?);
        let Some(count) = self.few_of(&shape) else {
            let buffer = self.place(value, dtype, &shape)?;
            let val = Val::Stored {
                buffer,
                dtype,
                shape,
            };
            return Ok((Carried::Cell(buffer), val));
        };
        let name = self.name.clone();
        let locals: Vec<_> = (0..count).map(|_| self.variable(dtype, &name)).collect();
        let elems = locals.iter().map(|&l| self.program.pool.local(l)).collect();
        let val = Val::Scalars {
            dtype,
            shape,
            elems,
        };
        Ok((Carried::Few(locals), val))
    }

    /// Sets variables to a value's elements, all of which are computed before.
    pub(super) fn set(&mut self, locals: &[Local], val: &Val) -> Result<()> {
        let Val::Scalars { elems, .. } = self.let_elements(val, locals.len() as i64) else {
            return self.fail("scalars are needed");
        };
        for (&local, value) in locals.iter().zip(elems) {
            self.block.push(Stmt::Let(local, value));
        }
        Ok(())
    }

    /// Lowers a `loop`.
    pub(super) fn repeat(
        &mut self,
        inst: Inst,
        has_trip: bool,
        has_cond: bool,
    ) -> Result<Vec<Val>> {
        let data = &self.f.insts[inst];
        let body = &self.f.regions[data.regions[0]];
        let name = self.name.clone();
        let mut args = data
            .args
            .iter()
            .map(|v| self.values[v].clone())
            .collect::<Vec<_>>();
        let mut most = None;
        let trip = match has_trip {
            true => {
                // Looked at before every iteration, and kept over calls: a variable.
                let trip = self.scalar(&args.remove(0))?;
                most = Some(trip);
                Some(self.let_expr(DType::I64, trip))
            }
            false => None,
        };
        let cond = match has_cond {
            true => {
                let first = self.scalar(&args.remove(0))?;
                let local = self.variable(DType::Bool, "go");
                self.block.push(Stmt::Let(local, first));
                Some(local)
            }
            false => None,
        };
        let stacked = &data.results[args.len()..];
        let is_open = |v: &heddle_ir::Value| {
            let shape = self.f.ty(*v).as_tensor().and_then(|t| t.shape.as_ref());
            matches!(shape.and_then(|s| s.first()), Some(Dim::Unknown(_)))
        };
        let count = match !stacked.is_empty() && (has_cond || stacked.iter().any(is_open)) {
            true => Some(self.iterations(most)?),
            false => None,
        };
        let iteration = self.variable(DType::I64, "iteration");
        let stacks = stacked
            .iter()
            .map(|&v| self.stack(v, count))
            .collect::<Result<Vec<_>>>()?;

        let index = self.program.pool.local(iteration);
        let counter = Val::Scalars {
            dtype: DType::I64,
            shape: vec![],
            elems: vec![index],
        };
        self.values.insert(body.params[0], counter);
        let mut carried = vec![];
        let next = &body.yields[has_cond as usize..];
        let params = body.params[1..].iter().zip(&args).zip(next);
        for (place, ((&param, first), &next)) in params.enumerate() {
            let (slot, val) = self.enter(place, param, first)?;
            if let Slot::Grown(grown) = &slot {
                self.note_appends(data.regions[0], param, next, grown);
            }
            carried.push(slot);
            self.values.insert(param, val);
        }
        let cells = carried
            .iter()
            .zip(&body.params[1..])
            .filter_map(|(c, p)| match c {
                Slot::Fixed(Carried::Cell(b)) if self.uses.get(p) == Some(&1) => Some(*b),
                _ => None,
            });
        let outer_cells = std::mem::replace(&mut self.in_place, cells.collect());
        let outside = std::mem::take(&mut self.block);
        let first_inner = self.program.buffers.len();

        let mut yields = self.region(data.regions[0])?;
        self.name.clone_from(&name);
        if let Some(local) = cond {
            let next = self.scalar(&yields.remove(0))?;
            self.block.push(Stmt::Let(local, next));
        }
        for ((buffer, shape), val) in stacks.iter().zip(&yields[carried.len()..]) {
            self.push(val, *buffer, shape, index);
        }
        if let Some(count) = count {
            let one = self.program.pool.int(1);
            let done = self.program.pool.sum(index, one);
            self.block.push(Stmt::Let(count, done));
        }
        self.note_changes(&body.params[1..], &yields)?;
        let grown = carried
            .iter()
            .zip(&yields)
            .filter_map(|(slot, next)| match slot {
                Slot::Grown(grown) => Some((grown.clone(), next.clone())),
                Slot::Fixed(_) => None,
            });
        self.set_limits(&grown.collect::<Vec<_>>(), most)?;
        self.advance(&carried, &yields[..carried.len()], first_inner)?;

        let inner = std::mem::replace(&mut self.block, outside);
        self.in_place = outer_cells;
        self.block.push(Stmt::Loop {
            iteration,
            trip,
            cond,
            body: inner,
            name,
        });
        let mut results: Vec<_> = body.params[1..]
            .iter()
            .map(|p| self.values[p].clone())
            .collect();
        for ((buffer, shape), &value) in stacks.into_iter().zip(stacked) {
            let Type::Tensor(t) = self.f.ty(value) else {
                return self.fail("stacks sequences");
            };
            results.push(Val::Stored {
                buffer,
                dtype: t.dtype,
                shape,
            });
        }
        Ok(results)
    }

    /// Gives a carried value its place and first value; what the body sees.
    fn enter(&mut self, place: usize, param: heddle_ir::Value, first: &Val) -> Result<(Slot, Val)> {
        let ty = self.f.ty(param).clone();
        let Type::Tensor(t) = &ty else {
            return self.fail("carries a sequence or optional");
        };
        let rank = t.rank().unwrap_or(0);
        if (0..rank).any(|axis| self.changes(param, axis)) {
            let (grown, val) = self.enter_grown(place, param, t, first)?;
            return Ok((Slot::Grown(grown), val));
        }
        let (carried, val) = self.enter_fixed(t, first)?;
        Ok((Slot::Fixed(carried), val))
    }

    fn enter_fixed(&mut self, t: &TensorType, first: &Val) -> Result<(Carried, Val)> {
        let shape = self.carried_shape(t, first)?;
        if let Some(count) = self.few_of(&shape) {
            let Val::Scalars { elems, .. } = self.let_elements(first, count) else {
                return self.fail("scalars are needed");
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

    /// Moves to the next values: all are computed before any place changes. Buffers from `first_inner` on were made by the
    /// body: the next value that lies in one is there already.
    fn advance(&mut self, carried: &[Slot], next: &[Val], first_inner: usize) -> Result<()> {
        let (mut swaps, mut lets): (Vec<(Buffer, Buffer)>, Vec<_>) = (vec![], vec![]);
        for (slot, val) in carried.iter().zip(next) {
            match slot {
                Slot::Fixed(Carried::Few(locals)) => {
                    let Val::Scalars { elems, dtype, .. } =
                        self.let_elements(val, locals.len() as i64)
                    else {
                        return self.fail("scalars are needed");
                    };
                    for (&local, e) in locals.iter().zip(elems) {
                        // Another carried variable may be the next value of this one.
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
                    Val::Stored { buffer, .. } if buffer == cell => {}
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
        self.block
            .extend(swaps.into_iter().map(|(a, b)| Stmt::Swap(a, b)));
        for (local, copy) in lets {
            let copy = self.program.pool.local(copy);
            self.block.push(Stmt::Let(local, copy));
        }
        Ok(())
    }

    fn is_scratch(&self, buffer: Buffer) -> bool {
        matches!(self.program.buffers[buffer].kind, BufferKind::Scratch)
    }

    /// Whether each has room for what the other one holds.
    fn is_as_large(&self, a: Buffer, b: Buffer) -> bool {
        self.program.buffers[a].len == self.program.buffers[b].len
    }

    /// A variable that counts the iterations of a loop, which only the run knows; the trip count bounds it.
    fn iterations(&mut self, trip: Option<ExprId>) -> Result<Local> {
        let Some(trip) = trip else {
            return self.fail("stacks results of a loop that only a condition ends");
        };
        let zero = self.program.pool.int(0);
        let most = self
            .program
            .pool
            .binary(BinaryOp::Max, DType::I64, trip, zero);
        let Some(bound) = self.upper_bound(most) else {
            return self.fail("stacks results of a loop whose trip count is computed from data");
        };
        let count = self.variable(DType::I64, "iterations");
        self.block.push(Stmt::Let(count, zero));
        self.bounds.insert(count, bound);
        Ok(count)
    }

    fn stack(
        &mut self,
        value: heddle_ir::Value,
        count: Option<Local>,
    ) -> Result<(Buffer, Vec<ExprId>)> {
        let ty = self.f.ty(value).clone();
        let Type::Tensor(t) = &ty else {
            return self.fail("stacks sequences");
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
        Ok((self.scratch(t.dtype, &shape)?, shape))
    }

    /// Writes one element of a stacked result.
    fn push(&mut self, val: &Val, buffer: Buffer, shape: &[ExprId], iteration: ExprId) {
        let (axes, index) = self.space(val.shape(), 0);
        let pool = &mut self.program.pool;
        let value = val.read(pool, &index);
        let place = [&[iteration], index.as_slice()].concat();
        let offset = linear(pool, shape, &place);
        self.run(
            axes,
            Body::Map {
                store: Store { buffer, offset },
                value,
            },
        );
    }
}
