//! Codes of elements of under 8 bits and of 8-bit floats: their values, and rounding to them.

use heddle_ir::DType;
use heddle_ir::op::ScaleRounding;

use crate::value::Code;

/// The value of a 2- or 4-bit integer.
pub fn int_value(dtype: DType, code: Code) -> i8 {
    match dtype {
        DType::I4 => ((code.0 << 4) as i8) >> 4,
        DType::I2 => ((code.0 << 6) as i8) >> 6,
        _ => code.0 as i8,
    }
}

/// The 2- or 4-bit integer that an integer wraps to.
pub fn int_code(dtype: DType, value: i128) -> Code {
    Code(value as u8 & mask(dtype))
}

/// The 2- or 4-bit integer nearest to a float's whole part; NaN gives 0.
pub fn int_code_saturating(dtype: DType, value: f64) -> Code {
    let (low, high) = match dtype {
        DType::I4 => (-8, 7),
        DType::U4 => (0, 15),
        DType::I2 => (-2, 1),
        _ => (0, 3),
    };
    Code((value as i64).clamp(low, high) as u8 & mask(dtype))
}

fn mask(dtype: DType) -> u8 {
    ((1u16 << dtype.bits()) - 1) as u8
}

/// A binary float format: one sign bit, then the exponent, then the significand.
struct Format {
    significand: u32,
    bias: i32,
    /// The code of the largest finite value, without sign.
    largest: u8,
    /// Code of larger values, without sign: infinity, or NaN if there is none.
    beyond: Option<u8>,
    /// NaN, without sign where the format has signed ones.
    nan: Option<u8>,
    /// The format has no negative zero: its code is the only NaN.
    unsigned_zero: bool,
}

fn format(dtype: DType) -> Format {
    let plain = |significand, bias, largest, beyond, nan| Format {
        significand,
        bias,
        largest,
        beyond,
        nan,
        unsigned_zero: false,
    };
    match dtype {
        DType::F4E2M1 => plain(1, 1, 0x7, None, None),
        DType::F8E4M3FN => plain(3, 7, 0x7e, Some(0x7f), Some(0x7f)),
        DType::F8E5M2 => plain(2, 15, 0x7b, Some(0x7c), Some(0x7f)),
        DType::F8E4M3FNUZ => Format {
            unsigned_zero: true,
            ..plain(3, 8, 0x7f, Some(0x80), Some(0x80))
        },
        _ => Format {
            unsigned_zero: true,
            ..plain(2, 16, 0x7f, Some(0x80), Some(0x80))
        },
    }
}

/// The value of a small float, exactly.
pub fn float_value(dtype: DType, code: Code) -> f64 {
    if dtype == DType::F8E8M0 {
        return match code.0 {
            255 => f64::NAN,
            e => 2f64.powi(i32::from(e) - 127),
        };
    }
    let f = format(dtype);
    let sign_bit = 1u8 << (dtype.bits() - 1);
    let (magnitude, negative) = (code.0 & (sign_bit - 1), code.0 & sign_bit != 0);
    if f.unsigned_zero && code.0 == sign_bit {
        return f64::NAN;
    }
    let value = if !f.unsigned_zero && magnitude > f.largest {
        match f.beyond {
            Some(infinity) if infinity == magnitude && f.nan != f.beyond => f64::INFINITY,
            _ => f64::NAN,
        }
    } else {
        let exponent = i32::from(magnitude >> f.significand);
        let fraction = f64::from(magnitude & ((1 << f.significand) - 1));
        let scale = 2f64.powi(exponent.max(1) - f.bias - f.significand as i32);
        let hidden = if exponent > 0 {
            f64::from(1 << f.significand)
        } else {
            0.0
        };
        (hidden + fraction) * scale
    };
    if negative { -value } else { value }
}

