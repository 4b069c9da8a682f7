//! Partitions by a number of rows that changes while the program runs.

use heddle_machine::Machine;
use heddle_schedule::{place_syncs, schedule};
use heddle_uprogram::text::{parse, print};
use heddle_uprogram::{UProgram, verify_schedule};

/// One operator writes rows, and another one reads them; `between` stands between them.
fn rows(between: &str) -> UProgram {
    let text = format!(
        "local %n: i64 size
local %size: i64 variable
local %i0: i64 axis
local %i1: i64 axis
size %n = \"n\"

buffer b0: f32[%n * 4] input \"x\"
buffer b1: f32[%n * 4] scratch \"a\"
buffer b2: f32[%n * 4] output \"y\"

input \"x\" b0 [%n, 4]
output \"y\" b2 [%n, 4]

operator op0 \"a\" [%i0 < %size, %i1 < 4] split %i0 {{
  b1[%i0 * 4 + %i1] = exp(b0[%i0 * 4 + %i1])
}}

operator op1 \"y\" [%i0 < %size, %i1 < 4] split %i0 {{
  b2[%i0 * 4 + %i1] = exp(b1[%i0 * 4 + %i1])
}}

main {{
  let %size = %n
  run op0
  {between}
  run op1
}}
"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_partition_holds_until_its_size_is_assigned() {
    let kept = rows("");
    assert!(verify_schedule(&kept, 1).is_ok());
    let changed = rows("let %size = div(%n, 2)");
    assert!(verify_schedule(&changed, 1).is_err());
    for (mut program, syncs) in [(kept, 0), (changed, 1)] {
        place_syncs(&mut program, &Machine::reference_host(2));
        assert_eq!(print(&program).matches("sync all -> all").count(), syncs);
        assert!(verify_schedule(&program, 1).is_ok());
    }
}

#[test]
fn many_rows_have_a_version_of_their_own() {
    let file = include_str!("filetests/version_rows.uprogram");
    let (text, _) = file.split_once("// ---- output").unwrap_or((file, ""));
    for units in [1, 2, 5] {
        let machine = Machine::reference_host(units);
        let mut program = parse(text).unwrap_or_else(|e| panic!("{e}"));
        heddle_schedule::merge_variables(&mut program);
        heddle_schedule::fuse(&mut program);
        heddle_schedule::select_kernels(&mut program, &machine);
        schedule(&mut program, &machine);
        verify_schedule(&program, 1).unwrap_or_else(|e| panic!("{e}"));
        let least = format!("if ge(%size, {})", 8 * units);
        assert_eq!(print(&program).contains(&least), units > 1);
    }
}
