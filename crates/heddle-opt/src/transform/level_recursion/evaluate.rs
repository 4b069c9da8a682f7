//! The evaluation: states in the walk's order, in batches of one kind.
//!
//! One loop takes batch after batch. Each reads the results of its calls by their places, evaluates its way through the
//! function for all its rows, and writes its results behind those of the batches before. Batches have a few fixed sizes, so that
//! no array has a size that only the run knows: a group of states is taken apart into the largest that fit.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, FuncBuilder, Op, Region, Tensor, Type, Value};

use super::LevelOptions;
use super::analyze::{Kind, Recursion};
use super::walk::Walk;
use crate::batch::{Batch, Lane, Refusal, Result};
use crate::shorthand::Shorthand;

/// Results of all states: arrays whose first axis is the place in the order.
pub struct Store {
    /// The type of an element.
    row: Type,
    /// The sizes of an element, `i64[k]`.
    sizes: Value,
}

/// Evaluates all states; gives the results of the root's call.
pub fn evaluate(
    b: &mut FuncBuilder,
    recursion: &Recursion,
    walk: &Walk,
    options: &LevelOptions,
    sizes: &mut dyn FnMut(&mut FuncBuilder, &[Dim]) -> Result<Value>,
) -> Result<Vec<Value>> {
    // Results of one type share an array: a place belongs to one member.
    let mut stores: Vec<Store> = vec![];
    let mut of: Vec<Vec<usize>> = vec![];
    for member in &recursion.members {
        let mut own: Vec<usize> = vec![];
        for (_, ty) in &member.func.sig.results {
            let ty = member.ty(ty);
            let free = (0..stores.len()).find(|k| stores[*k].row == ty && !own.contains(k));
            own.push(match free {
                Some(k) => k,
                None => {
                    let shape = ty.as_tensor().and_then(|t| t.shape.clone());
                    let shape = shape.ok_or_else(|| Refusal("a result of unknown rank".into()))?;
                    let sizes = sizes(b, &shape)?;
                    stores.push(Store { row: ty, sizes });
                    stores.len() - 1
                }
            });
        }
        of.push(own);
    }
    let params = b.params().to_vec();
    let mut arrays = vec![];
    for store in &stores {
        arrays.push(zeros(b, store, walk.len)?);
    }
    let zero = b.i64(0);
    let go = b.compare(CompareOp::Lt, zero, walk.count)?;
    let types: Vec<Type> = arrays.iter().map(|v| b.ty(*v).clone()).collect();
    let scalar = Type::scalar(DType::I64);
    let types = [vec![scalar.clone(), scalar], types].concat();
    let (_, inner) = b.begin_region(&types);
    let (place, now) = (inner[1], &inner[2..]);
    let kind = b.gather(walk.kind, place)?;
    let end = b.gather(walk.end, place)?;
    let rest = b.binary(BinaryOp::Sub, end, place)?;
    let chunk = Chunk {
        recursion,
        walk,
        options,
        stores: &stores,
        of: &of,
        params: &params,
        arrays: now,
        place,
        end,
        rest,
    };
    let rows = chunk.by_kind(b, kind, 0)?;
    let Some((&taken, rows)) = rows.split_first() else {
        return Err(Refusal("nothing to evaluate".into()));
    };
    let next = b.binary(BinaryOp::Add, place, taken)?;
    let more = b.compare(CompareOp::Lt, next, walk.count)?;
    let mut yields = vec![more, next];
    for ((&array, &rows), store) in now.iter().zip(rows).zip(&stores) {
        let rank = store.row.as_tensor().and_then(|t| t.rank()).unwrap_or(0);
        let at = b.vector_of(place)?;
        let origin = b.i64s(&vec![0; rank]);
        let starts = match rank {
            0 => at,
            _ => b.join(&[at, origin])?,
        };
        yields.push(b.op1(Op::UpdateSlice, &[array, rows, starts])?);
    }
    let body = b.end_region(&yields);
    let initial = [vec![zero], arrays].concat();
    let results = b.loop_(None, Some(go), &initial, body)?;
    let own = of[0]
        .iter()
        .map(|&k| Ok(b.gather(results[1 + k], walk.root)?));
    own.collect()
}

