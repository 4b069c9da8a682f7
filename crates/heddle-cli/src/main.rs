//! The program `heddle`.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Compiling makes and drops many small arrays, which the system's allocator is slow at: a program from the cache is ready sooner.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(heddle_cli::run(std::env::args_os()))
}
