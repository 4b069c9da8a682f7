//! The evaluation: states in the walk's order, in batches of one kind.
//!
//! One loop takes batch after batch. Each reads the results of its calls by position, evaluates its
//! path through the function for all its rows, and appends its results to those of earlier batches.
//! A batch has a dynamic number of rows: all that are left of a group of states, but at most
//! [`LevelOptions::batch`], so that all arrays have bounds.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, FuncBuilder, Op, Region, Tensor, TensorType, Type, Value};

use super::LevelOptions;
use super::analyze::{Kind, Recursion};
use super::walk::Walk;
use crate::batch::{Batch, Batched, Refusal, Result};

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
                    let shape = shape.ok_or(Refusal::UnknownRank)?;
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
    let most = b.i64(options.batch as i64);
    let count = b.binary(BinaryOp::Min, rest, most)?;
    let chunk = Chunk {
        recursion,
        walk,
        stores: &stores,
        of: &of,
        params: &params,
        arrays: now,
        place,
        count,
        dim: Dim::Unknown(Some(options.batch as u64)),
    };
    let rows = chunk.by_kind(b, kind, 0)?;
    let next = b.binary(BinaryOp::Add, place, count)?;
    let more = b.compare(CompareOp::Lt, next, walk.count)?;
    let mut yields = vec![more, next];
    for ((&array, &rows), store) in now.iter().zip(&rows).zip(&stores) {
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

/// A batch to evaluate: `count` places from `place` on.
struct Chunk<'a, 'm> {
    recursion: &'a Recursion<'m>,
    walk: &'a Walk,
    stores: &'a [Store],
    of: &'a [Vec<usize>],
    params: &'a [Value],
    arrays: &'a [Value],
    place: Value,
    count: Value,
    /// The count as a size.
    dim: Dim,
}

impl Chunk<'_, '_> {
    /// A row for each place of each array, for states of the kinds from `k` on.
    fn by_kind(&self, b: &mut FuncBuilder, kind: Value, k: usize) -> Result<Vec<Value>> {
        if k + 1 == self.recursion.kinds.len() {
            return self.rows(b, k);
        }
        let own = b.i64(k as i64);
        let cond = b.compare(CompareOp::Eq, kind, own)?;
        b.begin_region(&[]);
        let rows = self.rows(b, k)?;
        let then = b.end_region(&rows);
        b.begin_region(&[]);
        let rows = self.by_kind(b, kind, k + 1)?;
        let otherwise = b.end_region(&rows);
        let values = b.if_(cond, then, otherwise)?;
        for (&value, store) in values.iter().zip(self.stores) {
            b.refine_type(value, self.with_rows(&store.row))?;
        }
        Ok(values)
    }

    /// Evaluates states of one kind.
    fn rows(&self, b: &mut FuncBuilder, k: usize) -> Result<Vec<Value>> {
        let kind = &self.recursion.kinds[k];
        let member = &self.recursion.members[kind.member];
        let types = |ty: &Type| member.ty(ty);
        let mut batch = Batch::new(member.func, self.count, self.dim.clone(), &types);
        let own = &member.func.regions[member.func.body].params;
        for (param, fixed) in own.iter().zip(&member.fixed) {
            let batched = match fixed {
                Some(i) => Batched::Same(self.params[*i]),
                None => {
                    let states = self.at(b, self.walk.order)?;
                    let first =
                        b.binary(BinaryOp::Add, self.walk.first[kind.member], self.walk.shift)?;
                    let nodes = b.binary(BinaryOp::Sub, states, first)?;
                    let dtype = member
                        .func
                        .ty(*param)
                        .as_tensor()
                        .map_or(DType::I64, |t| t.dtype);
                    Batched::Rows(b.cast(dtype, nodes)?)
                }
            };
            batch.values.insert(*param, batched);
        }
        let yields = self.way(b, &mut batch, member.func.body, kind)?;
        let mut rows = vec![];
        for (s, store) in self.stores.iter().enumerate() {
            let own = self.of[kind.member].iter().position(|k| *k == s);
            let value = match own {
                Some(i) => batch.spread(b, yields[i])?,
                None => zeros(b, store, self.count)?,
            };
            let ty = self.with_rows(&store.row);
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

    /// The batch's elements of one of the walk's arrays.
    fn at(&self, b: &mut FuncBuilder, array: Value) -> Result<Value> {
        let step = b.i64s(&[1]);
        let end = b.binary(BinaryOp::Add, self.place, self.count)?;
        let (start, end) = (b.vector_of(self.place)?, b.vector_of(end)?);
        let part = b.op1(Op::Slice { axes: vec![0] }, &[array, start, end, step])?;
        b.refine_type(part, self.with_rows(&Type::scalar(DType::I64)))?;
        Ok(part)
    }

    /// The type of a batch of elements.
    fn with_rows(&self, row: &Type) -> Type {
        match row {
            Type::Tensor(TensorType { dtype, shape }) => Type::Tensor(TensorType {
                dtype: *dtype,
                shape: shape
                    .as_ref()
                    .map(|s| [std::slice::from_ref(&self.dim), s.as_slice()].concat()),
            }),
            other => other.clone(),
        }
    }

    /// A kind's path through a region.
    fn way(
        &self,
        b: &mut FuncBuilder,
        batch: &mut Batch,
        region: Region,
        kind: &Kind,
    ) -> Result<Vec<Batched>> {
        let func = batch.source;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if let Some(j) = kind.calls.iter().position(|c| *c == inst) {
                b.set_loc(data.loc.clone());
                let callee = self.recursion.callee(kind.member, inst);
                let callee = callee.ok_or(Refusal::Call)?;
                let from = self.at(b, self.walk.calls[j])?;
                for (&result, &k) in data.results.iter().zip(&self.of[callee]) {
                    let rows = b.gather(self.arrays[k], from)?;
                    batch.values.insert(result, Batched::Rows(rows));
                }
            } else if let Some(&(_, arm)) = kind.decisions.iter().find(|(i, _)| *i == inst) {
                let inner = data.regions[!arm as usize];
                let yields = self.way(b, batch, inner, kind)?;
                for (&result, batched) in data.results.iter().zip(yields) {
                    batch.values.insert(result, batched);
                }
            } else {
                batch.inst(b, inst)?;
            }
        }
        func.regions[region]
            .yields
            .iter()
            .map(|v| batch.value(*v))
            .collect()
    }
}
