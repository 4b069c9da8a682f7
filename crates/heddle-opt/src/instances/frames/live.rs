//! The values that an activation keeps from one block to another.

use std::collections::{BTreeSet, HashSet};

use heddle_ir::{Value, cannot_fail};

use super::cut::uses;
use super::graph::{Block, End, Step};
use super::recursion::Recursion;

/// Values by block.
pub(super) struct Live {
    /// The values that a block, or one that follows it, reads from its frame.
    pub before: Vec<BTreeSet<Value>>,
    /// The values that a block makes.
    pub made: Vec<HashSet<Value>>,
    /// The values that a block reads and does not make.
    pub needs: Vec<BTreeSet<Value>>,
}

impl Live {
    /// Values for which `is_there` holds need no frame.
    pub fn of(
        recursion: &Recursion,
        blocks: &[Block],
        is_there: &dyn Fn(usize, Value) -> bool,
    ) -> Live {
        let all = blocks.iter().map(|block| made_and_needed(recursion, block));
        let (made, needs): (Vec<_>, Vec<_>) = all.unzip();
        let mut before: Vec<BTreeSet<Value>> = vec![BTreeSet::new(); blocks.len()];
        loop {
            let mut is_done = true;
            for (k, block) in blocks.iter().enumerate().rev() {
                let mut live: BTreeSet<Value> = after(block, &before);
                live.retain(|v| !made[k].contains(v));
                live.extend(&needs[k]);
                live.retain(|&v| !is_there(block.function, v));
                is_done &= live == before[k];
                before[k] = live;
            }
            if is_done {
                break;
            }
        }
        Live {
            before,
            made,
            needs,
        }
    }

    /// The values that are in a frame at the same time behind a block.
    pub fn after(&self, block: &Block) -> BTreeSet<Value> {
        let edges = block.end.next();
        edges
            .iter()
            .flat_map(|&to| &self.before[to])
            .copied()
            .collect()
    }
}

/// The values behind a block that come from in front of its end.
fn after(block: &Block, before: &[BTreeSet<Value>]) -> BTreeSet<Value> {
    if let End::Calls(_, next) = block.end {
        return before[next].clone();
    }
    let mut live = BTreeSet::new();
    for edge in block.end.edges() {
        let is_moved = |v: &Value| edge.moves.iter().any(|(to, _)| to == v);
        live.extend(before[edge.to].iter().filter(|v| !is_moved(v)));
    }
    live
}

fn made_and_needed(recursion: &Recursion, block: &Block) -> (HashSet<Value>, BTreeSet<Value>) {
    let source = &recursion.functions[block.function];
    let mut made: HashSet<Value> = HashSet::new();
    let mut needs = BTreeSet::new();
    let mut need = |made: &HashSet<Value>, values: Vec<Value>| {
        needs.extend(values.into_iter().filter(|v| !made.contains(v)));
    };
    for &site in &block.arrivals {
        made.extend(&source.insts[site].results);
    }
    for step in &block.steps {
        match step {
            Step::Inst(inst) => {
                need(&made, uses(source, *inst));
                made.extend(&source.insts[*inst].results);
            }
            Step::Moves(moves) => {
                need(&made, moves.iter().flat_map(|m| m.1.values()).collect());
                made.extend(moves.iter().map(|m| m.0));
            }
        }
    }
    match &block.end {
        End::Return(values) => need(&made, values.clone()),
        End::Branch(test, _) => need(&made, test.values()),
        End::Calls(sites, _) => {
            for &site in sites {
                need(&made, source.insts[site].args.clone());
            }
        }
        End::Goto(_) => {}
    }
    need(&made, block.moves().flat_map(|m| m.1.values()).collect());
    (made, needs)
}

/// The instructions without operands, which any block evaluates anew, by their results.
pub(super) fn is_constant(recursion: &Recursion, function: usize, value: Value) -> bool {
    let source = &recursion.functions[function];
    let made = source.def_inst(value).map(|inst| &source.insts[inst]);
    made.is_some_and(|data| data.args.is_empty() && data.regions.is_empty())
}

/// The values of a function that follow from parameters which all calls pass on, and can be
/// evaluated ahead: they are those of the instance.
pub(super) fn of_instance(recursion: &Recursion, function: usize) -> HashSet<Value> {
    let source = &recursion.functions[function];
    // Its own names say which sizes are the same.
    let stated = &recursion.module.functions[recursion.ids[function]];
    let kept = recursion.kept[function].iter();
    let params = kept.zip(recursion.params(function));
    let mut own: HashSet<Value> = params
        .filter(|(kept, _)| kept.is_some())
        .map(|(_, &param)| param)
        .collect();
    source.for_each_inst(&mut |inst, data| {
        let is_known = |v: &Value| own.contains(v) || is_constant(recursion, function, *v);
        if !data.args.is_empty()
            && cannot_fail(stated, inst)
            && uses(source, inst).iter().all(is_known)
        {
            own.extend(&data.results);
        }
    });
    own
}
