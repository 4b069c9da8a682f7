//! Compiles a model for a device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_ir::Module;

use crate::cpu::{self, Built, Compiled};
use crate::exec::{Executable, Form};
use crate::mixed::Mixed;
use crate::options::{CompileOptions, Device, Target, Tune};
use crate::report::{Interpreted, PassTimes, Report};
use crate::results::Results;
use crate::stack::on_large_stack;
use crate::{Error, Model};

/// The source text of a model's program for a target; nothing is built.
///
/// # Errors
///
/// [`Error::Lower`] names the node that has no compiled form, [`Error::Schedule`] what the verifier found if it was asked.
pub fn source(model: &Model, options: &CompileOptions, target: Target) -> Result<String, Error> {
    let (program, _) = scheduled(model, options, target)?;
    let dialect = match target {
        Target::Cpu => &heddle_emit::C,
        Target::Cuda => &heddle_emit::CUDA,
    };
    Ok(heddle_emit::write(&program, dialect).source)
}

/// The schedule of a model's program for a target, as text for people, once the verifier has proven it sound.
///
/// # Errors
///
/// [`Error::Lower`] names the node that has no compiled form, [`Error::Schedule`] what the verifier found.
pub fn schedule(model: &Model, options: &CompileOptions, target: Target) -> Result<String, Error> {
    let options = CompileOptions {
        verify: true,
        ..options.clone()
    };
    let (program, device) = scheduled(model, &options, target)?;
    Ok(heddle_schedule::print(&program, &device))
}

/// A model's program for a target, with the device that it is scheduled for.
pub(crate) fn scheduled(
    model: &Model,
    options: &CompileOptions,
    target: Target,
) -> Result<(heddle_uprogram::UProgram, heddle_schedule::Device), Error> {
    let (transformed, device) = prepared(model, options, target)?;
    let tune = match target {
        Target::Cpu => options.tune,
        Target::Cuda => Tune::Off,
    };
    let program =
        on_large_stack(|| cpu::schedule(&transformed, &device, &options.transform.without, tune))??;
    if options.verify {
        let what = "the program";
        on_large_stack(|| heddle_uprogram::verify_schedule(&program, device.lanes))?
            .map_err(|error| Error::Schedule { what, error })?;
    }
    Ok((program, device))
}

/// A model's graph as it is lowered for a target, with the device that it is scheduled for.
pub(crate) fn prepared(
    model: &Model,
    options: &CompileOptions,
    target: Target,
) -> Result<(Module, heddle_schedule::Device), Error> {
    let threads = options.threads.unwrap_or_else(cpu::default_threads);
    let device = match target {
        Target::Cpu => heddle_schedule::Device::cpu(threads),
        Target::Cuda => heddle_schedule::Device::gpu(),
    };
    // What working on several layers at the same time brings was measured on processors only.
    let units = match target {
        Target::Cpu => threads,
        Target::Cuda => 1,
    };
    let (module, mut passes) = optimized(model.module.clone(), options)?;
    let (mut transformed, _) = transformed(&module, options, units, &mut passes)?;
    Results::open(&mut transformed);
    Ok((transformed, device))
}

/// Compiles a model: optimises the graph and prepares it for the device.
pub fn compile(model: &Model, options: &CompileOptions) -> Result<Executable, Error> {
    compile_module(model.module.clone(), model.load_time(), options)
}

/// Compiles a program that took so long to load.
pub(crate) fn compile_module(
    module: Module,
    load: Duration,
    options: &CompileOptions,
) -> Result<Executable, Error> {
    let start = Instant::now();
    let (module, mut passes) = optimized(module, options)?;
    let (mut form, mut interpreted) = (Form::Interpreted, None);
    if options.device == Device::Cpu {
        match build(&module, options, &mut passes)? {
            Ok(program) => form = Form::Compiled(Arc::new(program)),
            Err(error) => {
                let part = |module: &Module| {
                    let options = CompileOptions {
                        threads: Some(part_threads(module, options)),
                        ..options.clone()
                    };
                    build(module, &options, &mut vec![])
                };
                let mixed = on_large_stack(|| Mixed::new(&module, &part))??;
                // It may only have had to begin anew where sizes are known.
                if mixed.len() == 0 || !mixed.left.is_empty() {
                    let left = mixed.left.clone();
                    interpreted = Some(Interpreted {
                        uncompiled: if left.is_empty() {
                            vec![error.into()]
                        } else {
                            left
                        },
                        compiled_parts: mixed.len(),
                    });
                }
                if mixed.len() > 0 {
                    form = Form::Mixed(Arc::new(mixed));
                }
            }
        }
    }
    let report = Report {
        load,
        compile: start.elapsed(),
        passes,
        run: Duration::ZERO,
        verified: options.verify && !matches!(form, Form::Interpreted),
        interpreted,
    };
    Ok(Executable {
        module,
        form,
        report,
    })
}

