//! The commands, one file each, and functions that several share.

pub mod batch;
pub mod bench;
pub mod check;
pub mod compile;
pub mod inspect;
pub mod opt;
pub mod run;
mod saved;
pub mod test;

use std::collections::HashMap;
use std::num::NonZero;
use std::path::Path;

use heddle::batch::Batch;
use heddle::{
    CompileOptions, Device, Fold, Inputs, LoadOptions, Model, Program, Report, Run, RunOptions,
    Sanitizer, Specialisation,
};

use crate::args::{Compiling, DeviceArg, Exec, ModelArgs, ProgramArgs, SanitizeArg, Source};
use crate::fail::{Exit, Failure};
use crate::npz::{self, Floats};
use crate::out::printable;

/// Inputs that values are given for, with their ranks if they are known: those with default values are inputs then,
/// and those that are declared without a rank have these.
pub type Given = HashMap<String, Option<usize>>;

/// A program with its inputs and options.
pub struct Prepared {
    pub program: Program,
    pub inputs: Inputs,
    pub options: RunOptions,
    /// The instances, if there are many and the program runs any number of them.
    pub batch: Option<Batch>,
}

impl Prepared {
    /// Runs it. An error names the instance.
    pub fn run(self) -> Result<(Program, Run), heddle::Error> {
        let run = match &self.batch {
            Some(batch) => batch.run(&self.program, self.inputs, &self.options),
            None => self.program.run(self.inputs, &self.options),
        }?;
        Ok((self.program, run))
    }
}

/// Reads and compiles a model, and reads or draws its inputs.
pub fn prepare_run(
    args: &ProgramArgs,
    exec: &Exec,
    source: &Source,
    keep_going: bool,
) -> Result<Prepared, Failure> {
    check_device(exec)?;
    if saved::is_saved(&args.model.path) {
        return saved::prepare(args, exec, source);
    }
    if args.trusted {
        let text = "--trusted is for saved programs (.hprog)";
        return Err(Failure::new(Exit::Usage, text));
    }
    let (model, mut options) = read(&args.model, exec, source)?;
    for note in model.notes() {
        eprintln!("note: {note}");
    }
    let (model, batch) = batch::prepare(model, source, exec)?;
    if let Some(batch) = batch.as_ref().filter(|_| !source.report) {
        batch::note(batch);
    }
    if let Some(batch) = &batch {
        options.profile = batch::profile(batch, source)?;
    }
    let program = heddle::compile(&model, &options)?;
    let inputs = inputs(&program, source, exec)?;
    if let Some(batch) = &batch {
        match keep_going && !source.fix_sizes {
            // Instances whose tables are unsound are left out.
            true => drop(batch.check_parts(&inputs)?),
            false => batch.check(&inputs)?,
        }
        if source.report {
            let options = run_options(exec, source.random.unwrap_or(0));
            batch::report(batch, &inputs, options);
        }
    }
    let mut prepared = Prepared {
        program,
        inputs,
        options: run_options(exec, source.random.unwrap_or(0)),
        batch,
    };
    if source.fix_sizes {
        let Prepared {
            program,
            inputs,
            options: run,
            ..
        } = &prepared;
        match heddle::specialise(&model, &options, program, inputs, run)? {
            Specialisation::Pays(fixed) => {
                let sizes = fixed.sizes.iter().map(|(name, n)| format!("{name}={n}"));
                let sizes = sizes.collect::<Vec<_>>().join(", ");
                let times = fixed.speedup;
                eprintln!("note: compiled for {sizes}, which is {times:.2} times as fast");
                (prepared.program, prepared.batch) = (fixed.program, None);
            }
            Specialisation::DoesNotPay(times) => {
                eprintln!("note: sizes stay open: fixed, it is {times:.2} times as fast");
            }
            Specialisation::NothingToFix => {
                eprintln!("note: --fix-sizes has no named size of a compiled program to fix");
            }
        }
    }
    Ok(prepared)
}

/// Refuses options of another device.
pub fn check_device(exec: &Exec) -> Result<(), Failure> {
    if exec.sim.is_some() && exec.device != DeviceArg::Sim {
        let text = "--sim is the launch that --device sim simulates";
        return Err(Failure::new(Exit::Usage, text));
    }
    if exec.arch.is_some() && exec.device != DeviceArg::Cuda {
        let text = "--arch is what --device cuda builds for";
        return Err(Failure::new(Exit::Usage, text));
    }
    if exec.sanitize.is_some() {
        if exec.device != DeviceArg::Sim {
            let text = "--sanitize watches --device sim";
            return Err(Failure::new(Exit::Usage, text));
        }
        let grid = exec.sim.unwrap_or_default();
        if grid.blocks > 16 || grid.threads > 256 {
            let text =
                "--sanitize takes up to 16 blocks of 256 threads, a thread of the system each";
            return Err(Failure::new(Exit::Usage, text));
        }
    }
    if exec.watchdog.is_some() && !matches!(exec.device, DeviceArg::Cuda | DeviceArg::Sim) {
        let text = "--watchdog is for the blocks of --device cuda and --device sim";
        return Err(Failure::new(Exit::Usage, text));
    }
    Ok(())
}

