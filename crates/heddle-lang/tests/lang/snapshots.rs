//! The graph IR of small programs, checked in. `HEDDLE_BLESS=1` writes the files anew.

use std::path::Path;

#[test]
fn programs_become_the_graphs_that_are_checked_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let bless = std::env::var_os("HEDDLE_BLESS").is_some();
    let mut differ = vec![];
    for entry in std::fs::read_dir(&folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "hl") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a text");
        let program = heddle_lang::compile(&text).unwrap_or_else(|error| panic!("{error}"));
        let found = heddle_ir::text::print(&program.module);
        let expected = path.with_extension("heddle");
        if bless {
            std::fs::write(&expected, &found).expect("writes");
        } else if std::fs::read_to_string(&expected).ok().as_ref() != Some(&found) {
            differ.push(format!("{}:\n{found}", expected.display()));
        }
    }
    assert!(
        differ.is_empty(),
        "HEDDLE_BLESS=1 writes these anew:\n{}",
        differ.join("\n")
    );
}
