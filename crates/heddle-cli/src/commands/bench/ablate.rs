//! `--ablate`: the gain of each step of compiling (Cocktailer, Figure 19).
//!
//! The first program has none of the steps, and its control flow is the host's. Then the control flow moves into the
//! program, and each further program has one more step than the one before; the last is what `heddle bench` measures.

use heddle::{Baseline, Error, Inputs, Program, RunOptions, STEPS, Step};
use serde_json::{Value, json};

use super::measure::{Subject, measure};
use super::{cells, compile_seconds, footer, write_json};
use crate::args::BenchArgs;
use crate::fail::Failure;
use crate::{commands, out, show};

/// A program of the series.
struct Stage {
    name: &'static str,
    about: &'static str,
    program: Program,
    /// Is it the same program as the one before? Then the step found nothing to do.
    same: bool,
}

/// Measures the series.
pub fn ablate(
    args: &BenchArgs,
    program: &Program,
    inputs: &Inputs,
    options: &RunOptions,
) -> Result<(), Failure> {
    let stages = stages(args, inputs, options)?;
    let mut subjects = vec![];
    for stage in stages.iter().filter(|s| !s.same) {
        subjects.push(Subject::new(stage.name, &stage.program, inputs, options)?);
    }
    measure(&mut subjects, args.seconds)?;
    let mut measured = subjects.iter();
    let mut rows = vec![];
    let mut last = None;
    for stage in &stages {
        if !stage.same {
            last = measured.next();
        }
        rows.extend(last.map(|subject| (stage, subject)));
    }
    match &args.json {
        Some(path) => write_json(path, &document(args, program, &rows)),
        None => out::print(&text(program, &rows)),
    }
}

fn stages(args: &BenchArgs, inputs: &Inputs, options: &RunOptions) -> Result<Vec<Stage>, Error> {
    let compile = |without: &[Step]| {
        let mut exec = args.exec.clone();
        exec.compiling.without.extend(without);
        let (path, entry) = (&args.model.path, args.model.entry.as_deref());
        let rank = |value: &heddle::Value| match value {
            heddle::Value::Tensor(tensor) => Some(tensor.shape().len()),
            _ => None,
        };
        let given = inputs
            .iter()
            .map(|(name, value)| (name.clone(), rank(value)));
        commands::prepare(path, entry, &exec, given.collect())
    };
    let bare = compile(&STEPS)?;
    let host = bare.baseline(Baseline::Host, inputs.clone(), options)?;
    let mut stages = vec![
        Stage {
            name: "host",
            about: "the host runs the control flow and dispatches each operator",
            program: host,
            same: false,
        },
        Stage {
            name: "control flow",
            about: "the workers run the control flow themselves",
            program: bare,
            same: false,
        },
    ];
    let left_out = &args.exec.compiling.without;
    for (i, step) in STEPS.iter().enumerate().filter(|s| !left_out.contains(s.1)) {
        let program = compile(&STEPS[i + 1..])?;
        stages.push(Stage {
            name: step.name,
            about: step.about,
            same: stages
                .last()
                .is_some_and(|s| s.program.key() == program.key()),
            program,
        });
    }
    Ok(stages)
}

fn document(args: &BenchArgs, program: &Program, rows: &[(&Stage, &Subject)]) -> Value {
    let row = |(stage, subject): &(&Stage, &Subject)| {
        let mut object = json!({
            "name": stage.name,
            "about": stage.about,
            "changed": !stage.same,
            "runs": subject.times.len(),
        });
        subject.times.describe(&mut object);
        object
    };
    let mut document = json!({
        "model": args.model.path,
        "device": program.device().name(),
        "threads": program.threads(),
    });
    if let Some((_, last)) = rows.last() {
        document["runs"] = json!(last.times.len());
        last.times.describe(&mut document);
    }
    document["compile_s"] = json!(compile_seconds(program));
    document["ablation"] = rows.iter().map(row).collect();
    document
}

fn text(program: &Program, rows: &[(&Stage, &Subject)]) -> String {
    let head = ["", "median", "min", "max", "runs", "speedup", ""].map(str::to_string);
    let mut table = vec![head.to_vec()];
    let mut before = None;
    for (i, (stage, subject)) in rows.iter().enumerate() {
        let median = subject.times.median().as_secs_f64();
        let name = if i < 2 {
            stage.name.into()
        } else {
            format!("+ {}", stage.name)
        };
        let mut row = vec![name];
        if stage.same {
            row.extend(["", "", "", "", "–", "nothing to do"].map(str::to_string));
        } else {
            row.extend(cells(&subject.times));
            row.push(before.map_or(String::new(), |b: f64| format!("{:.2}", b / median)));
            row.push(stage.about.into());
        }
        before = Some(median);
        table.push(row);
    }
    show::table(&table) + &footer(program)
}
