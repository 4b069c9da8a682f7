//! Buffers whose elements each belong to one unit, in all accesses.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::memo::Memo;
use super::partition::Partition;
use heddle_uprogram::live::Names;
use heddle_uprogram::program::{Buffer, Stmt, UProgram, for_each_stmt};

/// For each buffer the partition that all its accesses have in common; buffers without one are left
/// out. Swapped buffers have none, since names change their memory. Neither have buffers that are split along a size that
/// changes during a launch, and buffers touched outside of their own procedure, where units may have other numbers.
pub(super) fn common_partitions(
    program: &UProgram,
    memo: &Memo,
) -> BTreeMap<Buffer, Rc<Partition>> {
    let mut partitions: BTreeMap<Buffer, Option<Rc<Partition>>> = BTreeMap::new();
    let mut note = |buffer, partition: Option<Rc<Partition>>| {
        let known = partitions
            .entry(buffer)
            .or_insert_with(|| partition.clone());
        if *known != partition {
            *known = None;
        }
    };
    let procedures = program.procedures.iter().map(|(id, p)| (Some(id), &p.body));
    for (owner, body) in procedures.chain([(None, &program.body)]) {
        for_each_stmt(body, &mut |stmt| {
            let mut names = Names::default();
            names.used_by(program, stmt);
            if let Stmt::Run(id) = stmt {
                for access in memo.operator(program, *id).iter() {
                    names.buffers.remove(&access.buffer);
                    let own = program.buffers[access.buffer].procedure == owner;
                    let partition = access.partition.clone();
                    let partition = partition.filter(|p| own && p.is_fixed(program));
                    note(access.buffer, partition);
                }
            }
            names.buffers.into_iter().for_each(|b| note(b, None));
        });
    }
    let common = partitions.into_iter();
    common
        .filter_map(|(b, partition)| Some((b, partition?)))
        .collect()
}
