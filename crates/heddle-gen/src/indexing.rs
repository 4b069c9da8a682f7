//! Gathering and scattering.

use heddle_ir::op::{BinaryOp, ReduceOp, ScatterReduce};
use heddle_ir::{DType, Op, Value};
use rand::RngExt;

use crate::body::Body;

/// The kinds of updates whose indices may be any.
const REDUCTIONS: [ScatterReduce; 5] = [
    ScatterReduce::Set,
    ScatterReduce::Add,
    ScatterReduce::Mul,
    ScatterReduce::Max,
    ScatterReduce::Min,
];

impl Body<'_> {
    pub(crate) fn indexing(&mut self) {
        let x = self.tensor();
        let x = match self.rank(x) {
            0 => self.with_rank(x, 1),
            _ => x,
        };
        let v = match self.rng.random_range(0..10) {
            0..3 => self.gather(x),
            3 => self.gather_elements(x),
            4 => self.gather_nd(x),
            5 => self.scatter_elements(x),
            6 => self.scatter_nd(x),
            7 => self.update_slice(x),
            8 => self.range(),
            _ => self.op(Op::NonZero, &[x]),
        };
        self.keep(v);
    }

    fn gather(&mut self, x: Value) -> Value {
        let x = self.nonempty(x);
        let axis = self.rng.random_range(0..self.rank(x));
        let size = self.size(x, axis);
        let like = self.tensor();
        let shape = self.op(Op::Shape, &[like]);
        let indices = self.indices(shape, size);
        self.op(Op::Gather { axis }, &[x, indices])
    }

    fn gather_elements(&mut self, x: Value) -> Value {
        let x = self.nonempty(x);
        let axis = self.rng.random_range(0..self.rank(x));
        let (size, shape) = (self.size(x, axis), self.op(Op::Shape, &[x]));
        let indices = self.indices(shape, size);
        self.op(Op::GatherElements { axis }, &[x, indices])
    }

    /// Some tuples of indices into the first axes of `x`: `i64[m, k]`.
    fn tuples(&mut self, x: Value, depth: usize) -> Value {
        let count = self.below(4);
        let count = self.op(Op::Unsqueeze { axes: vec![0] }, &[count]);
        let mut columns = vec![];
        for axis in 0..depth {
            let size = self.size(x, axis);
            let column = self.indices(count, size);
            let column = self.cast(column, DType::I64);
            columns.push(self.op(Op::Unsqueeze { axes: vec![1] }, &[column]));
        }
        self.op(Op::Concat { axis: 1 }, &columns)
    }

    fn gather_nd(&mut self, x: Value) -> Value {
        let x = self.nonempty(x);
        let depth = self.rng.random_range(1..=self.rank(x));
        let tuples = self.tuples(x, depth);
        self.op(Op::GatherNd { batch_dims: 0 }, &[x, tuples])
    }

    fn scatter_reduce(&mut self, dtype: DType) -> ScatterReduce {
        match dtype {
            DType::Bool => ScatterReduce::Set,
            _ => REDUCTIONS[self.rng.random_range(0..REDUCTIONS.len())],
        }
    }

    fn scatter_elements(&mut self, x: Value) -> Value {
        let x = self.nonempty(x);
        let dtype = self.dtype(x);
        let axis = self.rng.random_range(0..self.rank(x));
        let (size, shape) = (self.size(x, axis), self.op(Op::Shape, &[x]));
        let indices = self.indices(shape, size);
        let updates = self.tensor_of(dtype);
        let updates = self.fit(updates, shape);
        let reduce = self.scatter_reduce(dtype);
        self.op(Op::ScatterElements { axis, reduce }, &[x, indices, updates])
    }

    fn scatter_nd(&mut self, x: Value) -> Value {
        let x = self.nonempty(x);
        let dtype = self.dtype(x);
        let depth = self.rng.random_range(1..=self.rank(x));
        let tuples = self.tuples(x, depth);
        let count = self.size(tuples, 0);
        let count = self.op(Op::Unsqueeze { axes: vec![0] }, &[count]);
        let shape = self.op(Op::Shape, &[x]);
        let [start, end, step] = [depth as i64, i64::MAX, 1].map(|v| self.b.i64s(&[v]));
        let rest = self.op(Op::Slice { axes: vec![0] }, &[shape, start, end, step]);
        let shape = self.op(Op::Concat { axis: 0 }, &[count, rest]);
        let updates = self.tensor_of(dtype);
        let updates = self.fit(updates, shape);
        let reduce = self.scatter_reduce(dtype);
        self.op(Op::ScatterNd { reduce }, &[x, tuples, updates])
    }

    fn update_slice(&mut self, x: Value) -> Value {
        let rank = self.rank(x);
        let dtype = self.dtype(x);
        let shape = self.op(Op::Shape, &[x]);
        let most: Vec<_> = (0..rank).map(|_| self.rng.random_range(0..4)).collect();
        let most = self.b.i64s(&most);
        let part = self.op(Op::Binary(BinaryOp::Min), &[shape, most]);
        let update = self.tensor_of(dtype);
        let update = self.fit(update, part);
        let room = self.op(Op::Binary(BinaryOp::Sub), &[shape, part]);
        let one = self.b.i64(1);
        let places = self.op(Op::Binary(BinaryOp::Add), &[room, one]);
        let starts = self.tensor_of(DType::I64);
        let length = self.b.i64s(&[rank as i64]);
        let starts = self.fit(starts, length);
        let starts = self.op(Op::Binary(BinaryOp::Mod), &[starts, places]);
        self.op(Op::UpdateSlice, &[x, update, starts])
    }

    fn range(&mut self) -> Value {
        match self.rng.random_range(0..3) {
            0 => {
                let [a, b, c] = [0.0, 2.0, 0.5].map(|v| self.b.scalar(DType::F32, v));
                self.op(Op::Range, &[a, b, c])
            }
            1 => {
                let (start, step) = (self.b.i64(4), self.b.i64(-1));
                let limit = self.below(6);
                self.op(Op::Range, &[start, limit, step])
            }
            _ => {
                let x = self.tensor_of(DType::Bool);
                let x = self.cast(x, DType::I64);
                let kind = ReduceOp::Sum;
                let axes = (0..self.rank(x)).collect();
                let keep = false;
                let limit = self.op(Op::Reduce { kind, axes, keep }, &[x]);
                let (start, step) = (self.b.i64(0), self.b.i64(1));
                self.op(Op::Range, &[start, limit, step])
            }
        }
    }
}