fn zeros(b: &mut FuncBuilder, store: &Store, count: Value) -> Result<Value> {
    let dtype = store.row.as_tensor().map_or(DType::F32, |t| t.dtype);
    let zero = b.constant(Tensor::splat(dtype, vec![], 0.0));
    let count = b.vector_of(count)?;
    let shape = b.join(&[count, store.sizes])?;
    Ok(b.op1(Op::Broadcast, &[zero, shape])?)
}

/// Places in the order.
#[derive(Clone, Copy)]
enum Places {
    /// So many from the batch's first on.
    Range(usize),
    /// These.
    All(Value),
}

/// What a batch is evaluated from.
struct Chunk<'a, 'm> {
    recursion: &'a Recursion<'m>,
    walk: &'a Walk,
    options: &'a LevelOptions,
    stores: &'a [Store],
    of: &'a [Vec<usize>],
    params: &'a [Value],
    arrays: &'a [Value],
    place: Value,
    end: Value,
    rest: Value,
}

impl Chunk<'_, '_> {
    /// How many states were evaluated, then a row for each place of each array.
    fn by_kind(&self, b: &mut FuncBuilder, kind: Value, k: usize) -> Result<Vec<Value>> {
        let sizes = match self.recursion.kinds[k].heavy {
            true => self.options.sizes.as_slice(),
            false => &self.options.sizes[..1],
        };
        if k + 1 == self.recursion.kinds.len() {
            return self.by_size(b, k, sizes);
        }
        let own = b.i64(k as i64);
        let cond = b.compare(CompareOp::Eq, kind, own)?;
        b.begin_region(&[]);
        let rows = self.by_size(b, k, sizes)?;
        let then = b.end_region(&rows);
        b.begin_region(&[]);
        let rows = self.by_kind(b, kind, k + 1)?;
        let otherwise = b.end_region(&rows);
        self.choice(b, cond, then, otherwise)
    }

    fn by_size(&self, b: &mut FuncBuilder, k: usize, sizes: &[usize]) -> Result<Vec<Value>> {
        let Some((&size, smaller)) = sizes.split_first() else {
            return Err(Refusal("no batch sizes".into()));
        };
        if smaller.is_empty() {
            return self.rows(b, k, size);
        }
        let wanted = b.i64(size as i64);
        let cond = b.compare(CompareOp::Ge, self.rest, wanted)?;
        b.begin_region(&[]);
        let rows = self.rows(b, k, size)?;
        let then = b.end_region(&rows);
        b.begin_region(&[]);
        let rows = self.by_size(b, k, smaller)?;
        let otherwise = b.end_region(&rows);
        self.choice(b, cond, then, otherwise)
    }

    fn choice(
        &self,
        b: &mut FuncBuilder,
        cond: Value,
        then: Region,
        otherwise: Region,
    ) -> Result<Vec<Value>> {
        let values = b.if_(cond, then, otherwise)?;
        for (&value, store) in values[1..].iter().zip(self.stores) {
            b.refine_type(value, with_rows(&store.row, self.options.sizes[0]))?;
        }
        Ok(values)
    }

