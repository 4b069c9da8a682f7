//! Saved programs in the place of models.

use std::path::Path;

use heddle::{Device, OpenOptions, Program, Weights};

use super::{Prepared, inputs, run_options};
use crate::args::{
    Compiling, DeviceArg, Exec, PackedArg, PinArg, PrecisionArg, ProgramArgs, Source, TuneArg,
};
use crate::fail::{Exit, Failure};

/// Is a file a saved program, by its name?
pub fn is_saved(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "hprog")
}

/// Opens a program, and reads or draws its inputs.
pub fn prepare(args: &ProgramArgs, exec: &Exec, source: &Source) -> Result<Prepared, Failure> {
    let given = [
        ("--entry", args.model.entry.is_some()),
        ("--batch", source.batch.is_some()),
        ("--fix-sizes", source.fix_sizes),
        ("--max-frames", exec.max_frames.is_some()),
        ("--sanitize", exec.sanitize.is_some()),
    ];
    let compiling = settled(&exec.compiling);
    if let Some((name, _)) = given.into_iter().chain(compiling).find(|(_, given)| *given) {
        let text = format!("{name} is an option of compiling, and a saved program is compiled");
        return Err(Failure::new(Exit::Usage, text).hint("give it to `heddle compile --save`"));
    }
    let options = OpenOptions {
        trusted: args.trusted,
        device: match exec.device {
            DeviceArg::Interp => Some(Device::Interp),
            DeviceArg::Cpu => None,
            DeviceArg::Sim => Some(Device::Sim),
            DeviceArg::Cuda => Some(Device::Cuda),
        },
        grid: exec.sim,
        arch: exec.arch.clone(),
        ..Default::default()
    };
    let program = Program::open(&args.model.path, &options)?;
    Ok(Prepared {
        inputs: inputs(&program, source, exec)?,
        options: run_options(exec, source.random.unwrap_or(0)),
        program,
        batch: None,
    })
}

/// Options of compiling, and whether they are given.
fn settled(args: &Compiling) -> [(&'static str, bool); 9] {
    [
        ("--tune", args.tune == TuneArg::On),
        ("--threads", args.threads.is_some()),
        ("--pin", args.pin == PinArg::Off),
        ("--weights", args.stored() != Weights::F32),
        ("--precision", args.precision != PrecisionArg::F32),
        ("--packed", args.packed == PackedArg::Cache),
        ("--no-opt", args.no_opt),
        ("--verify", args.verify),
        ("--without", !args.without.is_empty()),
    ]
}
