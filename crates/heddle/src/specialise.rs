//! Programs for fixed sizes, where they are measured to pay.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use heddle_runtime::cache::Key;

use crate::options::cache;
use crate::pipeline::compile_module;
use crate::{CompileOptions, Error, Inputs, Model, Program, Repeat, RunOptions, inputs};

/// A program for the sizes of certain inputs.
#[derive(Clone, Debug)]
pub struct Specialised {
    /// The program. It takes inputs of these sizes only.
    pub program: Program,
    /// The named sizes, with their values.
    pub sizes: BTreeMap<String, i64>,
    /// Speedup over the program for any size.
    pub speedup: f64,
}

/// Outcome of fixing sizes.
#[derive(Clone, Debug)]
pub enum Specialisation {
    /// It pays.
    Pays(Box<Specialised>),
    /// It does not pay: the speedup is this.
    DoesNotPay(f64),
    /// No input has a named size, or the interpreter runs the model.
    NothingToFix,
}

/// A program with a smaller speedup is not worth its memory.
const PAYS: f64 = 1.05;

/// Each of the two programs is run at least this long, and this often.
const MEASURED: Duration = Duration::from_millis(200);
const RUNS: usize = 3;

/// Compiles a model for the sizes of these inputs and keeps that if it is measurably faster than `program`, which takes any
/// sizes. Measurements are cached by program, sizes and processor.
///
/// # Errors
///
/// Those of compiling and of running.
pub fn specialise(
    model: &Model,
    options: &CompileOptions,
    program: &Program,
    inputs: &Inputs,
    run: &RunOptions,
) -> Result<Specialisation, Error> {
    let args = inputs::in_order(program.sig(), inputs.clone())?;
    let sizes = heddle_interp::check_inputs(program.sig(), &args, run.f64)
        .map_err(|e| Error::Run(heddle_interp::RunError::Input(e)))?;
    let sizes: BTreeMap<String, i64> = sizes.iter().map(|(k, v)| (k.to_string(), *v)).collect();
    let (Some(open), false) = (program.key(), sizes.is_empty() || run.f64) else {
        return Ok(Specialisation::NothingToFix);
    };
    let cache = cache(&options.build());
    let named = format!("{sizes:?} {}", program.threads());
    let hardware = heddle_runtime::cpu::identity();
    let key = Key::new(&[open.as_bytes(), named.as_bytes(), hardware.as_bytes()]);
    let known = cache.get("speedup", key);
    let known = known.and_then(|bytes| bytes.try_into().ok().map(f64::from_le_bytes));
    if let Some(speedup) = known.filter(|speedup| *speedup < PAYS) {
        return Ok(Specialisation::DoesNotPay(speedup));
    }
    let mut module = model.module.clone();
    heddle_opt::bind_sizes(&mut module, &sizes);
    let mut fixed = compile_module(module, model.load_time(), options)?;
    fixed.structures.clone_from(&program.structures);
    let speedup = match known {
        Some(speedup) => speedup,
        None => {
            let speedup = compared(program, &fixed, inputs, run)?;
            // A cache that takes nothing costs time, not results.
            let _ = cache.put("speedup", key, &speedup.to_le_bytes());
            speedup
        }
    };
    Ok(match speedup >= PAYS {
        true => Specialisation::Pays(Box::new(Specialised {
            program: fixed,
            sizes,
            speedup,
        })),
        false => Specialisation::DoesNotPay(speedup),
    })
}

/// Speedup of one program over another, by medians of runs in turns.
fn compared(
    open: &Program,
    fixed: &Program,
    inputs: &Inputs,
    options: &RunOptions,
) -> Result<f64, Error> {
    let mut repeats: [Repeat; 2] = [
        open.repeat(inputs.clone(), options)?,
        fixed.repeat(inputs.clone(), options)?,
    ];
    let mut times: [Vec<Duration>; 2] = Default::default();
    // The first runs find cold caches and memory that is not there yet.
    for repeat in &mut repeats {
        repeat.run()?;
    }
    let start = Instant::now();
    while times[0].len() < RUNS || start.elapsed() < 2 * MEASURED {
        for (repeat, times) in repeats.iter_mut().zip(&mut times) {
            times.push(repeat.run()?);
        }
    }
    let [open, fixed] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64()
    });
    Ok(open / fixed.max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Tensor, compile};

    /// A product of matrices whose inner size is open has no kernel for it.
    const PRODUCT: &str = "fn @main(%x: f32[n,k], %w: f32[k,m]) -> (%y: f32[n,m]) {
  %y = tanh(dot(%x, %w))
  return %y
}
";

    fn prepared(text: &str, shape: [usize; 2]) -> (Model, CompileOptions, Inputs) {
        let model = Model::parse("m", text).unwrap();
        let options = CompileOptions {
            device: Device::Cpu,
            threads: Some(2),
            ..Default::default()
        };
        let values = (0..shape[0] * shape[1]).map(|i| (i % 7) as f32 * 0.25 - 0.5);
        let x = Tensor::vector(&values.collect::<Vec<_>>());
        let x = x.reshaped(shape.to_vec()).unwrap();
        let ports = model.signature().inputs.into_iter();
        let inputs = ports.map(|port| (port.name, x.clone().into()));
        let inputs = inputs.collect();
        (model, options, inputs)
    }

    #[test]
    fn a_specialised_program_gives_the_same_and_takes_its_sizes_only() {
        let (model, options, inputs) = prepared(PRODUCT, [17, 17]);
        let program = compile(&model, &options).unwrap();
        let run = RunOptions::default();
        let sizes = BTreeMap::from(["k", "m", "n"].map(|name| (name.to_string(), 17)));
        let mut module = model.module.clone();
        heddle_opt::bind_sizes(&mut module, &sizes);
        let fixed = compile_module(module, Duration::ZERO, &options).unwrap();
        let [want, got] = [&program, &fixed].map(|p| p.run(inputs.clone(), &run).unwrap());
        let closeness = crate::compare(
            &got.outputs["y"],
            &want.outputs["y"],
            &crate::Tolerance::ONNX,
        );
        closeness.unwrap();
        let (_, _, other) = prepared(PRODUCT, [3, 3]);
        assert!(fixed.run(other, &run).is_err());
        // The outcome is measured; a program that is kept is for these sizes.
        match specialise(&model, &options, &program, &inputs, &run).unwrap() {
            Specialisation::Pays(kept) => {
                assert_eq!(kept.sizes, sizes);
                assert!(kept.speedup >= PAYS);
            }
            Specialisation::DoesNotPay(speedup) => assert!(speedup < PAYS),
            Specialisation::NothingToFix => panic!("there are three sizes"),
        }
    }

    #[test]
    fn without_named_sizes_there_is_nothing_to_fix() {
        let text = "fn @main(%x: f32[2,2], %w: f32[2,2]) -> (%y: f32[2,2]) {
  %y = dot(%x, %w)
  return %y
}
";
        let (model, options, inputs) = prepared(text, [2, 2]);
        let program = compile(&model, &options).unwrap();
        let run = RunOptions::default();
        let outcome = specialise(&model, &options, &program, &inputs, &run).unwrap();
        assert!(matches!(outcome, Specialisation::NothingToFix));
    }
}
