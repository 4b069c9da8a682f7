//! Stages of the pipeline that other programs than a model's go through, too.

use std::panic;
use std::thread::{self, Scope, ScopedJoinHandle};

use heddle_emit::Constants;
use heddle_ir::{Module, Op};
use heddle_lower::{Cause, LowerError};
use heddle_machine::Machine;
use heddle_opt::TransformOptions;
use heddle_runtime::Constant;
use heddle_schedule::{kernel_passes, schedule_without, total};
use heddle_uprogram::{Layout, UProgram};

use crate::ports::Ports;
use crate::steps::passes;
use crate::weights::constants;
use crate::{CompileOptions, Error, Step};

/// The time of a graph's scheduled program by the cost model, in nanoseconds; infinite if it has no compiled form.
pub(crate) fn estimated(graph: &Module, machine: &Machine, without: &[Step]) -> f64 {
    let mut graph = graph.clone();
    Ports::open(&mut graph, without);
    heddle_lower::lower(&graph).map_or(f64::INFINITY, |mut program| {
        let without = &passes(without);
        kernel_passes(without).for_each(|pass| pass.apply(&mut program, machine));
        schedule_without(&mut program, machine, without);
        total(&program, machine)
    })
}

/// Limit on the instructions of a program that is lowered to see whether it can be.
const TRIED: usize = 10_000;

/// True if a program as a whole can be lowered for a processor, without calls, whose depth has a limit. Of large programs that is
/// not known.
pub(crate) fn has_form_without_calls(module: &Module) -> bool {
    let machine = Machine::reference_host(1);
    let mut graph = module.clone();
    heddle_opt::optimize(&mut graph);
    let functions = graph.functions.iter();
    let size: usize = functions.map(|(_, f)| f.insts.len()).sum();
    if size > TRIED {
        return false;
    }
    heddle_opt::transform(&mut graph, &TransformOptions::default(), &machine);
    let mut calls = false;
    let entry = graph.entry();
    entry.for_each_inst(&mut |_, inst| calls |= matches!(inst.op, Op::Call(_)));
    Ports::open(&mut graph, &[]);
    !calls && heddle_lower::lower(&graph).is_ok()
}

/// Packs the constants of a program while it is scheduled: large weights take as long to copy and pack as all else that a program
/// from the cache needs. No pass that schedules changes them.
pub(crate) struct Packing<'scope, 'env> {
    thread: Option<ScopedJoinHandle<'scope, Packed>>,
    /// Packed at the end, where the system has no thread left for it.
    left: Constants,
    options: &'env CompileOptions,
}

type Packed = Result<Vec<Constant>, Error>;

impl<'scope, 'env> Packing<'scope, 'env> {
    /// Begins to pack a program's constants.
    pub(crate) fn begin(
        scope: &'scope Scope<'scope, 'env>,
        program: &UProgram,
        options: &'env CompileOptions,
    ) -> Self {
        let left = Constants::of(program);
        let work = left.clone();
        let thread = thread::Builder::new().spawn_scoped(scope, move || constants(&work, options));
        Self {
            thread: thread.ok(),
            left,
            options,
        }
    }

    /// The constants as the program reads them.
    pub(crate) fn finish(self) -> Packed {
        match self.thread {
            Some(thread) => (thread.join()).unwrap_or_else(|p| panic::resume_unwind(p)),
            None => constants(&self.left, self.options),
        }
    }
}

/// Lays out the memory of a scheduled program.
pub(crate) fn layout(program: &UProgram) -> Result<Layout, LowerError> {
    heddle_uprogram::layout(program).map_err(|error| LowerError {
        inst: None,
        is_input: false,
        cause: Cause::Layout(error.to_string()),
        node: error.node,
    })
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
    use heddle_schedule::schedule_passes;
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
        let mut program = heddle_lower::lower(&model.module).unwrap();
        for pass in kernel_passes(&[]).chain(schedule_passes(&[])) {
            pass.apply(&mut program, &machine);
        }
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
