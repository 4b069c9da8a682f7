//! More shorthands for expansions: exact constants, scalars out of inputs, branches, loops and
//! computed axes.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme, PadMode, ScatterReduce, UnaryOp};
use heddle_ir::{DType, Dim, Emit, Op, Tensor, Type, Value};

use super::cx::{NodeCx, OpError, Result, invalid};
use crate::refusal::Refusal;
use crate::sparse;

/// Longest list whose length is used at import.
pub(super) const MAX_LIST: usize = 4096;

impl NodeCx<'_> {
    /// A constant of rank 0 with the element type of `x` that is not rounded when a run computes in
    /// double.
    pub fn real_like(&mut self, x: Value, value: f64) -> Result<Value> {
        let dtype = self.dtype(x)?;
        if dtype == DType::F64 || value as f32 as f64 == value {
            return self.scalar_like(x, value);
        }
        let exact = self.b.constant(Tensor::scalar(value));
        self.cast(exact, dtype)
    }

    /// Zero, false or the empty string, of rank 0.
    pub fn zero(&mut self, dtype: DType) -> Result<Value> {
        Ok(self.b.constant(sparse::zero(dtype)?))
    }

    /// The larger one.
    pub fn max(&mut self, a: Value, b: Value) -> Result<Value> {
        self.binary(BinaryOp::Max, a, b)
    }

    /// The smaller one.
    pub fn min(&mut self, a: Value, b: Value) -> Result<Value> {
        self.binary(BinaryOp::Min, a, b)
    }

    /// The exponential.
    pub fn exp(&mut self, x: Value) -> Result<Value> {
        self.unary(UnaryOp::Exp, x)
    }

    /// The natural logarithm.
    pub fn log(&mut self, x: Value) -> Result<Value> {
        self.unary(UnaryOp::Log, x)
    }

    /// The negated value.
    pub fn neg(&mut self, x: Value) -> Result<Value> {
        self.unary(UnaryOp::Neg, x)
    }

    /// `x * number`.
    pub fn scale(&mut self, x: Value, number: f64) -> Result<Value> {
        let number = self.real_like(x, number)?;
        self.mul(x, number)
    }

    /// `x + number`.
    pub fn shift(&mut self, x: Value, number: f64) -> Result<Value> {
        let number = self.real_like(x, number)?;
        self.add(x, number)
    }

    /// Two values compared with a number: `x kind number`.
    pub fn compare_to(&mut self, kind: CompareOp, x: Value, number: f64) -> Result<Value> {
        let number = self.real_like(x, number)?;
        self.compare(kind, x, number)
    }

    /// An input of one element as rank 0: models give `[1]` where the specification says `[]`.
    pub fn to_scalar(&mut self, x: Value) -> Result<Value> {
        match self.tensor_ty(x)?.rank() {
            Some(0) => Ok(x),
            _ => self.reshape(x, &[]),
        }
    }

    /// All elements in a row.
    pub fn to_vector(&mut self, x: Value) -> Result<Value> {
        match self.tensor_ty(x)?.rank() {
            Some(1) => Ok(x),
            _ => self.reshape(x, &[-1]),
        }
    }

    /// An integer input of one element as `i64[]`.
    pub fn to_index(&mut self, x: Value) -> Result<Value> {
        let x = self.cast(x, DType::I64)?;
        self.to_scalar(x)
    }

    /// An integer input as `i64[k]`.
    pub fn to_indices(&mut self, x: Value) -> Result<Value> {
        let x = self.cast(x, DType::I64)?;
        self.to_vector(x)
    }

    /// The length of an `i64[k]` value, if it is static and not large.
    pub fn len_of(&self, x: Value) -> Option<usize> {
        let dim = self
            .tensor_ty(x)
            .ok()?
            .shape
            .as_ref()?
            .first()?
            .as_const()?;
        // A list has about one item per axis; unrolling a longer one is not worth it.
        usize::try_from(dim).ok().filter(|n| *n <= MAX_LIST)
    }

    /// Element `i` of an `i64[k]` value, as `i64[]`.
    pub fn element(&mut self, x: Value, i: usize) -> Result<Value> {
        self.pick(x, i, 0)
    }

    /// `x[.., i, ..]`: the axis goes.
    pub fn pick(&mut self, x: Value, i: usize, axis: usize) -> Result<Value> {
        let index = self.b.i64(i as i64);
        self.gather(x, index, axis)
    }

    /// `0, 1, …` up to the size of an axis.
    pub fn positions(&mut self, x: Value, axis: usize) -> Result<Value> {
        let (start, end) = (self.b.i64(0), self.size_of(x, axis)?);
        self.range(start, end)
    }

    /// `x` with elements along an axis overwritten.
    pub fn scatter(
        &mut self,
        x: Value,
        indices: Value,
        updates: Value,
        axis: usize,
    ) -> Result<Value> {
        let reduce = ScatterReduce::Set;
        self.op(Op::ScatterElements { axis, reduce }, &[x, indices, updates])
    }

    /// The index of the first largest element along an axis.
    pub fn arg_max(&mut self, x: Value, axis: usize, keep: bool) -> Result<Value> {
        let kind = Extreme::Max;
        let last = false;
        self.op(
            Op::ArgReduce {
                kind,
                axis,
                keep,
                last,
            },
            &[x],
        )
    }

    /// `x` padded with a scalar: `pads` is `i64[2 * rank]`, first before all axes, then behind
    /// them.
    pub fn pad(&mut self, x: Value, pads: Value, value: Value) -> Result<Value> {
        let mode = PadMode::Constant;
        self.op(Op::Pad { mode }, &[x, pads, value])
    }

    /// `total kind x`, or `x` where there is no total yet.
    pub fn fold(&mut self, kind: BinaryOp, total: Option<Value>, x: Value) -> Result<Value> {
        match total {
            Some(total) => self.binary(kind, total, x),
            None => Ok(x),
        }
    }

    /// A vector as an operand that broadcasts along one of `rank` axes.
    pub fn along(&mut self, x: Value, axis: usize, rank: usize) -> Result<Value> {
        let others: Vec<_> = (0..rank).filter(|&a| a != axis).collect();
        self.unsqueeze(x, &others)
    }

    /// An `if` that yields what the closures return.
    pub fn branch(
        &mut self,
        cond: Value,
        then: impl FnOnce(&mut Self) -> Result<Vec<Value>>,
        otherwise: impl FnOnce(&mut Self) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        self.b.begin_region(&[]);
        let yields = then(self)?;
        let then = self.b.end_region(&yields);
        self.b.begin_region(&[]);
        let yields = otherwise(self)?;
        let otherwise = self.b.end_region(&yields);
        Ok(self.b.if_(cond, then, otherwise)?)
    }

    /// A loop of `trip` iterations. `body` gets the iteration and the carried values, and returns
    /// their next ones and what is stacked; it is built anew when carried values turn out to change
    /// their type.
    pub fn repeat(
        &mut self,
        trip: Value,
        carried: &[Value],
        mut body: impl FnMut(&mut Self, Value, &[Value]) -> Result<(Vec<Value>, Vec<Value>)>,
    ) -> Result<Vec<Value>> {
        let mut types: Vec<Type> = carried.iter().map(|v| self.b.ty(*v).clone()).collect();
        let start = self.b.checkpoint();
        loop {
            let mut params = vec![Type::scalar(DType::I64)];
            params.extend(types.iter().cloned());
            let (_, values) = self.b.begin_region(&params);
            let (next, stacked) = body(self, values[0], &values[1..])?;
            let joined = types.iter().zip(&next).map(|(t, v)| {
                let next = self.b.ty(*v);
                t.join(next).ok_or_else(|| {
                    OpError::Invalid(format!("a carried value changes from {t} to {next}"))
                })
            });
            let joined = joined.collect::<Result<Vec<_>>>()?;
            if joined == types {
                let region = self.b.end_region(&[next, stacked].concat());
                return Ok(self.b.loop_(Some(trip), None, carried, region)?);
            }
            types = joined;
            self.b.rollback(&start);
        }
    }

    /// Runs `f` for an axis that is an input: once if it is constant, else for each axis, chosen at
    /// run time.
    pub fn with_axis(
        &mut self,
        axis: Value,
        rank: usize,
        f: &dyn Fn(&mut Self, usize) -> Result<Value>,
    ) -> Result<Value> {
        if let Some(&[axis]) = self.const_i64s(axis).as_deref() {
            let axis = self.axis(axis, rank)?;
            return f(self, axis);
        }
        if rank == 0 {
            return invalid("a scalar has no axes");
        }
        if rank > 64 {
            return Err(Refusal::ComputedAxis { rank }.into());
        }
        let axis = self.to_index(axis)?;
        let zero = self.b.i64(0);
        let negative = self.compare(CompareOp::Lt, axis, zero)?;
        let size = self.b.i64(rank as i64);
        let from_end = self.add(axis, size)?;
        let axis = self.select(negative, from_end, axis)?;
        self.choose_axis(axis, 0, rank, f)
    }

    fn choose_axis(
        &mut self,
        axis: Value,
        first: usize,
        rank: usize,
        f: &dyn Fn(&mut Self, usize) -> Result<Value>,
    ) -> Result<Value> {
        if first + 1 == rank {
            return f(self, first);
        }
        let here = self.b.i64(first as i64);
        let here = self.compare(CompareOp::Eq, axis, here)?;
        let chosen = self.branch(
            here,
            |cx| Ok(vec![f(cx, first)?]),
            |cx| Ok(vec![cx.choose_axis(axis, first + 1, rank, f)?]),
        )?;
        Ok(chosen[0])
    }

    /// States that an `i64[?]` value has `len` elements.
    pub fn set_len(&mut self, x: Value, len: usize) -> Result<()> {
        let ty = Type::tensor(DType::I64, vec![Dim::from(len)]);
        Ok(self.b.refine_type(x, ty)?)
    }

    /// The indices of the true elements of a `bool[k]` value, as `i64[?]`.
    pub fn true_indices(&mut self, mask: Value) -> Result<Value> {
        let found = self.op(Op::NonZero, &[mask])?;
        self.reshape(found, &[-1])
    }
}
