//! Ops on sequences as ops on the arrays that hold them.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{DType, Dim, FuncBuilder, Op, Tensor, Type, TypeError, Value};

use super::layout::{SequenceForm, SequenceLayout as Layout};

type Result<T> = std::result::Result<T, TypeError>;

/// The arrays of one sequence, as [`SequenceForm::types`] lists them.
#[derive(Clone, Debug)]
pub struct List {
    pub form: SequenceForm,
    pub arrays: Vec<Value>,
}

/// An element as part of the arrays.
struct Chunk {
    data: Value,
    /// The size of its first axis, `i64[]`.
    count: Value,
    /// The element's shape: a row of flat sequences, a piece of ragged ones.
    dims: Option<Value>,
}

impl List {
    /// A sequence of these elements.
    pub fn new(b: &mut FuncBuilder, form: &SequenceForm, elements: &[Value]) -> Result<List> {
        let mut list = Self::empty(b, form)?;
        for &x in elements {
            list = list.append(b, x)?;
        }
        Ok(list)
    }

    fn empty(b: &mut FuncBuilder, form: &SequenceForm) -> Result<List> {
        let zero = b.i64s(&[0]);
        let array = |b: &mut FuncBuilder, ty: &Type| {
            let tensor = ty.as_tensor().expect("sequences are held by arrays");
            let mut sizes = vec![zero];
            for dim in tensor.shape.iter().flatten().skip(1) {
                sizes.push(size_of(b, dim)?);
            }
            let shape = b.join(&sizes)?;
            let none = b.constant(Tensor::splat(tensor.dtype, vec![], 0.0));
            b.op1(Op::Broadcast, &[none, shape])
        };
        let mut arrays = vec![];
        for (place, ty) in form.types().iter().enumerate() {
            // Offsets, which stand behind what they divide, begin with that of the first element.
            let made = if place % 2 == 1 { zero } else { array(b, ty)? };
            arrays.push(made);
        }
        Ok(List {
            form: form.clone(),
            arrays,
        })
    }

    /// The number of elements, `i64[]`.
    pub fn length(&self, b: &mut FuncBuilder) -> Result<Value> {
        match self.form.layout {
            Layout::Rows => b.size(self.arrays[0], 0),
            Layout::Pieces(_) | Layout::Ragged => {
                let (ends, one) = (b.size(self.arrays[1], 0)?, b.i64(1));
                b.binary(BinaryOp::Sub, ends, one)
            }
            Layout::Flat => b.size(self.arrays[2], 0),
        }
    }

    /// The element at a position, which may count from the end; of this rank, if it is stated.
    pub fn at(&self, b: &mut FuncBuilder, position: Value, rank: Option<usize>) -> Result<Value> {
        if self.form.layout == Layout::Rows {
            return b.gather(self.arrays[0], position);
        }
        let (start, end) = span(b, self.arrays[1], position)?;
        let data = slice(b, self.arrays[0], start, end)?;
        match self.form.layout {
            Layout::Flat => {
                let shape = b.gather(self.arrays[2], position)?;
                b.op1(Op::Reshape, &[data, shape])
            }
            Layout::Ragged => {
                let (start, end) = span(b, self.arrays[3], position)?;
                let mut shape = slice(b, self.arrays[2], start, end)?;
                if let Some(rank) = rank {
                    let count = b.i64s(&[rank as i64]);
                    shape = b.op1(Op::Reshape, &[shape, count])?;
                }
                b.op1(Op::Reshape, &[data, shape])
            }
            Layout::Pieces(axis) => move_axis(b, data, 0, axis),
            Layout::Rows => unreachable!("rows were gathered"),
        }
    }

    /// The sequence with an element more at its end.
    pub fn append(&self, b: &mut FuncBuilder, x: Value) -> Result<List> {
        let chunk = self.chunk(b, x)?;
        let Some(pieces) = self.pieces(0) else {
            return Ok(self.with(vec![b.join(&[self.arrays[0], chunk.data])?]));
        };
        let mut arrays = pieces.append(b, chunk.data, chunk.count)?.to_vec();
        match (self.pieces(2), self.arrays.get(2), chunk.dims) {
            (Some(shapes), _, Some(dims)) => {
                let rank = b.size(dims, 0)?;
                arrays.extend(shapes.append(b, dims, rank)?);
            }
            (None, Some(&shapes), Some(row)) => arrays.push(b.join(&[shapes, row])?),
            _ => {}
        }
        Ok(self.with(arrays))
    }

