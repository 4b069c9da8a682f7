//! Values of some states of a kind, for all of them at once.

use std::collections::HashMap;

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, FuncBuilder, Op, Tensor, TensorType, Type, Value};

use super::analyze::{Recursion, Step};
use super::stages::Stages;
use super::walk::Walk;
use crate::batch::{Batch, Batched, Refusal, Result};

/// States of a kind.
pub struct Rows {
    pub which: Which,
    /// Their number, `i64[]`.
    pub count: Value,
    /// The same as a size.
    pub dim: Dim,
}

/// The places of states in the order.
#[derive(Clone, Copy)]
pub enum Which {
    /// From one on. `number`: the first one's number among the states of its kind.
    From { place: Value, number: Option<Value> },
    /// These. `numbers`: those among the states of the kind, if they are not all of them in order.
    At {
        places: Value,
        numbers: Option<Value>,
    },
}

/// A value that is there already.
#[derive(Clone)]
pub enum Known {
    /// The same for all states.
    Same(Value),
    /// A row for each state of the kind.
    OfKind(Value),
    /// A row for each state of the kind from this number on, as far as they are evaluated.
    Ahead(Value, Value),
    /// A result: the array and the ops on its rows.
    Result(usize, Vec<Op>),
}

/// Facts for evaluating states.
pub struct States<'a, 'm> {
    pub recursion: &'a Recursion<'m>,
    pub walk: &'a Walk,
    pub stages: &'a Stages,
    /// Parameters of the first member.
    pub params: &'a [Value],
    /// By member and result: the array that holds it, if there is one.
    pub of: &'a [Vec<Option<usize>>],
    /// The arrays with a row for each place, as far as they are there.
    pub arrays: &'a [Option<Value>],
    /// By kind: values that are there.
    pub known: &'a [HashMap<Value, Known>],
}

impl Rows {
    /// The rows of an array that has one for each place.
    pub fn read(&self, b: &mut FuncBuilder, array: Value) -> Result<Value> {
        match self.which {
            Which::From { place, .. } => self.part(b, array, place),
            Which::At { places, .. } => Ok(b.gather(array, places)?),
        }
    }

    /// The rows of an array that has one for each state of the kind.
    fn of_kind(&self, b: &mut FuncBuilder, array: Value) -> Result<Value> {
        match self.which {
            Which::From { place, number } => self.part(b, array, number.unwrap_or(place)),
            Which::At {
                numbers: Some(numbers),
                ..
            } => Ok(b.gather(array, numbers)?),
            Which::At { numbers: None, .. } => Ok(array),
        }
    }

    /// The rows of an array from a place on, as many as these.
    pub fn part(&self, b: &mut FuncBuilder, array: Value, from: Value) -> Result<Value> {
        let step = b.i64s(&[1]);
        let end = b.binary(BinaryOp::Add, from, self.count)?;
        let (start, end) = (b.vector_of(from)?, b.vector_of(end)?);
        let part = b.op1(Op::Slice { axes: vec![0] }, &[array, start, end, step])?;
        let shape = b.ty(array).as_tensor().and_then(|t| t.shape.as_deref());
        let ty = b.ty(array).as_tensor().ok_or(Refusal::NoTensor)?;
        let ty = TensorType {
            dtype: ty.dtype,
            shape: shape.map(|s| [std::slice::from_ref(&self.dim), &s[1..]].concat()),
        };
        b.refine_type(part, Type::Tensor(ty))?;
        Ok(part)
    }

