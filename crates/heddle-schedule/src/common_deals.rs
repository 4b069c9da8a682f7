//! Which buffers all operators deal out alike, so that no element of one is ever touched by two units.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::deal::Deal;
use super::memo::Memo;
use heddle_uprogram::live::Names;
use heddle_uprogram::program::{Buffer, Stmt, UProgram, for_each_stmt};

/// For each buffer the deal that all accesses to it have in common; buffers without one are left out. What is exchanged has
/// none: its memory is another name's, too. Neither has what another procedure than its own touches: its units may be others.
pub(super) fn common_deals(program: &UProgram, memo: &Memo) -> BTreeMap<Buffer, Rc<Deal>> {
    let mut deals: BTreeMap<Buffer, Option<Rc<Deal>>> = BTreeMap::new();
    let mut note = |buffer, deal: Option<Rc<Deal>>| {
        let known = deals.entry(buffer).or_insert_with(|| deal.clone());
        if *known != deal {
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
                    note(access.buffer, access.deal.clone().filter(|_| own));
                }
            }
            names.buffers.into_iter().for_each(|b| note(b, None));
        });
    }
    let common = deals.into_iter();
    common.filter_map(|(b, deal)| Some((b, deal?))).collect()
}
