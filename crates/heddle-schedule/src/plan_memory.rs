//! Shares memory between buffers whose live ranges are disjoint.
//!
//! Two buffers become one if the first is dead where the second is first written: in straight-line
//! code, in the two arms of a branch, in one iteration of a loop, in the frame of a procedure.
//! Carried and swapped buffers are live throughout their loop. Buffers share memory only if a
//! barrier already lies between their live ranges, or if all operators partition both alike, so
//! that memory stays with its unit: no synchronisation is added. If the plan costs more than a
//! hundredth of the time nevertheless, it is dropped.
//!
//! A smaller working set leaves more of the caches to weights.
//!
//! It does not update operands in place, nor put a larger buffer into the memory of a swapped one.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use super::common_partitions::common_partitions;
use super::cost::estimate;
use super::latency::Latency;
use super::memo::Memo;
use super::place_syncs::place_syncs_with;
use super::spans::{Span, Spans};
use super::total::{total, total_with};
use heddle_uprogram::program::{Buffer, Stmt, UProgram};

/// Larger programs are left as they are, since all pairs are compared.
const MAX_BUFFERS: usize = 4096;

/// The part of the time that a plan may cost, since the model does not price what caches gain from it.
const MOST_COST: f64 = 0.01;

/// Merges buffers. The program has no synchronisations yet.
pub fn plan_memory(program: &mut UProgram, latency: &dyn Latency) {
    let memo = Memo::of(latency.machine());
    let mut placed = program.clone();
    place_syncs_with(&mut placed, latency.machine(), &memo);
    let spans = Spans::of(&placed);
    let exchanged = exchanged(&placed);
    let partitions = common_partitions(program, &memo);
    let mut buffers: Vec<_> = program
        .buffers
        .keys()
        .filter(|b| spans.of_buffer(*b).is_some())
        .collect();
    if buffers.len() > MAX_BUFFERS {
        return;
    }
    // The largest first, so that later ones fit.
    let size = |b: &Buffer| {
        let data = &program.buffers[*b];
        estimate(program, data.len) * data.dtype.bits() as f64
    };
    buffers.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.cmp(b)));

    let mut groups: Vec<Group> = vec![];
    for buffer in buffers {
        let Some(span) = spans.of_buffer(buffer) else {
            continue;
        };
        let data = &program.buffers[buffer];
        let partition = partitions.get(&buffer);
        let fits = |g: &&mut Group| {
            let first = &program.buffers[g.buffer];
            let fixed = exchanged.contains(&buffer) || g.exchanged;
            first.dtype == data.dtype
                && first.procedure == data.procedure
                && (!fixed || first.len == data.len)
                && g.members().zip(&g.spans).all(|(other, lasts)| {
                    let alike = partition.is_some() && partitions.get(&other) == partition;
                    spans.may_share(lasts, span, alike)
                })
        };
        match groups.iter_mut().rev().find(fits) {
            Some(group) => {
                group.spans.push(span.clone());
                group.others.push(buffer);
                group.exchanged |= exchanged.contains(&buffer);
            }
            None => groups.push(Group {
                buffer,
                others: vec![],
                spans: vec![span.clone()],
                exchanged: exchanged.contains(&buffer),
            }),
        }
    }
    let mut planned = program.clone();
    join(&mut planned, &groups);
    let before = total_with(program, latency, &memo);
    if total(&planned, latency) <= before * (1.0 + MOST_COST) {
        *program = planned;
    }
}

/// Buffers to merge.
struct Group {
    buffer: Buffer,
    others: Vec<Buffer>,
    spans: Vec<Span>,
    exchanged: bool,
}

/// Buffers that some statement swaps.
fn exchanged(program: &UProgram) -> BTreeSet<Buffer> {
    let mut found = BTreeSet::new();
    program.for_each_stmt(&mut |stmt| {
        if let Stmt::Swap(a, b) = stmt {
            found.extend([*a, *b]);
        }
    });
    found
}

impl Group {
    /// In the order of `spans`.
    fn members(&self) -> impl Iterator<Item = Buffer> {
        std::iter::once(self.buffer).chain(self.others.iter().copied())
    }
}

fn join(program: &mut UProgram, groups: &[Group]) {
    let mut names = BTreeMap::new();
    for group in groups {
        let mut len = program.buffers[group.buffer].len;
        for &other in &group.others {
            let own = program.buffers[other].len;
            let known = (program.pool.as_int(len), program.pool.as_int(own));
            len = match known {
                (Some(a), Some(b)) => program.pool.int(a.max(b)),
                _ => program.pool.binary(BinaryOp::Max, DType::I64, len, own),
            };
            names.insert(other, group.buffer);
            program.buffers[other].len = program.pool.int(0);
        }
        program.buffers[group.buffer].len = len;
    }
    program.rename_buffers(&names);
}

impl Spans {
    fn of_buffer(&self, buffer: Buffer) -> Option<&Span> {
        self.buffers.get(&buffer)
    }

    /// True if buffers with these live ranges may share memory; `alike` if their partitions are
    /// equal.
    fn may_share(&self, a: &Span, b: &Span, alike: bool) -> bool {
        let (a, b) = if a.first <= b.first { (a, b) } else { (b, a) };
        a.last < b.first && (alike || self.all_wait_between(a, b))
    }
}
