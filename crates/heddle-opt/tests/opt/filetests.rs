//! Tests as text files: a program, the passes that its first line names, and below it the program
//! that they leave and their edits. `HEDDLE_BLESS=1` writes the expected output anew. Each rule,
//! edit and transformation is shown by some file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::common::{costs, draw_inputs, machine, same_but_for_sums, same_outcome};
use heddle_ir::{Module, text, verify::verify};
use heddle_machine::Machine;
use heddle_opt::{
    BatchOptions, CostModel, Edit, Form, LevelOptions, Stats, TransformOptions, Transformation,
    batch_instances_with, distribute_loops, find_pass, level_recursion, optimize, rule_names,
    transform,
};

/// Stands for [`pipeline_layers`].
const PIPELINE_LAYERS: &str = "pipeline_layers";

/// Stands for [`batch_instances_with`], which changes the entry's parameters.
const BY_FRAMES: &str = "by_frames";

/// Stands for [`level_recursion`] on a machine of many units.
const MANY_UNITS: &str = "level_recursion_of_many_units";

const OUTPUT: &str = "\n// ---- output\n";

#[test]
fn filetests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of tests")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|e| e == "heddle"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let bless = std::env::var_os("HEDDLE_BLESS").is_some();
    let (mut failures, mut outputs, mut fired) = (vec![], String::new(), BTreeSet::new());
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let content = std::fs::read_to_string(file).expect("a text file");
        let (input, expected) = content
            .split_once(OUTPUT)
            .unwrap_or((content.trim_end(), ""));
        match run(input, &mut fired) {
            Err(message) => failures.push(format!("{name}: {message}")),
            Ok(output) if bless => {
                outputs.push_str(&output);
                std::fs::write(file, format!("{input}{OUTPUT}{output}")).expect("can be written");
            }
            Ok(output) if output != expected => {
                failures.push(format!("{name}: expected\n{expected}\nfound\n{output}"));
            }
            Ok(output) => outputs.push_str(&output),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let reasons = outputs
        .lines()
        .filter_map(|l| Some(l.strip_prefix("// ")?.split_once(' ')?.1));
    fired.extend(reasons.map(str::to_string));
    let transformations = Transformation::ALL.iter().map(|t| t.name());
    // `bind_sizes` needs sizes, so it has tests of its own.
    let edits = Edit::ALL.iter().filter(|edit| **edit != Edit::BoundSize);
    let edits = edits.map(|edit| edit.name());
    let names = rule_names().chain(edits).chain(transformations);
    let names = names.chain([PIPELINE_LAYERS, MANY_UNITS]);
    let untested: Vec<_> = names.filter(|name| !fired.contains(*name)).collect();
    assert!(untested.is_empty(), "no test shows these: {untested:?}");
}

/// Runs the passes, and adds the names of those that made edits to `fired`; gives the program that
/// they leave and their edits.
fn run(input: &str, fired: &mut BTreeSet<String>) -> Result<String, String> {
    let passes = input
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("// test opt --pass "))
        .ok_or("the first line does not say `// test opt --pass NAME,…`")?;
    let before = text::parse(input).map_err(|e| e.to_string())?;
    check(&before)?;
    let mut module = before.clone();
    let mut stats = Stats::default();
    for name in passes.trim().split(',') {
        let made = match (name, find_pass(name), Transformation::named(name)) {
            ("all", ..) => optimize(&mut module).total(),
            ("transform", ..) => {
                transform(&mut module, &TransformOptions::default(), &machine()).total()
            }
            (_, Some(pass), _) => (pass.run)(&mut module),
            (_, _, Some(pass)) => pass.run(&mut module, &costs()),
            (PIPELINE_LAYERS, ..) => pipeline_layers(&mut module),
            (BY_FRAMES, ..) => by_frames(&mut module)?,
            (MANY_UNITS, ..) => {
                let costs = CostModel::of(&Machine::reference_host(64));
                level_recursion(&mut module, &LevelOptions::USUAL, &costs)
            }
            _ => return Err(format!("there is no pass {name}")),
        };
        if made.total() > 0 {
            fired.insert(name.to_string());
        }
        stats.merge(made);
        check(&module).map_err(|e| format!("after {name}: {e}\n{}", text::print(&module)))?;
    }
    if let Some(rejected) = stats.rejected.first() {
        return Err(format!("a patch was rejected: {rejected}"));
    }
    let is_same = before.entry().sig.params == module.entry().sig.params;
    for name in before.entries.keys().filter(|_| is_same) {
        let of_entry = |m: &Module| m.clone().with_entry(name).map_err(|e| e.to_string());
        let (before, after) = (of_entry(&before)?, of_entry(&module)?);
        for seed in 0..8 {
            let inputs = draw_inputs(&before, seed);
            match stats.count(Edit::FoldReduced) {
                0 => same_outcome(&before, &after, &inputs)?,
                _ => same_but_for_sums(&before, &after, &inputs)?,
            }
        }
    }
    let mut output = text::print(&module);
    output.push_str("\n// ---- edits\n");
    for (reason, count) in &stats.reasons {
        writeln!(output, "// {count} {reason}").expect("a string can be written to");
    }
    Ok(output)
}

/// The program for many instances, with a row of each parameter for each.
fn by_frames(module: &mut Module) -> Result<Stats, String> {
    let forms = vec![Form::Stacked; module.entry().sig.params.len()];
    let options = BatchOptions {
        prefers_frames: true,
        ..Default::default()
    };
    let batch = batch_instances_with(module, &forms, options).map_err(|e| e.to_string())?;
    *module = batch.module;
    Ok(Stats::default())
}

/// Loop distribution for two units that may work on different layers.
fn pipeline_layers(module: &mut Module) -> Stats {
    let costs = CostModel {
        units: 2,
        ..costs()
    };
    distribute_loops(module, &costs)
}

fn check(module: &Module) -> Result<(), String> {
    verify(module).map_err(|errors| {
        let all: Vec<_> = errors.iter().map(ToString::to_string).collect();
        all.join("; ")
    })
}
