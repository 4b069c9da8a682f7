//! The verifier accepts what the scheduler makes, and nothing less.

use crate::common::lowered;
use crate::mutants::{Mutant, mutants};
use heddle_gen::Config;
use heddle_machine::{Machine, Pieces};
use heddle_schedule::{place_syncs, schedule};
use heddle_uprogram::program::{OperatorId, Share, Split};
use heddle_uprogram::text::parse;
use heddle_uprogram::{UProgram, verify_schedule};

const PROGRAMS: &[(&str, &str)] = &[
    ("lstm", include_str!("../programs/lstm.heddle")),
    ("attention", include_str!("../programs/attention.heddle")),
    ("decoder", include_str!("../programs/decoder.heddle")),
    ("branches", include_str!("../programs/branches.heddle")),
    ("tree", include_str!("../programs/columns.heddle")),
    ("order", include_str!("../programs/order.heddle")),
    ("recursion", include_str!("../programs/recursion.heddle")),
    ("forks", include_str!("../programs/forks.heddle")),
    ("teams", include_str!("../programs/teams.heddle")),
];

/// A processor, one on which synchronising costs nothing, so that everything is split, one where
/// all is in pieces that can be, a machine whose units have lanes, and a part of a GPU.
fn machines() -> [Machine; 5] {
    let mut lanes = Machine::reference_host(16);
    lanes.syncs.lanes_ns = Some(5.0);
    let eager = Machine::reference_host(4).with_barrier_ns(0.0);
    let gpu = Machine::h100().with_grid(12, 64);
    [Machine::reference_host(2), eager, in_pieces(), lanes, gpu]
}

fn in_pieces() -> Machine {
    let mut machine = Machine::reference_host(3).with_barrier_ns(0.0);
    machine.start_ns = 0.0;
    machine.pieces = Some(Pieces {
        share_ns: 0.0,
        piece_ns: 0.0,
        most: 16,
    });
    machine
}

