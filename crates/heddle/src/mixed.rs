//! Programs of which a part has no compiled form: that part runs on the interpreter, with calls of compiled parts around and in it.
//!
//! The instructions of a region are parted in an order that their operands allow: as many as can be lowered together are one part, then those
//! that cannot be lowered at all are left to the interpreter, and so on. Of control flow that is left, the regions are parted in turn, and
//! the functions that it calls. What a part computes sizes from are its inputs, so that memory is planned where it begins.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::{panic, thread};

use heddle_interp::Budget;
use heddle_ir::{Datum, FuncId, Function, Inst, Module, Op, Region, Signature};
use heddle_lower::LowerError;
use heddle_opt::{Outlined, call_outlined, is_stated, needs, outline};

use crate::Error;
use crate::cpu::{Built, Compiled, default_threads};
use crate::options::{RunOptions, interpreter_options};
use crate::report::Uncompiled;
use crate::worth::is_worth_it;

/// A program whose compiled parts the interpreter calls.
#[derive(Debug)]
pub(crate) struct Mixed {
    /// The program, with a call in the place of each part.
    pub module: Module,
    parts: BTreeMap<FuncId, Compiled>,
    /// What is left to the interpreter.
    pub left: Vec<Uncompiled>,
}

/// The instructions of a region with those of them that each needs before it.
type Needs = HashMap<Inst, Vec<Inst>>;

/// So many instructions are lowered to see what can be compiled; what is left then is interpreted.
const LOWERED: usize = 100_000;

/// There are at most so many parts: the C compiler takes some tenths of a second for each.
const PARTS: usize = 32;

/// Why something is interpreted that has a compiled form.
const SMALL: &str = "too little work to be compiled by itself";
const LATE: &str = "it takes too long to see what of it can be compiled";

impl Mixed {
    /// Parts a program that has no compiled form as a whole, and compiles what can be and is worth it.
    pub fn new(module: &Module, compile: Compile<'_>) -> Result<Self, Error> {
        let mut parting = Parting {
            module: module.clone(),
            parts: vec![],
            left: vec![],
            small: vec![],
            lowered: 0,
        };
        parting.module();
        let mut parts = BTreeMap::new();
        for (&(id, _), built) in parting
            .parts
            .iter()
            .zip(compile_all(&parting.parts, compile))
        {
            match built? {
                Ok(compiled) => drop(parts.insert(id, compiled)),
                // Then its body runs as it is.
                Err(error) => parting.left.push(error.into()),
            }
        }
        if !parts.is_empty() {
            parting.left.append(&mut parting.small);
        }
        let mut seen = HashSet::new();
        parting.left.retain(|what| seen.insert(what.to_string()));
        Ok(Self {
            module: parting.module,
            parts,
            left: parting.left,
        })
    }

    /// How many parts are compiled.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// The workers that run the compiled parts.
    pub fn threads(&self) -> usize {
        let threads = self.parts.values().map(Compiled::threads);
        threads.max().unwrap_or(1)
    }

    /// Runs the program on inputs, which are in order.
    pub fn run(&self, args: &[Datum], options: &RunOptions) -> Result<Vec<Datum>, Error> {
        let calls = Calls {
            mixed: self,
            options,
            stopped: Mutex::default(),
        };
        let interpreter = interpreter_options(options);
        let results = heddle_interp::run_with(&self.module, args, &interpreter, &calls);
        match calls.stopped.into_inner() {
            Ok(Some(error)) if results.is_err() => Err(error),
            _ => Ok(results?),
        }
    }
}

/// How a part is compiled.
type Compile<'a> = &'a (dyn Fn(&Module) -> Built + Sync);

/// Compiles all parts, some at the same time: building waits for the C compiler.
fn compile_all(parts: &[(FuncId, Module)], compile: Compile<'_>) -> Vec<Built> {
    let side_by_side = parts.chunks(default_threads());
    let built = side_by_side.flat_map(|some| {
        thread::scope(|scope| {
            let spawn = |part| thread::Builder::new().spawn_scoped(scope, move || compile(part));
            let handles: Vec<_> = some.iter().map(|(_, part)| (part, spawn(part))).collect();
            let results = handles.into_iter().map(|(part, handle)| match handle {
                Ok(handle) => handle.join().unwrap_or_else(|p| panic::resume_unwind(p)),
                // The system has no thread left for it.
                Err(_) => compile(part),
            });
            results.collect::<Vec<_>>()
        })
    });
    built.collect()
}