/// Reads a model for the inputs that the command line gives.
pub fn read(
    args: &ModelArgs,
    exec: &Exec,
    source: &Source,
) -> Result<(Model, CompileOptions), Failure> {
    // Inputs with default values are constants, unless a file has values for them. It tells ranks, too.
    let given = batch::given(source)?;
    Ok(load(&args.path, args.entry.as_deref(), exec, given)?)
}

/// Reads a model.
pub fn load(
    path: &Path,
    entry: Option<&str>,
    exec: &Exec,
    given: Given,
) -> Result<(Model, CompileOptions), heddle::Error> {
    // In double precision nothing is computed ahead of the run, where it would be rounded to the
    // stated types.
    let fold = if exec.f64 { Fold::Exact } else { Fold::All };
    let options = LoadOptions {
        fold,
        overrides: given.keys().cloned().collect(),
        ranks: given
            .into_iter()
            .filter_map(|(name, rank)| Some((name, rank?)))
            .collect(),
        entry: entry.map(str::to_string),
        ..Default::default()
    };
    let model = Model::load(path, &options)?;
    let options = CompileOptions {
        optimize: !exec.compiling.no_opt && !exec.f64,
        max_frames: exec.max_frames,
        ..device_options(exec)
    };
    Ok((model, options))
}

/// The command line's options of compiling, with its device.
pub fn device_options(exec: &Exec) -> CompileOptions {
    CompileOptions {
        device: match exec.device {
            DeviceArg::Interp => Device::Interp,
            DeviceArg::Cpu => Device::Cpu,
            DeviceArg::Sim => Device::Sim,
            DeviceArg::Cuda => Device::Cuda,
        },
        grid: exec.sim.unwrap_or_default(),
        sanitize: exec.sanitize.map(|kind| match kind {
            SanitizeArg::Thread => Sanitizer::Thread,
            SanitizeArg::Address => Sanitizer::Address,
        }),
        arch: exec.arch.clone(),
        ..compile_options(&exec.compiling)
    }
}

/// The command line's options of compiling.
pub fn compile_options(args: &Compiling) -> CompileOptions {
    CompileOptions {
        optimize: !args.no_opt,
        threads: args.threads.map(NonZero::get),
        tune: args.tune.into(),
        pin: args.pin.into(),
        weights: args.stored(),
        precision: args.precision.into(),
        packed: args.packed.into(),
        verify: args.verify,
        without: args.without.clone(),
        ..Default::default()
    }
}

/// The command line's options of running; `seed` is the default of `--seed`.
pub fn run_options(exec: &Exec, seed: u64) -> RunOptions {
    RunOptions {
        f64: exec.f64,
        max_memory: exec.max_memory,
        max_iterations: exec.max_iterations,
        max_depth: exec.max_depth,
        max_frames: exec.max_frames,
        timeout: exec.timeout,
        watchdog: exec.watchdog,
        seed: exec.seed.unwrap_or(seed),
        cancel: None,
    }
}

/// The inputs that the command line gives, and random ones for the rest if it says so.
fn inputs(program: &Program, source: &Source, exec: &Exec) -> Result<Inputs, Failure> {
    let floats = if exec.f64 {
        Floats::OrF64
    } else {
        Floats::Same
    };
    let mut given = Inputs::new();
    let wanted = program.signature().inputs;
    for path in [&source.input, &source.batch].into_iter().flatten() {
        given.extend(npz::read(path, &wanted, floats)?);
    }
    // Several models may share a file of weights.
    if let Some(path) = &source.weights {
        given.extend(npz::read_some(path, &wanted, floats)?);
    }
    let Some(seed) = source.random else {
        if !source.size.is_empty() {
            let text = "--size says how large random inputs are, and needs --random";
            return Err(Failure::new(Exit::Usage, text));
        }
        return Ok(given);
    };
    let mut sizes = program.sizes_of(&given);
    sizes.extend(source.size.iter().cloned());
    let mut inputs = program.draw(seed, &sizes)?;
    inputs.extend(given);
    Ok(inputs)
}

/// Says what differs from the options; in one line that the interpreter runs a program or parts of it, why, and how to see more.
pub fn note(report: &Report, model: &Path) {
    for note in &report.notes {
        eprintln!("note: {}", printable(note));
    }
    let Some(interpreted) = &report.interpreted else {
        return;
    };
    let share = report.interpreted_share();
    let share = share.map(|s| format!(", {:.0} % of the time", 100.0 * s));
    let mut causes = interpreted.uncompiled.iter();
    let first = causes.next().map(ToString::to_string);
    let more = match causes.len() {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    };
    eprintln!(
        "note: the interpreter runs {}{}: {}{more}; see `heddle inspect --compiled {}`",
        interpreted.what(),
        share.unwrap_or_default(),
        printable(&first.unwrap_or_default()),
        model.display()
    );
}
