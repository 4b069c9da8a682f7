//! Compares results with expected values, as ONNX's own test runner does:
//! `|got - want| <= atol + rtol * |want|`, NaN equals NaN, infinities equal themselves, shapes and
//! element types must match.

use std::fmt;

use heddle_ir::{DType, Op};

use crate::value::{Tensor, Value};

/// Largest difference of values that agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Relative to the expected value.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
    /// Must integers be equal?
    pub exact_integers: bool,
    /// May one float type stand for another, as where references are kept in `f64`?
    pub any_float: bool,
}

impl Tolerance {
    /// The default of ONNX's backend tests.
    pub const ONNX: Tolerance = Tolerance {
        rtol: 1e-3,
        atol: 1e-7,
        exact_integers: false,
        any_float: false,
    };
}

/// Differences of two values that agree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Closeness {
    /// Elements compared.
    pub elements: usize,
    /// The largest absolute difference.
    pub max_abs: f64,
    /// The largest difference relative to the expected element, where that is not zero.
    pub max_rel: f64,
}

/// Difference of two values that do not agree.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Mismatch {
    /// One is an array, the other a sequence, and so on; or the types or lengths differ.
    #[error("{place}it is {got}, but {want} is expected")]
    Kind {
        /// The place in a sequence; empty for arrays.
        place: String,
        /// The result.
        got: String,
        /// The expected value.
        want: String,
    },
    /// Elements differ by more than the tolerance.
    #[error(
        "{place}{count} of {total} elements differ; the worst is at {index}: \
         {got} instead of {want}"
    )]
    Values {
        /// The place in a sequence; empty for arrays.
        place: String,
        /// Number of elements that differ.
        count: usize,
        /// Number of elements.
        total: usize,
        /// The worst one's index, as `[1, 0]`.
        index: String,
        /// The result.
        got: String,
        /// The expected value.
        want: String,
    },
}

/// Compares a value with an expected one.
///
/// # Errors
///
/// The values do not agree.
pub fn compare(got: &Value, want: &Value, tolerance: &Tolerance) -> Result<Closeness, Mismatch> {
    let mut closeness = Closeness::default();
    compare_at("", got, want, tolerance, &mut closeness)?;
    Ok(closeness)
}

