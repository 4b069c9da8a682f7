//! Layers that work on different steps at the same time, each on a team of units.

use crate::common::lowered;
use heddle_machine::Machine;
use heddle_schedule::schedule;
use heddle_uprogram::program::{Cluster, Stmt, Sync, Team, Units, for_each_stmt};
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
fn each_layer_is_on_a_cluster_where_launches_have_them() {
    let machine = Machine::h100().with_grid(12, 64).in_clusters(4).unwrap();
    let mut program = lowered(TEXT);
    schedule(&mut program, &machine);
    let found = syncs(steps(&program));
    assert_eq!(found[0], Sync::Near(3));
    let clusters = found[1..].iter().filter_map(|sync| match sync {
        Sync::Cluster(cluster) => Some(*cluster),
        sync => {
            assert_eq!(*sync, Sync::Unit);
            None
        }
    });
    let mut clusters: Vec<_> = clusters.collect();
    clusters.dedup();
    let cluster = |index| Cluster {
        team: Team { index, of: 3 },
        units: 4,
    };
    assert_eq!(clusters, [cluster(0), cluster(1), cluster(2)]);
    assert_eq!(verify_schedule(&program, machine.synced_lanes()), Ok(()));
    let text = heddle_uprogram::text::print(&program);
    let again = heddle_uprogram::text::parse(&text).unwrap();
    assert_eq!(heddle_uprogram::text::print(&again), text);
    for (wrong, with) in [
        ("sync cluster 2 of 3", "sync cluster 3 of 3"),
        ("sync cluster 2 of 3 units 4", "sync cluster 2 of 3 units 5"),
        ("sync cluster 0 of 3", "sync cluster 0 of 2"),
    ] {
        let wrong = text.replacen(wrong, with, 1);
        assert!(heddle_uprogram::text::parse(&wrong).is_err(), "{with}");
    }
}

/// A layer that waits for another one's cluster alone may read what is not there yet.
#[test]
fn a_cluster_is_no_barrier_of_all() {
    let machine = Machine::h100().with_grid(12, 64).in_clusters(4).unwrap();
    let mut program = lowered(TEXT);
    schedule(&mut program, &machine);
    let team = Team { index: 1, of: 3 };
    let mut narrowed = 0;
    program.for_each_stmt_mut(&mut |stmt| {
        if let Stmt::Sync(sync @ Sync::Near(_)) = stmt {
            *sync = Sync::Cluster(Cluster { team, units: 4 });
            narrowed += 1;
        }
    });
    assert_eq!(narrowed, 1);
    assert!(verify_schedule(&program, machine.synced_lanes()).is_err());
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
