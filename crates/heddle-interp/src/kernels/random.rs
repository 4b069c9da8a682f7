//! Random numbers: ChaCha8 with a seed and a stream for each evaluation, the same on every machine.

use heddle_ir::DType;
use heddle_ir::op::Distribution;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::movement::sizes;
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Buf, Val};

/// A source of numbers.
pub struct Draw(ChaCha8Rng);

impl Draw {
    /// The source for one evaluation.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// Uniform in `[0, 1)`, a multiple of 2^-53.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.unit(), self.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

/// An array of random elements; the operand is its shape or the probabilities (ONNX RandomUniform
/// 1, RandomNormal 1, Bernoulli 15).
pub fn draw(
    cx: &Context,
    dist: Distribution,
    dtype: DType,
    operand: &Val,
    source: &mut Draw,
) -> Result<Val, Fault> {
    let operand = operand.tensor()?;
    let array = match dist {
        Distribution::Bernoulli => {
            let p: Vec<f64> = match &operand.data {
                Buf::F32(s) => s.data.iter().map(|&v| v.into()).collect(),
                Buf::F64(s) => s.data.clone(),
                _ => return Err(Fault::dtype("random_bernoulli", operand.dtype)),
            };
            cx.tick(16 * p.len())?;
            let hits = p.iter().map(|&p| source.unit() < p).collect();
            let hits = cx.array(DType::Bool, operand.shape.clone(), hits)?;
            super::cast::cast_plain(cx, &hits, dtype)?
        }
        Distribution::Uniform { low, high } => {
            // Values that rounding moved to the upper end go to the lower one.
            floats(
                cx,
                dtype,
                operand,
                || low + source.unit() * (high - low),
                |v| {
                    if v >= high && low < high { low } else { v }
                },
            )?
        }
        Distribution::Normal { mean, scale } => {
            floats(cx, dtype, operand, || mean + scale * source.normal(), |v| v)?
        }
    };
    Ok(array.into())
}

fn floats(
    cx: &Context,
    dtype: DType,
    shape: &Array,
    mut next: impl FnMut() -> f64,
    settle: impl Fn(f64) -> f64,
) -> Result<Array, Fault> {
    let shape = sizes(shape.data()?)?;
    let n = count(&shape)?;
    cx.tick(n.saturating_mul(16))?;
    if cx.f64 || dtype == DType::F64 {
        let mut out = cx.vec(n)?;
        out.extend((0..n).map(|_| settle(next())));
        return cx.array(dtype, shape, out);
    }
    let mut out = cx.vec(n)?;
    out.extend((0..n).map(|_| {
        let mut one = [next() as f32];
        crate::value::Elem::round_to(dtype, &mut one);
        settle(one[0].into()) as f32
    }));
    cx.array(dtype, shape, out)
}
