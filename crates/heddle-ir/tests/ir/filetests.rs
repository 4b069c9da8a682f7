//! Tests as text files: a program, what is asked of it in the first line, and below it what comes
//! out. `HEDDLE_BLESS=1` writes the expected output anew.
//!
//! - `// test print`: the program, which the verifier must accept, as it is printed; that text must
//!   read back as itself.
//! - `// test errors`: programs with lines of slashes between them, and what the reader or else the
//!   verifier says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use heddle_ir::text::{parse, print};
use heddle_ir::{op, verify};

const OUTPUT: &str = "\n// ---- output\n";
const NEXT: &str = "//////\n";

#[test]
fn filetests() {
    let bless = std::env::var_os("HEDDLE_BLESS").is_some();
    let mut failures = vec![];
    for file in files() {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let content = std::fs::read_to_string(&file).expect("a text file");
        let (input, expected) = content
            .split_once(OUTPUT)
            .unwrap_or((content.trim_end(), ""));
        let first = input.lines().next().unwrap_or("");
        let output = match first {
            "// test print" => printed(input),
            "// test errors" => Ok(errors(input)),
            _ => Err(format!("nothing is known of the test {first:?}")),
        };
        match output {
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
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let entries = std::fs::read_dir(folder).expect("the folder of tests");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "heddle"));
    files.sort();
    assert!(!files.is_empty());
    files
}

fn printed(input: &str) -> Result<String, String> {
    let module = parse(input).map_err(|e| format!("\n{e}"))?;
    let accepted = |m| verify(m).map_err(|errors| format!("{}", errors[0]));
    accepted(&module)?;
    let text = print(&module);
    let again = parse(&text).map_err(|e| format!("what was printed does not parse:\n{e}"))?;
    accepted(&again)?;
    match print(&again) == text {
        true => Ok(text),
        false => Err(format!("not the same again:\n{text}\n{}", print(&again))),
    }
}

fn errors(input: &str) -> String {
    let (_, programs) = input.split_once('\n').expect("a first line");
    let said: Vec<_> = programs.split(NEXT).map(|p| error(p) + "\n").collect();
    said.join(NEXT)
}

fn error(program: &str) -> String {
    match parse(program).map(|m| verify(&m)) {
        Err(e) => e.to_string(),
        Ok(Err(errors)) => {
            let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
            lines.join("\n")
        }
        Ok(Ok(())) => "accepted".into(),
    }
}

/// The files contain every op that there is.
#[test]
fn every_op_is_tested() {
    let mut seen = BTreeSet::new();
    for file in files() {
        let content = std::fs::read_to_string(file).expect("a text file");
        let (input, _) = content.split_once(OUTPUT).unwrap_or((&content, ""));
        if let (true, Ok(module)) = (input.starts_with("// test print"), parse(input)) {
            for (_, f) in module.functions.iter() {
                f.for_each_inst(&mut |_, inst| {
                    seen.insert(inst.op.name());
                });
            }
        }
    }
    let mut all: BTreeSet<_> = op::Op::prototypes().iter().map(op::Op::name).collect();
    all.extend(["const", "if", "loop", "call"]);
    let missing: Vec<_> = all.difference(&seen).collect();
    assert!(missing.is_empty(), "no test prints {missing:?}");
}
