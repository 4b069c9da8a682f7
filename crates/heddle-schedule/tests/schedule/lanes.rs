//! Lanes that work on a point together: where they may, and machines that have none.

use heddle_machine::Machine;
use heddle_schedule::{join_lanes, place_syncs};
use heddle_uprogram::program::Lanes;
use heddle_uprogram::text::{ReadError, parse, print};
use heddle_uprogram::verify::Fault;
use heddle_uprogram::verify_schedule;

const PROGRAM: &str = include_str!("../filetests/join_lanes.uprogram");

/// Its operators before the pass.
fn program() -> heddle_uprogram::UProgram {
    let input = PROGRAM
        .split("\n// ---- output")
        .next()
        .expect("it has an input");
    parse(input).expect("it is well-formed")
}

#[test]
fn units_without_lanes_that_exchange_values_are_left_alone() {
    for machine in [
        Machine::reference_host(1),
        Machine::reference_host(64),
        Machine::bsp_tiles(),
    ] {
        let mut program = program();
        let before = print(&program);
        join_lanes(&mut program, &machine);
        assert_eq!(print(&program), before, "{}", machine.name);
    }
}

/// Groups fit the warps and blocks of the launch.
#[test]
fn groups_divide_warps() {
    for (threads, warp) in [(8, 8), (48, 16), (96, 32), (24, 24), (1, 1)] {
        let mut program = program();
        let machine = Machine::h100().with_grid(4, threads).with_warp(warp);
        join_lanes(&mut program, &machine);
        let mut joined = 0;
        for (_, op) in program.operators.iter() {
            if let Lanes::Warp(lanes) | Lanes::Unit(lanes) = op.lanes {
                let lanes = lanes as usize;
                assert!(
                    warp.is_multiple_of(lanes) && threads.is_multiple_of(lanes),
                    "{threads}: {}",
                    op.name
                );
                joined += 1;
            }
        }
        // One lane has nobody to exchange with.
        assert!(joined > 0 || threads == 1, "{threads}");
    }
}

/// Two operators, each with lanes of these forms, the second of which reads what the first wrote.
fn in_turn(first: &str, second: &str, sync: &str) -> heddle_uprogram::UProgram {
    let text = format!(
        "
local %i: i64 axis
local %k: i64 axis
buffer b0: f32[4096] input \"x\"
buffer b1: f32[64] scratch \"sums\"
buffer b2: f32[64] output \"y\"
input \"x\" b0 [4096]
output \"y\" b2 [64]
operator op0 \"\" [%i < 64] {first} {{ b1[%i] = fold sum f32 over [%k < 64] of b0[%i * 64 + %k] }}
operator op1 \"\" [%i < 64] {second} {{ b2[%i] = fold sum f32 over [%k < 64] of b1[%i] + b0[%k] }}
main {{ run op0 {sync} run op1 }}"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

/// Between two operators the weakest synchronisation that suffices is placed, and nothing weaker is accepted.
#[test]
fn groups_wait_for_their_warp_where_they_have_the_same_points() {
    for (first, second, needed) in [
        ("split %i", "split %i", ""),
        (
            "split %i lanes warp 8",
            "split %i lanes warp 8",
            "sync warp",
        ),
        (
            "split %i grain 2 from 1 lanes warp 8",
            "split %i grain 2 from 1 lanes warp 8",
            "sync warp",
        ),
        ("unit 0 lanes warp 8", "unit 0 lanes warp 8", "sync warp"),
        (
            "split %i lanes warp 8",
            "split %i lanes warp 4",
            "sync lanes",
        ),
        ("split %i lanes warp 8", "split %i", "sync lanes"),
        ("split %i", "split %i lanes warp 8", "sync lanes"),
        (
            "split %i lanes warp 1",
            "split %i lanes warp 1",
            "sync lanes",
        ),
        (
            "split %i lanes unit 8",
            "split %i lanes unit 8",
            "sync lanes",
        ),
        (
            "split %i lanes warp 8",
            "split %i grain 2 lanes warp 8",
            "sync all -> all",
        ),
        (
            "split %i lanes warp 8",
            "split %i from 1 lanes warp 8",
            "sync all -> all",
        ),
    ] {
        let machine = Machine::h100().with_grid(4, 64);
        let syncs = ["", "sync warp", "sync lanes", "sync all -> all"];
        let weakest = syncs
            .iter()
            .position(|sync| *sync == needed)
            .expect("one of them");
        for (k, sync) in syncs.into_iter().enumerate() {
            let proven = verify_schedule(&in_turn(first, second, sync), machine.synced_lanes());
            assert_eq!(proven.is_ok(), k >= weakest, "{first}, {second}, {sync}");
        }
        let mut program = in_turn(first, second, "");
        place_syncs(&mut program, &machine);
        let wanted = print(&in_turn(first, second, needed));
        assert_eq!(print(&program), wanted, "{first}, {second}");
    }
}

/// The rule that a program breaks with other lanes of an operator.
fn fault(operator: &str, old: &str, new: &str) -> String {
    let mut program = program();
    join_lanes(&mut program, &Machine::h100());
    let text = print(&program);
    let at = text.find(operator).expect("the operator");
    let changed = text[at..].replacen(old, new, 1);
    assert!(changed != text[at..], "{old} is not in {text}");
    match parse(&format!("{}{changed}", &text[..at])) {
        Err(ReadError::Program(error)) => match error.fault {
            Fault::Rule(rule) => rule.into(),
            fault => panic!("{fault}"),
        },
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{operator} is well-formed with {new}"),
    }
}

#[test]
fn unsound_lanes_are_refused() {
    let read = "its lanes read what one of them writes";
    let updated = "operator op7 \"what is written is read\"";
    assert_eq!(fault(updated, "split %i0", "split %i0 lanes warp 32"), read);
    let power = "the lanes of a point are no power of two";
    assert_eq!(fault("operator op1", "warp 32", "warp 12"), power);
    let rows = "its lanes share rows and work apart";
    assert_eq!(fault("operator op8", " lanes unit 1", ""), rows);
    let fits = "a tile's numbers are no powers of two that fit";
    assert_eq!(fault("operator op9", "tile 64", "tile 48"), fits);
    assert_eq!(fault("operator op9", "tile 64", "tile 2"), fits);
    assert_eq!(fault("operator op9", "tile 64", "tile 0"), fits);
    let two = "a tile needs rows and columns without a kernel, of elements of at most 32 bits";
    let tiled = " lanes tile 64 64 own 4 4 {";
    assert_eq!(fault("operator op3", " lanes unit 32 {", tiled), two);
    assert_eq!(fault("operator op10", " {", tiled), two);
    let rounded = "tensor cores round operands that are not to be rounded";
    let cores = "own 16 16 cores {";
    assert_eq!(fault("operator op9", "own 8 8 {", cores), rounded);
    let cores = "own 64 8 warpgroup {";
    assert_eq!(fault("operator op9", "own 8 8 {", cores), rounded);
    let few = "own 32 8 warpgroup {";
    assert_eq!(fault("operator op9", "own 8 8 {", few), fits);
    let floats = "only operands of f32 are rounded";
    let changed = "contract f64 rounded tf32";
    assert_eq!(fault("operator op10", "contract f64", changed), floats);
    let product = "only contractions have tiles";
    assert_eq!(fault("operator op7", " {", tiled), product);
}
