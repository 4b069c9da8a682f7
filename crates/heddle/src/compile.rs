//! Compiles a model for a device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_ir::Module;
use heddle_machine::Machine;

use crate::backend::{self, Backend, Built, Lowered, Parts, Scheduled};
use crate::exec::Program;
use crate::options::{CompileOptions, Target};
use crate::report::{Interpreted, PassTimes, Report};
use crate::results::Results;
use crate::scheduled::{estimated, scheduled};
use crate::stack::on_large_stack;
use crate::{Error, Model};

/// The source text of a model's program for a target; nothing is built.
///
/// # Errors
///
/// [`Error::Lower`] names the node that has no compiled form, [`Error::Schedule`] what the verifier found if it was asked.
pub fn source(model: &Model, options: &CompileOptions, target: Target) -> Result<String, Error> {
    let backend = backend::of_target(target, options);
    let lowered = lowered(model, options, &*backend)?;
    Ok(backend.emit(&lowered.program, &lowered.layout)?.source)
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
    let backend = backend::of_target(target, &options);
    let lowered = lowered(model, &options, &*backend)?;
    Ok(heddle_schedule::print(&lowered.program, &backend.machine()))
}

/// A model's scheduled program for a back end.
pub(crate) fn lowered(
    model: &Model,
    options: &CompileOptions,
    backend: &dyn Backend,
) -> Result<Lowered, Error> {
    let (module, mut passes) = optimized(model.module.clone(), options)?;
    let (transformed, _) = transformed(&module, options, backend, &mut passes)?;
    Ok(on_large_stack(|| {
        scheduled(&transformed, backend, options)
    })???)
}

/// A model's graph as it is lowered for a back end.
pub(crate) fn prepared(
    model: &Model,
    options: &CompileOptions,
    backend: &dyn Backend,
) -> Result<Module, Error> {
    let (module, mut passes) = optimized(model.module.clone(), options)?;
    let (mut transformed, _) = transformed(&module, options, backend, &mut passes)?;
    Results::open(&mut transformed);
    Ok(transformed)
}

/// Compiles a model: optimises the graph and prepares it for the device.
pub fn compile(model: &Model, options: &CompileOptions) -> Result<Program, Error> {
    compile_module(model.module.clone(), model.load_time(), options)
}

/// Compiles a program that took so long to load.
pub(crate) fn compile_module(
    module: Module,
    load: Duration,
    options: &CompileOptions,
) -> Result<Program, Error> {
    let start = Instant::now();
    let (module, mut passes) = optimized(module, options)?;
    let module = Arc::new(module);
    let backend = backend::of(options);
    let mut interpreted = None;
    let graph = || Scheduled {
        module: module.clone(),
        lowered: None,
    };
    let artifact = match backend.lowers() {
        false => backend.build(graph())?,
        true => match build(&module, options, &*backend, &mut passes)? {
            Ok(artifact) => artifact,
            Err(error) => {
                let parts = Parts {
                    machine: backend.machine(),
                    compile: &|module| part(module, options),
                };
                let artifact = on_large_stack(|| parts.build(graph()))??;
                let (count, left) = artifact.parts().unwrap_or((0, &[]));
                // It may only have had to begin anew where sizes are known.
                if count == 0 || !left.is_empty() {
                    interpreted = Some(Interpreted {
                        uncompiled: match left {
                            [] => vec![error.into()],
                            left => left.to_vec(),
                        },
                        compiled_parts: count,
                    });
                }
                artifact
            }
        },
    };
    let is_interpreted = artifact.device() == crate::Device::Interp;
    let report = Report {
        load,
        compile: start.elapsed(),
        passes,
        run: Duration::ZERO,
        verified: options.verify && !is_interpreted,
        interpreted,
    };
    Ok(Program {
        module,
        artifact,
        report,
    })
}

/// Compiles a part of a program.
fn part(module: &Module, options: &CompileOptions) -> Built {
    let options = CompileOptions {
        threads: Some(part_threads(module, options)),
        ..options.clone()
    };
    build(module, &options, &*backend::of(&options), &mut vec![])
}

/// The number of workers that run a part: one, unless several gain more on a call than it takes to wake them. Between
/// calls they may fall asleep, and on a busy machine each call waits until all of them have run.
fn part_threads(module: &Module, options: &CompileOptions) -> usize {
    let threads = options.threads();
    let wake_ns = backend::of(options).machine().host.wake_ns;
    let time = |threads| estimated(module, &Machine::host(threads), &options.without);
    match threads > 1 && time(1) - time(threads) < wake_ns {
        true => 1,
        false => threads,
    }
}

/// Transforms a program and builds it.
fn build(
    module: &Module,
    options: &CompileOptions,
    backend: &dyn Backend,
    passes: &mut PassTimes,
) -> Built {
    let (transformed, changed) = transformed(module, options, backend, passes)?;
    let build = |transformed: &Module| -> Built {
        on_large_stack(|| match scheduled(transformed, backend, options)? {
            Err(error) => Ok(Err(error)),
            Ok(lowered) => {
                let program = Scheduled {
                    module: Arc::new(module.clone()),
                    lowered: Some(lowered),
                };
                backend.build(program).map(Ok)
            }
        })?
    };
    let built = build(&transformed)?;
    if changed && built.is_err() {
        // A transformation may have made something without a compiled form.
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
    backend: &dyn Backend,
    passes: &mut PassTimes,
) -> Result<(Module, bool), Error> {
    if !options.optimize {
        return Ok((module.clone(), false));
    }
    let machine = backend.machine();
    let transformed = |units| {
        let options = heddle_opt::TransformOptions {
            without: options.without.clone(),
            units,
        };
        let mut module = module.clone();
        let report = heddle_opt::transform(&mut module, &options, &machine);
        heddle_ir::verify(&module).map(|()| (module, report))
    };
    let (module, report) = on_large_stack(|| {
        let (pipelined, report) = transformed(backend.pipelined_units())?;
        if report.total().count("layers pipelined") == 0 {
            return Ok((pipelined, report));
        }
        let plain = transformed(1)?;
        let without = &options.without;
        let [new, old] = [&pipelined, &plain.0].map(|m| estimated(m, &machine, without));
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
                device: crate::Device::Cpu,
                threads: Some(4),
                ..Default::default()
            };
            part_threads(&model.module, &options)
        };
        assert_eq!(threads(16), 1);
        assert_eq!(threads(512), 4);
    }
}
