//! Arrays of which each unit of a cluster has a copy.

use crate::proven::{refuse_all, scheduled};
use heddle_ir::DType;
use heddle_machine::Machine;
use heddle_uprogram::expr::Store;
use heddle_uprogram::program::{
    Body, Buffer, BufferKind, Mirror, OperatorId, Stmt, Sync, Team, for_each_stmt,
};
use heddle_uprogram::{Expr, ScheduleError, UProgram, text, verify_program, verify_schedule};

const LSTM: &str = include_str!("../programs/lstm.heddle");
const TEAMS: &str = include_str!("../programs/teams.heddle");
const RECURSION: &str = include_str!("../programs/recursion.heddle");

/// So many clusters of so many units.
fn machine(clusters: usize, units: usize) -> Machine {
    let machine = Machine::h100().with_grid(clusters * units, 64);
    machine.in_clusters(units).expect("clusters fit")
}

fn mirrors(program: &UProgram) -> Vec<(Buffer, Mirror)> {
    program.mirrors().collect()
}

/// The operators that touch an array.
fn touching(program: &UProgram, buffer: Buffer) -> Vec<OperatorId> {
    let touches = |id: &OperatorId| {
        let accesses = program.accesses_of(&program.operators[*id]);
        accesses.iter().any(|access| access.0 == buffer)
    };
    program.running().into_iter().filter(touches).collect()
}

/// The state of a cell under both of its names, and nothing else: gates and cells are each unit's own.
#[test]
fn the_state_of_a_cell_is_mirrored() {
    let program = scheduled(LSTM, &machine(1, 8));
    let found = mirrors(&program);
    let printed = text::print(&program);
    assert_eq!(found.len(), 2, "{printed}");
    let mut exchanged = 0;
    for_each_stmt(&program.body, &mut |stmt| {
        if let Stmt::Swap(a, b) = stmt {
            let are = [a, b].map(|buffer| found.iter().any(|mirror| mirror.0 == *buffer));
            assert_eq!(are[0], are[1], "{printed}");
            exchanged += usize::from(are[0]);
        }
    });
    assert_eq!(exchanged, 1, "{printed}");
}

#[test]
fn a_printed_program_reads_back() {
    for program in [
        scheduled(LSTM, &machine(1, 8)),
        scheduled(TEAMS, &machine(3, 4)),
    ] {
        let printed = text::print(&program);
        assert!(printed.contains("] mirrored cluster "), "{printed}");
        let read = text::parse(&printed).expect("it reads back");
        assert_eq!(text::print(&read), printed);
    }
}

/// Each layer has copies on its own cluster, which begin at the same word where they may. What the next layer reads is in global memory, too.
#[test]
fn each_layer_has_copies_on_its_cluster() {
    let program = scheduled(TEAMS, &machine(3, 4));
    let printed = text::print(&program);
    let found = mirrors(&program);
    for index in 0..3 {
        let of_layer = |(_, mirror): &&(Buffer, Mirror)| mirror.cluster.team.index == index;
        assert!(found.iter().any(|mirror| of_layer(&mirror)), "{printed}");
    }
    for (buffer, mirror) in &found {
        for id in touching(&program, *buffer) {
            let team = program.operators[id].team;
            assert_eq!(team, Some(mirror.cluster.team), "{printed}");
        }
    }
    let is_copy = |id: &OperatorId| match &program.operators[*id].body {
        Body::Map { store, value } => {
            let Expr::Load(from, offset) = program.pool[*value] else {
                return false;
            };
            let is_from = found.iter().any(|mirror| mirror.0 == from);
            let is_to = matches!(program.buffers[store.buffer].kind, BufferKind::Scratch);
            is_from && is_to && offset == store.offset
        }
        _ => false,
    };
    assert!(program.running().iter().any(is_copy), "{printed}");
}

#[test]
fn nothing_is_mirrored_without_clusters() {
    for machine in [Machine::h100(), Machine::reference_host(4)] {
        assert!(mirrors(&scheduled(LSTM, &machine)).is_empty());
    }
}

/// Arrays of procedures lie in frames.
#[test]
fn a_recursion_has_none() {
    let program = scheduled(RECURSION, &machine(1, 4));
    assert!(mirrors(&program).is_empty(), "{}", text::print(&program));
}

/// A step reads it once, and stores more to the other units than that takes.
#[test]
fn arrays_that_are_not_worth_it_stay_where_they_are() {
    let text = "fn @main(%x: f32[96,96]) -> (%y: f32[96,96]) {
  %y = loop %i trip 100 carry (%h: f32[96,96] = %x) {
    continue carry tanh(add(transpose(%h, perm=[1,0]), 0.1))
  }
  return %y
}";
    let program = scheduled(text, &machine(1, 8));
    assert!(mirrors(&program).is_empty(), "{}", text::print(&program));
}

