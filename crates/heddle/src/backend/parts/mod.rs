//! Programs in parts: the interpreter runs the whole, and calls the compiled parts around and in it.

mod partition;
mod worth;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{panic, thread};

use heddle_emit::Emitted;
use heddle_interp::{Budget, Natives};
use heddle_ir::{Datum, FuncId, Module};
use heddle_runtime::{Fault, RunError};
use heddle_uprogram::UProgram;
use partition::Partition;

use super::interface::{Artifact, Backend, Built, Layout, Machine, Scheduled, Session, run};
use super::interp::{Evaluation, interpret};
use crate::options::default_threads;
use crate::{Device, Error, Interpreted, RunOptions, Uncompiled};

/// Builds what can be built of a program that has no compiled form as a whole, and is worth it.
pub(crate) struct Parts<'a> {
    /// The device of the parts.
    pub(crate) device: Device,
    /// The machine of the parts.
    pub(crate) machine: Machine,
    /// Compiles a part.
    pub(crate) compile: &'a (dyn Fn(&Module) -> Built + Sync),
}

impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts on {:?}", self.machine)
    }
}

impl Backend for Parts<'_> {
    fn device(&self) -> Device {
        self.device
    }

    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    fn lowers(&self) -> bool {
        false
    }

    fn emit(&self, _: &UProgram, _: &Layout) -> Result<Emitted, Error> {
        let why = "it is compiled in parts, which the interpreter calls";
        Err(Error::NotCompiled(Interpreted::whole(None, why.into())))
    }

    fn build(&self, program: Scheduled) -> Result<Arc<dyn Artifact>, Error> {
        let mut partition = Partition::of(&program.module, &self.machine.host);
        let built = self.compile_all(&partition.parts);
        let mut parts = BTreeMap::new();
        for (&(id, _), built) in partition.parts.iter().zip(built) {
            match built? {
                Ok(compiled) => drop(parts.insert(id, compiled)),
                // Then its body runs as it is.
                Err(error) => partition.left.push(error.into()),
            }
        }
        if !parts.is_empty() {
            partition.left.append(&mut partition.small);
        }
        let mut seen = HashSet::new();
        partition.left.retain(|what| seen.insert(what.to_string()));
        Ok(Arc::new(Mixed {
            device: self.device,
            module: partition.module,
            parts,
            left: partition.left,
        }))
    }
}

impl Parts<'_> {
    /// Compiles all parts, some at the same time: building waits for the C compiler.
    fn compile_all(&self, parts: &[(FuncId, Module)]) -> Vec<Built> {
        let compile = self.compile;
        let side_by_side = parts.chunks(default_threads());
        let built = side_by_side.flat_map(|some| {
            thread::scope(|scope| {
                let spawn =
                    |part| thread::Builder::new().spawn_scoped(scope, move || compile(part));
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
}

/// A program whose compiled parts the interpreter calls.
#[derive(Debug)]
struct Mixed {
    /// The device of its parts.
    device: Device,
    /// The program, with a call in the place of each part.
    module: Module,
    parts: BTreeMap<FuncId, Arc<dyn Artifact>>,
    /// The rest, which is the interpreter's.
    left: Vec<Uncompiled>,
}

impl Mixed {
    /// Runs the program on inputs, which are in order; also gives the time that the interpreter took.
    fn run(&self, args: &[Datum], options: &RunOptions) -> Result<(Vec<Datum>, Duration), Error> {
        let calls = Calls {
            mixed: self,
            options,
            stopped: Mutex::default(),
            compiled_ns: AtomicU64::default(),
        };
        let start = Instant::now();
        let results = interpret(&self.module, args, options, Some(&calls));
        let compiled = Duration::from_nanos(calls.compiled_ns.into_inner());
        match calls.stopped.into_inner() {
            Ok(Some(error)) if results.is_err() => Err(error),
            _ => Ok((results?, start.elapsed().saturating_sub(compiled))),
        }
    }
}

impl Artifact for Mixed {
    fn device(&self) -> Device {
        match self.parts.is_empty() {
            true => Device::Interp,
            false => self.device,
        }
    }

    fn threads(&self) -> usize {
        let threads = self.parts.values().map(|part| part.threads());
        threads.max().unwrap_or(1)
    }

    fn held_bytes(&self) -> usize {
        self.parts.values().map(|part| part.held_bytes()).sum()
    }

    /// Arrays are copied between parts.
    fn leaves_to_interpreter(&self, error: &Error) -> bool {
        !self.parts.is_empty() && error.is_of_memory()
    }

    fn parts(&self) -> Option<(usize, &[Uncompiled])> {
        Some((self.parts.len(), &self.left))
    }

    fn graph(&self) -> Option<&Module> {
        Some(&self.module)
    }

    fn session(self: Arc<Self>, options: &RunOptions) -> Box<dyn Session> {
        let options = options.clone();
        let sig = self.module.entry().sig.clone();
        let run = move |args: &[Datum]| self.run(args, &options);
        Box::new(Evaluation::new(&sig, Box::new(run)))
    }
}

/// The calls of a run.
struct Calls<'a> {
    mixed: &'a Mixed,
    options: &'a RunOptions,
    /// The error that a compiled part stopped with.
    stopped: Mutex<Option<Error>>,
    /// Nanoseconds in compiled parts.
    compiled_ns: AtomicU64,
}

impl Natives for Calls<'_> {
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
        let start = Instant::now();
        let ended = run(part, args, &options);
        let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.compiled_ns.fetch_add(took, Ordering::Relaxed);
        match ended {
            Err(error) if part.leaves_to_interpreter(&error) => None,
            Err(error) => {
                let error = self.with_whole_limits(error, budget.depth);
                let message = error.to_string();
                if let Ok(mut stopped) = self.stopped.lock() {
                    *stopped = Some(error);
                }
                Some(Err(message))
            }
            Ok((results, _)) => Some(Ok(results)),
        }
    }
}

impl Calls<'_> {
    /// A part's error with the run's limits in place of what was left of them, and the depth counted from the entry.
    fn with_whole_limits(&self, error: Error, depth_left: usize) -> Error {
        let Error::Compiled {
            site,
            place,
            failure,
            mut error,
        } = error
        else {
            return error;
        };
        let above = self.options.depth_limit().saturating_sub(depth_left);
        let above = i64::try_from(above).unwrap_or(i64::MAX);
        match &mut *error {
            RunError::Timeout(limit) => *limit = self.options.timeout.unwrap_or(*limit),
            RunError::Program {
                fault: Fault::Depth { depth, limit } | Fault::Frames { depth, limit },
                ..
            } => {
                *depth = depth.saturating_add(above);
                *limit = limit.saturating_add(above);
            }
            _ => {}
        }
        Error::Compiled {
            site,
            place,
            failure,
            error,
        }
    }
}