/// Rounds a number to a small float: to nearest, ties to even. Values above the largest finite one
/// become that one if saturating, else infinity or, if there is none, NaN. Formats without NaN give
/// negative zero for it, as ONNX's own type does (ONNX Cast 25).
pub fn float_code(dtype: DType, value: f64, saturate: bool, round: ScaleRounding) -> Code {
    if dtype == DType::F8E8M0 {
        return scale_code(value, saturate, round);
    }
    let f = format(dtype);
    let sign_bit = 1u8 << (dtype.bits() - 1);
    let sign = if value.is_sign_negative() {
        sign_bit
    } else {
        0
    };
    if value.is_nan() {
        return match f.nan {
            Some(nan) if f.unsigned_zero => Code(nan),
            Some(nan) => Code(nan | sign),
            None => Code(sign_bit),
        };
    }
    let too_large = match (f.beyond, saturate) {
        (Some(beyond), false) if f.unsigned_zero => Code(beyond),
        (Some(beyond), false) => Code(beyond | sign),
        _ => Code(f.largest | sign),
    };
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        return too_large;
    }
    // Distance of neighbouring values; below the smallest normal number it is constant.
    let exponent = match magnitude == 0.0 {
        true => 1 - f.bias,
        false => (((magnitude.to_bits() >> 52) as i32) - 1023).max(1 - f.bias),
    };
    let unit = 2f64.powi(exponent - f.significand as i32);
    let steps = (magnitude / unit).round_ties_even();
    // Codes of one sign are in the order of their values: a carry goes into the exponent.
    let code = (exponent + f.bias - 1) as i64 * (1i64 << f.significand) + steps as i64;
    if code > i64::from(f.largest) {
        return too_large;
    }
    match code as u8 {
        0 if f.unsigned_zero => Code(0),
        code => Code(code | sign),
    }
}

/// Rounds to a power of two and drops the sign. Smaller values than the smallest one, with zero,
/// become that one if saturating, else NaN.
fn scale_code(value: f64, saturate: bool, round: ScaleRounding) -> Code {
    if value.is_nan() {
        return Code(255);
    }
    let magnitude = value.abs();
    let [smallest, largest] = if saturate {
        [Code(0), Code(254)]
    } else {
        [Code(255); 2]
    };
    if magnitude < 2f64.powi(-127) {
        return smallest;
    }
    if magnitude.is_infinite() {
        return largest;
    }
    let bits = magnitude.to_bits();
    let floor = ((bits >> 52) as i64) - 1023;
    let fraction = bits & ((1 << 52) - 1);
    let up = match round {
        ScaleRounding::Up => fraction > 0,
        ScaleRounding::Down => false,
        ScaleRounding::Nearest => fraction >= 1 << 51,
    };
    let code = floor + i64::from(up) + 127;
    if code > 254 {
        largest
    } else {
        Code(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOATS: [DType; 5] = [
        DType::F4E2M1,
        DType::F8E4M3FN,
        DType::F8E4M3FNUZ,
        DType::F8E5M2,
        DType::F8E5M2FNUZ,
    ];

    fn round(dtype: DType, value: f64) -> u8 {
        float_code(dtype, value, true, ScaleRounding::Up).0
    }

    /// The value of each code is rounded to that code.
    #[test]
    fn codes_round_to_themselves() {
        for dtype in FLOATS {
            for code in 0..1u16 << dtype.bits() {
                let value = float_value(dtype, Code(code as u8));
                if value.is_finite() {
                    assert_eq!(round(dtype, value), code as u8, "{dtype} {code:#x} {value}");
                }
            }
        }
    }

    /// Between neighbours, the middle goes to the even one, other values to the nearer one.
    #[test]
    fn ties_go_to_even() {
        for dtype in FLOATS {
            for code in 0..format(dtype).largest {
                let [low, high] = [code, code + 1].map(|c| float_value(dtype, Code(c)));
                let middle = (low + high) / 2.0;
                assert_eq!(round(dtype, middle), code + (code & 1), "{dtype} {code:#x}");
                assert_eq!(round(dtype, middle.next_down()), code);
                assert_eq!(round(dtype, middle.next_up()), code + 1);
                assert_eq!(
                    round(dtype, -middle.next_up()),
                    (code + 1) | 1 << (dtype.bits() - 1)
                );
            }
        }
    }

    #[test]
    fn largest_values() {
        let largest = FLOATS.map(|d| float_value(d, Code(format(d).largest)));
        assert_eq!(largest, [6.0, 448.0, 240.0, 57344.0, 57344.0]);
        assert_eq!(float_value(DType::F8E5M2, Code(0x7c)), f64::INFINITY);
        assert!(float_value(DType::F8E4M3FN, Code(0xff)).is_nan());
        assert!(float_value(DType::F8E4M3FNUZ, Code(0x80)).is_nan());
    }

    #[test]
    fn small_integers() {
        let values = |d, n: u8| (0..n).map(|c| int_value(d, Code(c))).collect::<Vec<_>>();
        assert_eq!(values(DType::I2, 4), [0, 1, -2, -1]);
        assert_eq!(values(DType::U2, 4), [0, 1, 2, 3]);
        assert_eq!(values(DType::I4, 16)[7..9], [7, -8]);
        assert_eq!(
            (int_code(DType::I4, 9), int_code(DType::U4, -1)),
            (Code(9), Code(15))
        );
        assert_eq!(int_code_saturating(DType::I4, 99.5), Code(7));
    }
}
