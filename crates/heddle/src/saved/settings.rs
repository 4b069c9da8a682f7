//! Options of compiling as text: a line for each, a name and a value.

use std::str::FromStr;

use crate::saved_error::SavedError;
use crate::{CompileOptions, Device, Packed, Pin, Precision, Step, Tune, Weights};

/// The most worker threads that a file may ask for.
const MAX_THREADS: usize = 4096;

/// The options that are saved. The compiler, the cache and tests of the text form are the reader's; profiles and machines have no form.
pub fn write(options: &CompileOptions) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name} {value}\n");
    line("heddle", env!("CARGO_PKG_VERSION").into());
    line("device", options.device.name().into());
    if options.device == Device::Sim {
        line("grid", options.grid.to_string());
    }
    if let Some(arch) = &options.arch {
        line("arch", arch.clone());
    }
    line("optimize", options.optimize.to_string());
    if let Some(threads) = options.threads {
        line("threads", threads.to_string());
    }
    if let Some(frames) = options.max_frames {
        line("max_frames", frames.to_string());
    }
    line("pin", (options.pin == Pin::Auto).to_string());
    line(
        "cached_weights",
        (options.packed == Packed::Cache).to_string(),
    );
    line("weights", options.weights.name().into());
    line("precision", options.precision.name().into());
    line("tune", (options.tune == Tune::On).to_string());
    line("verify", options.verify.to_string());
    for step in &options.without {
        line("without", step.name.into());
    }
    text
}

/// Reads them.
pub fn read(text: &str) -> Result<CompileOptions, SavedError> {
    let mut options = CompileOptions::default();
    for line in text.lines() {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            // For people.
            "heddle" => {}
            "device" => {
                let device = Device::ALL.iter().find(|d| d.name() == value);
                options.device = *device.ok_or_else(|| wrong(line))?;
            }
            "grid" => options.grid = number(line, value)?,
            "arch" if is_name(value) => options.arch = Some(value.to_owned()),
            "optimize" => options.optimize = number(line, value)?,
            "threads" => {
                let threads = number(line, value)?;
                if !(1..=MAX_THREADS).contains(&threads) {
                    return Err(wrong(line));
                }
                options.threads = Some(threads);
            }
            "max_frames" => options.max_frames = Some(number(line, value)?),
            "pin" if !number::<bool>(line, value)? => options.pin = Pin::Off,
            "cached_weights" if number(line, value)? => options.packed = Packed::Cache,
            "weights" => {
                let weights = Weights::ALL.iter().find(|w| w.name() == value);
                options.weights = *weights.ok_or_else(|| wrong(line))?;
            }
            "precision" => {
                let precision = Precision::ALL.iter().find(|p| p.name() == value);
                options.precision = *precision.ok_or_else(|| wrong(line))?;
            }
            "tune" if number(line, value)? => options.tune = Tune::On,
            "pin" | "cached_weights" | "tune" => {}
            "verify" => options.verify = number(line, value)?,
            "without" => options
                .without
                .push(Step::named(value).ok_or_else(|| wrong(line))?),
            _ => return Err(wrong(line)),
        }
    }
    Ok(options)
}

fn number<T: FromStr>(line: &str, value: &str) -> Result<T, SavedError> {
    value.parse().map_err(|_| wrong(line))
}

/// Is it a word of letters, digits and underscores?
fn is_name(value: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=16).contains(&value.len()) && value.chars().all(fits)
}

fn wrong(line: &str) -> SavedError {
    let shown: String = line.chars().take(80).collect();
    SavedError::Broken(format!("there is no option {shown:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_back() {
        let options = CompileOptions {
            device: Device::Interp,
            arch: Some("sm_90a".into()),
            optimize: false,
            threads: Some(3),
            max_frames: Some(0),
            pin: Pin::Off,
            weights: Weights::Int8,
            precision: Precision::Tf32,
            packed: Packed::Cache,
            tune: Tune::On,
            verify: true,
            without: Step::named("fuse").into_iter().collect(),
            ..Default::default()
        };
        let text = write(&options);
        assert_eq!(write(&read(&text).unwrap()), text);
        let plain = write(&CompileOptions::default());
        assert_eq!(write(&read(&plain).unwrap()), plain);
    }

    #[test]
    fn wrong_options_are_named() {
        for line in [
            "threads 0",
            "threads 99999999999999999999",
            "threads 100000",
            "device tpu",
            "pin maybe",
            "weights int7",
            "precision f8",
            "arch --evil",
            "without sleep",
            "colour red",
            "optimize",
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(line), "{error}");
        }
    }
}
