//! `--ablate`: the gain of each step of compiling (Cocktailer, Figure 19).
//!
//! The first program has none of the steps, and its control flow is the host's. Then the control flow moves into the
//! program, and each further program has one more step than the one before; the last is what `heddle bench` measures.
//!
//! With `--batch` the program for one instance comes first, with all steps: it runs once for each.

use heddle::{Baseline, Inputs, Program, RunOptions, STEPS, Step};
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
    /// The inputs and options of its runs, which follow each other, if these are not those of the command line.
    alone: Option<Vec<(Inputs, RunOptions)>>,
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
        let whole = || vec![(inputs.clone(), options.clone())];
        let own = stage.alone.clone().unwrap_or_else(whole);
        subjects.push(Subject::in_turn(stage.name, &stage.program, own)?);
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

fn stages(args: &BenchArgs, inputs: &Inputs, options: &RunOptions) -> Result<Vec<Stage>, Failure> {
    let (one, compiling) = commands::read(&args.program.model, &args.exec, &args.source)?;
    let (model, batch) = commands::batch::prepare(one.clone(), &args.source, &args.exec)?;
    let profile = match &batch {
        Some(batch) => commands::batch::profile(batch, &args.source)?,
        None => None,
    };
    let compile = |without: &[Step]| {
        let mut compiling = compiling.clone();
        compiling.profile.clone_from(&profile);
        compiling.without.extend(without);
        heddle::compile(&model, &compiling)
    };
    let stage = |name, about, program| Stage {
        name,
        about,
        program,
        same: false,
        alone: None,
    };
    let mut stages = vec![];
    if let Some(batch) = batch {
        let about = "each instance runs alone, one after the other";
        stages.push(Stage {
            alone: Some(batch.instances(inputs, options)?),
            ..stage("alone", about, heddle::compile(&one, &compiling)?)
        });
    }
    let bare = compile(&STEPS)?;
    let host = bare.baseline(Baseline::Host, inputs.clone(), options)?;
    let about = "the host runs the control flow and dispatches each operator";
    stages.push(stage("host", about, host));
    let about = "the workers run the control flow themselves";
    stages.push(stage("control flow", about, bare));
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
            alone: None,
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
        "model": args.program.model.path,
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
    let first = rows.iter().position(|(s, _)| s.name == "control flow");
    for (i, (stage, subject)) in rows.iter().enumerate() {
        let median = subject.times.median().as_secs_f64();
        let name = if Some(i) <= first {
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
