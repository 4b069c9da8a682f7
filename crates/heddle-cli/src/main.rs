//! The `heddle` command.

mod args;
mod commands;
mod fail;
mod files;
mod npy;
mod npz;
mod out;
mod panics;
mod show;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

use crate::args::{Cli, Command};
use crate::fail::{Exit, Failure};

/// Compiling makes and drops many small arrays, which the system's allocator is slow at: a program from the cache is ready sooner.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    panics::install();
    let cli = Cli::parse();
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
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            out::report(&failure, as_json);
            ExitCode::from(failure.exit as u8)
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
