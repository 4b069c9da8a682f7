//! Arrays of which instances differ in other axes than the first, as parameters and results of a
//! program for many: the elements of all instances behind each other, offsets, and shapes.

use std::collections::HashMap;

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{DType, Dim, FuncBuilder, Function, Op, Tensor, Type, Value};

use super::Context;
use super::lane::{Lane, Padded};
use super::ports::{bound, failing, offsets_name, ranges_of, shapes_name};
use super::set::{Set, largest, plus};
use crate::batch::{Batched, Refusal, Result};

/// The elements of all instances behind each other.
pub(super) struct Flat {
    /// The elements: `T[total]`.
    pub data: Value,
    /// The number of each instance's: `i64[instances]`.
    pub lens: Value,
    /// The sizes of each instance's axes: `i64[instances, rank]`.
    pub shapes: Value,
}

/// A result of all instances.
pub(super) enum Whole {
    Lane(Lane),
    Flat(Flat),
}

impl Whole {
    /// The lane, unless other axes than the first differ.
    pub fn lane(self) -> Result<Lane> {
        match self {
            Whole::Lane(lane) => Ok(lane),
            Whole::Flat(_) => Err(Refusal::UnknownSize),
        }
    }
}

/// A parameter: elements, offsets and shapes.
pub(super) struct Given<'a> {
    pub name: &'a str,
    /// The parameter in the source.
    pub param: Value,
    pub data: Value,
    pub offsets: Value,
    pub shapes: Value,
}

/// The arrays of a parameter as rows of the largest. `lens` are the sizes by instance that are known
/// by their names. Offsets and shapes that do not part the elements stop the run.
pub(super) fn rows_of(
    b: &mut FuncBuilder,
    context: &Context,
    source: &Function,
    given: &Given,
    lens: &mut HashMap<Dim, Value>,
) -> Result<Padded> {
    let own = source.ty(given.param).as_tensor();
    let own = own.ok_or(Refusal::NoTensor)?.clone();
    let dims = own.shape.as_ref().ok_or(Refusal::UnknownRank)?;
    let mut wrong = parts_wrongly(b, given)?;
    let mut also = |b: &mut FuncBuilder, holds: Value| -> Result<()> {
        let any = b.any(holds)?;
        wrong = b.binary(BinaryOp::Or, wrong, any)?;
        Ok(())
    };
    let mut sizes = vec![];
    for (axis, dim) in dims.iter().enumerate() {
        let at = b.i64(axis as i64);
        let column = b.op1(Op::Gather { axis: 1 }, &[given.shapes, at])?;
        let stated = match context.differs(dim) {
            false => Some(b.size_of(dim)?.ok_or(Refusal::UnknownSize)?),
            true => match dim {
                Dim::Expr(_) => Some(*lens.entry(dim.clone()).or_insert(column)),
                Dim::Unknown(_) => None,
            },
        };
        if let Some(stated) = stated.filter(|v| *v != column) {
            let other = b.compare(CompareOp::Ne, column, stated)?;
            also(b, other)?;
        }
        let (least, most) = bound(source, dim);
        let least = b.i64(least);
        let below = b.compare(CompareOp::Lt, column, least)?;
        also(b, below)?;
        if let Some(most) = most {
            let most = b.i64(most);
            let above = b.compare(CompareOp::Gt, column, most)?;
            also(b, above)?;
        }
        sizes.push(match context.differs(dim) {
            true => Size::Differs(stated.unwrap_or(column)),
            false => Size::One(stated.ok_or(Refusal::UnknownSize)?),
        });
    }
    let message = format!(
        "`{}` and `{}` do not part `{}`: the offsets have to begin with 0, to rise by the numbers of \
         elements of the shapes, and to end with the size; the shapes have to be as the model states",
        offsets_name(given.name),
        shapes_name(given.name),
        given.name
    );
    let offsets = failing(b, wrong, &message, given.offsets)?;
    let (starts, _) = ranges_of(b, offsets)?;
    let rows = padded(b, given.data, own.dtype, starts, &sizes)?;
    let lens = sizes.into_iter().map(|size| match size {
        Size::Differs(lens) => Some(lens),
        Size::One(_) => None,
    });
    Ok(Padded {
        data: Batched::Rows(rows),
        sizes: lens.collect(),
    })
}

/// The size of an axis.
#[derive(Clone, Copy)]
enum Size {
    /// One size for all instances, `i64[]`.
    One(Value),
    /// A size for each instance, `i64[instances]`.
    Differs(Value),
}

/// Do offsets and shapes not part the elements? A `bool[]`.
fn parts_wrongly(b: &mut FuncBuilder, given: &Given) -> Result<Value> {
    let (_, counts) = ranges_of(b, given.offsets)?;
    let (zero, last) = (b.i64(0), b.i64(-1));
    let (begin, end) = (
        b.gather(given.offsets, zero)?,
        b.gather(given.offsets, last)?,
    );
    let total = b.size(given.data, 0)?;
    let far = b.binary(BinaryOp::Sub, end, total)?;
    let ends = b.binary(BinaryOp::Or, begin, far)?;
    let ends = b.compare(CompareOp::Ne, ends, zero)?;
    let elements = elements(b, given.shapes)?;
    let other = b.compare(CompareOp::Ne, counts, elements)?;
    let other = b.any(other)?;
    Ok(b.binary(BinaryOp::Or, ends, other)?)
}

