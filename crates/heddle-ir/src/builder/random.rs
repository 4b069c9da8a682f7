//! Random numbers: functions of a key, a `u64`.
//!
//! Draws with one key give the same numbers. Whoever wants others derives a key for each draw, iteration and call
//! ([`FuncBuilder::fold_in`]); an array of keys, broadcast against the counters, draws a batch.

use crate::builder::FuncBuilder;
use crate::op::{BinaryOp, ReduceOp, UnaryOp};
use crate::{DType, Op, Tensor, TypeError, Value};

type Result<T> = std::result::Result<T, TypeError>;

impl FuncBuilder {
    /// A constant key or number, `u64[]`.
    pub fn key(&mut self, seed: u64) -> Value {
        self.constant(Tensor::scalar(seed))
    }

    /// Appends the key that a key and a number, an integer, determine.
    pub fn fold_in(&mut self, key: Value, number: Value) -> Result<Value> {
        let number = self.cast(DType::U64, number)?;
        self.binary(BinaryOp::Philox, key, number)
    }

    /// Appends uniform numbers in `[0, 1)`, `f32` or `f64`, of a shape, `i64[k]`. They are multiples of 2^-24 or 2^-53.
    pub fn uniform(&mut self, dtype: DType, key: Value, shape: Value) -> Result<Value> {
        let (bits, integer) = match dtype {
            DType::F64 => (53, DType::I64),
            _ => (24, DType::I32),
        };
        let (kind, axes, keep) = (ReduceOp::Prod, vec![0], false);
        let count = self.op1(Op::Reduce { kind, axes, keep }, &[shape])?;
        let counters = self.iota(count)?;
        let counters = self.op1(Op::Reshape, &[counters, shape])?;
        let random = self.fold_in(key, counters)?;
        let unused = self.key(64 - bits);
        let random = self.binary(BinaryOp::Shr, random, unused)?;
        let random = self.cast(integer, random)?;
        let random = self.cast(dtype, random)?;
        let step = self.scalar(dtype, 1.0 / (1u64 << bits) as f64);
        self.binary(BinaryOp::Mul, random, step)
    }

    /// Appends normal numbers with mean 0 and deviation 1, `f32` or `f64`, of a shape, `i64[k]` (Box and Muller).
    pub fn normal(&mut self, dtype: DType, key: Value, shape: Value) -> Result<Value> {
        let (first, second) = (self.key(0), self.key(1));
        let keys = [self.fold_in(key, first)?, self.fold_in(key, second)?];
        let unary = |b: &mut Self, op, x| b.op1(Op::Unary(op), &[x]);
        let one = self.scalar(dtype, 1.0);
        let u = self.uniform(dtype, keys[0], shape)?;
        // In (0, 1], so that the logarithm is finite.
        let u = self.binary(BinaryOp::Sub, one, u)?;
        let log = unary(self, UnaryOp::Log, u)?;
        let minus_two = self.scalar(dtype, -2.0);
        let radius = self.binary(BinaryOp::Mul, minus_two, log)?;
        let radius = unary(self, UnaryOp::Sqrt, radius)?;
        let turn = self.uniform(dtype, keys[1], shape)?;
        let tau = self.scalar(dtype, std::f64::consts::TAU);
        let angle = self.binary(BinaryOp::Mul, turn, tau)?;
        let cos = unary(self, UnaryOp::Cos, angle)?;
        self.binary(BinaryOp::Mul, radius, cos)
    }
}
