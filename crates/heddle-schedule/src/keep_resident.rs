//! Keeps weights that a loop reads again in shared memory.
//!
//! In each iteration of a recurrent network a unit reads the same part of each matrix: that of its share. A GPU's L2 gives a block a
//! quarter of the bytes that its shared memory does. Where a unit's part of a constant or an input fits there, the unit copies it before
//! the first statement and reads the copy ([`Resident`]; FlashRNN keeps recurrent weights on chip likewise).
//!
//! - Operators in loops of the main program take part, those that run most often first. Operators of procedures do not: a unit may be in a
//!   team there, whose shares are others.
//! - Units of different teams run different operators, so that their copies begin at the same word.
//! - Shares and lanes must be final: the pass comes behind `join_lanes`.
//!
//! It always applies. It does *not* keep operands of tiles, carried values, or a part of an operand that is too large.

use std::collections::BTreeMap;

use heddle_machine::Machine;
use heddle_uprogram::program::{OperatorId, Resident, ResidentPart, Stmt, UProgram, for_each_stmt};

use crate::trips::visit;

/// Makes operands of operators in loops resident, on machines whose units have shared memory for them.
pub fn keep_resident(program: &mut UProgram, machine: &Machine) {
    let Some(bytes) = machine.resident_bytes() else {
        return;
    };
    let words = (bytes / Resident::WORD) as u64;
    let all = machine.units();
    let mut taken = vec![0u64; all];
    for (id, part, second) in candidates(program, all) {
        let op = &program.operators[id];
        let units = op.units_of(all);
        let at = taken[units.clone()].iter().copied().max().unwrap_or(0);
        let end = at.saturating_add(part.words(units.len()));
        if let (Ok(at), true) = (u32::try_from(at), end <= words) {
            taken[units].fill(end.next_multiple_of(Resident::QUAD as u64));
            program.operators[id].resident = Some(Resident {
                second,
                at,
                units: all as u32,
            });
        }
    }
}

/// Operands that may be resident, each with whether it is the second one: by executions of their operators, then by size.
fn candidates(program: &UProgram, all: usize) -> Vec<(OperatorId, ResidentPart, bool)> {
    let mut often: BTreeMap<OperatorId, f64> = BTreeMap::new();
    visit(program, &program.body, 1.0, &mut |stmt, executions| {
        if let Stmt::Run(id) = stmt {
            *often.entry(*id).or_default() += executions;
        }
    });
    for (_, procedure) in program.procedures.iter() {
        for_each_stmt(&procedure.body, &mut |stmt| {
            if let Stmt::Run(id) = stmt {
                often.remove(id);
            }
        });
    }
    let mut found = vec![];
    for (id, executions) in often {
        let op = &program.operators[id];
        let operands = [true, false].into_iter();
        let parts =
            operands.filter_map(|second| Some((ResidentPart::of(program, op, second)?, second)));
        let words = |part: &ResidentPart| part.words(op.units_of(all).len());
        let largest = parts.max_by_key(|(part, _)| words(part));
        // The copy reads the operand once.
        if let Some((part, second)) = largest.filter(|_| executions > 1.0) {
            found.push((executions, words(&part), id, part, second));
        }
    }
    found.sort_by(|a, b| {
        let by_use = b.0.total_cmp(&a.0).then(b.1.cmp(&a.1));
        by_use.then(a.2.cmp(&b.2))
    });
    let found = found.into_iter();
    found
        .map(|(_, _, id, part, second)| (id, part, second))
        .collect()
}