    /// Evaluates up to `size` states of one kind.
    fn rows(&self, b: &mut FuncBuilder, k: usize, size: usize) -> Result<Vec<Value>> {
        let kind = &self.recursion.kinds[k];
        let member = &self.recursion.members[kind.member];
        let types = |ty: &Type| member.ty(ty);
        let count = b.i64(size as i64);
        let mut taken = count;
        let places = match kind.heavy {
            true => Places::Range(size),
            false => {
                // Too many rows cost little: the last one is repeated.
                let offsets: Vec<i64> = (0..size as i64).collect();
                let (offsets, one) = (b.i64s(&offsets), b.i64(1));
                let all = b.binary(BinaryOp::Add, self.place, offsets)?;
                let last = b.binary(BinaryOp::Sub, self.end, one)?;
                taken = b.binary(BinaryOp::Min, self.rest, count)?;
                Places::All(b.binary(BinaryOp::Min, all, last)?)
            }
        };
        let mut batch = Batch::new(member.func, count, Dim::from(size), &types);
        let own = &member.func.regions[member.func.body].params;
        for (param, fixed) in own.iter().zip(&member.fixed) {
            let lane = match fixed {
                Some(i) => Lane::Same(self.params[*i]),
                None => {
                    let states = self.at(b, self.walk.order, places)?;
                    let first =
                        b.binary(BinaryOp::Add, self.walk.first[kind.member], self.walk.shift)?;
                    let nodes = b.binary(BinaryOp::Sub, states, first)?;
                    let dtype = member
                        .func
                        .ty(*param)
                        .as_tensor()
                        .map_or(DType::I64, |t| t.dtype);
                    Lane::Rows(b.cast(dtype, nodes)?)
                }
            };
            batch.lanes.insert(*param, lane);
        }
        let yields = self.way(b, &mut batch, member.func.body, kind, places)?;
        let most = self.options.sizes[0];
        let mut rows = vec![taken];
        for (s, store) in self.stores.iter().enumerate() {
            let own = self.of[kind.member].iter().position(|k| *k == s);
            let value = match own {
                Some(i) => batch.spread(b, yields[i])?,
                None => {
                    let most = b.i64(most as i64);
                    zeros(b, store, most)?
                }
            };
            let value = match own {
                // What follows is written again by later batches.
                Some(_) if size < most => {
                    let most = b.i64(most as i64);
                    let blank = zeros(b, store, most)?;
                    let rank = b.rank(blank).unwrap_or(1);
                    let starts = b.i64s(&vec![0; rank]);
                    b.op1(Op::UpdateSlice, &[blank, value, starts])?
                }
                _ => value,
            };
            let ty = with_rows(&store.row, most);
            if b.ty(value).compatible(&ty)
                && b.ty(value) != &ty
                && b.func().def_inst(value).is_some()
            {
                b.refine_type(value, ty)?;
            }
            rows.push(value);
        }
        Ok(rows)
    }

    /// Elements of one of the walk's arrays.
    fn at(&self, b: &mut FuncBuilder, array: Value, places: Places) -> Result<Value> {
        let size = match places {
            Places::All(places) => return Ok(b.gather(array, places)?),
            Places::Range(size) => size,
        };
        let (count, step) = (b.i64(size as i64), b.i64s(&[1]));
        let end = b.binary(BinaryOp::Add, self.place, count)?;
        let (start, end) = (b.vector_of(self.place)?, b.vector_of(end)?);
        let part = b.op1(Op::Slice { axes: vec![0] }, &[array, start, end, step])?;
        // The arrays go on for the largest batch behind the last state.
        b.refine_type(part, Type::fixed(DType::I64, &[size]))?;
        Ok(part)
    }

    /// A kind's way through a region.
    fn way(
        &self,
        b: &mut FuncBuilder,
        batch: &mut Batch,
        region: Region,
        kind: &Kind,
        places: Places,
    ) -> Result<Vec<Lane>> {
        let func = batch.source;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if let Some(j) = kind.calls.iter().position(|c| *c == inst) {
                b.set_loc(data.loc.clone());
                let callee = self.recursion.callee(kind.member, inst);
                let callee = callee.ok_or_else(|| Refusal("a call".into()))?;
                let from = self.at(b, self.walk.calls[j], places)?;
                for (&result, &k) in data.results.iter().zip(&self.of[callee]) {
                    let rows = b.gather(self.arrays[k], from)?;
                    batch.lanes.insert(result, Lane::Rows(rows));
                }
            } else if let Some(&(_, arm)) = kind.decisions.iter().find(|(i, _)| *i == inst) {
                let inner = data.regions[!arm as usize];
                let yields = self.way(b, batch, inner, kind, places)?;
                for (&result, lane) in data.results.iter().zip(yields) {
                    batch.lanes.insert(result, lane);
                }
            } else {
                batch.inst(b, inst)?;
            }
        }
        func.regions[region]
            .yields
            .iter()
            .map(|v| batch.lane(*v))
            .collect()
    }
}

/// The type of so many elements.
fn with_rows(row: &Type, rows: usize) -> Type {
    match row {
        Type::Tensor(t) => {
            let mut t = t.clone();
            if let Some(shape) = &mut t.shape {
                shape.insert(0, Dim::from(rows));
            }
            Type::Tensor(t)
        }
        other => other.clone(),
    }
}
