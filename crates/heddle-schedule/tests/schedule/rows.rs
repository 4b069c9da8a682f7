//! Partitions by a number of rows that changes while the program runs.

use heddle_machine::Machine;
use heddle_schedule::{find_pass, place_syncs, schedule};
use heddle_uprogram::text::{parse, print};
use heddle_uprogram::{UProgram, verify_schedule};

/// One operator writes rows, and another one reads them; `between` stands between them.
fn rows(between: &str) -> UProgram {
    let text = format!(
        "local %n: i64 size
local %iteration: i64 variable
local %size: i64 variable
local %other: i64 variable
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
    let cases = [
        ("", 0),
        ("let %other = div(%n, 2)", 0),
        ("let %size = div(%n, 2)", 1),
        ("if gt(%n, 4) { let %size = 4 } else { }", 1),
        ("if gt(%n, 4) { } else { let %size = 1 }", 1),
        (
            "loop %iteration trip 2 \"l\" { let %size = div(%size, 2) }",
            1,
        ),
        // The loop's second iteration reads what the first one wrote under the old size.
        (
            "loop %iteration trip 2 \"l\" { run op1 run op0 let %size = div(%size, 2) }",
            2,
        ),
    ];
    for (between, syncs) in cases {
        let mut program = rows(between);
        assert_eq!(
            verify_schedule(&program, 1).is_ok(),
            syncs == 0,
            "{between}"
        );
        place_syncs(&mut program, &Machine::reference_host(2));
        let placed = print(&program).matches("sync all -> all").count();
        assert_eq!(placed, syncs, "{between}");
        assert!(verify_schedule(&program, 1).is_ok(), "{between}");
    }
}

/// Rows go through a product in a loop, which some of them leave.
fn input() -> &'static str {
    let file = include_str!("../filetests/version_rows.uprogram");
    file.split_once("// ---- output")
        .map_or(file, |(input, _)| input)
}

/// The program up to its version for many rows.
fn versions(text: &str, machine: &Machine) -> UProgram {
    let mut program = parse(text).unwrap_or_else(|e| panic!("{e}"));
    for name in [
        "merge_variables",
        "fuse",
        "select_kernels",
        "align_splits",
        "version_rows",
    ] {
        let pass = find_pass(name).unwrap_or_else(|| panic!("there is no pass {name}"));
        pass.apply(&mut program, machine);
    }
    program
}

#[test]
fn many_rows_have_a_version_of_their_own() {
    for units in [2, 5] {
        let machine = Machine::reference_host(units);
        let mut program = versions(input(), &machine);
        let least = format!("if ge(%size, {})", 8 * units);
        assert!(print(&program).contains(&least), "{units}");
        schedule(&mut program, &machine);
        verify_schedule(&program, 1).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Changes of a program's text, old and new.
type Changes = &'static [(&'static str, &'static str)];

#[test]
fn a_version_that_saves_nothing_is_not_made() {
    let two = Machine::reference_host(2);
    let shared = Machine {
        remote_read_rate: f64::INFINITY,
        ..two.clone()
    };
    let one = Machine::reference_host(1);
    let wide: Changes = &[("4096", "262144"), ("[64,", "[512,"), (" 64", " 512")];
    let cases: [(&str, &Machine, Changes); 6] = [
        ("one unit", &one, &[]),
        ("units share their memory", &shared, &[]),
        (
            "the profile expects few rows",
            &two,
            &[("size %n = \"n\"\n", "size %n = \"n\"\nexpect %size = 4.0\n")],
        ),
        (
            "the launch fixes the number of rows",
            &two,
            &[("let %size = %next\n", ""), ("let %size.1 = %next.1\n", "")],
        ),
        (
            "the rows change between products",
            &two,
            &[("run op3\n", "run op3\n let %size = div(%size, 2)\n")],
        ),
        ("partial tiles cost more than transfers", &two, wide),
    ];
    for (case, machine, changes) in cases {
        let text = changes
            .iter()
            .fold(input().to_string(), |text, (old, new)| {
                assert!(text.contains(old), "{case}");
                text.replace(old, new)
            });
        let mut program = versions(&text, machine);
        assert!(!print(&program).contains("%many"), "{case}");
        schedule(&mut program, machine);
        verify_schedule(&program, 1).unwrap_or_else(|e| panic!("{case}: {e}"));
    }
}
