//! Random constants and inputs.

use heddle_ir::{DType, Tensor};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Element types that ops compute with.
pub(crate) const ARITH: [DType; 12] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::Bf16,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];

/// A random element type to compute with, the usual ones more often.
pub(crate) fn dtype(rng: &mut ChaCha8Rng) -> DType {
    match rng.random_range(0..10) {
        0..4 => DType::F32,
        4..6 => DType::I64,
        6 => DType::Bool,
        _ => ARITH[rng.random_range(0..ARITH.len())],
    }
}

/// A tensor of random elements: mostly small ones, now and then an extreme.
pub(crate) fn tensor(rng: &mut ChaCha8Rng, dtype: DType, shape: Vec<usize>) -> Tensor {
    let count = shape.iter().product();
    let mut bytes = vec![];
    for _ in 0..count {
        if dtype.is_float() {
            bytes.extend(float(rng, dtype));
        } else if dtype == DType::Bool {
            bytes.push(rng.random_bool(0.5) as u8);
        } else {
            let value: i64 = match rng.random_range(0..12) {
                0 => rng.random(),
                1 => i64::MIN,
                2 => -1,
                _ => rng.random_range(-4..8),
            };
            bytes.extend_from_slice(&value.to_le_bytes()[..dtype.bits() / 8]);
        }
    }
    Tensor::new(dtype, shape, bytes.into()).expect("as many bytes as the shape takes")
}

fn float(rng: &mut ChaCha8Rng, dtype: DType) -> Vec<u8> {
    let value: f64 = match rng.random_range(0..24) {
        0 => f64::INFINITY,
        1 => f64::NAN,
        2 => -0.0,
        3 => 1e30,
        4..8 => rng.random_range(-2.0..2.0),
        _ => f64::from(rng.random_range(-12i32..13)) * 0.25,
    };
    match dtype {
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
        _ => half::bf16::from_f64(value).to_le_bytes().to_vec(),
    }
}
