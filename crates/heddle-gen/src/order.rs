//! Reductions, order and contractions.

use heddle_ir::op::{BinaryOp, Extreme, ReduceOp};
use heddle_ir::{DType, Op, Value};
use rand::RngExt;

use crate::body::Body;

impl Body<'_> {
    pub(crate) fn order(&mut self) {
        let x = self.tensor();
        match self.rng.random_range(0..13) {
            0..5 => {
                let v = self.reduce(x);
                self.keep(v);
            }
            5 => {
                let v = self.arg_reduce(x);
                self.keep(v);
            }
            6..8 => {
                let v = self.cumulative(x);
                self.keep(v);
            }
            12 => {
                let v = self.segment_reduce(x);
                self.keep(v);
            }
            8 => self.top_k(x),
            9 => self.unique(x),
            _ => {
                let v = self.dot(x);
                self.keep(v);
            }
        }
    }

    fn kind(&mut self, dtype: DType) -> ReduceOp {
        match (dtype, self.rng.random_bool(0.5)) {
            (DType::Bool, true) => ReduceOp::Max,
            (DType::Bool, false) => ReduceOp::Min,
            _ => ReduceOp::ALL[self.rng.random_range(0..ReduceOp::ALL.len())],
        }
    }

    fn reduce(&mut self, x: Value) -> Value {
        let dtype = self.dtype(x);
        let axes = (0..self.rank(x))
            .filter(|_| self.rng.random_bool(0.5))
            .collect();
        let (kind, keep) = (self.kind(dtype), self.rng.random_bool(0.5));
        self.op(Op::Reduce { kind, axes, keep }, &[x])
    }

    /// `x` of an arithmetic type with an axis, none of which is empty.
    fn ordered(&mut self, x: Value) -> (Value, usize) {
        let x = match (self.dtype(x), self.rank(x)) {
            (DType::Bool, _) => self.cast(x, DType::U8),
            _ => x,
        };
        let x = match self.rank(x) {
            0 => self.with_rank(x, 1),
            _ => x,
        };
        let x = self.nonempty(x);
        let axis = self.rng.random_range(0..self.rank(x));
        (x, axis)
    }

    fn extreme(&mut self) -> Extreme {
        Extreme::ALL[self.rng.random_range(0..2)]
    }

    fn arg_reduce(&mut self, x: Value) -> Value {
        let (x, axis) = self.ordered(x);
        let op = Op::ArgReduce {
            kind: self.extreme(),
            axis,
            keep: self.rng.random_bool(0.5),
            last: self.rng.random_bool(0.5),
        };
        self.op(op, &[x])
    }

    fn cumulative(&mut self, x: Value) -> Value {
        let x = match self.rank(x) {
            0 => self.with_rank(x, 1),
            _ => x,
        };
        let dtype = self.dtype(x);
        let op = Op::Cumulative {
            kind: self.kind(dtype),
            axis: self.rng.random_range(0..self.rank(x)),
            exclusive: self.rng.random_bool(0.5),
            reverse: self.rng.random_bool(0.5),
        };
        self.op(op, &[x])
    }

    /// Ranges of a few random places, some of them empty.
    fn segment_reduce(&mut self, x: Value) -> Value {
        let x = match self.rank(x) {
            0 => self.with_rank(x, 1),
            _ => x,
        };
        let (dtype, size) = (self.dtype(x), self.size(x, 0));
        let mut places: Vec<i64> = (0..self.rng.random_range(0..4))
            .map(|_| self.rng.random_range(0..5))
            .collect();
        places.sort_unstable();
        let places = self.b.i64s(&places);
        let places = self.op(Op::Binary(BinaryOp::Min), &[places, size]);
        let (begin, end) = (
            self.b.i64s(&[0]),
            self.op(Op::Unsqueeze { axes: vec![0] }, &[size]),
        );
        let offsets = self.op(Op::Concat { axis: 0 }, &[begin, places, end]);
        let kind = self.kind(dtype);
        self.op(Op::SegmentReduce { kind }, &[x, offsets])
    }

    fn top_k(&mut self, x: Value) {
        let (x, axis) = self.ordered(x);
        let (size, k) = (self.size(x, axis), self.below(4));
        let k = self.op(Op::Binary(BinaryOp::Min), &[k, size]);
        let kind = self.extreme();
        for v in self.ops(Op::TopK { axis, kind }, &[x, k]) {
            self.keep(v);
        }
    }

    fn unique(&mut self, x: Value) {
        let (x, axis) = self.ordered(x);
        let op = Op::Unique {
            axis: self.rng.random_bool(0.5).then_some(axis),
            sorted: self.rng.random_bool(0.5),
        };
        for v in self.ops(op, &[x]) {
            self.keep(v);
        }
    }

    fn dot(&mut self, x: Value) -> Value {
        let x = match self.dtype(x) {
            DType::Bool => self.cast(x, DType::F32),
            _ => x,
        };
        let x = match self.rank(x) {
            0 | 1 => self.with_rank(x, 2),
            _ => x,
        };
        let dtype = self.dtype(x);
        let inner = self.size(x, self.rank(x) - 1);
        let inner = self.op(Op::Unsqueeze { axes: vec![0] }, &[inner]);
        let columns = self.rng.random_range(0..4);
        let columns = self.b.i64s(&[columns]);
        let shape = self.op(Op::Concat { axis: 0 }, &[inner, columns]);
        let y = self.tensor_of(dtype);
        let y = self.fit(y, shape);
        self.op(Op::Dot, &[x, y])
    }
}
