//! Draws inputs at random, for trying a model out.

use std::collections::BTreeMap;

use bytes::Bytes;
use heddle_ir::tensor::{byte_size, element_count};
use heddle_ir::{DType, Datum, Dim, DimBound, Signature, Tensor, TensorType, Type};
use heddle_lang::Structure;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::inputs::Inputs;
use crate::structures::array;
use crate::value::Value;

/// Size of axes without a bound, where the caller gives none.
const DEFAULT_SIZE: u64 = 2;
/// Length of sequences.
const SEQUENCE_LENGTH: usize = 3;
/// Drawn inputs are refused beyond this.
const MAX_BYTES: usize = 4 << 30;

/// Why inputs could not be drawn.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum DrawError {
    /// A size was given for a name that the model does not have.
    #[error("the model has no size named `{0}`")]
    UnknownSize(String),
    /// An input would be larger than 4 GiB.
    #[error("input `{input}` would be too large: {ty}")]
    TooLarge { input: String, ty: crate::Type },
}

/// A random value for every input.
pub(crate) fn draw(
    sig: &Signature,
    structures: &[Structure],
    seed: u64,
    sizes: &BTreeMap<String, u64>,
) -> Result<Inputs, DrawError> {
    let names = named_sizes(sig);
    if let Some(unknown) = sizes.keys().find(|n| !names.contains_key(*n)) {
        return Err(DrawError::UnknownSize(unknown.clone()));
    }
    let sizes = &with_usual(sig, structures, sizes);
    let size = |name: &str| {
        let drawn = || match names.get(name).copied().flatten() {
            Some(b) => DEFAULT_SIZE.max(b.min).min(b.max.unwrap_or(u64::MAX)),
            None => DEFAULT_SIZE,
        };
        i64::try_from(sizes.get(name).copied().unwrap_or_else(drawn)).ok()
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut inputs = Inputs::new();
    for (name, ty) in &sig.params {
        let value = draw_value(ty, &size, &mut rng).ok_or_else(|| DrawError::TooLarge {
            input: name.clone(),
            ty: crate::Type::of(ty),
        })?;
        inputs.insert(name.clone(), value.into());
    }
    for structure in structures {
        let rows = |name: &str| array(&inputs, name)?.shape().first().copied();
        let mut below = |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
        for (name, values) in structure.draw(&rows, &mut below) {
            if let Some(tensor) = array(&inputs, &name).and_then(|t| integers(t, &values)) {
                inputs.insert(name, Value::from(Datum::Tensor(tensor)));
            }
        }
    }
    Ok(inputs)
}

/// The stated sizes, and those that tables and graphs usually have.
fn with_usual(
    sig: &Signature,
    structures: &[Structure],
    sizes: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let size_name = |input: &str| {
        let (_, ty) = sig.params.iter().find(|(name, _)| name == input)?;
        let dims = ty.as_tensor()?.shape.as_ref()?;
        Some(dims.first()?.as_expr()?.as_sym()?.to_string())
    };
    let mut all = sizes.clone();
    for structure in structures {
        let stated = |input: &str| Some(*sizes.get(&size_name(input)?)? as usize);
        for (input, size) in structure.usual_sizes(&stated) {
            if let Some(name) = size_name(&input) {
                all.entry(name).or_insert(size as u64);
            }
        }
    }
    all
}

/// An array like another, with these elements; `None` if it is none of integers.
fn integers(like: &crate::value::Tensor, values: &[i64]) -> Option<Tensor> {
    let tensor = Tensor::vector(values);
    match like.dtype() {
        DType::I64 => Some(tensor),
        DType::I32 => {
            let values: Option<Vec<i32>> = values.iter().map(|x| i32::try_from(*x).ok()).collect();
            Some(Tensor::vector(&values?))
        }
        _ => None,
    }
}

/// The names of sizes in the parameters' types, with their bounds.
fn named_sizes(sig: &Signature) -> BTreeMap<String, Option<DimBound>> {
    let mut names = BTreeMap::new();
    for (_, ty) in &sig.params {
        ty.map_dims(&mut |dim| {
            if let Some(e) = dim.as_expr() {
                e.for_each_sym(&mut |s| {
                    names.insert(s.to_string(), sig.bounds.get(s).copied());
                });
            }
            dim.clone()
        });
    }
    names
}

/// The named sizes that these inputs fix.
pub(crate) fn sizes_of(sig: &Signature, inputs: &Inputs) -> BTreeMap<String, u64> {
    let mut sizes = BTreeMap::new();
    for (name, ty) in &sig.params {
        if let (Type::Tensor(t), Some(Value::Tensor(value))) = (ty, inputs.get(name)) {
            for (dim, &size) in t.shape.iter().flatten().zip(value.shape()) {
                if let Some(name) = dim.as_expr().and_then(|e| e.as_sym()) {
                    sizes.insert(name.to_string(), size as u64);
                }
            }
        }
    }
    sizes
}

fn draw_value(
    ty: &Type,
    size: &dyn Fn(&str) -> Option<i64>,
    rng: &mut ChaCha8Rng,
) -> Option<Datum> {
    match ty {
        Type::Tensor(t) => draw_tensor(t, size, rng).map(Datum::Tensor),
        Type::Seq(t) => (0..SEQUENCE_LENGTH)
            .map(|_| draw_value(t, size, rng))
            .collect::<Option<_>>()
            .map(Datum::Seq),
        Type::Opt(t) => Some(Datum::Opt(Some(Box::new(draw_value(t, size, rng)?)))),
    }
}

fn draw_tensor(
    ty: &TensorType,
    size: &dyn Fn(&str) -> Option<i64>,
    rng: &mut ChaCha8Rng,
) -> Option<Tensor> {
    let of = |dim: &Dim| match dim {
        Dim::Expr(e) => usize::try_from(e.eval(size)?).ok(),
        Dim::Unknown(max) => Some(DEFAULT_SIZE.min(max.unwrap_or(DEFAULT_SIZE)) as usize),
    };
    // An input of unknown rank becomes a scalar.
    let dims = ty.shape.as_deref().unwrap_or_default();
    let shape = dims.iter().map(of).collect::<Option<Vec<usize>>>()?;
    let count = element_count(&shape)?;
    let bytes = byte_size(ty.dtype, count).filter(|n| *n <= MAX_BYTES && count <= MAX_BYTES)?;
    if ty.dtype == DType::Str {
        let letters = (0..count).map(|_| {
            let letter = char::from(b'a' + (rng.next_u32() % 5) as u8);
            letter.to_string().into_boxed_str()
        });
        return Tensor::strings(shape, letters.collect()).ok();
    }
    let mut data = Vec::with_capacity(bytes);
    match ty.dtype {
        // Storage types: the bits of small numbers differ by type, all of these are finite ones.
        d if d.bits() < 8 => data.extend((0..bytes).map(|_| rng.next_u32() as u8 & 0x11)),
        d if d.is_small_float() => {
            data.extend((0..count).map(|_| 0x30 + (rng.next_u32() & 7) as u8));
        }
        DType::C64 => (0..2 * count).for_each(|_| data.extend((unit(rng) as f32).to_le_bytes())),
        DType::C128 => (0..2 * count).for_each(|_| data.extend(unit(rng).to_le_bytes())),
        DType::F32 => (0..count).for_each(|_| data.extend((unit(rng) as f32).to_le_bytes())),
        DType::F64 => (0..count).for_each(|_| data.extend(unit(rng).to_le_bytes())),
        DType::F16 => {
            (0..count).for_each(|_| data.extend(half::f16::from_f64(unit(rng)).to_le_bytes()))
        }
        DType::Bf16 => {
            (0..count).for_each(|_| data.extend(half::bf16::from_f64(unit(rng)).to_le_bytes()))
        }
        DType::Bool => data.extend((0..count).map(|_| (rng.next_u32() & 1) as u8)),
        d => (0..count).for_each(|_| {
            let value = u64::from(rng.next_u32() & 3);
            data.extend(&value.to_le_bytes()[..d.bits() / 8]);
        }),
    }
    Tensor::new(ty.dtype, shape, Bytes::from(data)).ok()
}

/// Uniform in [-1, 1).
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}