    /// The sequence with an element more before a position.
    pub fn insert(&self, b: &mut FuncBuilder, x: Value, position: Value) -> Result<List> {
        let place = self.place(b, position, true)?;
        let chunk = self.chunk(b, x)?;
        let Some(pieces) = self.pieces(0) else {
            return Ok(self.with(vec![with(b, self.arrays[0], place, chunk.data)?]));
        };
        let mut arrays = pieces.insert(b, chunk.data, chunk.count, place)?.to_vec();
        match (self.pieces(2), self.arrays.get(2), chunk.dims) {
            (Some(shapes), _, Some(dims)) => {
                let rank = b.size(dims, 0)?;
                arrays.extend(shapes.insert(b, dims, rank, place)?);
            }
            (None, Some(&shapes), Some(row)) => arrays.push(with(b, shapes, place, row)?),
            _ => {}
        }
        Ok(self.with(arrays))
    }

    /// The sequence without the element at a position.
    pub fn erase(&self, b: &mut FuncBuilder, position: Value) -> Result<List> {
        let place = self.place(b, position, false)?;
        let position = b.func().constant(position).and_then(|t| t.to_i64s());
        if self.form.layout == Layout::Rows && position.as_deref() == Some(&[-1]) {
            let zero = b.i64s(&[0]);
            return Ok(self.with(vec![slice(b, self.arrays[0], zero, place)?]));
        }
        let one = b.i64s(&[1]);
        let next = b.binary(BinaryOp::Add, place, one)?;
        let Some(pieces) = self.pieces(0) else {
            return Ok(self.with(vec![without(b, self.arrays[0], place, next)?]));
        };
        let mut arrays = pieces.erase(b, place, next)?.to_vec();
        match (self.pieces(2), self.arrays.get(2)) {
            (Some(shapes), _) => arrays.extend(shapes.erase(b, place, next)?),
            (None, Some(&shapes)) => arrays.push(without(b, shapes, place, next)?),
            _ => {}
        }
        Ok(self.with(arrays))
    }

    /// All elements joined along an axis, or stacked along a new one.
    pub fn concat(&self, b: &mut FuncBuilder, axis: usize, stack: bool) -> Result<Value> {
        let rank = self.form.dims.len();
        match self.form.layout {
            Layout::Rows => {
                let data = self.not_empty(b)?;
                let stacked = move_axis(b, data, 0, axis)?;
                if stack {
                    return Ok(stacked);
                }
                // Two axes become one.
                let mut sizes = vec![b.sizes(stacked, 0..axis)?];
                sizes.push(b.i64s(&[-1]));
                sizes.push(b.sizes(stacked, axis + 2..rank + 1)?);
                if self
                    .form
                    .dims
                    .iter()
                    .any(|d| d.as_const().is_none_or(|n| n <= 0))
                {
                    // The remainder of an empty array has no one size.
                    let (length, size) = (b.size(stacked, axis)?, b.size(stacked, axis + 1)?);
                    let both = b.binary(BinaryOp::Mul, length, size)?;
                    sizes[1] = b.vector_of(both)?;
                }
                let shape = b.join(&sizes)?;
                b.op1(Op::Reshape, &[stacked, shape])
            }
            Layout::Pieces(open) if open == axis && !stack => {
                let data = self.not_empty(b)?;
                move_axis(b, data, 0, axis)
            }
            Layout::Pieces(_) | Layout::Flat if stack => {
                let stacked = self.stacked(b)?;
                move_axis(b, stacked, 0, axis)
            }
            _ => self.one_by_one(b, axis, stack),
        }
    }

