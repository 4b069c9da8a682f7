//! Places synchronisations exactly where a dependence (read after write, write after read, write
//! after write) crosses units; each of the weakest kind that covers it.
//!
//! The walk keeps, for each buffer, the accesses not yet visible to all units: their partitions,
//! and the units that have waited for them. Accesses with equal partitions need no synchronisation,
//! since the same unit makes both (Rammer §3.2: data-flow edges whose tasks are aligned need no
//! barrier). Units that are a cluster of the launch have a barrier of their own. Loops are walked
//! until the state at the head covers the back edge; procedures until the state at entry covers all
//! calls.

mod by_buffer;
mod loops;
mod procedures;
mod state;
mod walk;

pub(super) use self::state::State;
pub(super) use self::walk::LOOK_AHEAD;

use heddle_machine::Machine;

use self::procedures::Known;
use self::walk::Walk;
use crate::memo::Memo;
use heddle_uprogram::program::{
    Cluster, ProcedureId, Stmt, Sync, Team, UProgram, Units, for_each_stmt_mut,
};

/// Places the program's synchronisations.
pub fn place_syncs(program: &mut UProgram, machine: &Machine) {
    place_syncs_with(program, machine, &Memo::of(machine));
}

/// The same with a cache.
pub(super) fn place_syncs_with(program: &mut UProgram, machine: &Machine, memo: &Memo) {
    let placed = Placed::new(program, machine, memo);
    program.body = placed.body;
    for (id, body) in placed.procedures {
        program.procedures[id].body = body;
    }
}

/// The program's statements with synchronisations.
pub(super) struct Placed {
    pub(super) body: Vec<Stmt>,
    /// Without procedures that no call reaches.
    pub(super) procedures: Vec<(ProcedureId, Vec<Stmt>)>,
}

impl Placed {
    pub(super) fn new(program: &UProgram, machine: &Machine, memo: &Memo) -> Self {
        let mut known = Known::new(program);
        loop {
            let mut walk = Walk {
                program,
                memo,
                lanes: machine.synced_lanes() > 1,
                known: known.clone(),
                state: State::default(),
            };
            let placed = walk.program();
            let next = walk.known.with_ends_of(&known);
            if next == known {
                return placed.in_clusters(program, machine);
            }
            known = next;
        }
    }
}

impl Placed {
    /// The same with the barriers of clusters. Where units part for calls, "all" are not always those of the launch.
    fn in_clusters(mut self, program: &UProgram, machine: &Machine) -> Self {
        let Some(first) = first_cluster(machine) else {
            return self;
        };
        meet_in_clusters(first, &mut self.body);
        if !program.has_forks() {
            for (_, body) in &mut self.procedures {
                meet_in_clusters(first, body);
            }
        }
        self
    }
}

/// The first cluster of a machine's launches.
fn first_cluster(machine: &Machine) -> Option<Cluster> {
    let (count, units) = machine.clusters()?;
    let team = Team {
        index: 0,
        of: u32::try_from(count).ok()?,
    };
    let units = u32::try_from(units).ok()?;
    Some(Cluster { team, units })
}

/// Gives statements the barriers of clusters such as this one where a cluster's units wait for all of them.
fn meet_in_clusters(first: Cluster, stmts: &mut [Stmt]) {
    for_each_stmt_mut(stmts, &mut |stmt| {
        let Stmt::Sync(sync @ Sync::Wait { .. }) = stmt else {
            return;
        };
        let team = match sync.ends() {
            Some((Units::All, Units::All)) => Team { index: 0, of: 1 },
            Some((Units::Team(from), Units::Team(to))) if from == to => from,
            _ => return,
        };
        if team.of == first.team.of {
            *sync = Sync::Cluster(Cluster { team, ..first });
        }
    });
}

/// Places the synchronisations of a program without procedures, statement by statement.
pub(super) struct Placer<'p> {
    walk: Walk<'p>,
    cluster: Option<Cluster>,
}

impl<'p> Placer<'p> {
    /// Continues from this state.
    pub(super) fn new(
        program: &'p UProgram,
        machine: &Machine,
        memo: &'p Memo,
        state: State,
    ) -> Self {
        Self {
            walk: Walk {
                program,
                memo,
                lanes: machine.synced_lanes() > 1,
                known: Known::new(program),
                state,
            },
            cluster: first_cluster(machine),
        }
    }

    /// The current state.
    pub(super) fn state(&self) -> &State {
        &self.walk.state
    }

    /// Statement `k` of the program's body with its synchronisations.
    pub(super) fn place(&mut self, body: &[Stmt], k: usize) -> Vec<Stmt> {
        let mut out = vec![];
        self.walk.stmt(&mut out, body, k);
        if let Some(first) = self.cluster {
            meet_in_clusters(first, &mut out);
        }
        out
    }
}