    /// The type of rows of this type.
    pub fn ty(&self, row: &Type) -> Type {
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

    /// An array for each row.
    pub fn spread(
        &self,
        b: &mut FuncBuilder,
        recursion: &Recursion,
        value: Batched,
    ) -> Result<Value> {
        let func = recursion.members[0].func;
        Batch::new(func, self.count, self.dim.clone(), &Type::clone).spread(b, value)
    }
}

/// Writes what gives arrays, and tells whether that cannot fail without rows.
type Evaluate<'e> = &'e dyn Fn(&mut FuncBuilder) -> Result<(Vec<Value>, bool)>;

/// Arrays with rows of these types. They are evaluated only if there are some rows, unless that
/// cannot fail without: `evaluate` gives the arrays, and tells so; `sizes` gives each type's.
pub fn if_any(
    b: &mut FuncBuilder,
    rows: &Rows,
    types: &[Type],
    evaluate: Evaluate,
    sizes: &mut dyn FnMut(&mut FuncBuilder) -> Result<Vec<Value>>,
) -> Result<Vec<Value>> {
    let mark = b.checkpoint();
    let (values, is_safe) = evaluate(b)?;
    if is_safe {
        return Ok(values);
    }
    b.rollback(&mark);
    // Others may use them, too.
    let sizes = sizes(b)?;
    let zero = b.i64(0);
    let some = b.compare(CompareOp::Lt, zero, rows.count)?;
    b.begin_region(&[]);
    let (values, _) = evaluate(b)?;
    let then = b.end_region(&values);
    b.begin_region(&[]);
    let none = types.iter().zip(sizes);
    let none = none.map(|(ty, sizes)| zeros(b, ty, sizes, zero));
    let none = none.collect::<Result<Vec<_>>>()?;
    let otherwise = b.end_region(&none);
    let values = b.if_(some, then, otherwise)?;
    for (&value, ty) in values.iter().zip(types) {
        b.refine_type(value, rows.ty(ty))?;
    }
    Ok(values)
}

/// So many rows of zeros, of a type with these sizes.
pub fn zeros(b: &mut FuncBuilder, row: &Type, sizes: Value, count: Value) -> Result<Value> {
    let dtype = row.as_tensor().map_or(DType::F32, |t| t.dtype);
    let zero = b.constant(Tensor::splat(dtype, vec![], 0.0));
    let count = b.vector_of(count)?;
    let shape = b.join(&[count, sizes])?;
    Ok(b.op1(Op::Broadcast, &[zero, shape])?)
}

impl States<'_, '_> {
    /// Evaluates values of states of kind `k`. Tells if that cannot fail where the kind has no
    /// states.
    pub fn values(
        &self,
        b: &mut FuncBuilder,
        k: usize,
        rows: &Rows,
        wanted: &[Value],
    ) -> Result<(Vec<Batched>, bool)> {
        let kind = &self.recursion.kinds[k];
        let member = &self.recursion.members[kind.member];
        let (path, known) = (&self.stages.paths[k], &self.known[k]);
        let needed = path.needed(wanted, &|v| known.contains_key(&v));
        let types = |ty: &Type| member.ty(ty);
        let mut batch = Batch::new(member.func, rows.count, rows.dim.clone(), &types);
        let mut given: Vec<_> = known
            .iter()
            .filter(|(v, _)| needed.values.contains(v))
            .collect();
        given.sort_by_key(|(v, _)| **v);
        for (&value, known) in given {
            let there = self.there(b, &mut batch, kind.member, rows, known)?;
            batch.values.insert(value, there);
        }
        self.parameters(b, &mut batch, kind.member, rows)?;
        let mut is_safe = true;
        for (step, _) in path.steps.iter().zip(&needed.steps).filter(|(_, n)| **n) {
            match *step {
                Step::Inst(inst) => {
                    is_safe &= batch.cannot_fail_without_rows(inst);
                    batch.inst(b, inst)?;
                }
                Step::Arm(result, value) => {
                    let batched = batch.value(value)?;
                    batch.values.insert(result, batched);
                }
                Step::Call(number, inst) => {
                    let data = &member.func.insts[inst];
                    b.set_loc(data.loc.clone());
                    let callee = self.recursion.callee(kind.member, inst);
                    let callee = callee.ok_or(Refusal::Call)?;
                    let from = rows.read(b, self.walk.calls[number])?;
                    for (&result, &array) in data.results.iter().zip(&self.of[callee]) {
                        if needed.values.contains(&result) && !known.contains_key(&result) {
                            let array = self.array(array)?;
                            let read = b.gather(array, from)?;
                            batch.values.insert(result, Batched::Rows(read));
                        }
                    }
                }
            }
        }
        let found = wanted.iter().map(|v| batch.value(*v));
        Ok((found.collect::<Result<Vec<_>>>()?, is_safe))
    }

    fn array(&self, number: Option<usize>) -> Result<Value> {
        let array = number.and_then(|k| self.arrays[k]);
        array.ok_or(Refusal::NotEvaluated)
    }

    fn there(
        &self,
        b: &mut FuncBuilder,
        batch: &mut Batch,
        member: usize,
        rows: &Rows,
        known: &Known,
    ) -> Result<Batched> {
        match known {
            Known::Same(value) => Ok(Batched::Same(*value)),
            Known::OfKind(array) => Ok(Batched::Rows(rows.of_kind(b, *array)?)),
            Known::Ahead(array, first) => {
                let Which::From { place, number } = rows.which else {
                    return Err(Refusal::NotEvaluated);
                };
                let from = b.binary(BinaryOp::Sub, number.unwrap_or(place), *first)?;
                Ok(Batched::Rows(rows.part(b, *array, from)?))
            }
            Known::Result(result, ops) => {
                let array = self.array(self.of[member][*result])?;
                let read = rows.read(b, array)?;
                let mut value = Batched::Rows(read);
                for op in ops {
                    value = batch.op(b, op, &[value])?[0];
                }
                Ok(value)
            }
        }
    }

    fn parameters(
        &self,
        b: &mut FuncBuilder,
        batch: &mut Batch,
        member: usize,
        rows: &Rows,
    ) -> Result<()> {
        let Some(of) = self.recursion.members.get(member) else {
            return Ok(());
        };
        let own = &of.func.regions[of.func.body].params;
        for (&param, fixed) in own.iter().zip(&of.fixed) {
            let batched = match fixed {
                Some(i) => Batched::Same(self.params[*i]),
                None => {
                    let states = rows.read(b, self.walk.order)?;
                    let first = self.walk.first[member];
                    let first = b.binary(BinaryOp::Add, first, self.walk.shift)?;
                    let nodes = b.binary(BinaryOp::Sub, states, first)?;
                    let dtype = of.func.ty(param).as_tensor();
                    let dtype = dtype.map_or(DType::I64, |t| t.dtype);
                    Batched::Rows(b.cast(dtype, nodes)?)
                }
            };
            batch.values.insert(param, batched);
        }
        Ok(())
    }
}
