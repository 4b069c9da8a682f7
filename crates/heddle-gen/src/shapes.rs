//! Shapes and views.

use heddle_ir::op::{BinaryOp, PadMode, ReduceOp};
use heddle_ir::{DType, Op, Value};
use rand::RngExt;

use crate::body::{Body, MAX_AXES};

impl Body<'_> {
    pub(crate) fn view(&mut self) {
        let x = self.tensor();
        let rank = self.rank(x);
        let v = match self.rng.random_range(0..16) {
            0 => self.op(Op::Shape, &[x]),
            1 => self.flat(x),
            2 => self.reversed(x),
            3..5 => {
                let mut perm: Vec<_> = (0..rank).collect();
                for i in (1..rank).rev() {
                    perm.swap(i, self.rng.random_range(0..=i));
                }
                self.op(Op::Transpose { perm }, &[x])
            }
            5 if rank < MAX_AXES => {
                let axes = vec![self.rng.random_range(0..=rank)];
                self.op(Op::Unsqueeze { axes }, &[x])
            }
            6 if rank > 0 => self.squeezed(x),
            7 if rank < MAX_AXES => self.broadcast(x),
            8..11 if rank > 0 => self.slice(x),
            11..14 if rank > 0 => self.concat(x),
            14.. => self.pad(x),
            _ => {
                let y = self.tensor();
                let y = self.fit_like(x, y);
                self.cut(y)
            }
        };
        self.keep(v);
    }

    /// Reshaped to its sizes in the opposite order.
    fn reversed(&mut self, x: Value) -> Value {
        let shape = self.op(Op::Shape, &[x]);
        let [start, end, step] = [-1, i64::MIN, -1].map(|v| self.b.i64s(&[v]));
        let back = self.op(Op::Slice { axes: vec![0] }, &[shape, start, end, step]);
        self.op(Op::Reshape, &[x, back])
    }

    fn squeezed(&mut self, x: Value) -> Value {
        let axis = self.rng.random_range(0..self.rank(x));
        let kind = ReduceOp::Max;
        let axes = vec![axis];
        let one = self.op(
            Op::Reduce {
                kind,
                axes: axes.clone(),
                keep: true,
            },
            &[x],
        );
        self.op(Op::Squeeze { axes }, &[one])
    }

    fn broadcast(&mut self, x: Value) -> Value {
        let shape = self.op(Op::Shape, &[x]);
        let size = self.some_size();
        let size = self.op(Op::Unsqueeze { axes: vec![0] }, &[size]);
        let shape = self.op(Op::Concat { axis: 0 }, &[size, shape]);
        self.op(Op::Broadcast, &[x, shape])
    }

    fn slice(&mut self, x: Value) -> Value {
        let axes: Vec<_> = (0..self.rank(x))
            .filter(|_| self.rng.random_bool(0.7))
            .collect();
        let n = axes.len();
        let mut bounds = |extremes: [i64; 2]| {
            if n == 1 && self.rng.random_bool(0.3) {
                let v = self.scalar(DType::I64);
                return self.op(Op::Unsqueeze { axes: vec![0] }, &[v]);
            }
            let some = |_| match self.rng.random_range(0..6) {
                0 => extremes[0],
                1 => extremes[1],
                _ => self.rng.random_range(-6..7),
            };
            let values: Vec<_> = (0..n).map(some).collect();
            self.b.i64s(&values)
        };
        let (start, end) = (bounds([0, i64::MIN]), bounds([i64::MAX, i64::MIN]));
        let step = match n == 1 && self.rng.random_bool(0.2) {
            true => {
                let (v, one) = (self.below(3), self.b.i64(1));
                let v = self.op(Op::Binary(BinaryOp::Add), &[v, one]);
                self.op(Op::Unsqueeze { axes: vec![0] }, &[v])
            }
            false => {
                let some = |_| [1, 1, 1, 2, -1, -2, i64::MAX][self.rng.random_range(0..7)];
                let values: Vec<_> = (0..n).map(some).collect();
                self.b.i64s(&values)
            }
        };
        self.op(Op::Slice { axes }, &[x, start, end, step])
    }

    fn concat(&mut self, x: Value) -> Value {
        let dtype = self.dtype(x);
        let axis = self.rng.random_range(0..self.rank(x));
        let mut parts = vec![x];
        for _ in 0..self.rng.random_range(0..3) {
            let y = self.tensor_of(dtype);
            parts.push(self.fit_like(y, x));
        }
        self.op(Op::Concat { axis }, &parts)
    }

    fn pad(&mut self, x: Value) -> Value {
        let x = self.nonempty(x);
        let rank = self.rank(x);
        let zero = self.zero_like(x);
        // Every axis has at least one element to mirror or wrap.
        let mode = PadMode::ALL[self.rng.random_range(0..PadMode::ALL.len())];
        let most = match mode {
            PadMode::Constant => 3,
            PadMode::Edge | PadMode::Wrap => 2,
            PadMode::Reflect => 1,
        };
        let pads: Vec<i64> = (0..2 * rank)
            .map(|_| self.rng.random_range(0..most))
            .collect();
        let pads = match self.rng.random_bool(0.2) && rank > 0 {
            // Dynamic counts, from the operand's own axes.
            true if mode == PadMode::Constant => {
                let (zeros, shape) = (self.b.i64s(&vec![0; rank]), self.op(Op::Shape, &[x]));
                self.op(Op::Concat { axis: 0 }, &[shape, zeros])
            }
            _ => self.b.i64s(&pads),
        };
        let value = match mode {
            PadMode::Constant => {
                let dtype = self.dtype(x);
                self.scalar(dtype)
            }
            _ => zero,
        };
        self.op(Op::Pad { mode }, &[x, pads, value])
    }
}
