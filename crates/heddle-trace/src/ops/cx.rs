//! The node that is being lowered: facts about values, and instructions.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Dim, FuncBuilder, Op, TensorType, Value};

use super::args::Int;
use crate::error::{OpError, Result, invalid};
use crate::graph::Node;
use crate::scope::{Constants, Scope};

/// A node, and the function that its instructions go to.
pub struct NodeCx<'a> {
    pub b: &'a mut FuncBuilder,
    pub node: &'a Node,
    pub scope: &'a Scope,
    pub constants: &'a Constants,
    /// The key of the function's random numbers, if its caller gives one.
    pub key: Option<Value>,
    /// Iterations of the loops around.
    pub iterations: &'a [Value],
    /// The number of the next draw.
    pub draws: &'a mut u64,
}

/// Facts about values.
impl NodeCx<'_> {
    /// The type of an array.
    pub fn tensor_ty(&self, v: Value) -> Result<&TensorType> {
        let ty = self.b.ty(v);
        ty.as_tensor()
            .ok_or_else(|| OpError::Invalid(format!("an array is needed, not {ty}")))
    }

    /// The element type.
    pub fn dtype(&self, v: Value) -> Result<DType> {
        Ok(self.tensor_ty(v)?.dtype)
    }

    /// The sizes.
    pub fn shape(&self, v: Value) -> Result<Vec<Dim>> {
        let shape = self.tensor_ty(v)?.shape.clone();
        shape.ok_or_else(|| OpError::Unsupported("the number of axes is not known".into()))
    }

    /// The number of axes.
    pub fn rank(&self, v: Value) -> Result<usize> {
        Ok(self.shape(v)?.len())
    }

    /// The integers that a small array is known to hold.
    pub fn const_i64s(&self, v: Value) -> Option<Vec<i64>> {
        if self.tensor_ty(v).is_ok_and(|t| t.dtype.is_float()) {
            return None;
        }
        let known = self.b.known(v);
        let small = known.and_then(|k| k.iter().map(Dim::as_const).collect());
        small.or_else(|| self.b.func().constant(v)?.to_i64s())
    }

    /// An axis, counted from the end if it is negative. An array without axes has the axis 0 where `rank` is 0.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let r = rank.max(1) as i64;
        if axis < -r || axis >= r {
            return invalid(format!("axis {axis} is out of range for {rank} axes"));
        }
        Ok((if axis < 0 { axis + r } else { axis }) as usize)
    }

    /// Axes in ascending order; none of an array without axes.
    pub fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>> {
        let list = axes.iter().map(|&a| self.axis(a, rank));
        let mut list = list.collect::<Result<Vec<_>>>()?;
        list.sort_unstable();
        if list.windows(2).any(|w| w[0] == w[1]) {
            return invalid(format!("axes {axes:?} name one twice"));
        }
        list.retain(|&axis| axis < rank);
        Ok(list)
    }

    /// Axes of an argument; all of them if it is left out or empty.
    pub fn axes_arg(&mut self, i: usize, name: &str, rank: usize) -> Result<Vec<usize>> {
        let axes = self.ints(i, name)?;
        match axes.is_empty() {
            true => Ok((0..rank).collect()),
            false => self.axes(&axes, rank),
        }
    }
}

