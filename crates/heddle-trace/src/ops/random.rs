//! Random numbers. They are a function of the run's key, of the node, of the iterations of the loops around and of the call of the
//! function around: the same in each run with one seed, and not those that PyTorch draws.

use heddle_ir::op::{CompareOp, Extreme, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use crate::error::{Result, invalid};

/// The operators of this file, all of which draw.
pub(super) const OPS: Table = &[
    ("bernoulli", |cx| {
        let p = cx.value(0, "self")?;
        let (dtype, sizes) = (cx.dtype(p)?, cx.sizes(p)?);
        chosen(cx, p, &sizes, dtype)
    }),
    ("bernoulli.p", |cx| {
        let x = cx.value(0, "self")?;
        let p = cx.float(1, "p", 0.5)?;
        let (dtype, sizes) = (cx.dtype(x)?, cx.sizes(x)?);
        let p = cx.b.scalar(DType::F32, p);
        chosen(cx, p, &sizes, dtype)
    }),
    ("cauchy", |cx| {
        let x = cx.value(0, "self")?;
        let (median, sigma) = (cx.float(1, "median", 0.0)?, cx.float(2, "sigma", 1.0)?);
        drawn(cx, x, |cx, u| {
            let turn = cx.plus(u, -0.5)?;
            let turn = cx.times(turn, std::f64::consts::PI)?;
            let y = cx.unary(UnaryOp::Tan, turn)?;
            let y = cx.times(y, sigma)?;
            cx.plus(y, median)
        })
    }),
    ("dropout", |cx| {
        let x = cx.value(0, "input")?;
        let p = cx.float(1, "p", 0.5)?;
        match cx.flag(2, "train", true)? {
            true => Ok(vec![dropped(cx, x, p)?[0]]),
            false => Ok(vec![x]),
        }
    }),
    ("exponential", |cx| {
        let (x, rate) = (cx.value(0, "self")?, cx.float(1, "lambd", 1.0)?);
        drawn(cx, x, |cx, u| {
            let y = waited(cx, u)?;
            cx.times(y, 1.0 / rate)
        })
    }),
    ("geometric", |cx| {
        let (x, p) = (cx.value(0, "self")?, cx.float(1, "p", 0.5)?);
        if !(p > 0.0 && p < 1.0) {
            return invalid(format!("p is {p}"));
        }
        drawn(cx, x, |cx, u| {
            let y = waited(cx, u)?;
            let y = cx.times(y, -1.0 / (-p).ln_1p())?;
            let y = cx.unary(UnaryOp::Ceil, y)?;
            // The first trial counts.
            cx.at_least(y, 1.0)
        })
    }),
    ("log_normal", |cx| {
        let x = cx.value(0, "self")?;
        let (mean, deviation) = (cx.float(1, "mean", 1.0)?, cx.float(2, "std", 2.0)?);
        let (dtype, sizes) = (cx.dtype(x)?, cx.sizes(x)?);
        let y = normal(cx, dtype, &sizes, mean, deviation)?;
        Ok(vec![cx.on_floats(y, |cx, y| cx.unary(UnaryOp::Exp, y))?])
    }),
    ("multinomial", multinomial),
    ("native_dropout", |cx| {
        let x = cx.value(0, "input")?;
        let p = cx.float(1, "p", 0.5)?;
        if cx.flag(2, "train", true)? {
            return dropped(cx, x, p);
        }
        let (yes, sizes) = (cx.b.scalar(DType::Bool, 1.0), cx.sizes(x)?);
        Ok(vec![x, cx.filled(yes, &sizes)?])
    }),
    ("normal_functional", |cx| {
        let x = cx.value(0, "self")?;
        let (mean, deviation) = (cx.float(1, "mean", 0.0)?, cx.float(2, "std", 1.0)?);
        let (dtype, sizes) = (cx.dtype(x)?, cx.sizes(x)?);
        Ok(vec![normal(cx, dtype, &sizes, mean, deviation)?])
    }),
    ("rand", |cx| {
        let sizes = cx.size_list(0, "size")?;
        let dtype = cx.dtype_arg(usize::MAX, "dtype")?.unwrap_or(DType::F32);
        Ok(vec![unit(cx, dtype, &sizes)?])
    }),
    ("rand_like", |cx| {
        let x = cx.value(0, "self")?;
        let (sizes, dtype) = (
            cx.sizes(x)?,
            cx.dtype_arg(usize::MAX, "dtype")?.unwrap_or(cx.dtype(x)?),
        );
        Ok(vec![unit(cx, dtype, &sizes)?])
    }),
    ("randint", |cx| integers(cx, None, 0, 1)),
    ("randint.low", |cx| integers(cx, Some(0), 1, 2)),
    ("randn", |cx| {
        let sizes = cx.size_list(0, "size")?;
        let dtype = cx.dtype_arg(usize::MAX, "dtype")?.unwrap_or(DType::F32);
        Ok(vec![normal(cx, dtype, &sizes, 0.0, 1.0)?])
    }),
    ("randn_like", |cx| {
        let x = cx.value(0, "self")?;
        let (sizes, dtype) = (
            cx.sizes(x)?,
            cx.dtype_arg(usize::MAX, "dtype")?.unwrap_or(cx.dtype(x)?),
        );
        Ok(vec![normal(cx, dtype, &sizes, 0.0, 1.0)?])
    }),
    ("randperm", |cx| {
        let count = cx.size_arg(0, "n")?;
        let dtype = cx.dtype_arg(usize::MAX, "dtype")?.unwrap_or(DType::I64);
        let x = unit(cx, DType::F64, &[count])?;
        let (axis, kind, count) = (0, Extreme::Min, cx.int_value(count));
        let order = cx.b.op(Op::TopK { axis, kind }, &[x, count])?[1];
        Ok(vec![cx.cast(order, dtype)?])
    }),
    ("uniform", |cx| {
        let x = cx.value(0, "self")?;
        let (from, to) = (cx.float(1, "from", 0.0)?, cx.float(2, "to", 1.0)?);
        let (dtype, sizes) = (cx.dtype(x)?, cx.sizes(x)?);
        let y = unit(cx, dtype, &sizes)?;
        let y = cx.times(y, to - from)?;
        Ok(vec![cx.plus(y, from)?])
    }),
];

/// The node's key for this evaluation.
fn key(cx: &mut NodeCx) -> Result<Value> {
    let mut key = match cx.key {
        Some(key) => key,
        None => cx.op(Op::RunKey, &[])?,
    };
    let number = cx.b.key(*cx.draws);
    *cx.draws += 1;
    for number in std::iter::once(number).chain(cx.iterations.iter().copied()) {
        key = cx.b.fold_in(key, number)?;
    }
    Ok(key)
}

/// The type that numbers are drawn in.
fn wide(dtype: DType) -> Result<DType> {
    match dtype {
        DType::F64 => Ok(DType::F64),
        _ if dtype.is_float() => Ok(DType::F32),
        _ => invalid(format!("it draws floats, not {dtype}")),
    }
}

/// Numbers in `[0, 1)`.
fn unit(cx: &mut NodeCx, dtype: DType, sizes: &[Int]) -> Result<Value> {
    let (key, shape) = (key(cx)?, cx.ints_value(sizes)?);
    let draws = cx.b.uniform(wide(dtype)?, key, shape)?;
    // Rounded to 16 bits, a number below 1 could become 1.
    let bits = match dtype {
        DType::F16 => 11,
        DType::Bf16 => 8,
        _ => return Ok(cx.b.as_floats(dtype, draws)?),
    };
    let x = cx.b.as_floats(DType::F32, draws)?;
    let steps = f64::from(1u32 << bits);
    let x = cx.times(x, steps)?;
    let x = cx.unary(UnaryOp::Floor, x)?;
    let x = cx.times(x, 1.0 / steps)?;
    cx.cast(x, dtype)
}

/// A function of numbers in `[0, 1)`, in the type and shape of `x`.
fn drawn(
    cx: &mut NodeCx,
    x: Value,
    function: impl FnOnce(&mut NodeCx, Value) -> Result<Value>,
) -> Result<Vec<Value>> {
    let (dtype, sizes) = (cx.dtype(x)?, cx.sizes(x)?);
    let wide = if dtype.is_float() {
        wide(dtype)?
    } else {
        DType::F32
    };
    let draws = unit(cx, wide, &sizes)?;
    let y = function(cx, draws)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// `-ln(1 - u)`: the wait for an event of rate 1.
fn waited(cx: &mut NodeCx, u: Value) -> Result<Value> {
    let rest = cx.unary(UnaryOp::Neg, u)?;
    let log = cx.unary(UnaryOp::Log1p, rest)?;
    cx.unary(UnaryOp::Neg, log)
}

fn normal(
    cx: &mut NodeCx,
    dtype: DType,
    sizes: &[Int],
    mean: f64,
    deviation: f64,
) -> Result<Value> {
    wide(dtype)?;
    let (key, shape) = (key(cx)?, cx.ints_value(sizes)?);
    let draws = cx.b.normal(key, shape)?;
    Ok(cx.b.scaled(dtype, draws, mean as f32, deviation as f32)?)
}

/// 1 with probability `p`, else 0.
fn chosen(cx: &mut NodeCx, p: Value, sizes: &[Int], dtype: DType) -> Result<Vec<Value>> {
    let wide = wide(cx.dtype(p)?)?;
    let (x, p) = (unit(cx, wide, sizes)?, cx.cast(p, wide)?);
    let is_one = cx.compare(CompareOp::Lt, x, p)?;
    Ok(vec![cx.cast(is_one, dtype)?])
}

/// Elements are 0 with probability `p`, and the others grow by `1 / (1 - p)`; and which were kept.
pub(super) fn dropped(cx: &mut NodeCx, x: Value, p: f64) -> Result<Vec<Value>> {
    if !(0.0..=1.0).contains(&p) {
        return invalid(format!("p is {p}"));
    }
    let sizes = cx.sizes(x)?;
    let draws = unit(cx, DType::F32, &sizes)?;
    let is_kept = cx.compare_with(CompareOp::Ge, draws, p)?;
    let factor = if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
    let grown = cx.times(x, factor)?;
    let zero = cx.like(x, 0.0)?;
    Ok(vec![cx.select(is_kept, grown, zero)?, is_kept])
}

fn integers(cx: &mut NodeCx, low: Option<usize>, high: usize, size: usize) -> Result<Vec<Value>> {
    let low = match low {
        Some(place) => cx.size_arg(place, "low")?,
        None => Int::Const(0),
    };
    let (high, sizes) = (cx.size_arg(high, "high")?, cx.size_list(size, "size")?);
    let dtype = cx.dtype_arg(usize::MAX, "dtype")?.unwrap_or(DType::I64);
    let x = unit(cx, DType::F64, &sizes)?;
    let (count, low) = (cx.int_sub(high, low)?, cx.int_value(low));
    let count = cx.real(count, x)?;
    let y = cx.mul(x, count)?;
    let y = cx.cast(y, DType::I64)?;
    let y = cx.add(y, low)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// Places drawn by weight: the largest sums of logarithms and Gumbel numbers (Gumbel-max).
fn multinomial(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (weights, count) = (cx.value(0, "self")?, cx.size_arg(1, "num_samples")?);
    let replaces = cx.flag(2, "replacement", false)?;
    let rank = cx.rank(weights)?;
    if rank == 0 || rank > 2 {
        return invalid(format!("weights have 1 or 2 axes, not {rank}"));
    }
    let weights = cx.cast(weights, DType::F64)?;
    let logits = cx.unary(UnaryOp::Log, weights)?;
    let key = key(cx)?;
    if replaces {
        // A row of numbers for each draw.
        let logits = cx.unsqueeze(logits, &[rank - 1])?;
        let mut sizes = cx.sizes(logits)?;
        sizes[rank - 1] = count;
        let shape = cx.ints_value(&sizes)?;
        let draws = cx.b.gumbel(key, shape)?;
        let noise = cx.b.as_floats(DType::F64, draws)?;
        let sums = cx.add(noise, logits)?;
        let (kind, axis, keep, last) = (Extreme::Max, rank, false, false);
        return Ok(vec![cx.op(
            Op::ArgReduce {
                kind,
                axis,
                keep,
                last,
            },
            &[sums],
        )?]);
    }
    let sizes = cx.sizes(logits)?;
    let shape = cx.ints_value(&sizes)?;
    let draws = cx.b.gumbel(key, shape)?;
    let noise = cx.b.as_floats(DType::F64, draws)?;
    let sums = cx.add(noise, logits)?;
    let (axis, kind, count) = (rank - 1, Extreme::Max, cx.int_value(count));
    Ok(vec![cx.b.op(Op::TopK { axis, kind }, &[sums, count])?[1]])
}
