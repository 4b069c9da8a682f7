//! `heddle run`.

use heddle::batch::Finished;
use heddle::{Outputs, Program, Report, Run, Tensor, Value};
use serde_json::{Value as Json, json};

use crate::args::RunArgs;
use crate::commands::{self, Prepared};
use crate::fail::{Exit, Failure};
use crate::npz;
use crate::out::{self, DIM, styled};
use crate::show::{self, Summary};

/// Runs a model; writes the outputs to a file or prints a summary of them.
pub fn run(args: RunArgs) -> Result<(), Failure> {
    let prepared = commands::prepare_run(&args.program, &args.exec, &args.source, args.keep_going)?;
    let (program, run, failed) = match args.keep_going {
        true => finish(prepared)?,
        false => {
            let (program, run) = prepared.run()?;
            (program, run, vec![])
        }
    };
    commands::note(&run.report, &args.program.model.path);
    if let Some(path) = &args.output {
        npz::write(path, &run.outputs)?;
    }
    if args.json {
        out::print_json(&document(&program, &run, &failed))?;
    } else if args.output.is_none() {
        out::print(&text(&run.outputs, &run.report))?;
    }
    match failed.into_iter().next() {
        Some((_, failure)) => Err(Failure::silent(failure.exit)),
        None => Ok(()),
    }
}

/// The array with the numbers of the instances that the outputs are of.
const INSTANCES: &str = "batch.instances";

/// Instances that stopped a run, by their numbers.
type FailedInstances = Vec<(usize, Failure)>;

/// Runs what instances can run, and reports the others.
fn finish(prepared: Prepared) -> Result<(Program, Run, FailedInstances), Failure> {
    let Prepared {
        program,
        inputs,
        options,
        batch,
    } = prepared;
    let Some(batch) = batch else {
        let text = "--keep-going leaves instances out, which a program for fixed sizes cannot do";
        return Err(Failure::new(Exit::Usage, text));
    };
    let Finished {
        mut run,
        instances,
        failed,
    } = batch.run_finishing(&program, inputs, &options)?;
    let instances: Vec<i64> = instances.iter().map(|&k| k as i64).collect();
    run.outputs
        .entry(INSTANCES.into())
        .or_insert_with(|| Tensor::vector(&instances).into());
    let failed = failed.into_iter().map(|f| (f.instance, f.error.into()));
    let failed: FailedInstances = failed.collect();
    for (_, failure) in &failed {
        out::report(failure, false);
    }
    Ok((program, run, failed))
}

fn text(outputs: &Outputs, report: &Report) -> String {
    let rows: Vec<_> = outputs.iter().flat_map(|(name, v)| rows(name, v)).collect();
    let mut text = show::table(&rows);
    let [load, compile, run] = [report.load, report.compile, report.run].map(show::duration);
    text += &styled(DIM, format!("load {load}, compile {compile}, run {run}"));
    text + "\n"
}

/// A row for an array; one more for each element of a sequence.
fn rows(name: &str, value: &Value) -> Vec<Vec<String>> {
    match value {
        Value::Tensor(t) => {
            let summary = Summary::of(t);
            vec![vec![
                name.into(),
                t.ty().to_string(),
                summary.elements(),
                summary.range(),
            ]]
        }
        Value::Seq(items) => {
            let head = vec![name.to_string(), format!("sequence of {}", items.len())];
            let tail = items.iter().enumerate();
            let tail = tail.flat_map(|(i, item)| rows(&format!("  {name}.{i}"), item));
            std::iter::once(head).chain(tail).collect()
        }
        Value::Opt(Some(item)) => rows(name, item),
        Value::Opt(None) => vec![vec![name.into(), "empty optional".into()]],
    }
}

fn document(program: &Program, run: &Run, failed: &[(usize, Failure)]) -> Json {
    let (outputs, report) = (&run.outputs, &run.report);
    let seconds = |d: std::time::Duration| d.as_secs_f64();
    let passes: Vec<_> = heddle::graph_passes().map(|pass| pass.name).collect();
    let times = |wanted: &dyn Fn(&str) -> bool| {
        let stages = report.stages.iter().filter(|(name, _)| wanted(name));
        let times = stages.map(|(name, d)| (name.to_string(), json!(seconds(*d))));
        Json::Object(times.collect())
    };
    let failed = failed.iter().map(|(instance, failure)| {
        json!({
            "instance": instance,
            "kind": failure.exit.name(),
            "exit_code": failure.exit as i32,
            "message": failure.message,
        })
    });
    json!({
        "failed": failed.collect::<Vec<_>>(),
        "outputs": outputs.iter().map(|(name, v)| {
            let mut value = show::to_json(v);
            value["name"] = json!(name);
            value
        }).collect::<Vec<_>>(),
        "verified": report.verified,
        "held_bytes": program.held_bytes(),
        "interpreted": report.interpreted.as_ref().map(ToString::to_string),
        "interpreted_share": report.interpreted_share(),
        "seconds": {
            "load": seconds(report.load),
            "compile": seconds(report.compile),
            "run": seconds(report.run),
            "stages": times(&|_| true),
            "passes": times(&|name| passes.contains(&name)),
        },
    })
}
