//! Parts of the program that sets of instances evaluate, for reports.

use std::collections::HashMap;
use std::sync::Arc;

use heddle_ir::{FuncBuilder, FuncId, Function, Inst, Loc, Region, Value};

use super::Context;
use super::set::Set;

/// A part of the program that a set of instances evaluates in a step.
#[derive(Clone, Debug)]
pub struct Block {
    /// The instruction that it belongs to; `program` for all of it.
    pub op: &'static str,
    /// Its place in the model.
    pub loc: Option<Arc<Loc>>,
    /// The region of that instruction, if it is one of several.
    pub arm: Option<usize>,
    /// A step has one instance.
    pub is_one_by_one: bool,
    /// The recursive function of which it is an activation.
    pub function: Option<String>,
}

/// A block, and the size of the sets that evaluate it.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The function whose value the size is.
    pub within: FuncId,
    /// The size, `i64[]`.
    pub size: Value,
    /// The block.
    pub block: Block,
}

impl Block {
    /// The whole program.
    pub(super) fn program(is_one_by_one: bool) -> Self {
        Block {
            op: "program",
            loc: None,
            arm: None,
            is_one_by_one,
            function: None,
        }
    }

    /// The activations of a recursive function on a level.
    pub(super) fn level(source: &Function) -> Self {
        Block {
            op: "call",
            function: Some(source.sig.name.clone()),
            ..Block::program(false)
        }
    }

    /// An instruction that is evaluated for one instance after the other.
    pub(super) fn each(source: &Function, inst: Inst) -> Self {
        let data = &source.insts[inst];
        Block {
            op: data.op.name(),
            loc: data.loc.clone(),
            arm: None,
            is_one_by_one: true,
            function: None,
        }
    }

    /// A part of a recursion by frames, which this instruction is in.
    pub(super) fn frames(source: &Function, inst: Inst) -> Self {
        Block {
            op: "recursion",
            is_one_by_one: false,
            ..Block::each(source, inst)
        }
    }

    /// A region, which is one of several of its instruction.
    fn region(source: &Function, owner: Owner) -> Self {
        Block {
            arm: owner.arm,
            is_one_by_one: false,
            ..Block::each(source, owner.inst)
        }
    }
}

/// The instruction that a region belongs to.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    inst: Inst,
    /// The number of the region, if there are several.
    arm: Option<usize>,
}

/// The owners of all regions of a function but its body.
pub(super) fn owners(source: &Function) -> HashMap<Region, Owner> {
    let mut owners = HashMap::new();
    source.for_each_inst(&mut |inst, data| {
        for (k, &region) in data.regions.iter().enumerate() {
            let arm = Some(k).filter(|_| data.regions.len() > 1);
            owners.insert(region, Owner { inst, arm });
        }
    });
    owners
}

impl Context<'_> {
    /// Notes the size of a set that evaluates a block.
    pub(super) fn mark(&self, b: &mut FuncBuilder, count: Value, block: Block) {
        let mut blocks = self.blocks.borrow_mut();
        b.mark(count, blocks.len());
        blocks.push(block);
    }

    /// The blocks of a function that is made.
    pub(super) fn counted(&self, marks: &[(Value, usize)], within: FuncId) -> Vec<Counted> {
        let all = self.blocks.borrow();
        let marks = marks.iter();
        let counted = marks.map(|&(size, number)| Counted {
            within,
            size,
            block: all[number].clone(),
        });
        counted.collect()
    }
}

impl Set<'_> {
    /// [`Context::mark`] of the block that is the first of these regions.
    pub(super) fn mark_region(&self, b: &mut FuncBuilder, count: Value, regions: &[Region]) {
        let mut known = self.kinds.borrow_mut();
        let owners = known.owners.get_or_insert_with(|| owners(self.source));
        let owner = regions.first().and_then(|r| owners.get(r));
        if let Some(owner) = owner {
            let block = Block::region(self.source, *owner);
            self.context.mark(b, count, block);
        }
    }
}
