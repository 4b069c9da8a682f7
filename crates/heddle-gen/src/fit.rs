//! Making any value fit any shape.

use heddle_ir::op::{BinaryOp, PadMode, ReduceOp};
use heddle_ir::{Dim, Op, Value};
use rand::RngExt;

use crate::body::{Body, MAX_SIZE, dims};

impl Body<'_> {
    /// The elements of `x`, in row-major order, in this shape (`i64[k]`): repeated from zero when
    /// there are too few.
    pub(crate) fn fit(&mut self, x: Value, shape: Value) -> Value {
        let fits = |known: &[Dim]| {
            let sizes = dims(self.b.ty(x));
            sizes.len() == known.len() && sizes.iter().zip(known).all(|(a, b)| a.equals(b))
        };
        if self.b.known(shape).is_some_and(fits) && self.rng.random_bool(0.9) {
            return x;
        }
        let product = Op::Reduce {
            kind: ReduceOp::Prod,
            axes: vec![0],
            keep: true,
        };
        let count = self.op(product, &[shape]);
        let all = self.b.i64s(&[-1]);
        let flat = self.op(Op::Reshape, &[x, all]);
        let zero = self.zero_like(x);
        let zeros = self.op(Op::Broadcast, &[zero, count]);
        let long = self.op(Op::Concat { axis: 0 }, &[flat, zeros]);
        let (start, step) = (self.b.i64s(&[0]), self.b.i64s(&[1]));
        let cut = self.op(Op::Slice { axes: vec![0] }, &[long, start, count, step]);
        self.op(Op::Reshape, &[cut, shape])
    }

    /// `x` in the shape of `y`.
    pub(crate) fn fit_like(&mut self, x: Value, y: Value) -> Value {
        let shape = self.op(Op::Shape, &[y]);
        self.fit(x, shape)
    }

    /// `x` in a constant shape.
    pub(crate) fn fit_static(&mut self, x: Value, shape: &[usize]) -> Value {
        let shape: Vec<_> = shape.iter().map(|&d| d as i64).collect();
        let shape = self.b.i64s(&shape);
        self.fit(x, shape)
    }

    /// `x` with this many axes, of any size that values may have.
    pub(crate) fn with_rank(&mut self, x: Value, rank: usize) -> Value {
        if self.rank(x) == rank {
            return x;
        }
        if rank == 0 {
            return self.fit_static(x, &[]);
        }
        let flat = self.flat(x);
        let axes: Vec<_> = (0..rank - 1).collect();
        match axes.is_empty() {
            true => flat,
            false => self.op(Op::Unsqueeze { axes }, &[flat]),
        }
    }

    /// The first elements of `x` in one axis.
    pub(crate) fn flat(&mut self, x: Value) -> Value {
        let all = self.b.i64s(&[-1]);
        let flat = self.op(Op::Reshape, &[x, all]);
        self.cut(flat)
    }

    /// `x`, with axes cut to the maximum size.
    pub(crate) fn cut(&mut self, x: Value) -> Value {
        let small = |d: &Dim| match d {
            Dim::Unknown(max) => max.is_some_and(|m| m <= MAX_SIZE as u64),
            d => {
                d.as_const().is_some_and(|c| c <= MAX_SIZE as i64)
                    || d.as_expr().is_some_and(|e| e.as_sym().is_some())
            }
        };
        let long = dims(self.b.ty(x))
            .iter()
            .enumerate()
            .filter(|(_, d)| !small(d));
        let axes: Vec<_> = long.map(|(i, _)| i).collect();
        if axes.is_empty() {
            return x;
        }
        let n = axes.len();
        let [start, end, step] = [0, MAX_SIZE as i64, 1].map(|v| self.b.i64s(&vec![v; n]));
        self.op(Op::Slice { axes }, &[x, start, end, step])
    }

    /// The zero (or false) of an element type.
    pub(crate) fn zero_like(&mut self, x: Value) -> Value {
        let dtype = self.dtype(x);
        self.b.scalar(dtype, 0.0)
    }

    /// The size of an axis, as `i64[]`.
    pub(crate) fn size(&mut self, x: Value, axis: usize) -> Value {
        let shape = self.op(Op::Shape, &[x]);
        let axis = self.b.i64(axis as i64);
        self.op(Op::Gather { axis: 0 }, &[shape, axis])
    }

    /// Some size that axes may have, as `i64[]`.
    pub(crate) fn some_size(&mut self) -> Value {
        let x = self.tensor();
        let rank = self.rank(x);
        match rank > 0 && self.rng.random_bool(0.5) {
            true => {
                let axis = self.rng.random_range(0..rank);
                self.size(x, axis)
            }
            false => self.below(MAX_SIZE as i64),
        }
    }

    /// `x` with one more element along each axis, so that none is empty.
    pub(crate) fn nonempty(&mut self, x: Value) -> Value {
        let rank = self.rank(x);
        if rank == 0 {
            return x;
        }
        let pads = [vec![0; rank], vec![1; rank]].concat();
        let (pads, zero) = (self.b.i64s(&pads), self.zero_like(x));
        let mode = PadMode::Constant;
        self.op(Op::Pad { mode }, &[x, pads, zero])
    }

    /// Some indices of this shape into an axis of `size` (`i64[]`, not 0).
    pub(crate) fn indices(&mut self, shape: Value, size: Value) -> Value {
        let any = self.tensor_of(heddle_ir::DType::I64);
        let any = self.fit(any, shape);
        let mut inside = self.op(Op::Binary(BinaryOp::Mod), &[any, size]);
        if self.rng.random_bool(0.2) {
            inside = self.op(Op::Binary(BinaryOp::Sub), &[inside, size]);
        }
        match self.rng.random_bool(0.2) {
            true => self.cast(inside, heddle_ir::DType::I32),
            false => inside,
        }
    }
}
