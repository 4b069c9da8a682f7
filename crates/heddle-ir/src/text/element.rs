//! Elements of constants: bits to text and back, exactly.

use std::fmt::Write;

use crate::DType;

/// A number as it is written: a sign and a word (`12`, `0x1f`, `1.5e3`, `nan`, `inf`, `true`,
/// `false`).
#[derive(Clone, Copy)]
pub struct Written<'a> {
    /// Has it a minus sign?
    pub negative: bool,
    /// The word.
    pub text: &'a str,
}

/// Writes an element that is no `str`. Floats are the shortest decimals that read back to the same
/// bits; a NaN of other bits than the usual ones is its bits in hexadecimal.
pub fn write(out: &mut String, dtype: DType, bits: u128) {
    let result = match dtype {
        DType::C64 | DType::C128 => {
            let half = dtype.bits() / 2;
            let part = if half == 32 { DType::F32 } else { DType::F64 };
            out.push('(');
            write(out, part, bits & ((1 << half) - 1));
            out.push_str(", ");
            write(out, part, bits >> half);
            out.push(')');
            Ok(())
        }
        DType::Bool => write!(out, "{}", bits != 0),
        d if is_float(d) => match value(d, bits) {
            v if v.is_nan() && bits == quiet_nan(d) => write!(out, "nan"),
            v if v.is_nan() => write!(out, "0x{bits:x}"),
            v if v.is_infinite() => write!(out, "{v}"),
            v => write!(out, "{:?}", shortest(d, v)),
        },
        d if is_signed(d) => {
            let shift = 128 - d.bits();
            write!(out, "{}", ((bits << shift) as i128) >> shift)
        }
        _ => write!(out, "{bits}"),
    };
    result.expect("a String takes all");
}

/// The bits of a real element (neither complex nor `str`).
pub fn parse(dtype: DType, w: Written) -> Result<u128, String> {
    let shown = || format!("{}{}", if w.negative { "-" } else { "" }, w.text);
    let misfit = || format!("{} is no {dtype}", shown());
    let hex = w.text.strip_prefix("0x");
    if dtype == DType::Bool {
        return match (w.negative, w.text) {
            (false, "true" | "1") => Ok(1),
            (false, "false" | "0") => Ok(0),
            _ => Err(misfit()),
        };
    }
    if is_float(dtype) {
        if let Some(hex) = hex {
            let bits = u128::from_str_radix(hex, 16).ok();
            let fits = bits.filter(|b| !w.negative && b >> dtype.bits() == 0);
            return fits.ok_or_else(|| format!("{} are no bits of a {dtype}", shown()));
        }
        if w.text == "nan" && !w.negative {
            return match quiet_nan(dtype) {
                0 => Err(misfit()),
                bits => Ok(bits),
            };
        }
        if !w.text.starts_with(|c: char| c.is_ascii_digit()) && w.text != "inf" {
            return Err(misfit());
        }
        let bits = parse_float(dtype, w).ok_or_else(misfit)?;
        if value(dtype, bits).is_infinite() && w.text != "inf" {
            return Err(format!("{} does not fit {dtype}", shown()));
        }
        return Ok(bits);
    }
    let magnitude = match hex {
        Some(hex) => i128::from_str_radix(hex, 16),
        None => w.text.parse::<i128>(),
    };
    let value = magnitude.map_err(|_| misfit())? * if w.negative { -1 } else { 1 };
    let bits = dtype.bits();
    let range = match is_signed(dtype) {
        true => -(1i128 << (bits - 1))..1i128 << (bits - 1),
        false => 0..1i128 << bits,
    };
    if !range.contains(&value) {
        return Err(format!("{} does not fit {dtype}", shown()));
    }
    Ok(value as u128 & (u128::MAX >> (128 - bits)))
}

fn parse_float(dtype: DType, w: Written) -> Option<u128> {
    // The widest float cannot decide for `f32`: rounding twice may differ from rounding once.
    let (bits, sign) = match dtype {
        DType::F32 => (u128::from(w.text.parse::<f32>().ok()?.to_bits()), 31),
        DType::F64 => (u128::from(w.text.parse::<f64>().ok()?.to_bits()), 63),
        DType::F16 => {
            let value: f64 = w.text.parse().ok()?;
            (u128::from(half::f16::from_f64(value).to_bits()), 15)
        }
        DType::Bf16 => {
            let value: f64 = w.text.parse().ok()?;
            (u128::from(half::bf16::from_f64(value).to_bits()), 15)
        }
        // Few enough to look for the one that is meant; others would have to be rounded, which
        // nobody asked for.
        _ => {
            let value: f64 = w.text.parse().ok()?;
            let value = if w.negative { -value } else { value };
            return (0..1u128 << dtype.bits())
                .find(|&b| self::value(dtype, b).to_bits() == value.to_bits());
        }
    };
    Some(bits | (w.negative as u128) << sign)
}

