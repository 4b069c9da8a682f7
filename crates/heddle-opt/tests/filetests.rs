//! Tests as text files: a program, the passes that its first line names, and below it what they make of it and
//! which edits they made. `HEDDLE_BLESS=1` writes the expected output anew.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::{costs, draw_inputs, machine, same_outcome};
use heddle_ir::{Module, text, verify::verify};
use heddle_opt::{
    Stats, TransformOptions, find_pass, find_transformation, optimize, rule_names, transform,
};

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
    let (mut failures, mut outputs) = (vec![], String::new());
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let content = std::fs::read_to_string(file).expect("a text file");
        let (input, expected) = content
            .split_once(OUTPUT)
            .unwrap_or((content.trim_end(), ""));
        match run(input) {
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
    let fired = |rule: &&str| {
        outputs
            .lines()
            .filter_map(|l| l.strip_prefix("// ")?.split_once(' '))
            .any(|(_, r)| r == *rule)
    };
    let untested: Vec<_> = rule_names()
        .into_iter()
        .filter(|rule| !fired(rule))
        .collect();
    assert!(
        untested.is_empty(),
        "no test shows these rules: {untested:?}"
    );
}

/// Runs the passes; gives the program that they leave and what they did.
fn run(input: &str) -> Result<String, String> {
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
        if name == "all" {
            stats.merge(optimize(&mut module).total());
        } else if name == "transform" {
            stats.merge(transform(&mut module, &TransformOptions::default(), &machine()).total());
        } else {
            stats.merge(match (find_pass(name), find_transformation(name)) {
                (Some(pass), _) => (pass.run)(&mut module),
                (_, Some(pass)) => (pass.run)(&mut module, &costs()),
                (None, None) => return Err(format!("there is no pass {name}")),
            });
        }
        check(&module).map_err(|e| format!("after {name}: {e}\n{}", text::print(&module)))?;
    }
    if let Some(rejected) = stats.rejected.first() {
        return Err(format!("a patch was rejected: {rejected}"));
    }
    for name in before.entries.keys() {
        let of_entry = |m: &Module| m.clone().with_entry(name).map_err(|e| e.to_string());
        let (before, after) = (of_entry(&before)?, of_entry(&module)?);
        for seed in 0..8 {
            let inputs = draw_inputs(&before, seed);
            same_outcome(&before, &after, &inputs)?;
        }
    }
    let mut output = text::print(&module);
    output.push_str("\n// ---- edits\n");
    for (reason, count) in &stats.reasons {
        writeln!(output, "// {count} {reason}").expect("a string can be written to");
    }
    Ok(output)
}

fn check(module: &Module) -> Result<(), String> {
    verify(module).map_err(|errors| {
        let all: Vec<_> = errors.iter().map(ToString::to_string).collect();
        all.join("; ")
    })
}
