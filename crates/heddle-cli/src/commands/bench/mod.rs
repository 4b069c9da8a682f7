//! `heddle bench`.

mod ablate;
mod measure;
mod times;
mod turns;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use heddle::{Baseline, Inputs, Program, RunOptions};
use serde_json::{Value, json};

use self::measure::{Subject, measure};
use self::times::Times;
use crate::args::{BenchArgs, Compare};
use crate::commands::{self, Prepared};
use crate::fail::{Exit, Failure};
use crate::out::{self, DIM, styled};
use crate::{files, show};

/// Measures a model.
pub fn bench(args: BenchArgs) -> Result<(), Failure> {
    let Prepared {
        program,
        inputs,
        options,
        ..
    } = commands::prepare_run(&args.program, &args.exec, &args.source, false)?;
    commands::note(program.report(), &args.program.model.path);
    if args.turns {
        let mut repeat = program.repeat(inputs, &options)?;
        let ready = json!({"compile_s": compile_seconds(&program)});
        return turns::serve(&ready, || repeat.run());
    }
    if args.ablate {
        return ablate::ablate(&args, &program, &inputs, &options);
    }
    let others = baselines(&args.compare, &program, &inputs, &options)?;
    let mut subjects = vec![Subject::new("", &program, &inputs, &options)?];
    for (name, other) in &others {
        subjects.push(Subject::new(name, other, &inputs, &options)?);
    }
    measure(&mut subjects, args.seconds)?;
    match &args.json {
        Some(path) => write_json(
            path,
            &document(&args.program.model.path, &program, &subjects),
        ),
        None => out::print(&text(&program, &subjects)),
    }
}

/// The programs to compare with, by name.
fn baselines(
    chosen: &[Compare],
    program: &Program,
    inputs: &Inputs,
    options: &RunOptions,
) -> Result<Vec<(&'static str, Program)>, heddle::Error> {
    let all = [
        (Compare::Host, "host", Baseline::Host),
        (Compare::Trace, "trace", Baseline::Trace),
    ];
    let chosen = all.into_iter().filter(|(c, ..)| chosen.contains(c));
    chosen
        .map(|(_, name, kind)| Ok((name, program.baseline(kind, inputs.clone(), options)?)))
        .collect()
}

/// From the file to a program that is ready to run.
fn compile_seconds(program: &Program) -> f64 {
    (program.report().load + program.report().compile).as_secs_f64()
}

/// Cost of control flow over the trace, in percent.
fn overhead(subjects: &[Subject]) -> Option<f64> {
    let trace = subjects.iter().find(|s| s.name == "trace")?;
    let [own, bound] = [&subjects[0], trace].map(|s| s.times.median().as_secs_f64());
    Some((own / bound - 1.0) * 100.0)
}

fn document(model: &Path, program: &Program, subjects: &[Subject]) -> Value {
    let mut document = json!({
        "model": model,
        "device": program.device().name(),
        "threads": program.threads(),
        "runs": subjects[0].times.len(),
    });
    subjects[0].times.describe(&mut document);
    document["compile_s"] = json!(compile_seconds(program));
    if let Some(reason) = &program.report().interpreted {
        document["interpreted"] = json!(reason.to_string());
    }
    for other in &subjects[1..] {
        let mut object = json!({"runs": other.times.len()});
        other.times.describe(&mut object);
        document[other.name] = object;
    }
    if let Some(percent) = overhead(subjects) {
        document["overhead_percent"] = json!(percent);
    }
    document
}

fn text(program: &Program, subjects: &[Subject]) -> String {
    let head = ["", "median", "min", "max", "runs"].map(str::to_string);
    let rows = subjects.iter().map(|s| {
        let name = if s.name.is_empty() { "heddle" } else { s.name };
        [&[name.to_string()], cells(&s.times).as_slice()].concat()
    });
    let rows: Vec<_> = std::iter::once(head.to_vec()).chain(rows).collect();
    let mut text = show::table(&rows);
    if let Some(percent) = overhead(subjects) {
        text += &format!("control flow takes {percent:.1} % more than the trace without it\n");
    }
    text + &footer(program)
}

/// Median, minimum, maximum and number of runs.
fn cells(times: &Times) -> [String; 4] {
    let [median, min, max] = [times.median(), times.min(), times.max()].map(show::duration);
    [median, min, max, times.len().to_string()]
}

/// The device, and the time of compiling.
fn footer(program: &Program) -> String {
    let threads = match program.threads() {
        1 => "1 thread".to_string(),
        n => format!("{n} threads"),
    };
    let ready = show::duration(Duration::from_secs_f64(compile_seconds(program)));
    let device = program.device().name();
    styled(DIM, format!("{device}, {threads}, ready after {ready}")) + "\n"
}

/// Writes a document to a file, or to standard output if the path is `-`.
fn write_json(path: &Path, document: &Value) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        return out::print_json(document);
    }
    let text = format!("{document:#}\n");
    files::replace(path, |file| file.write_all(text.as_bytes()))
        .map_err(|e| Failure::new(Exit::Io, format!("cannot write {}: {e}", path.display())))
}
