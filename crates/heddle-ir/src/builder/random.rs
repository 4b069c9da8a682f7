//! Random numbers: functions of a key, a `u64`.
//!
//! Draws with one key give the same numbers, on every device. Whoever wants others derives a key for each draw, iteration
//! and call ([`FuncBuilder::fold_in`]); an array of keys, broadcast against the counters, draws a batch.

use crate::builder::FuncBuilder;
use crate::op::{BinaryOp, ReduceOp};
use crate::{DType, Op, Tensor, TypeError, Value};

type Result<T> = std::result::Result<T, TypeError>;

/// Random numbers as integers in units of a power of two.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    /// `i64`.
    pub units: Value,
    /// Fraction bits: a unit is `2^-bits`.
    pub bits: u32,
}

/// The bits that a product with an `f32` leaves to the other factor, if it is to be exact in `f64`.
const EXACT: u32 = 29;

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

    /// Appends uniform numbers in `[0, 1)` of a shape, `i64[k]`: multiples of 2^-53 for `f64`, of 2^-24 for other types.
    pub fn uniform(&mut self, dtype: DType, key: Value, shape: Value) -> Result<Draws> {
        let bits = if dtype == DType::F64 { 53 } else { 24 };
        let random = self.drawn(BinaryOp::Philox, key, shape)?;
        let unused = self.key(u64::from(64 - bits));
        let random = self.binary(BinaryOp::Shr, random, unused)?;
        let units = self.cast(DType::I64, random)?;
        Ok(Draws { units, bits })
    }

    /// Appends numbers with mean 0 and deviation 1 of a shape, `i64[k]`.
    pub fn normal(&mut self, key: Value, shape: Value) -> Result<Draws> {
        self.fixed(BinaryOp::Normal, key, shape)
    }

    /// Appends numbers `-ln(-ln u)` of a shape, `i64[k]`.
    pub fn gumbel(&mut self, key: Value, shape: Value) -> Result<Draws> {
        self.fixed(BinaryOp::Gumbel, key, shape)
    }

    /// Appends the draws as numbers of a float type, rounded once.
    pub fn as_floats(&mut self, dtype: DType, draws: Draws) -> Result<Value> {
        // The compiled form of a cast from `i32` is vector code.
        let units = match draws.bits < 31 {
            true => self.cast(DType::I32, draws.units)?,
            false => draws.units,
        };
        let wide = if dtype == DType::F64 {
            dtype
        } else {
            DType::F32
        };
        let units = self.cast(wide, units)?;
        let floats = self.times_power(wide, units, draws.bits)?;
        self.cast(dtype, floats)
    }

    /// Appends `offset + factor * draws`, computed in `f64`.
    ///
    /// Products are exact, so that a device may fuse them with the sums: the numbers are the same on all.
    pub fn scaled(
        &mut self,
        dtype: DType,
        draws: Draws,
        offset: f32,
        factor: f32,
    ) -> Result<Value> {
        if (offset, factor) == (0.0, 1.0) {
            return self.as_floats(dtype, draws);
        }
        let Draws { mut units, bits } = draws;
        let mut sum = self.scalar(DType::F64, offset.into());
        let mut unit = f64::from(factor) / (1u64 << bits) as f64;
        if bits > EXACT {
            let size = self.i64(1 << EXACT);
            let lower = self.binary(BinaryOp::Rem, units, size)?;
            units = self.binary(BinaryOp::Div, units, size)?;
            let lower = self.times(lower, unit)?;
            sum = self.binary(BinaryOp::Add, lower, sum)?;
            unit *= (1u64 << EXACT) as f64;
        }
        let upper = self.times(units, unit)?;
        let scaled = self.binary(BinaryOp::Add, upper, sum)?;
        self.cast(dtype, scaled)
    }

    fn times(&mut self, units: Value, factor: f64) -> Result<Value> {
        let units = self.cast(DType::F64, units)?;
        let factor = self.scalar(DType::F64, factor);
        self.binary(BinaryOp::Mul, units, factor)
    }

    fn times_power(&mut self, dtype: DType, units: Value, bits: u32) -> Result<Value> {
        let unit = self.scalar(dtype, 1.0 / (1u64 << bits) as f64);
        self.binary(BinaryOp::Mul, units, unit)
    }

    fn fixed(&mut self, kind: BinaryOp, key: Value, shape: Value) -> Result<Draws> {
        let units = self.drawn(kind, key, shape)?;
        let units = self.cast(DType::I64, units)?;
        Ok(Draws { units, bits: 53 })
    }

    /// The numbers of the counters 0, 1, …, an array of this shape.
    fn drawn(&mut self, kind: BinaryOp, key: Value, shape: Value) -> Result<Value> {
        let (product, axes, keep) = (ReduceOp::Prod, vec![0], false);
        let count = Op::Reduce {
            kind: product,
            axes,
            keep,
        };
        let count = self.op1(count, &[shape])?;
        let counters = self.iota(count)?;
        let counters = self.op1(Op::Reshape, &[counters, shape])?;
        let counters = self.cast(DType::U64, counters)?;
        self.binary(kind, key, counters)
    }
}