/// What several workers must gain on a part by the cost model, in nanoseconds. Between its calls they may fall asleep, and on a busy machine
/// each call waits until all of them have run.
const WORTH_WAKING: f64 = 20_000.0;

/// How many workers run a part.
fn part_threads(module: &Module, options: &CompileOptions) -> usize {
    let threads = options.threads.unwrap_or_else(cpu::default_threads);
    let time = |threads| cpu::estimated(module, threads, &options.transform.without);
    match threads > 1 && time(1) - time(threads) < WORTH_WAKING {
        true => 1,
        false => threads,
    }
}

/// Transforms a program and builds what the worker threads run.
fn build(module: &Module, options: &CompileOptions, passes: &mut PassTimes) -> Built {
    let threads = options.threads.unwrap_or_else(cpu::default_threads);
    let (transformed, changed) = transformed(module, options, threads, passes)?;
    let build = |module: &Module| {
        let (threads, without) = (options.threads, &options.transform.without);
        let (tune, verify) = (options.tune, options.verify);
        on_large_stack(|| Compiled::new(module, threads, without, tune, verify))?
    };
    let built = build(&transformed)?;
    if changed && built.is_err() {
        // What a transformation made may have no compiled form where the program as it was has one.
        return build(module);
    }
    Ok(built)
}

/// The model's program after the graph passes, if they are to run, and the time that each took.
fn optimized(mut module: Module, options: &CompileOptions) -> Result<(Module, PassTimes), Error> {
    let mut passes = vec![];
    if options.optimize {
        let optimized = on_large_stack(|| {
            passes = heddle_opt::optimize(&mut module).times();
            heddle_ir::verify(&module)
        })?;
        optimized.map_err(|errors| Error::invalid("a graph pass", &errors))?;
    }
    Ok((module, passes))
}

/// The program as devices that compile take it, and whether it is another one. Layers are pipelined over units where the scheduled
/// program then takes less time by the cost model.
fn transformed(
    module: &Module,
    options: &CompileOptions,
    units: usize,
    passes: &mut PassTimes,
) -> Result<(Module, bool), Error> {
    if !options.optimize {
        return Ok((module.clone(), false));
    }
    let transformed = |units| {
        let options = heddle_opt::TransformOptions {
            units,
            ..options.transform.clone()
        };
        let mut module = module.clone();
        let report = heddle_opt::transform(&mut module, &options);
        heddle_ir::verify(&module).map(|()| (module, report))
    };
    let (module, report) = on_large_stack(|| {
        let (pipelined, report) = transformed(units)?;
        if report.total().count("layers pipelined") == 0 {
            return Ok((pipelined, report));
        }
        let plain = transformed(1)?;
        let without = &options.transform.without;
        let [new, old] = [&pipelined, &plain.0].map(|m| cpu::estimated(m, units, without));
        Ok(match new < old {
            true => (pipelined, report),
            false => plain,
        })
    })?
    .map_err(|errors: Vec<_>| Error::invalid("a transformation", &errors))?;
    passes.extend(report.times());
    let changed = report.total().total() > 0;
    Ok((module, changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_parts_run_on_one_worker() {
        let threads = |size: usize| {
            let text = format!(
                "fn @main(%x: f32[{size},{size}]) -> (%y: f32[{size},{size}]) {{
  %y = dot(%x, %x)
  return %y
}}"
            );
            let model = Model::parse("m", &text).unwrap();
            let options = CompileOptions {
                threads: Some(4),
                ..Default::default()
            };
            part_threads(&model.module, &options)
        };
        assert_eq!(threads(16), 1);
        assert_eq!(threads(512), 4);
    }
}
