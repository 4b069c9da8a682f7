//! Loops whose iterations meet only in rows of arrays, such as the vertices of a graph with children
//! first: all instances' iterations go level by level.
//!
//! An *activation* is an iteration of an instance. Index data say which rows it reads, and so which
//! activations it needs ([`analyze`]); one that needs no others has height 0, another one more than
//! the highest that it needs ([`heights`]). The activations of one height are a set, whatever their
//! instance, and evaluate the body together. So the steps are as many as the greatest height, and
//! not as the longest loop iterates. Finding the heights pays where the body has products, which
//! then have many rows.

mod alone;
mod analyze;
mod heights;

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, FuncBuilder, Inst, LoopView, Op, Type, Value};

use super::lane::{Lane, Lanes, Ragged};
use super::ragged_ops::rank;
use super::set::{Set, plus};
use super::{BatchOptions, Context, Functions};
use crate::batch::{Refusal, Result};
pub(crate) use alone::LeveledLoop;
use analyze::RowReads;
use heights::Order;

/// Row loops of all instances.
struct Activations {
    /// `i64[total]`: the instance of each.
    instance: Value,
    /// `i64[total]`: its iteration.
    iteration: Value,
    /// `i64[]`: their number.
    total: Value,
    /// `i64[instances]`: the first of each instance.
    first: Value,
    /// `i64[instances]`: trip counts.
    trips: Value,
}

