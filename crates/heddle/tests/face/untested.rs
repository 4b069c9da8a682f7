//! A library that cargo is told not to test has no tests: cargo would not say that it leaves them out.

use std::path::{Path, PathBuf};

#[test]
fn what_is_not_tested_has_no_tests() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for entry in std::fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let settings = manifest.split("\n[").find_map(|s| s.strip_prefix("lib]"));
        let is_off = |name: &str| {
            let line = format!("{name} = false");
            settings.is_some_and(|s| s.lines().any(|l| l == line))
        };
        for path in sources(&folder.join("src")) {
            let text = std::fs::read_to_string(&path).unwrap();
            let tests = is_off("test") && text.contains("#[test]");
            let examples = is_off("doctest") && has_example(&text);
            assert!(
                !tests && !examples,
                "{}: cargo does not run its tests",
                path.display()
            );
        }
    }
}

#[test]
fn examples_are_told_from_other_text() {
    assert!(has_example(
        "/// Shows.\n///\n/// ```\n/// let x = 1;\n/// ```\n"
    ));
    assert!(has_example("//! ```no_run\n//! f();\n//! ```\n"));
    assert!(!has_example("/// ```text\n/// x\n/// ```\n"));
    assert!(!has_example("let fence = \"```\";\n"));
}

/// Does a comment hold code that rustdoc would test?
fn has_example(text: &str) -> bool {
    let (mut inside, mut found) = (false, false);
    for line in text.lines().map(str::trim_start) {
        let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
        let fence = comment.and_then(|c| c.trim_start().strip_prefix("```"));
        if let Some(language) = fence {
            found |= !inside && language.trim() != "text";
            inside = !inside;
        }
    }
    found
}

/// All Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}