/// The calls of a run.
struct Calls<'a> {
    mixed: &'a Mixed,
    options: &'a RunOptions,
    /// What a compiled part stopped with.
    stopped: Mutex<Option<Error>>,
}

impl heddle_interp::Natives for Calls<'_> {
    fn takes(&self, callee: FuncId) -> bool {
        self.mixed.parts.contains_key(&callee)
    }

    fn call(
        &self,
        callee: FuncId,
        args: &[Datum],
        budget: &Budget,
    ) -> Option<Result<Vec<Datum>, String>> {
        let part = self.mixed.parts.get(&callee)?;
        let options = RunOptions {
            timeout: budget.time,
            max_memory: self.options.max_memory.map(|_| budget.memory),
            max_depth: Some(budget.depth),
            ..self.options.clone()
        };
        let sig = &self.mixed.module.functions[callee].sig;
        let results = part
            .call(sig, args)
            .and_then(|call| part.run(&call, &options));
        match results {
            Err(error) if part.plans_too_much(&error) => None,
            Err(error) => {
                let error = self.with_whole_limits(error, budget.depth);
                let message = error.to_string();
                if let Ok(mut stopped) = self.stopped.lock() {
                    *stopped = Some(error);
                }
                Some(Err(message))
            }
            Ok(results) => Some(Ok(results)),
        }
    }
}

impl Calls<'_> {
    /// A part's error with the run's limits in place of what was left of them, and the depth counted from the entry.
    fn with_whole_limits(&self, error: Error, depth_left: usize) -> Error {
        use heddle_runtime::{Fault, RunError as Stop};
        let Error::Compiled { site, mut error } = error else {
            return error;
        };
        let above = self.options.depth_limit().saturating_sub(depth_left);
        let above = i64::try_from(above).unwrap_or(i64::MAX);
        match &mut *error {
            Stop::Timeout(limit) => *limit = self.options.timeout.unwrap_or(*limit),
            Stop::Program {
                fault: Fault::Depth { depth, limit } | Fault::Frames { depth, limit },
                ..
            } => {
                *depth = depth.saturating_add(above);
                *limit = limit.saturating_add(above);
            }
            _ => {}
        }
        Error::Compiled { site, error }
    }
}

/// A program that is being parted.
struct Parting {
    module: Module,
    /// The parts, each with the program that has it as its entry function.
    parts: Vec<(FuncId, Module)>,
    /// What has no compiled form.
    left: Vec<Uncompiled>,
    /// What has one and is not worth a part.
    small: Vec<Uncompiled>,
    /// How many instructions were lowered.
    lowered: usize,
}

impl Parting {
    /// Parts the entry function, and then the functions that what is left of it calls.
    fn module(&mut self) {
        let (mut open, mut seen): (Vec<_>, HashSet<_>) = Default::default();
        open.extend(self.module.entry_id());
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                let body = self.module.functions[id].body;
                self.region(id, body, &mut open);
            }
        }
    }

    /// Parts a region; adds the functions that the interpreter calls.
    fn region(&mut self, id: FuncId, region: Region, callees: &mut Vec<FuncId>) {
        let func = &self.module.functions[id];
        let needs: Needs = needs(&self.module, func, region).into_iter().collect();
        let is_constant = |inst: &Inst| matches!(func.insts[*inst].op, Op::Const(_));
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
                self.parts.len() < PARTS && is_worth_it(&self.module, func, region, &part, outlined)
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

    /// Parts the regions of control flow that is left to the interpreter.
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
            reason: error.reason,
        });
    }

    fn name(&self, id: FuncId, inst: Inst) -> String {
        let data = &self.module.functions[id].insts[inst];
        let name = data.loc.as_ref().map(|loc| loc.to_string());
        name.unwrap_or_else(|| data.op.name().into())
    }

    /// Whether instructions have a compiled form, as a function of their own.
    fn lowers(&mut self, id: FuncId, insts: &[Inst]) -> Result<(), LowerError> {
        self.lowered += insts.len();
        let Some(outlined) = self.outlined(id, insts) else {
            let func = &self.module.functions[id];
            return Err(LowerError {
                node: String::new(),
                inst: insts.iter().copied().find(|&inst| !is_stated(func, inst)),
                is_input: false,
                reason: "it has a size that no array states".into(),
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
