//! Numbers as text, as ONNX's Cast reads and writes them.

use crate::error::Fault;

/// Reads an integer; a float's text gives its whole part.
pub fn parse_int(s: &str) -> Result<i128, Fault> {
    let trimmed = s.trim();
    match trimmed.parse::<i128>() {
        Ok(v) => Ok(v),
        Err(_) => parse_float::<f64>(trimmed).map(|v| v as i128),
    }
}

/// Reads a float: decimal or with an exponent, `NaN`, `INF` and the like in any case.
pub fn parse_float<T: std::str::FromStr>(s: &str) -> Result<T, Fault> {
    s.trim()
        .parse()
        .map_err(|_| Fault::Value(format!("`{s}` is no number")))
}

/// Writes the shortest text that reads back as the same `f32`.
pub fn print_f32(v: f32) -> String {
    print(v.is_finite(), v.into(), &format!("{v:e}"))
}

/// Writes the shortest text that reads back as the same `f64`.
pub fn print_f64(v: f64) -> String {
    print(v.is_finite(), v, &format!("{v:e}"))
}

fn print(finite: bool, v: f64, scientific: &str) -> String {
    if !finite {
        let text = match (v.is_nan(), v < 0.0) {
            (true, _) => "NaN",
            (_, false) => "INF",
            (_, true) => "-INF",
        };
        return text.into();
    }
    // `d.dddde±x`, as Rust writes it, is turned into plain digits where the exponent is small.
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) && v != 0.0 {
        return format!(
            "{digits}e{}{:02}",
            if exponent < 0 { '-' } else { '+' },
            exponent.abs()
        );
    }
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let digits = digits.replace('.', "");
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() > whole {
        return format!("{sign}{}.{}", &digits[..whole], &digits[whole..]);
    }
    format!("{sign}{digits}{}", "0".repeat(whole - digits.len()))
}