/// Each synchronisation is needed, that before the first store and that behind the last among them, and no weaker one does.
#[test]
fn programs_with_a_synchronisation_less_are_refused() {
    for (text, machine) in [(LSTM, machine(1, 8)), (TEAMS, machine(3, 4))] {
        let program = scheduled(text, &machine);
        assert!(refuse_all(&program, machine.synced_lanes()) > 4);
    }
}

/// Units begin before others store to their memory, and end after that.
#[test]
fn the_begin_and_the_end_are_ordered() {
    let sound = scheduled(LSTM, &machine(1, 8));
    let copies = mirrors(&sound);
    let is_cluster = |stmt: &Stmt| matches!(stmt, Stmt::Sync(Sync::Cluster(_)));
    let mut program = sound.clone();
    let first = program.body.iter().position(is_cluster).expect("a barrier");
    let stores_before = program.body[..first].iter().any(|stmt| match stmt {
        Stmt::Run(id) => {
            let to = program.operators[*id].body.store().buffer;
            copies.iter().any(|copy| copy.0 == to)
        }
        _ => false,
    });
    assert!(!stores_before, "{}", text::print(&sound));
    program.body.remove(first);
    let error = verify_schedule(&program, 64).unwrap_err().to_string();
    assert!(error.contains("the program's begin"), "{error}");
    // A store behind the last barrier.
    let mut program = sound;
    let zero = program.pool.int(0);
    let one = program
        .pool
        .add(Expr::Num(DType::F32, u64::from(1f32.to_bits())));
    let id = touching(&program, copies[0].0)[0];
    let mut late = program.operators[id].clone();
    let buffer = copies[0].0;
    let offset = zero;
    late.body = Body::Map {
        store: Store { buffer, offset },
        value: one,
    };
    late.axes.clear();
    late.resident = None;
    late.lanes = heddle_uprogram::program::Lanes::Apart;
    late.share = heddle_uprogram::program::Share::One(0);
    let late = program.operators.push(late);
    program.body.push(Stmt::Sync(Sync::ALL));
    program.body.push(Stmt::Run(late));
    let error = verify_schedule(&program, 64).unwrap_err().to_string();
    assert!(error.contains("the program's end"), "{error}");
}

/// Units of other clusters have no copy.
#[test]
fn accesses_from_outside_are_refused() {
    let sound = scheduled(TEAMS, &machine(3, 4));
    for (buffer, mirror) in mirrors(&sound) {
        for id in touching(&sound, buffer) {
            for team in [None, Some((mirror.cluster.team.index + 1) % 3)] {
                let mut program = sound.clone();
                program.operators[id].team = team.map(|index| Team { index, of: 3 });
                program.operators[id].resident = None;
                let error = verify_schedule(&program, 64).unwrap_err();
                let is_outside = matches!(error, ScheduleError::Outside { .. });
                let is_own = matches!(error, ScheduleError::Shared { .. });
                assert!(is_outside || is_own, "{error}");
            }
        }
        let mut program = sound.clone();
        let zero = program.pool.int(0);
        let read = program.pool.add(Expr::Load(buffer, zero));
        let cond = program
            .pool
            .compare(heddle_ir::op::CompareOp::Gt, DType::F32, read, read);
        program.body.push(Stmt::If {
            cond,
            then: vec![],
            otherwise: vec![],
        });
        let error = verify_schedule(&program, 64).unwrap_err();
        assert!(matches!(error, ScheduleError::Outside { .. }), "{error}");
    }
}

/// Each wrong place, cluster and store is named.
#[test]
fn wrong_arrays_are_refused() {
    let sound = scheduled(TEAMS, &machine(3, 4));
    let found = mirrors(&sound);
    let refused = |change: &dyn Fn(&mut UProgram)| {
        let mut program = sound.clone();
        change(&mut program);
        verify_program(&program).unwrap_err().to_string()
    };
    let (first, mirror) = found[0];
    let set = |program: &mut UProgram, change: &dyn Fn(&mut Mirror)| {
        for (buffer, mirror) in &found {
            let mut mirror = *mirror;
            change(&mut mirror);
            program.buffers[*buffer].kind = BufferKind::Mirrored(mirror);
        }
    };
    let error = refused(&|p| set(p, &|mirror| mirror.at = 0));
    assert!(error.contains("two of them overlap"), "{error}");
    let error = refused(&|p| set(p, &|mirror| mirror.cluster.units = 5));
    assert!(error.contains("those of another launch"), "{error}");
    let error = refused(&|p| set(p, &|mirror| mirror.cluster.team.index = 3));
    assert!(error.contains("the units of no cluster"), "{error}");
    let error = refused(&|p| {
        let other = Mirror {
            cluster: heddle_uprogram::program::Cluster {
                team: Team {
                    index: (mirror.cluster.team.index + 1) % 3,
                    of: 3,
                },
                ..mirror.cluster
            },
            at: 40_000,
        };
        p.buffers[first].kind = BufferKind::Mirrored(other);
    });
    assert!(error.contains("another kind, length or cluster"), "{error}");
    let error = refused(&|p| p.buffers[first].len = p.pool.int(0));
    assert!(error.contains("known number of f32"), "{error}");
}
