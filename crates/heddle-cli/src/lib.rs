//! The `heddle` command as a function, for the program `heddle` and for the Python package.

mod args;
mod commands;
mod fail;
mod files;
mod npy;
mod npz;
mod out;
mod panics;
mod show;

use std::ffi::OsString;

use clap::Parser;

use heddle::Weights;

use crate::args::{Cli, Command, Compiling};
use crate::fail::{Exit, Failure};

pub use crate::commands::inspect::{model_outline, program_outline};

/// Runs the command with these arguments, of which the first is the program's name, and returns its
/// exit code. The process's handler of panics is replaced.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    panics::install();
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to tell where the standard streams are closed.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8);
        }
    };
    let as_json = match &cli.command {
        Command::Run(args) => args.json,
        Command::Check(args) => args.json,
        Command::Test(args) => args.json,
        Command::Inspect(args) => args.json,
        Command::Compile(_) | Command::Opt(_) | Command::Bench(_) => false,
    };
    let result = panics::caught(|| dispatch(cli.command)).unwrap_or_else(|panic| {
        let message = format!("internal error: {panic}");
        let hint = "this is a bug in Heddle; please report it, with the model if you can";
        Err(Failure::new(Exit::Internal, message).hint(hint))
    });
    match result {
        Ok(()) => 0,
        Err(failure) => {
            out::report(&failure, as_json);
            failure.exit as u8
        }
    }
}

fn dispatch(mut command: Command) -> Result<(), Failure> {
    share_weights(&mut command)?;
    match command {
        Command::Run(args) => commands::run::run(args),
        Command::Check(args) => commands::check::check(args),
        Command::Test(args) => commands::test::test(args),
        Command::Inspect(args) => commands::inspect::inspect(args),
        Command::Compile(args) => commands::compile::compile(*args),
        Command::Bench(args) => commands::bench::bench(args),
        Command::Opt(args) => commands::opt::opt(args),
    }
}

/// Gives the file of `--weights` to the inputs of a batch. Where there is none, its name is no type.
fn share_weights(command: &mut Command) -> Result<(), Failure> {
    let none = |compiling: &Compiling| match compiling.shared() {
        Some(path) => {
            let types: Vec<_> = Weights::ALL.iter().map(|w| w.name()).collect();
            let text = format!("--weights: `{}` is none of the types", path.display());
            Err(Failure::new(Exit::Usage, text).hint(format!("they are {}", types.join(", "))))
        }
        None => Ok(()),
    };
    let (source, compiling) = match command {
        Command::Run(args) => (&mut args.source, &args.exec.compiling),
        Command::Check(args) => (&mut args.source, &args.exec.compiling),
        Command::Bench(args) => (&mut args.source, &args.exec.compiling),
        Command::Test(args) => return none(&args.exec.compiling),
        Command::Compile(args) => return none(&args.compiling),
        Command::Inspect(_) | Command::Opt(_) => return Ok(()),
    };
    source.weights = compiling.shared().map(Into::into);
    if source.weights.is_some() && source.batch.is_none() {
        return none(compiling).map_err(|failure| {
            failure.hint("the types are f32, bf16, f16 and int8; a file of shared inputs goes with --batch, not with --input")
        });
    }
    Ok(())
}