/// Instructions.
impl NodeCx<'_> {
    /// An op with one result.
    pub fn op(&mut self, op: Op, args: &[Value]) -> Result<Value> {
        Ok(self.b.op1(op, args)?)
    }

    pub fn unary(&mut self, kind: UnaryOp, x: Value) -> Result<Value> {
        self.op(Op::Unary(kind), &[x])
    }

    /// Both operands are of one element type.
    pub fn binary(&mut self, kind: BinaryOp, a: Value, b: Value) -> Result<Value> {
        self.op(Op::Binary(kind), &[a, b])
    }

    pub fn compare(&mut self, kind: CompareOp, a: Value, b: Value) -> Result<Value> {
        self.op(Op::Compare(kind), &[a, b])
    }

    /// `a` where the condition holds, else `b`.
    pub fn select(&mut self, cond: Value, a: Value, b: Value) -> Result<Value> {
        self.op(Op::Select, &[cond, a, b])
    }

    pub fn add(&mut self, a: Value, b: Value) -> Result<Value> {
        self.binary(BinaryOp::Add, a, b)
    }

    pub fn sub(&mut self, a: Value, b: Value) -> Result<Value> {
        self.binary(BinaryOp::Sub, a, b)
    }

    pub fn mul(&mut self, a: Value, b: Value) -> Result<Value> {
        self.binary(BinaryOp::Mul, a, b)
    }

    pub fn div(&mut self, a: Value, b: Value) -> Result<Value> {
        self.binary(BinaryOp::Div, a, b)
    }

    /// A number of the element type of `x`.
    pub fn like(&mut self, x: Value, number: f64) -> Result<Value> {
        let dtype = self.dtype(x)?;
        Ok(self.b.scalar(dtype, number))
    }

    /// `x + number`.
    pub fn plus(&mut self, x: Value, number: f64) -> Result<Value> {
        let number = self.like(x, number)?;
        self.add(x, number)
    }

    /// `x * number`.
    pub fn times(&mut self, x: Value, number: f64) -> Result<Value> {
        if number == 1.0 {
            return Ok(x);
        }
        let number = self.like(x, number)?;
        self.mul(x, number)
    }

    /// `1 / x`.
    pub fn inverse(&mut self, x: Value) -> Result<Value> {
        let one = self.like(x, 1.0)?;
        self.div(one, x)
    }

    /// The larger of each element and a number.
    pub fn at_least(&mut self, x: Value, number: f64) -> Result<Value> {
        let number = self.like(x, number)?;
        self.binary(BinaryOp::Max, x, number)
    }

    /// The smaller of each element and a number.
    pub fn at_most(&mut self, x: Value, number: f64) -> Result<Value> {
        let number = self.like(x, number)?;
        self.binary(BinaryOp::Min, x, number)
    }

    /// Compares with a number.
    pub fn compare_with(&mut self, kind: CompareOp, x: Value, number: f64) -> Result<Value> {
        let number = self.like(x, number)?;
        self.compare(kind, x, number)
    }

    /// As another element type.
    pub fn cast(&mut self, x: Value, to: DType) -> Result<Value> {
        Ok(self.b.cast(to, x)?)
    }

    pub fn reshape(&mut self, x: Value, sizes: &[Int]) -> Result<Value> {
        let shape = self.ints_value(sizes)?;
        self.op(Op::Reshape, &[x, shape])
    }

    /// As one axis.
    pub fn flat(&mut self, x: Value) -> Result<Value> {
        self.reshape(x, &[Int::Const(-1)])
    }

    /// Result axis `i` is axis `perm[i]`.
    pub fn transpose(&mut self, x: Value, perm: &[usize]) -> Result<Value> {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return Ok(x);
        }
        let perm = perm.to_vec();
        self.op(Op::Transpose { perm }, &[x])
    }

    /// Two axes exchanged.
    pub fn swap(&mut self, x: Value, a: usize, b: usize) -> Result<Value> {
        let mut perm: Vec<usize> = (0..self.rank(x)?).collect();
        perm.swap(a, b);
        self.transpose(x, &perm)
    }

    /// Adds axes of size 1: the result's `axes`, ascending.
    pub fn unsqueeze(&mut self, x: Value, axes: &[usize]) -> Result<Value> {
        let axes = axes.to_vec();
        match axes.is_empty() {
            true => Ok(x),
            false => self.op(Op::Unsqueeze { axes }, &[x]),
        }
    }

    /// Removes axes of size 1, ascending.
    pub fn squeeze(&mut self, x: Value, axes: &[usize]) -> Result<Value> {
        let axes = axes.to_vec();
        match axes.is_empty() {
            true => Ok(x),
            false => self.op(Op::Squeeze { axes }, &[x]),
        }
    }

    /// Broadcast to sizes.
    pub fn broadcast(&mut self, x: Value, sizes: &[Int]) -> Result<Value> {
        let shape = self.ints_value(sizes)?;
        self.op(Op::Broadcast, &[x, shape])
    }

    /// Broadcast to the shape of another array.
    pub fn broadcast_like(&mut self, x: Value, like: Value) -> Result<Value> {
        if self.shape(x)?.iter().all(|d| d.as_const().is_some())
            && self.shape(x)? == self.shape(like)?
        {
            return Ok(x);
        }
        let sizes = self.sizes(like)?;
        self.broadcast(x, &sizes)
    }

    /// An array of these sizes, each element one number, `T[]`.
    pub fn filled(&mut self, number: Value, sizes: &[Int]) -> Result<Value> {
        match sizes.is_empty() {
            true => Ok(number),
            false => self.broadcast(number, sizes),
        }
    }

    /// `x[.., start..end, ..]` with Python's meaning of negative bounds.
    pub fn slice(
        &mut self,
        x: Value,
        axis: usize,
        start: Int,
        end: Int,
        step: Int,
    ) -> Result<Value> {
        let mut bounds = [x; 4];
        for (place, n) in bounds[1..].iter_mut().zip([start, end, step]) {
            *place = self.ints_value(&[n])?;
        }
        self.op(Op::Slice { axes: vec![axis] }, &bounds)
    }

    /// In reverse order along an axis.
    pub fn reverse(&mut self, x: Value, axis: usize) -> Result<Value> {
        self.slice(x, axis, (-1).into(), i64::MIN.into(), (-1).into())
    }

    pub fn concat(&mut self, parts: &[Value], axis: usize) -> Result<Value> {
        match parts {
            [one] => Ok(*one),
            _ => self.op(Op::Concat { axis }, parts),
        }
    }

    /// The shape of `indices` replaces the axis.
    pub fn gather(&mut self, x: Value, indices: Value, axis: usize) -> Result<Value> {
        self.op(Op::Gather { axis }, &[x, indices])
    }

    /// `0, 1, …` below a number, `i64`.
    pub fn iota(&mut self, count: Int) -> Result<Value> {
        let count = self.int_value(count);
        Ok(self.b.iota(count)?)
    }

    /// A reduction over axes, ascending.
    pub fn reduce(
        &mut self,
        kind: ReduceOp,
        x: Value,
        axes: &[usize],
        keep: bool,
    ) -> Result<Value> {
        let axes = axes.to_vec();
        self.op(Op::Reduce { kind, axes, keep }, &[x])
    }

    /// The mean over axes of floats.
    pub fn mean(&mut self, x: Value, axes: &[usize], keep: bool) -> Result<Value> {
        let sum = self.reduce(ReduceOp::Sum, x, axes, keep)?;
        let count = self.count(x, axes)?;
        let count = self.real(count, x)?;
        self.div(sum, count)
    }

    /// An integer as a number of the element type of `x`.
    pub fn real(&mut self, n: Int, x: Value) -> Result<Value> {
        let dtype = self.dtype(x)?;
        match n {
            Int::Const(n) => Ok(self.b.scalar(dtype, n as f64)),
            Int::Value(value) => self.cast(value, dtype),
        }
    }

    /// `exp(x) / sum(exp(x))` along an axis, without overflow.
    pub fn softmax(&mut self, x: Value, axis: usize) -> Result<Value> {
        let max = self.reduce(ReduceOp::Max, x, &[axis], true)?;
        let shifted = self.sub(x, max)?;
        let exp = self.unary(UnaryOp::Exp, shifted)?;
        let sum = self.reduce(ReduceOp::Sum, exp, &[axis], true)?;
        self.div(exp, sum)
    }

    /// Matrix product; vectors get an axis, which is dropped again.
    pub fn matmul(&mut self, a: Value, b: Value) -> Result<Value> {
        let (ra, rb) = (self.rank(a)?, self.rank(b)?);
        if ra == 0 || rb == 0 {
            return invalid("a matrix product takes no scalars");
        }
        let x = if ra == 1 { self.unsqueeze(a, &[0])? } else { a };
        let y = if rb == 1 { self.unsqueeze(b, &[1])? } else { b };
        let mut z = self.op(Op::Dot, &[x, y])?;
        let rank = self.rank(z)?;
        if rb == 1 {
            z = self.squeeze(z, &[rank - 1])?;
        }
        if ra == 1 {
            let axis = if rb == 1 { rank - 2 } else { self.rank(z)? - 2 };
            z = self.squeeze(z, &[axis])?;
        }
        Ok(z)
    }

    /// A vector with axes of size 1 behind it.
    pub fn per_channel(&mut self, x: Value, behind: usize) -> Result<Value> {
        self.unsqueeze(x, &(1..=behind).collect::<Vec<_>>())
    }

    /// The array that stands for a result that is not asked for: `f32[0]`.
    pub fn nothing(&mut self) -> Result<Value> {
        let none: [f32; 0] = [];
        Ok(self.b.constant(heddle_ir::Tensor::vector(&none)))
    }

    /// Floats of under 32 bits as `f32`: what several operations compute rounds once.
    pub fn widen(&mut self, x: Value) -> Result<Value> {
        match self.dtype(x)? {
            DType::F16 | DType::Bf16 => self.cast(x, DType::F32),
            _ => Ok(x),
        }
    }
}