#[test]
fn schedules_are_sound() {
    for (name, text) in PROGRAMS {
        for machine in machines() {
            let mut program = lowered(text);
            schedule(&mut program, &machine);
            verify_schedule(&program, machine.synced_lanes())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}

#[test]
fn schedules_of_random_programs_are_sound() {
    let mut lowered = 0;
    for seed in 0..400 {
        let (mut module, _) = heddle_gen::generate(seed, &Config::default());
        heddle_opt::optimize(&mut module);
        let Ok(mut program) = heddle_lower::lower(&module) else {
            continue;
        };
        heddle_schedule::fuse(&mut program);
        for machine in machines() {
            let mut program = program.clone();
            heddle_schedule::read_rows(&mut program, &machine);
            heddle_schedule::select_kernels(&mut program, &machine);
            schedule(&mut program, &machine);
            verify_schedule(&program, machine.synced_lanes())
                .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            each_sync(&format!("seed {seed}"), &program, &machine);
        }
        lowered += 1;
    }
    assert!(lowered > 10, "{lowered}");
}

#[test]
fn without_any_one_synchronisation_they_are_not() {
    for (name, text) in PROGRAMS {
        let mut count = 0;
        for machine in machines() {
            let mut program = lowered(text);
            schedule(&mut program, &machine);
            count += each_sync(name, &program, &machine);
        }
        assert!(count > 0 || *name == "attention", "{name}");
    }
}

/// No synchronisation can be left out or weakened; says how many there are.
fn each_sync(name: &str, program: &UProgram, machine: &Machine) -> usize {
    let mut count = 0;
    for Mutant {
        number,
        sync,
        by,
        program,
    } in mutants(program)
    {
        assert!(
            verify_schedule(&program, machine.synced_lanes()).is_err(),
            "{name}: {sync:?} number {number} may be {by:?}"
        );
        count = count.max(number + 1);
    }
    count
}

#[test]
fn an_operator_on_other_units_is_noticed() {
    // Each operator in turn runs on another unit, or is split with another grain or from another
    // unit on; the accesses of other operators to its memory no longer match.
    let others = ["order", "decoder"];
    for (name, text) in PROGRAMS.iter().filter(|p| !others.contains(&p.0)) {
        let mut program = lowered(text);
        schedule(&mut program, &Machine::reference_host(2));
        let ids: Vec<OperatorId> = program.running().into_iter().collect();
        let grains = |split: Split| Split {
            grain: split.grain * 3,
            ..split
        };
        let turned = |split: Split| Split {
            first: split.first + 1,
            ..split
        };
        for other in [grains as fn(Split) -> Split, turned] {
            let mut noticed = 0;
            for &id in &ids {
                let mut broken = program.clone();
                let share = &mut broken.operators[id].share;
                if let Share::One(unit) = share {
                    *unit += 1;
                }
                let splits = share.splits_mut().iter_mut();
                splits.for_each(|split| *split = other(*split));
                noticed += verify_schedule(&broken, 1).is_err() as usize;
            }
            assert!(
                noticed * 4 > ids.len(),
                "{name}: {noticed} of {}",
                ids.len()
            );
        }
    }
}

#[test]
fn pieces_without_synchronisations_are_noticed() {
    // Rows of one unit, until any unit may take a piece of the first operator, or of the second.
    let text = "
local %i: i64 axis
local %j: i64 axis
buffer b0: f32[4096] input \"x\"
buffer b1: f32[4096] output \"y\"
buffer b2: f32[64] output \"z\"
input \"x\" b0 [4096]
output \"y\" b1 [4096]
output \"z\" b2 [64]
operator op0 \"\" [%i < 64, %j < 64] split %i { b1[%i * 64 + %j] = exp(b0[%i * 64 + %j]) }
operator op1 \"\" [%i < 64] split %i { b2[%i] = b1[%i * 64] }
main { run op0 run op1 }";
    let mut program = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let ids: Vec<OperatorId> = program.running().into_iter().collect();
    let machine = Machine::reference_host(2);
    place_syncs(&mut program, &machine);
    verify_schedule(&program, 1).expect("neighbours with equal rows");
    for &id in &ids {
        let mut cut = program.clone();
        cut.operators[id].share.splits_mut()[0].piece = Some(7);
        assert!(verify_schedule(&cut, 1).is_err());
        place_syncs(&mut cut, &machine);
        verify_schedule(&cut, 1).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A unit has rows of the first half of an array's columns, and something of the second half.
fn halves(second: &str) -> UProgram {
    let text = format!(
        "
local %t: i64 variable
local %i: i64 axis
local %j: i64 axis
buffer b0: f32[4096] input \"x\"
buffer b1: f32[8192] scratch \"y\"
buffer b2: f32[64] output \"z\"
input \"x\" b0 [4096]
output \"z\" b2 [64]
operator op0 \"\" [%i < 64, %j < 64] split %i {{ b1[%i * 128 + %j] = b0[%i * 64 + %j] }}
operator op1 \"\" [%j < 64, %i < 64] split %j {{ b1[{second}] = b0[%i * 64 + %j] }}
operator op2 \"\" [%i < 64] split %i {{ b2[%i] = b1[%i * 128] }}
main {{ let %t = 0 run op0 run op1 sync all -> all run op2 }}"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn parts_of_rows_need_no_synchronisation() {
    let apart = [
        "%i * 128 + (%j + 64)",
        "%t * 8192 + %i * 128 + (%j + 64)",
        "%i * 128 + (127 - %j)",
        "%i * 128 + (mod(%j + %i, 64) + 64)",
        "%i * 128 + (div(%j, 2) + 96)",
        "%i * 128 + (select(and(ge(%j - 3, 0), lt(%j - 3, 60)), %j - 3, 0) + 64)",
    ];
    for second in apart {
        let mut program = halves(second);
        verify_schedule(&program, 1).unwrap_or_else(|e| panic!("{second}: {e}"));
        let before = program.body.len();
        place_syncs(&mut program, &Machine::reference_host(2));
        verify_schedule(&program, 1).unwrap_or_else(|e| panic!("{second}: {e}"));
        assert_eq!(program.body.len(), before, "{second}");
    }
}

#[test]
fn parts_that_overlap_are_noticed() {
    let overlapping = [
        "%i * 128 + (%j + 63)",
        // Into the next row.
        "%i * 128 + (%j + 65)",
        "%i * 130 + (%j + 64)",
        "%i * 64 + (%j + 64)",
        "%i * 128 + (mod(%j + %i, 65) + 63)",
        "%i * 128 + (select(ge(%j - 3, 0), %j - 3, 0) + 60)",
        "%i * 128 + (64 - %j)",
        "%t * 100 + %i * 128 + (%j + 64)",
    ];
    for second in overlapping {
        let mut program = halves(second);
        assert!(verify_schedule(&program, 1).is_err(), "{second}");
        place_syncs(&mut program, &Machine::reference_host(2));
        verify_schedule(&program, 1).unwrap_or_else(|e| panic!("{second}: {e}"));
    }
}

/// Places are 2,064 elements apart, of which 2,048 are split: no period tells the unit.
#[test]
fn a_point_may_read_the_element_that_it_writes() {
    let of = |share: &str, value: &str| {
        let text = format!(
            "
local %i: i64 axis
local %j: i64 axis
local %k: i64 axis
buffer b0: f32[100352] input \"x\"
buffer b1: f32[103200] scratch \"y\"
input \"x\" b0 [100352]
operator op0 \"\" [%i < 49, %j < 2048] {share} {{ b1[%i * 2064 + %j] = {value} }}
main {{ run op0 }}"
        );
        verify_schedule(&parse(&text).unwrap_or_else(|e| panic!("{e}")), 1)
    };
    let sum = |read: &str| format!("b0[%i * 2048 + %j] + b1[{read}]");
    let own = sum("%i * 2064 + %j");
    let reduced = format!("fold sum f32 over [%k < 3] of {own}");
    for share in ["split %j", "split %i", "split %j pieces 64", "unit 0"] {
        for value in [&own, &reduced] {
            assert_eq!(of(share, value), Ok(()), "{share}, {value}");
        }
    }
    for (share, read) in [
        ("split %j", "%i * 2064 + (%j + 1)"),
        ("split %j", "%i * 2064"),
        ("split %i", "%j"),
    ] {
        assert!(of(share, &sum(read)).is_err(), "{share}, {read}");
    }
}

#[test]
fn an_incomplete_split_is_noticed() {
    let mut program = lowered(PROGRAMS[0].1);
    place_syncs(&mut program, &Machine::reference_host(2));
    let id = program.operators.keys().next().expect("an operator");
    let seven = program.pool.int(7);
    program.operators[id].share = Share::Split(Split::whole(0, seven));
    let error = verify_schedule(&program, 1).expect_err("256 is no multiple of 7");
    assert!(
        error.to_string().contains("cover it exactly once"),
        "{error}"
    );
}

#[test]
fn synchronising_everywhere_is_sound() {
    for (name, text) in PROGRAMS {
        for machine in machines() {
            let mut program = lowered(text);
            heddle_schedule::sync_everywhere(&mut program);
            verify_schedule(&program, machine.synced_lanes())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}

#[test]
fn an_index_that_is_known_stays_in_its_row() {
    // Each unit updates its rows of what it wrote before; the rows have a size that is a sum.
    let text = "fn @main(%x: u32[m,m]) -> (%y: u32[m+1,m+1]) {
       %p = pad(%x, const [0, 0, 1, 1], const splat 0: u32[])
       %s = shape(%p)
       %i = broadcast(const splat 0: i64[], %s)
       %u = broadcast(const splat 3: u32[], %s)
       return scatter_elements(%p, %i, %u, axis=1, reduce=max)
     }";
    for machine in machines() {
        let mut program = lowered(text);
        schedule(&mut program, &machine);
        verify_schedule(&program, machine.synced_lanes()).unwrap_or_else(|e| panic!("{e}"));
    }
}