/// The numbers of elements of shapes.
fn elements(b: &mut FuncBuilder, shapes: Value) -> Result<Value> {
    let product = Op::Reduce {
        kind: ReduceOp::Prod,
        axes: vec![1],
        keep: false,
    };
    Ok(b.op1(product, &[shapes])?)
}

/// Arrays that begin at these places as rows of the largest. Outside of an array is anything.
fn padded(
    b: &mut FuncBuilder,
    data: Value,
    dtype: DType,
    starts: Value,
    sizes: &[Size],
) -> Result<Value> {
    if !dtype.is_arith() && dtype != DType::Bool {
        return Err(Refusal::NoTensor);
    }
    let rank = sizes.len();
    let beside = |b: &mut FuncBuilder, v: Value, axis: usize| {
        let axes: Vec<usize> = (0..=rank).filter(|k| *k != axis).collect();
        b.op1(Op::Unsqueeze { axes }, &[v])
    };
    let mut within = b.i64(0);
    for (axis, &size) in sizes.iter().enumerate() {
        let (most, each) = match size {
            Size::One(size) => (size, size),
            Size::Differs(lens) => (largest(b, lens)?, beside(b, lens, 0)?),
        };
        let place = b.iota(most)?;
        let place = beside(b, place, axis + 1)?;
        let before = b.binary(BinaryOp::Mul, within, each)?;
        within = plus(b, before, place)?;
    }
    let starts = beside(b, starts, 0)?;
    let place = plus(b, starts, within)?;
    // There may be no element, but rows that are larger than each array.
    let none = b.constant(Tensor::splat(dtype, vec![1], 0.0));
    let last = b.size(data, 0)?;
    let data = b.join(&[data, none])?;
    let place = b.binary(BinaryOp::Min, place, last)?;
    Ok(b.gather(data, place)?)
}

impl Set<'_> {
    /// A result of the source for all instances.
    pub(super) fn whole(&self, b: &mut FuncBuilder, value: Value) -> Result<Whole> {
        if let Some(padded) = self.padded.get(&value) {
            return Ok(Whole::Flat(self.flat(b, padded)?));
        }
        match self.value(value) {
            Ok(lane) => Ok(Whole::Lane(lane)),
            Err(_) => self.each_value(b, value),
        }
    }

    /// The elements of padded rows that are in arrays of instances, behind each other.
    fn flat(&self, b: &mut FuncBuilder, x: &Padded) -> Result<Flat> {
        let shapes = self.padded_sizes(b, x)?;
        let lens = elements(b, shapes)?;
        let places = self.places(b, lens)?;
        let rows = self.rules().spread(b, x.data)?;
        let (mut rest, mut stride) = (places.within, b.i64(1));
        let mut place = b.i64(0);
        for (axis, size) in x.sizes.iter().enumerate().rev() {
            let most = b.size(rows, axis + 1)?;
            let own = match size {
                Some(lens) => b.gather(*lens, places.instance)?,
                None => most,
            };
            let at = b.binary(BinaryOp::Rem, rest, own)?;
            rest = b.binary(BinaryOp::Div, rest, own)?;
            let far = b.binary(BinaryOp::Mul, at, stride)?;
            place = plus(b, place, far)?;
            stride = b.binary(BinaryOp::Mul, stride, most)?;
        }
        let far = b.binary(BinaryOp::Mul, places.instance, stride)?;
        let place = plus(b, place, far)?;
        let all = b.i64s(&[-1]);
        let elements = b.op1(Op::Reshape, &[rows, all])?;
        Ok(Flat {
            data: b.gather(elements, place)?,
            lens,
            shapes,
        })
    }

    /// The elements of arrays of this type with these shapes.
    pub(super) fn flattened(
        &self,
        b: &mut FuncBuilder,
        data: Value,
        shapes: Value,
        ty: &Type,
    ) -> Result<Flat> {
        let rank = ty.as_tensor().and_then(|t| t.shape.as_ref());
        let rank = rank.ok_or(Refusal::UnknownRank)?.len();
        // Without instances there is no shape that tells the rank.
        let all = Type::tensor(DType::I64, [self.dim.clone(), Dim::constant(rank as i64)]);
        b.refine_type(shapes, all)?;
        Ok(Flat {
            data,
            lens: elements(b, shapes)?,
            shapes,
        })
    }

    /// The array of one instance, whose number is an `i64[]`.
    pub(super) fn one_padded(
        &self,
        b: &mut FuncBuilder,
        value: Value,
        x: &Padded,
        instance: Value,
    ) -> Result<Value> {
        let Batched::Rows(rows) = x.data else {
            return Ok(x.data.value());
        };
        let mut own = b.gather(rows, instance)?;
        for (axis, lens) in x.sizes.iter().enumerate() {
            if let Some(lens) = lens {
                let end = b.gather(*lens, instance)?;
                let (start, end, one) = (b.i64s(&[0]), b.vector_of(end)?, b.i64s(&[1]));
                own = b.op1(Op::Slice { axes: vec![axis] }, &[own, start, end, one])?;
            }
        }
        self.state(b, value, Lane::Same(own))?;
        Ok(own)
    }
}

/// The type of elements behind each other.
pub(super) fn elements_of(ty: &Type) -> Result<Type> {
    let tensor = ty.as_tensor().ok_or(Refusal::NoTensor)?;
    Ok(Type::tensor(tensor.dtype, [Dim::UNKNOWN]))
}
