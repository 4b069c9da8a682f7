//! `heddle bench`.

mod times;
mod turns;

use std::time::{Duration, Instant};

use heddle::{Executable, Repeat};
use serde_json::{Value, json};

use self::times::Times;
use crate::args::BenchArgs;
use crate::fail::{Exit, Failure};
use crate::out::{self, DIM, styled};
use crate::{commands, files, show};

/// Runs before the first that counts: caches fill, memory is allocated, the clock of the cores rises.
const WARM_UP: Duration = Duration::from_millis(300);
/// A median of fewer runs says little.
const FEWEST_RUNS: usize = 5;

/// Measures a model.
pub fn bench(args: BenchArgs) -> Result<(), Failure> {
    let program = commands::prepare(&args.model, &args.exec)?;
    let inputs = commands::inputs(&program, &args.source, &args.exec)?;
    let options = commands::run_options(&args.exec, args.source.random.unwrap_or(0));
    let mut repeat = program.repeat(inputs, &options)?;
    if let Some(reason) = &program.report().interpreted {
        eprintln!("note: this runs on the interpreter: {reason}");
    }
    if args.turns {
        return turns::serve(&json!({"compile_s": compile_seconds(&program)}), || {
            repeat.run()
        });
    }
    let times = measure(&mut repeat, args.seconds)?;
    let document = document(&args, &program, &times);
    match &args.json {
        Some(path) if path.as_os_str() == "-" => out::print_json(&document),
        Some(path) => {
            let text = format!("{document:#}\n");
            files::replace(path, |file| {
                std::io::Write::write_all(file, text.as_bytes())
            })
            .map_err(|e| Failure::new(Exit::Io, format!("cannot write {}: {e}", path.display())))
        }
        None => out::print(&text(&program, &times)),
    }
}

/// Runs for a while without looking at the clock's answers, then for as long as was asked.
fn measure(repeat: &mut Repeat, budget: Duration) -> Result<Times, heddle::Error> {
    let start = Instant::now();
    while {
        repeat.run()?;
        start.elapsed() < WARM_UP.min(budget)
    } {}
    let mut times = Times::default();
    let start = Instant::now();
    while start.elapsed() < budget || times.len() < FEWEST_RUNS {
        times.push(repeat.run()?);
    }
    Ok(times)
}

/// From the file to a program that is ready to run.
fn compile_seconds(program: &Executable) -> f64 {
    (program.report().load + program.report().compile).as_secs_f64()
}

fn document(args: &BenchArgs, program: &Executable, times: &Times) -> Value {
    let mut document = json!({
        "model": args.model,
        "device": program.device().name(),
        "threads": program.threads(),
        "runs": times.len(),
    });
    times.describe(&mut document);
    document["compile_s"] = json!(compile_seconds(program));
    if let Some(reason) = &program.report().interpreted {
        document["interpreted"] = json!(reason.to_string());
    }
    document
}

fn text(program: &Executable, times: &Times) -> String {
    let [median, min, max] = [times.median(), times.min(), times.max()].map(show::duration);
    let head = format!(
        "median {median}, min {min}, max {max} of {} runs\n",
        times.len()
    );
    let threads = match program.threads() {
        1 => "1 thread".to_string(),
        n => format!("{n} threads"),
    };
    let ready = show::duration(Duration::from_secs_f64(compile_seconds(program)));
    let device = program.device().name();
    head + &styled(DIM, format!("{device}, {threads}, ready after {ready}")) + "\n"
}
