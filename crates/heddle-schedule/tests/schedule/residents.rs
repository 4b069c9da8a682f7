//! Operands that units keep in shared memory throughout a program.

use crate::common::lowered_for;
use heddle_machine::Machine;
use heddle_schedule::schedule;
use heddle_uprogram::program::{Resident, ResidentPart, Team};
use heddle_uprogram::{UProgram, text, verify_program, verify_schedule};

const TEAMS: &str = include_str!("../programs/teams.heddle");
const LSTM: &str = include_str!("../programs/lstm.heddle");
const RECURSION: &str = include_str!("../programs/recursion.heddle");

fn scheduled(text: &str, machine: &Machine) -> UProgram {
    let mut program = lowered_for(text, machine);
    schedule(&mut program, machine);
    assert_eq!(verify_schedule(&program, machine.synced_lanes()), Ok(()));
    program
}

/// A resident operand, the end of its copy, and the team that reads it.
type Copy = (Resident, u64, Option<Team>);

fn residents(program: &UProgram) -> Vec<Copy> {
    let of = program.operators.iter().filter_map(|(_, op)| {
        let resident = op.resident?;
        let part = ResidentPart::of(program, op, resident.second)?;
        Some((resident, resident.end(op, &part), op.team))
    });
    of.collect()
}

#[test]
fn operands_of_loops_are_resident() {
    let program = scheduled(LSTM, &Machine::h100());
    let found = residents(&program);
    // Each of 132 blocks has two columns of each of four gates, of both matrices.
    let words: Vec<_> = found
        .iter()
        .map(|(r, end, _)| end - u64::from(r.at))
        .collect();
    // Lanes on two points read four words each: columns are 16 words further apart.
    assert_eq!(words, [2 * 4 * (256 + 16); 2], "{}", text::print(&program));
    assert_eq!(found[0].0.units, 132);
}

#[test]
fn copies_of_teams_begin_at_the_same_word() {
    let program = scheduled(TEAMS, &Machine::h100().with_grid(12, 64));
    let found = residents(&program);
    let teams: Vec<_> = found.iter().map(|copy| copy.2.map(|t| t.index)).collect();
    assert_eq!(teams, [Some(0), Some(1), Some(1), Some(2), Some(2)]);
    assert_eq!(found.iter().filter(|copy| copy.0.at == 0).count(), 3);
}

#[test]
fn a_core_has_none() {
    let program = scheduled(LSTM, &Machine::reference_host(4));
    assert!(residents(&program).is_empty());
}

/// 132 blocks have room for 23 of the 64 MiB of a matrix.
#[test]
fn operands_that_are_too_large_stay_where_they_are() {
    let text = "fn @main(%x: f32[1,4096], %w: f32[4096,4096], %u: f32[4096,64]) -> (%y: f32[1,4096], %z: f32[1,64]) {
           %zero = const splat 0.0: f32[1,64]
           %y, %z = loop %i trip 9 carry (%h: f32[1,4096] = %x, %k: f32[1,64] = %zero) {
             continue carry tanh(dot(%h, %w)), tanh(dot(%h, %u))
           }
           return %y, %z
         }";
    let program = scheduled(text, &Machine::h100());
    let found = residents(&program);
    // The small matrix has room.
    assert_eq!(found.len(), 1, "{}", text::print(&program));
}

#[test]
fn procedures_have_none() {
    let program = scheduled(RECURSION, &Machine::h100());
    assert!(residents(&program).is_empty());
}

#[test]
fn wrong_copies_are_refused() {
    let sound = scheduled(TEAMS, &Machine::h100().with_grid(12, 64));
    let mut with_copy = sound
        .operators
        .iter()
        .filter(|(_, op)| op.resident.is_some());
    let (Some((first, op)), Some((_, next))) = (with_copy.next(), with_copy.next()) else {
        panic!("{}", text::print(&sound));
    };
    let resident = op.resident.expect("a copy");
    let refused = |wrong: Resident, team| {
        let mut program = sound.clone();
        program.operators[first].resident = Some(wrong);
        program.operators[first].team = team;
        verify_program(&program).unwrap_err().to_string()
    };
    let second = !resident.second;
    let error = refused(Resident { second, ..resident }, op.team);
    assert!(error.contains("only constants and inputs"), "{error}");
    let error = refused(
        Resident {
            units: 0,
            ..resident
        },
        op.team,
    );
    assert!(error.contains("for no unit"), "{error}");
    let error = refused(
        Resident {
            units: 9,
            ..resident
        },
        op.team,
    );
    assert!(error.contains("for another launch"), "{error}");
    let error = refused(resident, next.team);
    assert!(error.contains("overlap"), "{error}");
    let error = refused(resident, None);
    assert!(error.contains("overlap"), "{error}");
}