    /// All elements stacked along a first axis; an error if their shapes differ.
    fn stacked(&self, b: &mut FuncBuilder) -> Result<Value> {
        let length = self.length(b)?;
        let count = b.vector_of(length)?;
        let (sizes, axis) = match self.form.layout {
            Layout::Pieces(axis) => {
                let (one, last) = (b.i64s(&[1]), b.i64s(&[-1]));
                let (first, end) = (b.i64s(&[0]), b.i64s(&[i64::MAX]));
                let starts = slice(b, self.arrays[1], first, last)?;
                let ends = slice(b, self.arrays[1], one, end)?;
                (b.binary(BinaryOp::Sub, ends, starts)?, axis)
            }
            _ => (self.arrays[2], 0),
        };
        // The gather is an error where there is no element.
        let first = b.i64s(&[0]);
        let size = b.gather(sizes, first)?;
        let differ = b.compare(CompareOp::Ne, sizes, size)?;
        let differ = b.any(differ)?;
        let ty = b.ty(size).clone();
        b.begin_region(&[]);
        let error = b.failure("elements that are stacked differ in shape", &ty)?;
        let stop = b.end_region(&[error]);
        b.begin_region(&[]);
        let fits = b.end_region(&[size]);
        let size = b.if_(differ, stop, fits)?[0];
        let rank = self.form.dims.len() as i64;
        let size = match self.form.layout {
            Layout::Flat => {
                let shape = b.i64s(&[rank]);
                b.op1(Op::Reshape, &[size, shape])?
            }
            _ => size,
        };
        let rest = match self.form.layout {
            Layout::Flat => b.i64s(&[]),
            _ => b.sizes(self.arrays[0], 1..rank as usize)?,
        };
        let shape = b.join(&[count, size, rest])?;
        let rows = b.op1(Op::Reshape, &[self.arrays[0], shape])?;
        move_axis(b, rows, 1, axis + 1)
    }

    /// `data`, and an error if there is no element.
    fn not_empty(&self, b: &mut FuncBuilder) -> Result<Value> {
        let length = self.length(b)?;
        let places = b.iota(length)?;
        let (first, end) = (b.i64s(&[0]), b.i64s(&[i64::MAX]));
        let start = b.gather(places, first)?;
        slice(b, self.arrays[0], start, end)
    }

    /// Joins elements in a loop, which finds those that do not fit.
    fn one_by_one(&self, b: &mut FuncBuilder, axis: usize, stack: bool) -> Result<Value> {
        let element = |b: &mut FuncBuilder, position: Value| {
            let x = self.at(b, position, None)?;
            match stack {
                true => b.op1(Op::Unsqueeze { axes: vec![axis] }, &[x]),
                false => Ok(x),
            }
        };
        let (zero, one) = (b.i64(0), b.i64(1));
        let first = element(b, zero)?;
        let length = self.length(b)?;
        let rest = b.binary(BinaryOp::Sub, length, one)?;
        let mut ty = b.ty(first).as_tensor().expect("an array").clone();
        for (k, dim) in ty.shape.iter_mut().flatten().enumerate() {
            // A concatenation keeps no bounds.
            if k == axis || dim.as_expr().is_none() {
                *dim = Dim::UNKNOWN;
            }
        }
        let (_, params) = b.begin_region(&[Type::scalar(DType::I64), Type::Tensor(ty)]);
        let position = b.binary(BinaryOp::Add, params[0], one)?;
        let next = element(b, position)?;
        let joined = b.op1(Op::Concat { axis }, &[params[1], next])?;
        let body = b.end_region(&[joined]);
        Ok(b.loop_(Some(rest), None, &[first], body)?[0])
    }