impl Set<'_> {
    /// The rows that a loop over rows reads, if it is one, and differs by instance.
    pub(super) fn row_loop(
        &self,
        inst: Inst,
        view: &LoopView,
        inits: &[Lane],
    ) -> Result<Option<RowReads>> {
        if self.now.is_some() || self.is_alike(view, inits)? {
            return Ok(None);
        }
        Ok(RowReads::of(self.source, inst))
    }

    /// Do levels pay more than to find them costs? Without products an iteration takes less time.
    pub(super) fn levels_pay(&self, view: &LoopView) -> bool {
        let mut found = self.context.options.prefers_levels;
        self.source.for_each_inst_in(view.body, &mut |_, data| {
            found |= data.op.is_contraction() || matches!(data.op, Op::Call(_));
        });
        found
    }

    /// Is all that the loop takes the same for all instances?
    fn is_alike(&self, view: &LoopView, inits: &[Lane]) -> Result<bool> {
        let trip = view.trip.map(|v| self.value(v)).transpose()?;
        let read = self.captured(&[view.body]).into_iter();
        // A value without a lane is evaluated where it is used, or differs in another axis.
        let mut read = read.map(|v| self.values.get(&v).is_some_and(|lane| lane.is_same()));
        let mut own = inits.iter().chain(&trip);
        Ok(own.all(|lane| lane.is_same()) && read.all(|same| same))
    }

    /// A loop over rows by levels of its activations.
    pub(super) fn levels_of(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        reads: &RowReads,
        inits: &[Lane],
    ) -> Result<Vec<Lane>> {
        let arrays: Result<Vec<Ragged>> = inits
            .iter()
            .map(|&init| {
                let own = self.as_ragged(b, init)?;
                self.packed(b, own)
            })
            .collect();
        let arrays = arrays?;
        let all = self.activations(b, view, &arrays)?;
        let needs = self.needs(b, view, reads, &arrays, &all)?;
        let order = heights::order(b, &all, &needs)?;
        let data = self.steps(b, view, &arrays, &all, &order)?;
        let results = data.into_iter().zip(&arrays).zip(inits);
        results
            .map(|((data, &array), &init)| {
                let lane = Ragged { data, ..array };
                match init {
                    Lane::Ragged(_) => Ok(Lane::Ragged(lane)),
                    Lane::Same(v) => self.as_rows(b, lane, v, 0),
                    Lane::Rows(v) => self.as_rows(b, lane, v, 1),
                }
            })
            .collect()
    }

    fn activations(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        arrays: &[Ragged],
    ) -> Result<Activations> {
        let trip = self.value(view.trip.ok_or(Refusal::LoopEnd)?)?;
        let (trip, zero, one) = (self.spread(b, trip)?, b.i64(0), b.i64(1));
        let mut trips = b.binary(BinaryOp::Max, trip, zero)?;
        // The iteration behind the last row fails: no later one needs a place.
        for array in arrays {
            let most = plus(b, array.lens, one)?;
            trips = b.binary(BinaryOp::Min, trips, most)?;
        }
        let total = self.elements(b, trips)?;
        let places = self.places_of(b, trips, total)?;
        Ok(Activations {
            instance: places.instance,
            iteration: places.within,
            total,
            first: places.starts,
            trips,
        })
    }

    /// One step for each height; gives the elements of the arrays.
    fn steps(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        arrays: &[Ragged],
        all: &Activations,
        order: &Order,
    ) -> Result<Vec<Value>> {
        let data: Vec<Value> = arrays.iter().map(|x| x.data).collect();
        let types = data.iter().map(|v| b.ty(*v).clone());
        let types: Vec<Type> = [Type::scalar(DType::I64)]
            .into_iter()
            .chain(types)
            .collect();
        let (_, params) = b.begin_region(&types);
        let (height, now) = (params[0], &params[1..]);
        let from = b.gather(order.first, height)?;
        let count = b.gather(order.counts, height)?;
        let to = plus(b, from, count)?;
        let (from, to, one) = (b.vector_of(from)?, b.vector_of(to)?, b.i64s(&[1]));
        let step = b.op1(Op::Slice { axes: vec![0] }, &[order.all, from, to, one])?;
        let instance = b.gather(all.instance, step)?;
        let mut own = Lanes::new();
        own.insert(view.iteration, Lane::Rows(b.gather(all.iteration, step)?));
        for ((&param, &data), array) in view.params.iter().zip(now).zip(arrays) {
            let (starts, lens) = (
                b.gather(array.starts, instance)?,
                b.gather(array.lens, instance)?,
            );
            own.insert(param, Self::at_home(param, data, (starts, lens), None));
        }
        let mut set = self.subset_with(b, &[view.body], instance, own)?;
        let yields = set.region(b, view.body)?;
        let written = yields.iter().zip(&view.params).map(|(lane, param)| {
            let is_own = |x: &Ragged| x.home.is_some_and(|home| home.param == *param);
            match lane {
                Lane::Ragged(x) if is_own(x) => Ok(x.data),
                _ => Err(Refusal::NoWrites),
            }
        });
        let written = written.collect::<Result<Vec<Value>>>()?;
        let body = b.end_region(&written);
        Ok(b.loop_(Some(order.heights), None, &data, body)?)
    }

    /// Ranges as rows: each has the size of an array's axis.
    fn as_rows(&self, b: &mut FuncBuilder, x: Ragged, like: Value, axis: usize) -> Result<Lane> {
        let rank = b.rank(x.data).ok_or(Refusal::UnknownRank)?;
        let sizes = b.sizes(like, axis..axis + rank)?;
        let count = b.vector_of(self.count)?;
        let shape = b.join(&[count, sizes])?;
        Ok(Lane::Rows(b.op1(Op::Reshape, &[x.data, shape])?))
    }

    /// The rows of written arrays that activations read.
    fn needs(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        reads: &RowReads,
        arrays: &[Ragged],
        all: &Activations,
    ) -> Result<heights::Needs> {
        let mut ahead = Set::new(self.source, self.context, all.total, Dim::UNKNOWN);
        ahead.may_be_empty = true;
        ahead.is_after = self.is_after;
        for &value in &reads.captured {
            let lane = self.value(value)?.of(b, all.instance)?;
            ahead.values.insert(value, lane);
        }
        let iteration = Lane::Rows(all.iteration);
        ahead.values.insert(view.iteration, iteration);
        for &inst in &reads.ahead {
            let lanes = ahead.together(b, inst)?;
            for (&value, lane) in self.source.insts[inst].results.iter().zip(lanes) {
                ahead.state(b, value, lane)?;
                ahead.values.insert(value, lane);
            }
        }
        let of = |b: &mut FuncBuilder, v| Ok::<_, Refusal>(Lane::Rows(b.gather(v, all.instance)?));
        let (first, trips) = (of(b, all.first)?, of(b, all.trips)?);
        let mut found = vec![];
        for read in &reads.rows {
            let lens = of(b, arrays[read.array].lens)?;
            let rows = ahead.value(read.index)?;
            let needed = ahead.producers(b, rows, [iteration, lens, trips, first], all.total)?;
            found.push(needed);
        }
        let mut parts = vec![];
        for lanes in [
            found.iter().map(|f| f[0]).collect::<Vec<Lane>>(),
            found.iter().map(|f| f[1]).collect(),
        ] {
            let lane = match lanes[..] {
                [one] => one,
                _ => ahead.op(b, &Op::Concat { axis: 0 }, &lanes)?[0],
            };
            let x = ahead.as_ragged(b, lane)?;
            parts.push(ahead.packed(b, x)?);
        }
        Ok(heights::Needs {
            before: parts[0],
            behind: parts[1],
        })
    }

    /// The activations that write the rows with these indices in front of those of this set, and
    /// those that write them later: the total stands for none, and one more for none later.
    fn producers(
        &self,
        b: &mut FuncBuilder,
        rows: Lane,
        [iteration, lens, trips, first]: [Lane; 4],
        total: Value,
    ) -> Result<[Lane; 2]> {
        let rows = match rank(b, rows)? {
            0 => {
                let rows = Lane::Rows(self.spread(b, rows)?);
                self.op(b, &Op::Unsqueeze { axes: vec![0] }, &[rows])?[0]
            }
            1 => rows,
            _ => return Err(Refusal::UnknownRank),
        };
        let rows = match rows {
            Lane::Same(_) => Lane::Rows(self.spread(b, rows)?),
            rows => rows,
        };
        let one = |b: &mut FuncBuilder, op: Op, args: &[Lane]| {
            let lanes = self.op(b, &op, args)?;
            lanes.first().copied().ok_or(Refusal::NotEvaluated)
        };
        let binary = Op::Binary;
        let zero = Lane::Same(b.i64(0));
        let rows = one(b, Op::cast(DType::I64), &[rows])?;
        let is_negative = one(b, Op::Compare(CompareOp::Lt), &[rows, zero])?;
        let from_end = one(b, binary(BinaryOp::Add), &[rows, lens])?;
        let rows = one(b, Op::Select, &[is_negative, from_end, rows])?;
        let is_row = one(b, Op::Compare(CompareOp::Ge), &[rows, zero])?;
        let is_within = one(b, Op::Compare(CompareOp::Lt), &[rows, trips])?;
        let is_written = one(b, binary(BinaryOp::And), &[is_row, is_within])?;
        let by = one(b, binary(BinaryOp::Add), &[first, rows])?;
        let before = one(b, Op::Compare(CompareOp::Lt), &[rows, iteration])?;
        let behind = one(b, Op::Compare(CompareOp::Lt), &[iteration, rows])?;
        let mut found = [by; 2];
        let one_more = b.i64(1);
        let beyond = plus(b, total, one_more)?;
        for (k, (side, none)) in [(before, total), (behind, beyond)].into_iter().enumerate() {
            let holds = one(b, binary(BinaryOp::And), &[is_written, side])?;
            found[k] = one(b, Op::Select, &[holds, by, Lane::Same(none)])?;
        }
        Ok(found)
    }
}