fn compare_at(
    place: &str,
    got: &Value,
    want: &Value,
    tolerance: &Tolerance,
    closeness: &mut Closeness,
) -> Result<(), Mismatch> {
    let differ = || Mismatch::Kind {
        place: place.to_string(),
        got: got.to_string(),
        want: want.to_string(),
    };
    match (got, want) {
        (Value::Tensor(a), Value::Tensor(b)) => tensors(place, a, b, tolerance, closeness),
        (Value::Seq(a), Value::Seq(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().try_for_each(|(i, (x, y))| {
                compare_at(&format!("{place}element {i}: "), x, y, tolerance, closeness)
            })
        }
        (Value::Opt(None), Value::Opt(None)) => Ok(()),
        (Value::Opt(Some(a)), Value::Opt(Some(b))) => compare_at(place, a, b, tolerance, closeness),
        // A value that is there may be stored without its wrapping.
        (Value::Opt(Some(a)), b) if !matches!(b, Value::Opt(_)) => {
            compare_at(place, a, b, tolerance, closeness)
        }
        _ => Err(differ()),
    }
}

fn tensors(
    place: &str,
    got: &Tensor,
    want: &Tensor,
    tolerance: &Tolerance,
    closeness: &mut Closeness,
) -> Result<(), Mismatch> {
    let (a, b) = (got.dtype(), want.dtype());
    let alike = a == b || (tolerance.any_float && a.is_float() && b.is_float());
    if !alike || got.shape() != want.shape() {
        return Err(Mismatch::Kind {
            place: place.to_string(),
            got: got.ty().to_string(),
            want: want.ty().to_string(),
        });
    }
    let rtol = match a {
        // The runner allows two units in the last place of bf16.
        DType::Bf16 => tolerance.rtol.max(1.0 / 64.0),
        _ => tolerance.rtol,
    };
    let exact = tolerance.exact_integers && !(a.is_float() || a.is_small_float() || a.is_complex());
    let (rtol, atol) = if exact {
        (0.0, 0.0)
    } else {
        (rtol, tolerance.atol)
    };
    let (x, y) = (Elements::of(got), Elements::of(want));
    let (mut count, mut worst) = (0, (0, -1.0));
    for i in 0..got.len() {
        let (difference, size) = x.difference(&y, i);
        if difference <= atol + rtol * size {
            closeness.max_abs = closeness.max_abs.max(difference);
            if size > 0.0 && size.is_finite() {
                closeness.max_rel = closeness.max_rel.max(difference / size);
            }
            continue;
        }
        count += 1;
        let badness = difference / (atol + rtol * size).max(f64::MIN_POSITIVE);
        let badness = if badness.is_nan() {
            f64::INFINITY
        } else {
            badness
        };
        if badness > worst.1 {
            worst = (i, badness);
        }
    }
    closeness.elements += got.len();
    if count == 0 {
        return Ok(());
    }
    Err(Mismatch::Values {
        place: place.to_string(),
        count,
        total: got.len(),
        index: format!("{:?}", index_of(worst.0, got.shape())),
        got: x.show(worst.0),
        want: y.show(worst.0),
    })
}

/// Elements in a form that can be compared and shown.
pub enum Elements<'a> {
    /// Floats of at most 32 bits.
    Singles(Vec<f32>),
    /// Floats of 64 bits.
    Doubles(Vec<f64>),
    /// Integers of any width.
    Ints(Vec<i128>),
    /// Truth values.
    Bools(&'a [u8]),
    /// Real and imaginary parts.
    Complex(Vec<[f64; 2]>),
    /// Strings.
    Strings(&'a [Box<str>]),
}

impl<'a> Elements<'a> {
    /// The elements of a tensor.
    pub fn of(tensor: &'a Tensor) -> Self {
        use DType::*;
        match tensor.dtype() {
            Str => Elements::Strings(tensor.strs()),
            F32 => Elements::Singles(tensor.to_vec().unwrap_or_default()),
            F64 => Elements::Doubles(tensor.to_vec().unwrap_or_default()),
            F16 | Bf16 => Elements::Singles(narrow(tensor.to_f64s())),
            Bool => Elements::Bools(tensor.bytes()),
            U64 => {
                let values = tensor.to_vec::<u64>().unwrap_or_default();
                Elements::Ints(values.into_iter().map(i128::from).collect())
            }
            C64 => {
                let halves = tensor.bytes().chunks_exact(4);
                let parts: Vec<_> = halves
                    .map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
                    .collect();
                Elements::Complex(parts.chunks_exact(2).map(|c| [c[0], c[1]]).collect())
            }
            C128 => {
                let halves = tensor.bytes().chunks_exact(8);
                let parts: Vec<_> = halves
                    .map(|b| f64::from_le_bytes(b.try_into().unwrap_or_default()))
                    .collect();
                Elements::Complex(parts.chunks_exact(2).map(|c| [c[0], c[1]]).collect())
            }
            d if d.is_small_float() => {
                Elements::Singles(narrow(widened(tensor, F64, Tensor::to_f64s)))
            }
            d if d.is_small_int() => {
                let values = widened(tensor, I64, Tensor::to_i64s).unwrap_or_default();
                Elements::Ints(values.into_iter().map(i128::from).collect())
            }
            _ => {
                let values = tensor.to_i64s().unwrap_or_default();
                Elements::Ints(values.into_iter().map(i128::from).collect())
            }
        }
    }

    /// One element as text.
    pub fn show(&self, i: usize) -> String {
        match self {
            Elements::Singles(v) => float(f64::from(v[i]), v[i]),
            Elements::Doubles(v) => float(v[i], v[i]),
            Elements::Ints(v) => v[i].to_string(),
            Elements::Bools(v) => (v[i] != 0).to_string(),
            Elements::Complex(v) => format!("{}{:+}i", v[i][0], v[i][1]),
            Elements::Strings(v) => format!("{:?}", v[i]),
        }
    }

    /// An element as a number, if it is a real one.
    pub fn number(&self, i: usize) -> Option<f64> {
        match self {
            Elements::Singles(v) => Some(f64::from(v[i])),
            Elements::Doubles(v) => Some(v[i]),
            Elements::Ints(v) => Some(v[i] as f64),
            _ => None,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Elements::Singles(v) => v.len(),
            Elements::Doubles(v) => v.len(),
            Elements::Ints(v) => v.len(),
            Elements::Bools(v) => v.len(),
            Elements::Complex(v) => v.len(),
            Elements::Strings(v) => v.len(),
        }
    }

    /// Is there no element?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `|self - want|` and `|want|` at an index; NaN where just one is NaN.
    fn difference(&self, want: &Elements, i: usize) -> (f64, f64) {
        match (self, want) {
            (Elements::Ints(a), Elements::Ints(b)) => {
                (a[i].abs_diff(b[i]) as f64, b[i].unsigned_abs() as f64)
            }
            (Elements::Complex(a), Elements::Complex(b)) => {
                let ((re, x), (im, y)) = (
                    float_difference(a[i][0], b[i][0]),
                    float_difference(a[i][1], b[i][1]),
                );
                (re.hypot(im), x.hypot(y))
            }
            (Elements::Strings(a), Elements::Strings(b)) if a[i] == b[i] => (0.0, 0.0),
            (Elements::Bools(a), Elements::Bools(b)) => {
                (f64::from(a[i].abs_diff(b[i])), f64::from(b[i]))
            }
            _ => match (self.number(i), want.number(i)) {
                (Some(a), Some(b)) => float_difference(a, b),
                _ => (f64::NAN, 0.0),
            },
        }
    }
}

/// Equal infinities and NaNs have no difference; an infinity is infinitely far from all else.
fn float_difference(got: f64, want: f64) -> (f64, f64) {
    if got == want || (got.is_nan() && want.is_nan()) {
        return (0.0, if want.is_nan() { 0.0 } else { want.abs() });
    }
    if !got.is_finite() || !want.is_finite() {
        return (f64::NAN, want.abs());
    }
    ((got - want).abs(), want.abs())
}

/// Elements of a storage type, converted to one that can be computed with.
fn widened<T>(tensor: &Tensor, to: DType, read: fn(&Tensor) -> Option<Vec<T>>) -> Option<Vec<T>> {
    let cast = heddle_interp::fold(&Op::cast(to), &[&tensor.0])?;
    read(&cast.into_iter().next()?.into())
}

/// Floats that came from at most 32 bits.
fn narrow(values: Option<Vec<f64>>) -> Vec<f32> {
    values
        .unwrap_or_default()
        .into_iter()
        .map(|v| v as f32)
        .collect()
}

/// The index of an element from its place in row-major order.
pub fn index_of(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i = flat % size.max(1);
        flat /= size.max(1);
    }
    index
}

/// A float as people write it: short, and told apart from its neighbours. `shown` is the value in
/// its own width.
fn float(value: f64, shown: impl fmt::Display + fmt::LowerExp) -> String {
    let size = value.abs();
    if size != 0.0 && size.is_finite() && !(1e-4..1e9).contains(&size) {
        format!("{shown:e}")
    } else {
        shown.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Value {
        Tensor::vector(values).into()
    }

    fn agree(got: &Value, want: &Value) -> bool {
        compare(got, want, &Tolerance::ONNX).is_ok()
    }

    #[test]
    fn floats_agree_within_the_tolerance() {
        assert!(agree(&floats(&[1.0009, 0.0]), &floats(&[1.0, 1e-8])));
        assert!(!agree(&floats(&[1.002]), &floats(&[1.0])));
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert!(agree(
            &floats(&[inf, -inf, nan]),
            &floats(&[inf, -inf, nan])
        ));
        for (got, want) in [(inf, -inf), (1.0, inf), (inf, 1.0), (nan, 1.0), (1.0, nan)] {
            assert!(!agree(&floats(&[got]), &floats(&[want])), "{got} {want}");
        }
    }

    #[test]
    fn shapes_and_types_must_match() {
        assert!(!agree(&floats(&[1.0]), &Tensor::scalar(1f32).into()));
        let wide: Value = Tensor::vector(&[1f64]).into();
        assert!(!agree(&floats(&[1.0]), &wide));
        let any_float = Tolerance {
            any_float: true,
            ..Tolerance::ONNX
        };
        assert!(compare(&floats(&[1.0]), &wide, &any_float).is_ok());
        let integer: Value = Tensor::vector(&[1i32]).into();
        assert!(compare(&floats(&[1.0]), &integer, &any_float).is_err());
    }

    #[test]
    fn integers_are_exact_where_asked() {
        let (a, b): (Value, Value) = (
            Tensor::vector(&[u64::MAX]).into(),
            Tensor::vector(&[u64::MAX - 1]).into(),
        );
        assert!(agree(&a, &b));
        let exact = Tolerance {
            exact_integers: true,
            ..Tolerance::ONNX
        };
        let error = compare(&a, &b, &exact).unwrap_err().to_string();
        let said = "1 of 1 elements differ; the worst is at [0]: \
                    18446744073709551615 instead of 18446744073709551614";
        assert_eq!(error, said);
    }

    #[test]
    fn small_types_are_compared_by_value() {
        let tensor = |dtype, bytes: &[u8]| -> Value {
            Tensor::new(dtype, vec![2], bytes.to_vec()).unwrap().into()
        };
        // Zero and minus zero.
        assert!(agree(
            &tensor(DType::F4E2M1, &[0x80]),
            &tensor(DType::F4E2M1, &[0x00])
        ));
        let error = compare(
            &tensor(DType::I4, &[0x1f]),
            &tensor(DType::I4, &[0x12]),
            &Tolerance::ONNX,
        );
        let error = error.unwrap_err().to_string();
        assert!(error.contains("[0]: -1 instead of 2"), "{error}");
        // Two units in the last place of bf16.
        let bf16 = |bits: u16| tensor(DType::Bf16, &[bits.to_le_bytes(), [0, 0]].concat());
        assert!(agree(&bf16(0x3f80), &bf16(0x3f82)));
        assert!(!agree(&bf16(0x3f80), &bf16(0x3f84)));
    }

    #[test]
    fn sequences_and_optionals_name_the_place() {
        let seq = |v: &[f32]| Value::Seq(v.iter().map(|x| floats(&[*x])).collect());
        assert!(agree(&seq(&[1.0, 2.0]), &seq(&[1.0, 2.0])));
        assert!(!agree(&seq(&[1.0]), &seq(&[1.0, 2.0])));
        let error = compare(&seq(&[1.0, 3.0]), &seq(&[1.0, 2.0]), &Tolerance::ONNX);
        assert!(
            error
                .unwrap_err()
                .to_string()
                .starts_with("element 1: 1 of 1")
        );
        let some = Value::Opt(Some(Box::new(floats(&[1.0]))));
        assert!(agree(&some, &some) && agree(&some, &floats(&[1.0])));
        assert!(!agree(&some, &Value::Opt(None)) && agree(&Value::Opt(None), &Value::Opt(None)));
    }
}
