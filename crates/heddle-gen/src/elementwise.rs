//! Elementwise ops, casts and strings.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, StrOp, UnaryOp};
use heddle_ir::{DType, Op, Value};
use rand::RngExt;

use crate::body::{Body, strings};
use crate::data;

impl Body<'_> {
    pub(crate) fn elementwise(&mut self) {
        let v = match self.rng.random_range(0..21) {
            0..5 => self.unary(),
            5..12 => self.binary(),
            12..14 => self.compare(),
            14..16 => self.select(),
            16 => {
                let (x, to) = (self.tensor(), data::dtype(self.rng));
                self.cast(x, to)
            }
            17 => self.small(),
            18 => self.bitcast(),
            19 => self.draw(),
            _ => self.string(),
        };
        self.keep(v);
    }

    fn unary(&mut self) -> Value {
        let mut x = self.tensor();
        let kind = UnaryOp::ALL[self.rng.random_range(0..UnaryOp::ALL.len())];
        use UnaryOp::*;
        let d = self.dtype(x);
        let fits = match kind {
            Neg | Abs | Sign => d.is_arith(),
            Not => d.is_int() || d == DType::Bool,
            _ => d.is_float(),
        };
        if !fits {
            let to = if kind == Not { DType::Bool } else { DType::F32 };
            x = self.cast(x, to);
        }
        self.op(Op::Unary(kind), &[x])
    }

    /// A second operand that broadcasts with `x`.
    fn partner(&mut self, x: Value) -> Value {
        let dtype = self.dtype(x);
        match self.rng.random_range(0..8) {
            0 => x,
            1..4 => self.scalar(dtype),
            4 if self.rank(x) > 0 => {
                // One row, repeated along the other axis.
                let y = self.tensor_of(dtype);
                let y = self.fit_like(y, x);
                let kind = ReduceOp::Max;
                let axis = self.rng.random_range(0..self.rank(x));
                let keep = self.rng.random_bool(0.5) || axis > 0;
                let axes = vec![axis];
                self.op(Op::Reduce { kind, axes, keep }, &[y])
            }
            _ => {
                let y = self.tensor_of(dtype);
                self.fit_like(y, x)
            }
        }
    }

    fn pair(&mut self, x: Value) -> [Value; 2] {
        let y = self.partner(x);
        match self.rng.random_bool(0.3) {
            true => [y, x],
            false => [x, y],
        }
    }

    fn binary(&mut self) -> Value {
        let mut x = self.tensor();
        let kind = BinaryOp::ALL[self.rng.random_range(0..BinaryOp::ALL.len())];
        use BinaryOp::*;
        let d = self.dtype(x);
        let (fits, to) = match kind {
            Max | Min => (true, d),
            And | Or | Xor => (d.is_int() || d == DType::Bool, DType::I32),
            Shl | Shr => (d.is_int(), DType::U16),
            Atan2 => (d.is_float(), DType::F64),
            Philox | Normal | Gumbel => (d == DType::U64, DType::U64),
            _ => (d.is_arith(), DType::I64),
        };
        if !fits {
            x = self.cast(x, to);
        }
        let [a, mut b] = self.pair(x);
        if matches!(kind, Shl | Shr) {
            // Shifts by the width and more, but by no negative count.
            let dtype = self.dtype(b);
            let mask = self.b.scalar(dtype, 31.0);
            b = self.op(Op::Binary(And), &[b, mask]);
        }
        self.op(Op::Binary(kind), &[a, b])
    }

    /// Random numbers with the run's key, a key for an integer, or any.
    fn draw(&mut self) -> Value {
        let mut key = match self.rng.random_bool(0.5) {
            true => self.op(Op::RunKey, &[]),
            false => self.scalar(DType::U64),
        };
        if self.rng.random_bool(0.5) {
            let number = self.scalar(DType::I64);
            key = self.b.fold_in(key, number).expect("two numbers");
        }
        let shape: Vec<_> = self.static_shape().iter().map(|&n| n as i64).collect();
        let shape = self.b.i64s(&shape);
        let dtype = [DType::F32, DType::F64][self.rng.random_range(0..2)];
        let draws = match self.rng.random_range(0..4) {
            0 | 1 => self.b.uniform(dtype, key, shape),
            2 => self.b.normal(key, shape),
            _ => self.b.gumbel(key, shape),
        };
        let draws = draws.expect("a key and a shape");
        let (offset, factor) = match self.rng.random_bool(0.5) {
            true => (0.0, 1.0),
            false => (self.rng.random_range(-1.0..1.0), 0.75),
        };
        let drawn = self.b.scaled(dtype, draws, offset, factor);
        drawn.expect("a float type")
    }

    fn compare(&mut self) -> Value {
        let mut kind = CompareOp::ALL[self.rng.random_range(0..CompareOp::ALL.len())];
        let x = self.tensor();
        if self.dtype(x) == DType::Bool {
            kind = CompareOp::Ne;
        }
        let pair = self.pair(x);
        self.op(Op::Compare(kind), &pair)
    }

    fn select(&mut self) -> Value {
        let x = self.tensor();
        let [a, b] = self.pair(x);
        let cond = self.tensor_of(DType::Bool);
        let cond = match self.rng.random_bool(0.5) {
            true => self.scalar(DType::Bool),
            false => self.fit_like(cond, x),
        };
        self.op(Op::Select, &[cond, a, b])
    }

    /// Through an element type that is only storage.
    fn small(&mut self) -> Value {
        let storage: Vec<_> = DType::ALL
            .into_iter()
            .filter(|d| d.is_small_float() || d.is_small_int())
            .collect();
        let to = storage[self.rng.random_range(0..storage.len())];
        let x = self.tensor_of(DType::F32);
        let op = Op::Cast {
            to,
            saturate: self.rng.random_bool(0.5),
            round: heddle_ir::op::ScaleRounding::Up,
        };
        let small = self.op(op, &[x]);
        self.cast(small, DType::F32)
    }

    fn bitcast(&mut self) -> Value {
        let x = self.tensor();
        let d = self.dtype(x);
        let same = |to: &&DType| to.bits() == d.bits() && **to != DType::Bool && d != DType::Bool;
        let all: Vec<_> = data::ARITH.iter().filter(same).copied().collect();
        match all.is_empty() {
            true => x,
            false => {
                let to = all[self.rng.random_range(0..all.len())];
                self.op(Op::Bitcast { to }, &[x])
            }
        }
    }

    fn string(&mut self) -> Value {
        let [a, b] = [strings(&["a", "", "é"]), strings(&["b"])].map(|t| self.b.constant(t));
        let joined = self.op(Op::Str(StrOp::Concat), &[a, b]);
        let other = self.b.constant(strings(&["ab", "b", "éb"]));
        self.op(Op::Compare(CompareOp::Eq), &[joined, other])
    }
}
