//! uPrograms as text: those of models, and passes on them.

use std::path::Path;

use heddle_schedule::{PASSES, Pass, SYNC_EVERYWHERE};
use heddle_uprogram::{UProgram, text, verify_program};

use crate::backend;
use crate::compile::{lowered, prepared};
use crate::{CompileOptions, Error, Machine, Model, Step, Target, on_large_stack};

/// A point between lowering and emission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// As lowering leaves it, before any pass.
    Lowered,
    /// As it is emitted.
    Scheduled,
}

/// A model's uProgram for a target, in text form.
///
/// # Errors
///
/// [`Error::Lower`] names the node that has no compiled form, [`Error::Schedule`] what the verifier found if it was asked.
pub fn uprogram(
    model: &Model,
    options: &CompileOptions,
    target: Target,
    stage: Stage,
) -> Result<String, Error> {
    let backend = backend::of_target(target, options);
    let program = match stage {
        Stage::Lowered => {
            let module = prepared(model, options, &*backend)?;
            on_large_stack(|| heddle_lower::lower(&module))??
        }
        Stage::Scheduled => lowered(model, options, &*backend)?.program,
    };
    on_large_stack(|| text::print(&program))
}

/// The passes that [`transform_uprogram`] knows, in the order in which a compilation runs them; the last one replaces the one before
/// it where that is left out.
pub fn uprogram_passes() -> impl Iterator<Item = Step> {
    PASSES.iter().chain([&SYNC_EVERYWHERE]).map(|pass| Step {
        name: pass.name,
        about: pass.about,
    })
}

/// Reads a uProgram, runs passes for a machine, and writes what they make of it. No names are all passes.
///
/// # Errors
///
/// [`Error::UProgram`] for a text that is no uProgram, [`Error::UnknownPass`] for a name that is none, and [`Error::Internal`]
/// names a pass that left the program ill-formed.
pub fn transform_uprogram(
    path: &Path,
    text: &str,
    passes: &[String],
    machine: &Machine,
) -> Result<String, Error> {
    let find = |name: &String| {
        let found = heddle_schedule::find_pass(name);
        found.ok_or_else(|| Error::UnknownPass(name.clone()))
    };
    let passes: Vec<&Pass> = match passes {
        [] => PASSES.iter().collect(),
        names => names.iter().map(find).collect::<Result<_, _>>()?,
    };
    on_large_stack(|| {
        let mut program = text::parse(text).map_err(|error| Error::UProgram {
            path: path.into(),
            error: Box::new(error),
        })?;
        for pass in passes {
            (pass.run)(&mut program, &machine.0);
            verified(pass, &program)?;
        }
        Ok(text::print(&program))
    })?
}

fn verified(pass: &Pass, program: &UProgram) -> Result<(), Error> {
    verify_program(program)
        .map_err(|e| Error::Internal(format!("{} left the uProgram ill-formed: {e}", pass.name)))
}
