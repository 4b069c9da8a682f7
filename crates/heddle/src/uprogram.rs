//! Passes on uPrograms in text form.

use std::path::Path;

use heddle_schedule::{FORCED, NARROW_WEIGHTS, PASSES, Pass, ROUND_PRODUCTS, SYNC_EVERYWHERE};
use heddle_uprogram::{UProgram, text, verify_program};

use crate::{Error, Machine, Step, on_large_stack};

/// The passes that [`transform_uprogram`] knows, in the order in which a compilation runs them. Then comes the one that replaces the
/// last of them where that is left out, those that stand for `select_kernels` with one layout of maps, and those that store weights in fewer bytes, one of which runs behind `select_kernels` on
/// request.
pub fn uprogram_passes() -> impl Iterator<Item = Step> {
    let others = [&SYNC_EVERYWHERE].into_iter().chain(&FORCED);
    let others = others.chain(&NARROW_WEIGHTS).chain(&ROUND_PRODUCTS);
    PASSES.iter().chain(others).map(|pass| Step {
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
