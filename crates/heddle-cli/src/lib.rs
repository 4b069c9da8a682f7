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

use crate::args::{Cli, Command};
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

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => commands::run::run(args),
        Command::Check(args) => commands::check::check(args),
        Command::Test(args) => commands::test::test(args),
        Command::Inspect(args) => commands::inspect::inspect(args),
        Command::Compile(args) => commands::compile::compile(args),
        Command::Bench(args) => commands::bench::bench(args),
        Command::Opt(args) => commands::opt::opt(args),
    }
}
