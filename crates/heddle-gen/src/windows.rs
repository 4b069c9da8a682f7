//! Convolutions and windows.

use heddle_ir::op::ReduceOp;
use heddle_ir::{DType, Op, Value};
use rand::RngExt;

use crate::body::Body;

impl Body<'_> {
    pub(crate) fn window(&mut self) {
        let v = match self.rng.random_bool(0.5) {
            true => self.conv(),
            false => self.windows(),
        };
        self.keep(v);
    }

    fn conv(&mut self) -> Value {
        let spatial = self.rng.random_range(1..3);
        let groups = self.rng.random_range(1..3usize);
        let some = |s: &mut Self, n: usize| {
            (0..spatial)
                .map(|_| s.rng.random_range(1..=n))
                .collect::<Vec<_>>()
        };
        let channels = self.rng.random_range(1..3);
        let x_sizes: Vec<_> = (0..spatial).map(|_| self.rng.random_range(0..5)).collect();
        let x_shape = [
            vec![self.rng.random_range(0..3), channels * groups],
            x_sizes,
        ]
        .concat();
        let outputs = self.rng.random_range(0..3) * groups;
        let w_shape = [vec![outputs, channels], some(self, 3)].concat();
        let x = self.tensor();
        let x = match self.dtype(x) {
            DType::Bool => self.cast(x, DType::F32),
            _ => x,
        };
        let w = self.tensor_of(self.dtype(x));
        let (x, w) = (self.fit_static(x, &x_shape), self.fit_static(w, &w_shape));
        let pads: Vec<i64> = (0..2 * spatial)
            .map(|_| self.rng.random_range(0..3))
            .collect();
        let pads = self.b.i64s(&pads);
        let op = Op::Conv {
            strides: some(self, 2),
            dilations: some(self, 2),
            input_dilations: some(self, 2),
            groups,
        };
        self.op(op, &[x, w, pads])
    }

    fn windows(&mut self) -> Value {
        let x = self.tensor();
        let rank = self.rank(x);
        let axes = self.rng.random_range(0..=rank.min(2));
        let some = |s: &mut Self, n: usize| {
            (0..axes)
                .map(|_| s.rng.random_range(1..=n))
                .collect::<Vec<_>>()
        };
        let pads: Vec<i64> = (0..2 * axes).map(|_| self.rng.random_range(0..2)).collect();
        let pads = self.b.i64s(&pads);
        let kind = match (self.dtype(x), self.rng.random_bool(0.5)) {
            (DType::Bool, true) => ReduceOp::Max,
            (DType::Bool, false) => ReduceOp::Min,
            _ => ReduceOp::ALL[self.rng.random_range(0..ReduceOp::ALL.len())],
        };
        let op = Op::Window {
            kind,
            window: some(self, 3),
            strides: some(self, 2),
            dilations: some(self, 2),
        };
        self.op(op, &[x, pads])
    }
}
