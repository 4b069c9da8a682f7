//! From a module to a scheduled program with its memory laid out.

use std::{panic, thread};

use heddle_emit::Constants;
use heddle_ir::Module;
use heddle_lower::LowerError;
use heddle_runtime::{BuildError, Constant, MemoryError};
use heddle_schedule::Latency;
use heddle_uprogram::{Layout, UProgram};

use crate::backend::interface::{Backend, Lowered, Machine};
use crate::profile::Profiler;
use crate::results::Results;
use crate::{CompileOptions, Error, Tune};

/// Lowers a module, schedules it for the back end's machine and lays its memory out. The inner error names a node without a
/// compiled form.
pub(crate) fn scheduled(
    module: &Module,
    backend: &dyn Backend,
    options: &CompileOptions,
) -> Result<Result<Lowered, LowerError>, Error> {
    let (machine, without) = (backend.machine(), &options.without[..]);
    let mut module = module.clone();
    let results = Results::open(&mut module);
    let mut program = match lower(&module, &machine, without) {
        Ok(program) => program,
        Err(reason) => return Ok(Err(reason)),
    };
    let unpacked = Constants::of(&program);
    thread::scope(|scope| {
        // Large weights take as long to copy and pack as all else that a program from the cache needs.
        let packing = thread::Builder::new().spawn_scoped(scope, || constants(&unpacked));
        let tune = match backend.is_here() {
            true => options.tune,
            false => Tune::Off,
        };
        schedule(&mut program, &machine, without, tune);
        if options.verify {
            prove("the program", &program, &machine)?;
        }
        let layout = layout(&program);
        let constants = match packing {
            Ok(packing) => (packing.join()).unwrap_or_else(|p| panic::resume_unwind(p)),
            // The system has no thread left for it.
            Err(_) => constants(&unpacked),
        }?;
        Ok(layout.map(|layout| Lowered {
            program,
            layout,
            constants,
            results,
        }))
    })
}

/// The time of a module's scheduled program by the cost model, in nanoseconds; infinite if it has no compiled form.
pub(crate) fn estimated(module: &Module, machine: &Machine, without: &[String]) -> f64 {
    let mut module = module.clone();
    Results::open(&mut module);
    lower(&module, machine, without).map_or(f64::INFINITY, |mut program| {
        schedule(&mut program, machine, without, Tune::Off);
        heddle_schedule::total(&program, machine)
    })
}

fn lower(module: &Module, machine: &Machine, without: &[String]) -> Result<UProgram, LowerError> {
    let mut program = heddle_lower::lower(module)?;
    let with = |pass: &str| without.iter().all(|name| name != pass);
    if with("fuse") {
        heddle_schedule::fuse(&mut program);
    }
    if with("select_kernels") {
        heddle_schedule::select_kernels(&mut program, machine);
    }
    Ok(program)
}

/// Lays out the memory of a scheduled program.
pub(crate) fn layout(program: &UProgram) -> Result<Layout, LowerError> {
    heddle_uprogram::layout(program).map_err(|error| LowerError {
        inst: None,
        is_input: false,
        reason: error.to_string(),
        node: error.node,
    })
}

/// Schedules a program without the [steps](crate::STEPS) of these names.
fn schedule(program: &mut UProgram, machine: &Machine, without: &[String], tune: Tune) {
    let profiler = match tune {
        Tune::Off => None,
        Tune::On => Profiler::new(program, machine),
    };
    let latency: &dyn Latency = profiler.as_ref().map_or(machine, |p| p);
    heddle_schedule::schedule_without(program, latency, without);
}

/// Constants as a program reads them, at aligned addresses. Those that are so in the model's file are not copied.
pub(crate) fn constants(constants: &Constants) -> Result<Vec<Constant>, Error> {
    let aligned = constants.packed().map(|c| Constant::from(c).aligned());
    let aligned: Result<Vec<_>, MemoryError> = aligned.collect();
    Ok(aligned.map_err(BuildError::from)?)
}

/// Has the verifier prove a scheduled program sound.
pub(crate) fn prove(
    what: &'static str,
    program: &UProgram,
    machine: &Machine,
) -> Result<(), Error> {
    heddle_uprogram::verify_schedule(program, machine.synced_lanes())
        .map_err(|error| Error::Schedule { what, error })
}

#[cfg(test)]
mod tests {
    use heddle_uprogram::program::Stmt;

    use super::*;
    use crate::{ErrorKind, Model};

    /// Each element of the second product needs a row and a column of the first one, so other units'.
    const TEXT: &str = "\
fn @main(%x: f32[64,64]) -> (%y: f32[64,64]) {
  %h = dot(%x, %x)
  %y = dot(%h, %h)
  return %y
}
";

    #[test]
    fn a_broken_schedule_is_refused() {
        let model = Model::parse("m", TEXT).unwrap();
        // Synchronising costs nothing here, so that both products are shared out.
        let machine = Machine::reference_host(3).with_barrier_ns(0.0);
        let mut program = lower(&model.module, &Machine::reference_host(2), &[]).unwrap();
        schedule(&mut program, &machine, &[], Tune::Off);
        prove("the program", &program, &machine).unwrap();
        let whole = program.body.len();
        program.body.retain(|stmt| !matches!(stmt, Stmt::Sync(_)));
        assert!(program.body.len() < whole, "nothing was removed");
        let error = prove("the program", &program, &machine).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        let (text, hint) = (error.to_string(), error.hint().unwrap());
        for part in ["the schedule of the program", "op0 (", "op1 (", "b1 of "] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            hint.contains("report") && hint.contains("Device::Interp"),
            "{hint}"
        );
    }
}
