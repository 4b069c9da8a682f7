//! Partitions a program into parts that can be compiled and the rest, which is the interpreter's.
//!
//! The instructions of a region are partitioned in an order that their operands allow: as many as can be lowered together are one part, then
//! those that cannot be lowered at all are left, and so on. The regions of control flow that is left are partitioned in turn, and so are the
//! functions that it calls. Values from which a part computes sizes are its inputs, so that memory is planned where it begins.

use std::collections::{HashMap, HashSet};

use heddle_ir::{FuncId, Function, Inst, Module, Op, Region, Signature};
use heddle_lower::{Cause, LowerError};
use heddle_machine::Host;
use heddle_opt::{Outlined, call_outlined, constant_view, is_stated, needs, outline};

use super::worth::is_worth_it;
use crate::report::Uncompiled;

/// The instructions of a region with those of them that each needs before it.
type Needs = HashMap<Inst, Vec<Inst>>;

/// Limit on lowered instructions; the rest is interpreted.
const LOWERED: usize = 100_000;

/// Limit on parts: the C compiler takes some tenths of a second for each.
const PARTS: usize = 32;

/// Why something is interpreted that has a compiled form.
const SMALL: &str = "too little work to be compiled by itself";
const LATE: &str = "it takes too long to see what of it can be compiled";

/// A program in parts.
pub(super) struct Partition {
    /// The program, with a call in the place of each part.
    pub(super) module: Module,
    /// Costs of the interpreter and of launches.
    host: Host,
    /// The parts, each with the program that has it as its entry function.
    pub(super) parts: Vec<(FuncId, Module)>,
    /// Instructions without a compiled form.
    pub(super) left: Vec<Uncompiled>,
    /// Instructions that have one and are not worth a part.
    pub(super) small: Vec<Uncompiled>,
    /// The number of instructions lowered so far.
    lowered: usize,
}

impl Partition {
    /// Partitions a program that has no compiled form as a whole.
    pub(super) fn of(module: &Module, host: &Host) -> Self {
        let mut partition = Self {
            module: module.clone(),
            host: *host,
            parts: vec![],
            left: vec![],
            small: vec![],
            lowered: 0,
        };
        partition.functions();
        partition.drop_unused_constants();
        partition
    }

    /// Partitions the entry function, and then the functions that the rest of it calls.
    fn functions(&mut self) {
        let (mut open, mut seen): (Vec<_>, HashSet<_>) = Default::default();
        open.extend(self.module.entry_id());
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                let body = self.module.functions[id].body;
                self.region(id, body, &mut open);
            }
        }
    }

    /// Drops the constants that only parts use, and their views, since the interpreter would copy
    /// them.
    fn drop_unused_constants(&mut self) {
        for id in self.module.functions.keys().collect::<Vec<_>>() {
            while drop_unused(&mut self.module.functions[id]) {}
        }
    }

    /// Partitions a region; adds the functions that the interpreter calls.
    fn region(&mut self, id: FuncId, region: Region, callees: &mut Vec<FuncId>) {
        let func = &self.module.functions[id];
        let needs: Needs = needs(func, region).into_iter().collect();
        let is_constant = |inst: &Inst| is_constant(func, *inst);
        let insts = func.regions[region].insts.iter();
        let (mut placed, mut rest): (Vec<_>, Vec<_>) = insts.partition(|i| is_constant(i));
        let mut blocked = HashSet::new();
        while !rest.is_empty() && self.may_go_on() {
            let free = unblocked(&rest, &blocked, &needs);
            let part = self.longest(id, free, &needs, &mut blocked);
            if part.is_empty() {
                let (next, later) = ready(&rest, &blocked, &needs);
                for &inst in &next {
                    self.inside(id, inst, callees);
                }
                placed.extend(next);
                rest = later;
                continue;
            }
            rest.retain(|inst| !part.contains(inst));
            let outlined = self.outlined(id, &part).filter(|outlined| {
                let func = &self.module.functions[id];
                self.parts.len() < PARTS
                    && is_worth_it(&self.module, func, region, &part, outlined, &self.host)
            });
            match outlined {
                Some(outlined) => placed.push(self.add(id, &outlined)),
                None => {
                    let small = part.iter().map(|&inst| self.uncompiled(id, inst, SMALL));
                    let small: Vec<_> = small.collect();
                    self.small.extend(small);
                    placed.extend(part);
                }
            }
        }
        let late = rest.iter().map(|&inst| self.uncompiled(id, inst, LATE));
        let late: Vec<_> = late.collect();
        self.left.extend(late);
        placed.extend(rest);
        self.module.functions[id].regions[region].insts = placed;
    }

    fn may_go_on(&self) -> bool {
        self.lowered <= LOWERED
    }

    /// Partitions the regions of control flow that is left to the interpreter.
    fn inside(&mut self, id: FuncId, inst: Inst, callees: &mut Vec<FuncId>) {
        let data = &self.module.functions[id].insts[inst];
        if let Op::Call(callee) = data.op {
            callees.push(callee);
        }
        for region in data.regions.clone() {
            self.region(id, region, callees);
        }
    }

    /// The longest beginning of these instructions that can be lowered, and as many without what cannot be lowered even alone, which is
    /// blocked, and what needs that.
    fn longest(
        &mut self,
        id: FuncId,
        mut free: Vec<Inst>,
        needs: &Needs,
        blocked: &mut HashSet<Inst>,
    ) -> Vec<Inst> {
        while !free.is_empty() && self.may_go_on() {
            let Err(error) = self.lowers(id, &free) else {
                return free;
            };
            let at = error.inst.and_then(|at| free.iter().position(|&i| i == at));
            let at = at.unwrap_or(free.len() - 1);
            match self.lowers(id, &free[at..=at]) {
                // It must begin a part, so that what its sizes are made of is there.
                Ok(()) if at > 0 => free.truncate(at),
                alone => {
                    blocked.insert(free[at]);
                    self.leave(id, free[at], alone.err().unwrap_or(error));
                    free = unblocked(&free, blocked, needs);
                }
            }
        }
        vec![]
    }

    fn uncompiled(&self, id: FuncId, inst: Inst, why: &str) -> Uncompiled {
        Uncompiled {
            node: Some(self.name(id, inst)),
            reason: why.into(),
            change: None,
        }
    }

    /// Notes that an instruction is the interpreter's, and why.
    fn leave(&mut self, id: FuncId, inst: Inst, error: LowerError) {
        let is_inside = !error.is_input && !error.node.is_empty();
        self.left.push(Uncompiled {
            node: Some(if is_inside {
                error.node
            } else {
                self.name(id, inst)
            }),
            reason: error.cause.to_string(),
            change: error.cause.change(),
        });
    }

    fn name(&self, id: FuncId, inst: Inst) -> String {
        let data = &self.module.functions[id].insts[inst];
        let name = data.loc.as_ref().map(|loc| loc.to_string());
        name.unwrap_or_else(|| data.op.name().into())
    }

    /// Lowers instructions as a function of their own.
    fn lowers(&mut self, id: FuncId, insts: &[Inst]) -> Result<(), LowerError> {
        self.lowered += insts.len();
        let Some(outlined) = self.outlined(id, insts) else {
            let func = &self.module.functions[id];
            return Err(LowerError {
                node: String::new(),
                inst: insts.iter().copied().find(|&inst| !is_stated(func, inst)),
                is_input: false,
                cause: Cause::Unstated,
            });
        };
        let origin = outlined.origin;
        let module = self.alone(outlined.function);
        heddle_lower::lower(&module)
            .map(drop)
            .map_err(|e| LowerError {
                inst: e.inst.and_then(|inst| origin.get(&inst).copied()),
                ..e
            })
    }

    fn outlined(&self, id: FuncId, insts: &[Inst]) -> Option<Outlined> {
        let name = format!("part.{}", self.parts.len());
        outline(&self.module.functions[id], insts, &name)
    }

    /// A program with this function as its entry, and those that it calls.
    fn alone(&self, function: Function) -> Module {
        let (mut open, mut called) = (vec![], HashSet::new());
        let mut calls = |function: &Function, open: &mut Vec<FuncId>| {
            function.for_each_inst(&mut |_, inst| {
                if let Op::Call(callee) = inst.op
                    && called.insert(callee)
                {
                    open.push(callee);
                }
            });
        };
        calls(&function, &mut open);
        while let Some(id) = open.pop() {
            calls(&self.module.functions[id], &mut open);
        }
        let mut module = Module::default();
        for (id, function) in self.module.functions.iter() {
            // The others keep their places.
            module.functions.push(match called.contains(&id) {
                true => function.clone(),
                false => Function::new(Signature::default()),
            });
        }
        let entry = module.functions.push(function);
        module.set_entry(entry);
        module
    }

    /// Makes a part a function of the program: its call.
    fn add(&mut self, id: FuncId, outlined: &Outlined) -> Inst {
        let mut part = self.alone(outlined.function.clone());
        heddle_opt::remove_dead(&mut part);
        let callee = self.module.functions.push(outlined.function.clone());
        self.parts.push((callee, part));
        call_outlined(&mut self.module.functions[id], outlined, callee)
    }
}

