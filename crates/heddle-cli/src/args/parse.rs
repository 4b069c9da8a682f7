//! Values of flags.

use std::time::Duration;

use heddle::{Step, Weights};

use super::WeightsArg;

/// `n=4`.
pub fn size(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("it must be of the form NAME=N")?;
    let value = value
        .parse()
        .map_err(|_| format!("`{value}` is not a size"))?;
    Ok((name.to_string(), value))
}

/// `1048576`, `512M`, `2G`, `2GiB`: powers of 1024.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let exponent = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        other => return Err(format!("`{other}` is not a unit of memory: K, M, G or T")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "it must be a number of bytes, as 512M or 2G")?;
    number
        .checked_mul(1 << (10 * exponent))
        .ok_or_else(|| "it is too large".into())
}

/// The name of a step of compiling.
pub fn step(text: &str) -> Result<Step, String> {
    Step::named(text).ok_or_else(|| {
        let names: Vec<_> = heddle::STEPS.iter().map(|s| s.name).collect();
        format!("the steps are {}", names.join(", "))
    })
}

/// `0.5`: a positive number of seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let error = || "it must be a positive number of seconds".to_string();
    let value: f64 = text.parse().map_err(|_| error())?;
    if value <= 0.0 {
        return Err(error());
    }
    Duration::try_from_secs_f64(value).map_err(|_| error())
}

/// `bf16`, or the name of a file.
pub fn weights(text: &str) -> Result<WeightsArg, String> {
    let stored = Weights::ALL.iter().find(|weights| weights.name() == text);
    Ok(match stored {
        Some(weights) => WeightsArg::Stored(*weights),
        None => WeightsArg::Shared(text.into()),
    })
}

/// A finite number that is not negative.
pub fn tolerance(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "it must be a number")?;
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err("it must be a finite number that is not negative".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(bytes("17"), Ok(17));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        assert_eq!(bytes("512MiB"), Ok(512 << 20));
        assert!(bytes("2X").is_err() && bytes("G").is_err() && bytes("99999999T").is_err());
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("-1").is_err() && seconds("nan").is_err() && seconds("1e99").is_err());
        assert_eq!(size("n=4"), Ok(("n".into(), 4)));
    }
}