/// The float of the fewest digits that is read back as `v`.
fn shortest(dtype: DType, v: f64) -> f64 {
    match dtype {
        DType::F64 => v,
        DType::F32 => format!("{:?}", v as f32).parse().unwrap_or(v),
        _ => {
            let round = |x: f64| match dtype {
                DType::F16 => half::f16::from_f64(x).to_f64(),
                DType::Bf16 => half::bf16::from_f64(x).to_f64(),
                _ => x,
            };
            (0..8)
                .filter_map(|digits| format!("{v:.digits$e}").parse().ok())
                .find(|x| round(*x) == v)
                .unwrap_or(v)
        }
    }
}

fn is_float(d: DType) -> bool {
    d.is_float() || d.is_small_float()
}

fn is_signed(d: DType) -> bool {
    d.is_signed_int() || matches!(d, DType::I4 | DType::I2)
}

/// The bits that `nan` stands for; 0 for a type without NaN.
fn quiet_nan(d: DType) -> u128 {
    match d {
        DType::F32 => 0x7fc0_0000,
        DType::F64 => 0x7ff8_0000_0000_0000,
        DType::F16 => 0x7e00,
        DType::Bf16 => 0x7fc0,
        DType::F8E4M3FN => 0x7f,
        DType::F8E5M2 => 0x7f,
        DType::F8E4M3FNUZ | DType::F8E5M2FNUZ => 0x80,
        DType::F8E8M0 => 0xff,
        _ => 0,
    }
}

/// The value of a float's bits.
fn value(d: DType, bits: u128) -> f64 {
    let (exponent_bits, mantissa_bits, bias) = match d {
        DType::F64 => return f64::from_bits(bits as u64),
        DType::F32 => return f32::from_bits(bits as u32).into(),
        DType::F16 => return half::f16::from_bits(bits as u16).to_f64(),
        DType::Bf16 => return half::bf16::from_bits(bits as u16).to_f64(),
        DType::F8E8M0 if bits == 0xff => return f64::NAN,
        DType::F8E8M0 => return 2f64.powi(bits as i32 - 127),
        DType::F4E2M1 => (2, 1, 1),
        DType::F8E4M3FN => (4, 3, 7),
        DType::F8E4M3FNUZ => (4, 3, 8),
        DType::F8E5M2 => (5, 2, 15),
        _ => (5, 2, 16),
    };
    let magnitude = bits & ((1 << (exponent_bits + mantissa_bits)) - 1);
    let negative = bits >> (exponent_bits + mantissa_bits) & 1 == 1;
    let is_nan = match d {
        DType::F8E4M3FN => magnitude == 0x7f,
        DType::F8E5M2 => magnitude > 0x7c,
        DType::F8E4M3FNUZ | DType::F8E5M2FNUZ => bits == 0x80,
        _ => false,
    };
    let exponent = (magnitude >> mantissa_bits) as i32;
    let mantissa = (magnitude & ((1 << mantissa_bits) - 1)) as f64 / f64::from(1 << mantissa_bits);
    let v = match exponent {
        _ if is_nan => return f64::NAN,
        _ if d == DType::F8E5M2 && magnitude == 0x7c => f64::INFINITY,
        0 => mantissa * 2f64.powi(1 - bias),
        _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
    };
    if negative { -v } else { v }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bits of the types of at most 16 bits, and a sample of the wider ones, come back.
    #[test]
    fn bits_survive() {
        for d in DType::ALL {
            if d == DType::Str || d.is_complex() {
                continue;
            }
            let width = d.bits();
            let top = if d == DType::Bool {
                2
            } else {
                1u128 << width.min(16)
            };
            for i in 0..top {
                let spread = i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
                let bits = if width > 16 {
                    spread >> (128 - width)
                } else {
                    i
                };
                let mut text = String::new();
                write(&mut text, d, bits);
                let negative = text.starts_with('-');
                let text = text.trim_start_matches('-');
                assert_eq!(
                    parse(d, Written { negative, text }),
                    Ok(bits),
                    "{d} {bits:#x} {text}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let parse = |d, text| {
            parse(
                d,
                Written {
                    negative: false,
                    text,
                },
            )
        };
        assert_eq!(parse(DType::U8, "300"), Err("300 does not fit u8".into()));
        assert_eq!(parse(DType::I32, "1.5"), Err("1.5 is no i32".into()));
        assert_eq!(
            parse(DType::F8E4M3FN, "0.3"),
            Err("0.3 is no f8e4m3fn".into())
        );
        assert_eq!(parse(DType::F4E2M1, "nan"), Err("nan is no f4e2m1".into()));
    }
}