    /// Pieces of `x` along an axis, of these lengths.
    pub fn split(
        b: &mut FuncBuilder,
        form: &SequenceForm,
        (x, lengths): (Value, Value),
        axis: usize,
        squeeze: bool,
    ) -> Result<List> {
        let (zero, one) = (b.i64(0), b.i64(1));
        let count = b.size(lengths, 0)?;
        let nothing = Self::empty(b, form)?;
        let mut types = vec![Type::scalar(DType::I64), Type::scalar(DType::I64)];
        types.extend(form.types());
        let (_, params) = b.begin_region(&types);
        let list = nothing.with(params[2..].to_vec());
        let length = b.gather(lengths, params[0])?;
        // A reshape would read a negative size as the remainder; no slice has this one.
        let negative = b.compare(CompareOp::Lt, length, zero)?;
        let no_size = b.i64(i64::MAX);
        let size = b.select(negative, no_size, length)?;
        let end = b.binary(BinaryOp::Add, params[1], length)?;
        let [from, to, size] = [params[1], end, size].map(|v| b.vector_of(v));
        let (from, to, step) = (from?, to?, b.vector_of(one)?);
        let part = b.op1(Op::Slice { axes: vec![axis] }, &[x, from, to, step])?;
        let rank = b.rank(x).unwrap_or_default();
        let mut sizes = vec![b.sizes(x, 0..axis)?];
        if !squeeze {
            sizes.push(size?);
        }
        sizes.push(b.sizes(x, axis + 1..rank)?);
        let shape = b.join(&sizes)?;
        let part = b.op1(Op::Reshape, &[part, shape])?;
        let list = list.append(b, part)?;
        let yields = [vec![end], list.arrays].concat();
        let body = b.end_region(&yields);
        let inits = [vec![zero], nothing.arrays.clone()].concat();
        let results = b.loop_(Some(count), None, &inits, body)?;
        Ok(nothing.with(results[1..].to_vec()))
    }

    fn chunk(&self, b: &mut FuncBuilder, x: Value) -> Result<Chunk> {
        let chunk = match self.form.layout {
            Layout::Rows => Chunk {
                data: b.op1(Op::Unsqueeze { axes: vec![0] }, &[x])?,
                count: b.i64(1),
                dims: None,
            },
            Layout::Pieces(axis) => {
                let count = b.size(x, axis)?;
                Chunk {
                    data: move_axis(b, x, axis, 0)?,
                    count,
                    dims: None,
                }
            }
            Layout::Flat | Layout::Ragged => {
                let dims = b.op1(Op::Shape, &[x])?;
                let all = b.i64s(&[-1]);
                Chunk {
                    data: b.op1(Op::Reshape, &[x, all])?,
                    count: b.op1(
                        Op::Reduce {
                            kind: ReduceOp::Prod,
                            axes: vec![0],
                            keep: false,
                        },
                        &[dims],
                    )?,
                    dims: Some(match self.form.layout {
                        Layout::Flat => b.op1(Op::Unsqueeze { axes: vec![0] }, &[dims])?,
                        _ => dims,
                    }),
                }
            }
        };
        Ok(chunk)
    }

    /// A position as `i64[1]` from the beginning; an error if it is out of range.
    fn place(&self, b: &mut FuncBuilder, position: Value, past_end: bool) -> Result<Value> {
        let (zero, one) = (b.i64(0), b.i64(1));
        let length = self.length(b)?;
        let behind = b.binary(BinaryOp::Add, position, length)?;
        let from_end = b.compare(CompareOp::Lt, position, zero)?;
        let place = b.select(from_end, behind, position)?;
        let negative = b.compare(CompareOp::Lt, place, zero)?;
        let nowhere = b.i64(i64::MAX);
        let place = b.select(negative, nowhere, place)?;
        let count = match past_end {
            true => b.binary(BinaryOp::Add, length, one)?,
            false => length,
        };
        let places = b.iota(count)?;
        let place = b.vector_of(place)?;
        b.gather(places, place)
    }

    /// This array and the offsets behind it, if there are any.
    fn pieces(&self, place: usize) -> Option<Pieces> {
        Some(Pieces {
            data: *self.arrays.get(place)?,
            offsets: *self.arrays.get(place + 1)?,
        })
    }

    fn with(&self, arrays: Vec<Value>) -> List {
        List {
            form: self.form.clone(),
            arrays,
        }
    }
}

/// Pieces of an array behind each other, with the offsets at which they begin and the last one ends.
#[derive(Clone, Copy)]
struct Pieces {
    data: Value,
    offsets: Value,
}

