//! Tests as text files: a uProgram, the passes that its first line names, and below it what they
//! make of it. `HEDDLE_BLESS=1` writes the expected output anew.
//!
//! The first line is `// test schedule --pass NAME,… --threads N`, or `--machine NAME` in place of
//! a number of threads, which `--cluster N` launches in clusters of so many units. Each pass changes some program here, and what it leaves is well-formed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use heddle_machine::Machine;
use heddle_schedule::{FORCED, NARROW_WEIGHTS, PASSES, ROUND_PRODUCTS, SYNC_EVERYWHERE, find_pass};
use heddle_uprogram::text::{parse, print};
use heddle_uprogram::verify_program;

const OUTPUT: &str = "\n// ---- output\n";

#[test]
fn filetests() {
    let bless = std::env::var_os("HEDDLE_BLESS").is_some();
    let (mut failures, mut fired) = (vec![], BTreeSet::new());
    for file in files() {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let content = std::fs::read_to_string(&file).expect("a text file");
        let (input, expected) = content
            .split_once(OUTPUT)
            .unwrap_or((content.trim_end(), ""));
        match run(input, &mut fired) {
            Err(message) => failures.push(format!("{name}: {message}")),
            Ok(output) if bless => {
                std::fs::write(&file, format!("{input}{OUTPUT}{output}")).expect("can be written");
            }
            Ok(output) if output != expected => {
                failures.push(format!("{name}: expected\n{expected}\nfound\n{output}"));
            }
            Ok(_) => {}
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let all = PASSES
        .iter()
        .chain([&SYNC_EVERYWHERE])
        .chain(&FORCED)
        .chain(&NARROW_WEIGHTS)
        .chain(&ROUND_PRODUCTS)
        .map(|pass| pass.name);
    let idle: Vec<_> = all.filter(|name| !fired.contains(name)).collect();
    assert!(idle.is_empty(), "no test shows these passes fire: {idle:?}");
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let entries = std::fs::read_dir(folder).expect("the folder of tests");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "uprogram"));
    files.sort();
    files
}

/// Runs the passes; gives the program that they leave.
fn run(input: &str, fired: &mut BTreeSet<&'static str>) -> Result<String, String> {
    let first = input
        .lines()
        .next()
        .and_then(|l| l.strip_prefix("// test schedule --pass "));
    let by = |option| first.and_then(|line| line.split_once(option));
    let (passes, machine) = match (by(" --threads "), by(" --machine ")) {
        (Some((passes, threads)), _) => {
            let threads = threads.trim().parse().map_err(|_| "no number of threads")?;
            (passes, Machine::reference_host(threads))
        }
        (None, Some((passes, name))) => {
            let (name, cluster) = name.split_once(" --cluster ").unwrap_or((name, ""));
            let machine = Machine::named(name.trim()).map_err(|e| e.to_string())?;
            let machine = match cluster.trim().parse() {
                Ok(units) => machine
                    .in_clusters(units)
                    .ok_or("it has no such clusters")?,
                Err(_) => machine,
            };
            (passes, machine)
        }
        (None, None) => {
            return Err("the first line is no `// test schedule --pass NAME,… --threads N`".into());
        }
    };
    let mut program = parse(input).map_err(|e| e.to_string())?;
    for name in passes.split(',') {
        let pass = find_pass(name).ok_or(format!("there is no pass {name}"))?;
        let before = print(&program);
        (pass.run)(&mut program, &machine);
        verify_program(&program).map_err(|e| format!("after {name}: {e}"))?;
        if print(&program) != before {
            fired.insert(pass.name);
        }
    }
    Ok(print(&program))
}
