//! Layers that work on different steps at the same time, each on a team of units.

use crate::common::lowered;
use heddle_machine::Machine;
use heddle_schedule::schedule;
use heddle_uprogram::program::{Stmt, Sync, Team, Units, for_each_stmt};
use heddle_uprogram::{UProgram, verify_schedule};

const TEXT: &str = include_str!("../programs/teams.heddle");

fn scheduled(units: usize) -> (UProgram, Machine) {
    let machine = Machine::h100().with_grid(units, 64);
    let mut program = lowered(TEXT);
    schedule(&mut program, &machine);
    (program, machine)
}

/// The body of the loop over steps of all layers.
fn steps(program: &UProgram) -> &[Stmt] {
    let body = program.body.iter().find_map(|stmt| match stmt {
        Stmt::Loop { body, .. } => Some(body),
        _ => None,
    });
    body.expect("a loop")
}

/// The synchronisations of statements and of nested ones.
fn syncs(stmts: &[Stmt]) -> Vec<Sync> {
    let mut syncs = vec![];
    for_each_stmt(stmts, &mut |stmt| {
        if let Stmt::Sync(sync) = stmt {
            syncs.push(*sync);
        }
    });
    syncs
}

#[test]
fn each_layer_is_on_a_team_that_waits_for_its_neighbours_once_a_step() {
    let (program, machine) = scheduled(12);
    let mut teams = vec![];
    for_each_stmt(steps(&program), &mut |stmt| {
        if let Stmt::Run(id) = stmt {
            teams.push(
                program.operators[*id]
                    .team
                    .map(|team| (team.index, team.of)),
            );
        }
    });
    teams.dedup();
    assert_eq!(teams, [Some((0, 3)), Some((1, 3)), Some((2, 3))]);
    let found = syncs(steps(&program));
    assert_eq!(found[0], Sync::Near(3));
    for sync in &found[1..] {
        let is_own = |units| matches!(units, Units::Team(_));
        let own = matches!(sync, Sync::Wait { from, to } if from == to && is_own(*from));
        assert!(own || *sync == Sync::Unit, "{sync:?}");
    }
    assert_eq!(verify_schedule(&program, machine.synced_lanes()), Ok(()));
}

#[test]
fn few_units_are_no_teams() {
    let (program, _) = scheduled(4);
    assert!(program.operators.iter().all(|(_, op)| op.team.is_none()));
}

#[test]
fn teams_have_all_units_between_them() {
    for units in 1..40 {
        for of in 1..40 {
            let all = (0..of).map(|index| Team { index, of }.units(units));
            let mut next = 0;
            for team in all {
                assert!(!team.is_empty() && team.end <= units, "{units} {of}");
                let follows = team.start == next || of as usize > units && team.start + 1 == next;
                assert!(follows, "{units} {of}: {team:?} behind {next}");
                next = team.end;
            }
            assert_eq!(next, units);
        }
    }
}

#[test]
fn text_has_teams() {
    let (program, _) = scheduled(12);
    let text = heddle_uprogram::text::print(&program);
    assert!(
        text.contains(" team 2 of 3") && text.contains("sync near 3"),
        "{text}"
    );
    let again = heddle_uprogram::text::parse(&text).unwrap();
    assert_eq!(heddle_uprogram::text::print(&again), text);
    for (wrong, with) in [
        (" team 2 of 3", " team 3 of 3"),
        ("sync near 3", "sync near 0"),
    ] {
        let wrong = text.replacen(wrong, with, 1);
        let parsed = heddle_uprogram::text::parse(&wrong)
            .map(|p| heddle_uprogram::verify_program(&p).is_err());
        assert!(parsed.unwrap_or(true), "{with}");
    }
}