/// Is it a constant, or a view of one, which each part has for itself?
fn is_constant(func: &Function, inst: Inst) -> bool {
    let result = func.insts[inst].results.first();
    result.is_some_and(|&value| constant_view(func, value).is_some())
}

/// Drops constants and views of them that nothing uses; true if there were some.
fn drop_unused(func: &mut Function) -> bool {
    let mut used: HashSet<_> = func.regions[func.body].yields.iter().copied().collect();
    let mut unused = HashSet::new();
    func.for_each_inst(&mut |_, inst| {
        used.extend(&inst.args);
        let yields = inst
            .regions
            .iter()
            .map(|&region| &func.regions[region].yields);
        used.extend(yields.flatten());
    });
    func.for_each_inst(&mut |id, inst| {
        if !inst.results.iter().any(|value| used.contains(value)) && is_constant(func, id) {
            unused.insert(id);
        }
    });
    for region in func.regions.keys().collect::<Vec<_>>() {
        let insts = &mut func.regions[region].insts;
        insts.retain(|inst| !unused.contains(inst));
    }
    !unused.is_empty()
}

/// Those instructions, in their order, that are not blocked and need none that is.
fn unblocked(insts: &[Inst], blocked: &HashSet<Inst>, needs: &Needs) -> Vec<Inst> {
    let waiting: HashSet<_> = insts.iter().copied().collect();
    let mut free: HashSet<Inst> = HashSet::new();
    for inst in insts.iter().filter(|i| !blocked.contains(i)) {
        let ready = |i: &Inst| free.contains(i) || !waiting.contains(i);
        if needs[inst].iter().all(ready) {
            free.insert(*inst);
        }
    }
    insts.iter().copied().filter(|i| free.contains(i)).collect()
}

/// The blocked instructions that wait for no other ones, and the rest.
fn ready(insts: &[Inst], blocked: &HashSet<Inst>, needs: &Needs) -> (Vec<Inst>, Vec<Inst>) {
    let mut waiting: HashSet<_> = insts.iter().copied().collect();
    insts.iter().partition(|&inst| {
        let is_ready = blocked.contains(inst) && needs[inst].iter().all(|i| !waiting.contains(i));
        if is_ready {
            waiting.remove(inst);
        }
        is_ready
    })
}