impl Pieces {
    fn append(self, b: &mut FuncBuilder, piece: Value, count: Value) -> Result<[Value; 2]> {
        let data = b.join(&[self.data, piece])?;
        let last = b.i64s(&[-1]);
        let before = b.gather(self.offsets, last)?;
        let count = b.vector_of(count)?;
        let end = b.binary(BinaryOp::Add, before, count)?;
        Ok([data, b.join(&[self.offsets, end])?])
    }

    fn insert(
        self,
        b: &mut FuncBuilder,
        piece: Value,
        count: Value,
        place: Value,
    ) -> Result<[Value; 2]> {
        let (zero, one, all) = (b.i64s(&[0]), b.i64s(&[1]), b.i64s(&[i64::MAX]));
        let start = b.gather(self.offsets, place)?;
        let data = with(b, self.data, start, piece)?;
        let next = b.binary(BinaryOp::Add, place, one)?;
        let head = slice(b, self.offsets, zero, next)?;
        let tail = slice(b, self.offsets, place, all)?;
        let moved = b.binary(BinaryOp::Add, tail, count)?;
        Ok([data, b.join(&[head, moved])?])
    }

    fn erase(self, b: &mut FuncBuilder, place: Value, next: Value) -> Result<[Value; 2]> {
        let (zero, all) = (b.i64s(&[0]), b.i64s(&[i64::MAX]));
        let (start, end) = (
            b.gather(self.offsets, place)?,
            b.gather(self.offsets, next)?,
        );
        let data = without(b, self.data, start, end)?;
        let head = slice(b, self.offsets, zero, place)?;
        let tail = slice(b, self.offsets, next, all)?;
        let count = b.binary(BinaryOp::Sub, end, start)?;
        let moved = b.binary(BinaryOp::Sub, tail, count)?;
        Ok([data, b.join(&[head, moved])?])
    }
}

/// Begin and end of the piece at a position, by the offsets of all.
fn span(b: &mut FuncBuilder, offsets: Value, position: Value) -> Result<(Value, Value)> {
    // Gathers from arrays with an entry for each element find positions out of range.
    let (first, last, end) = (b.i64s(&[0]), b.i64s(&[-1]), b.i64s(&[i64::MAX]));
    let one = b.i64s(&[1]);
    let starts = slice(b, offsets, first, last)?;
    let ends = slice(b, offsets, one, end)?;
    let place = b.vector_of(position)?;
    Ok((b.gather(starts, place)?, b.gather(ends, place)?))
}

/// An array with rows inserted before one.
fn with(b: &mut FuncBuilder, array: Value, at: Value, rows: Value) -> Result<Value> {
    let (zero, all) = (b.i64s(&[0]), b.i64s(&[i64::MAX]));
    let (head, tail) = (slice(b, array, zero, at)?, slice(b, array, at, all)?);
    b.join(&[head, rows, tail])
}

/// An array without the rows `start..end`.
fn without(b: &mut FuncBuilder, array: Value, start: Value, end: Value) -> Result<Value> {
    let (zero, all) = (b.i64s(&[0]), b.i64s(&[i64::MAX]));
    let (head, tail) = (slice(b, array, zero, start)?, slice(b, array, end, all)?);
    b.join(&[head, tail])
}

/// The size that a dim stands for, `i64[1]`.
fn size_of(b: &mut FuncBuilder, dim: &Dim) -> Result<Value> {
    let stated = b.size_of(dim)?;
    let missing = || format!("no parameter has an axis of size {dim}");
    let size = stated.ok_or_else(|| TypeError::new("sequence", missing()))?;
    b.vector_of(size)
}

/// Rows `start..end` of an array.
fn slice(b: &mut FuncBuilder, x: Value, start: Value, end: Value) -> Result<Value> {
    let one = b.i64s(&[1]);
    b.op1(Op::Slice { axes: vec![0] }, &[x, start, end, one])
}

fn move_axis(b: &mut FuncBuilder, x: Value, from: usize, to: usize) -> Result<Value> {
    let rank = b.rank(x).unwrap_or_default();
    let mut perm: Vec<usize> = (0..rank).filter(|&axis| axis != from).collect();
    if from == to || perm.len() + 1 != rank {
        return Ok(x);
    }
    perm.insert(to, from);
    b.op1(Op::Transpose { perm }, &[x])
}
