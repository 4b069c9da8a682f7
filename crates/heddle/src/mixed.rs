//! Programs of which a part has no compiled form: that part runs on the interpreter, with calls of compiled parts around and in it.
//!
//! The instructions of a region are parted in an order that their operands allow: as many as can be lowered together are one part, then those
//! that cannot be lowered at all are left to the interpreter, and so on. Of control flow that is left, the regions are parted in turn, and
//! the functions that it calls. What a part computes sizes from are its inputs, so that memory is planned where it begins.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;
use std::{panic, thread};

use heddle_ir::tensor::element_count;
use heddle_ir::{DType, Datum, FuncId, Inst, Module, Op, Region, Type};
use heddle_opt::{Outlined, call_outlined, needs, outline};
use heddle_task::LowerError;

use crate::Error;
use crate::cpu::{Built, Compiled, default_threads};
use crate::options::{RunOptions, interpreter_options};
use crate::report::Uncompiled;

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

/// Programs are left to the interpreter as a whole if it takes longer to see what of them can be compiled.
const ATTEMPTS: usize = 512;

/// Arrays of at most this many elements are no work.
const FEW: usize = 64;

impl Mixed {
    /// Parts a program that has no compiled form as a whole, and compiles what can be. `None` if no part is worth it.
    pub fn new(module: &Module, compile: Compile<'_>) -> Result<Option<Self>, Error> {
        let mut parting = Parting {
            module: module.clone(),
            parts: vec![],
            left: vec![],
            attempts: 0,
        };
        parting.module();
        if parting.attempts > ATTEMPTS || parting.parts.is_empty() {
            return Ok(None);
        }
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
        Ok((!parts.is_empty()).then_some(Self {
            module: parting.module,
            parts,
            left: parting.left,
        }))
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
        left: Option<Duration>,
    ) -> Option<Result<Vec<Datum>, String>> {
        let part = self.mixed.parts.get(&callee)?;
        let options = RunOptions {
            timeout: left,
            ..self.options.clone()
        };
        let sig = &self.mixed.module.functions[callee].sig;
        let results = part
            .call(sig, args)
            .and_then(|call| part.run(&call, &options));
        match results {
            Err(error) if part.plans_too_much(&error) => None,
            Err(error) => {
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

/// A program that is being parted.
struct Parting {
    module: Module,
    /// The parts, each with the program that has it as its entry function.
    parts: Vec<(FuncId, Module)>,
    left: Vec<Uncompiled>,
    attempts: usize,
}

impl Parting {
    /// Parts the entry function, and then the functions that what is left of it calls.
    fn module(&mut self) {
        let (mut open, mut seen): (Vec<_>, HashSet<_>) = Default::default();
        open.extend(self.module.entry);
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
        let needs: Needs = needs(func, region).into_iter().collect();
        let is_constant = |inst: &Inst| matches!(func.insts[*inst].op, Op::Const(_));
        let (mut placed, mut rest): (Vec<_>, Vec<_>) = func.regions[region]
            .insts
            .iter()
            .partition(|i| is_constant(i));
        let mut blocked = HashSet::new();
        while !rest.is_empty() && self.attempts <= ATTEMPTS {
            let free = unblocked(&rest, &blocked, &needs);
            let part = self.longest(id, free, &needs, &mut blocked);
            if part.is_empty() {
                // What is blocked and waits for nothing else, in its order.
                let (next, later) = ready(&rest, &blocked, &needs);
                for &inst in &next {
                    self.inside(id, inst, callees);
                }
                placed.extend(next);
                rest = later;
                continue;
            }
            rest.retain(|inst| !part.contains(inst));
            match self
                .outlined(id, &part)
                .filter(|_| self.is_worth_it(id, &part))
            {
                Some(outlined) => placed.push(self.add(id, outlined)),
                None => {
                    self.leave_small(id, &part);
                    placed.extend(part);
                }
            }
        }
        placed.extend(rest);
        self.module.functions[id].regions[region].insts = placed;
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
        while !free.is_empty() && self.attempts <= ATTEMPTS {
            let Err(error) = self.lowers(id, &free) else {
                return free;
            };
            let at = free.iter().position(|&i| match error.inst {
                Some(at) => i == at,
                // It is something that the part takes.
                None => self.takes_foreign(id, i),
            });
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

    /// Notes that a part is the interpreter's because there is so little of it.
    fn leave_small(&mut self, id: FuncId, part: &[Inst]) {
        let node = self.name(id, part[0]);
        let node = match part.len() - 1 {
            0 => node,
            more => format!("{node} and {more} more"),
        };
        self.left.push(Uncompiled {
            node: Some(node),
            reason: "too little work to be compiled by itself".into(),
        });
    }

    fn name(&self, id: FuncId, inst: Inst) -> String {
        let data = &self.module.functions[id].insts[inst];
        let name = data.loc.as_ref().map(|loc| loc.to_string());
        name.unwrap_or_else(|| data.op.name().into())
    }

    /// Whether something that an instruction uses is of a type that no part takes.
    fn takes_foreign(&self, id: FuncId, inst: Inst) -> bool {
        let func = &self.module.functions[id];
        let mut args = self
            .outlined(id, &[inst])
            .map_or(vec![], |o| o.args)
            .into_iter();
        args.any(|v| match func.ty(v) {
            Type::Tensor(t) => matches!(t.dtype, DType::Str | DType::C128),
            Type::Seq(_) | Type::Opt(_) => true,
        })
    }

    /// Notes that an instruction is the interpreter's, and why.
    fn leave(&mut self, id: FuncId, inst: Inst, error: LowerError) {
        let what = Uncompiled::from(error);
        self.left.push(Uncompiled {
            node: what.node.or_else(|| Some(self.name(id, inst))),
            ..what
        });
    }

    /// Whether instructions have a compiled form, as a function of their own.
    fn lowers(&mut self, id: FuncId, insts: &[Inst]) -> Result<(), LowerError> {
        self.attempts += 1;
        let Some(outlined) = self.outlined(id, insts) else {
            return Err(LowerError {
                node: String::new(),
                inst: insts.first().copied(),
                reason: "a size that no input has".into(),
            });
        };
        let module = self.alone(outlined.function);
        heddle_task::lower_unfused(&module).map(drop)
    }

    fn outlined(&self, id: FuncId, insts: &[Inst]) -> Option<Outlined> {
        let name = format!("part.{}", self.parts.len());
        outline(&self.module.functions[id], insts, &name)
    }

    /// The program with this function as its entry.
    fn alone(&self, function: heddle_ir::Function) -> Module {
        let mut module = self.module.clone();
        let id = module.functions.push(function);
        module.entry = Some(id);
        module
    }

    /// Makes a part a function of the program: its call.
    fn add(&mut self, id: FuncId, outlined: Outlined) -> Inst {
        let mut part = self.alone(outlined.function.clone());
        heddle_opt::remove_dead(&mut part);
        let callee = self.module.functions.push(outlined.function.clone());
        self.parts.push((callee, part));
        call_outlined(&mut self.module.functions[id], &outlined, callee)
    }

    /// Whether something in a part is work that is worth a program of its own.
    fn is_worth_it(&self, id: FuncId, part: &[Inst]) -> bool {
        let func = &self.module.functions[id];
        part.iter().any(|&inst| {
            let data = &func.insts[inst];
            let large = data.args.iter().chain(&data.results);
            let large = large.copied().any(|v| !is_small(func.ty(v)));
            !data.regions.is_empty()
                || matches!(data.op, Op::Call(_))
                || !only_moves(&data.op) && large
        })
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

/// Whether it is surely of few elements.
fn is_small(ty: &Type) -> bool {
    let sizes = ty.as_tensor().and_then(|t| t.static_shape());
    let count = sizes.and_then(|sizes| element_count(&sizes));
    count.is_some_and(|n| n <= FEW)
}

/// Whether it computes nothing of what its operand holds.
fn only_moves(op: &Op) -> bool {
    matches!(
        op,
        Op::Const(_)
            | Op::Shape
            | Op::Reshape
            | Op::Transpose { .. }
            | Op::Unsqueeze { .. }
            | Op::Squeeze { .. }
            | Op::Broadcast
            | Op::Slice { .. }
            | Op::Concat { .. }
            | Op::Cast { .. }
    )
}
