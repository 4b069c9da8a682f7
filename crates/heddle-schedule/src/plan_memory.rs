//! Lets buffers that are not needed at the same time lie in the same memory.
//!
//! Two buffers become one where what lies in the first is needed no more when the second is first written: in straight-line code,
//! in the two arms of a branch, in one iteration of a loop, in the frame of a procedure. What is carried around a
//! loop, or exchanged, is needed in all of it. Buffers are joined only where all units wait for all between the
//! last use of the one and the first of the other anyway, or where all operators deal out both alike, so that an element's memory
//! stays with its unit: no synchronisation is added. The plan is dropped if it costs time nevertheless.
//!
//! The less memory a program goes through, the more of its weights stay in the caches.
//!
//! It does not overwrite an operand in place, nor move what is larger than what was there before into memory that is exchanged.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use super::common_deals::common_deals;
use super::cost::estimate;
use super::latency::{Latency, total, total_with};
use super::memo::Memo;
use super::place_syncs::place_syncs_with;
use super::spans::{Span, Spans};
use heddle_uprogram::program::{Buffer, BufferKind, Stmt, UProgram, for_each_stmt};

/// Programs with more buffers than this are left as they are: every pair is looked at.
const MAX_BUFFERS: usize = 4096;

/// Joins buffers. The program has no synchronisations yet.
pub fn plan_memory(program: &mut UProgram, latency: &dyn Latency) {
    let memo = Memo::default();
    let mut placed = program.clone();
    place_syncs_with(&mut placed, latency.machine(), &memo);
    let spans = Spans::of(&placed);
    let exchanged = exchanged(&placed);
    let deals = common_deals(program, &memo);
    let mut buffers: Vec<_> = program
        .buffers
        .keys()
        .filter(|b| spans.of_buffer(*b).is_some())
        .collect();
    if buffers.len() > MAX_BUFFERS {
        return;
    }
    // The largest first: what comes later fits in.
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
        let deal = deals.get(&buffer);
        let fits = |g: &&mut Group| {
            let first = &program.buffers[g.buffer];
            let fixed = exchanged.contains(&buffer) || g.exchanged;
            first.dtype == data.dtype
                && first.procedure == data.procedure
                && (!fixed || first.len == data.len)
                && g.members().zip(&g.spans).all(|(other, lasts)| {
                    let alike = deal.is_some() && deals.get(&other) == deal;
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
    if total(&planned, latency) <= total_with(program, latency, &memo) {
        *program = planned;
    }
}

/// Buffers that are to be one.
struct Group {
    buffer: Buffer,
    others: Vec<Buffer>,
    spans: Vec<Span>,
    exchanged: bool,
}

/// Buffers whose names are exchanged.
fn exchanged(program: &UProgram) -> BTreeSet<Buffer> {
    let mut found = BTreeSet::new();
    let procedures = program.procedures.iter().map(|(_, p)| &p.body);
    for body in procedures.chain([&program.body]) {
        for_each_stmt(body, &mut |stmt| {
            if let Stmt::Swap(a, b) = stmt {
                found.extend([*a, *b]);
            }
        });
    }
    found
}

impl Group {
    /// In the order of their spans.
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

    /// Whether buffers with these spans may lie in the same memory; `alike` when the units deal out both alike.
    fn may_share(&self, a: &Span, b: &Span, alike: bool) -> bool {
        let (a, b) = if a.first <= b.first { (a, b) } else { (b, a) };
        a.last < b.first && (alike || self.all_wait_between(a, b))
    }
}

/// Whether a buffer is memory that can be planned.
pub(super) fn is_planned(program: &UProgram, buffer: Buffer) -> bool {
    matches!(program.buffers[buffer].kind, BufferKind::Scratch)
}
