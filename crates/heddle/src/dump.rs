//! Dumps: taps of the pipeline.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use heddle_ir::Module;
use heddle_uprogram::{UProgram, text};

use crate::backend;
use crate::graph::Graph;
use crate::log::Log;
use crate::pipeline::{Origin, Pipeline};
use crate::report::{Interpreted, StageTimes};
use crate::stack::on_large_stack;
use crate::{CompileOptions, Error, Model, Target};

/// A point of the pipeline (see `docs/architecture.md`) whose program can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// The graph behind the graph passes, which every device begins with.
    Ir,
    /// The graph that is lowered for the device.
    Transformed,
    /// The uProgram as lowering leaves it, before any pass.
    Lowered,
    /// The scheduled uProgram, which the source is written from.
    Uprogram,
    /// The schedule for people: what each unit runs, and where units wait for each other. It is proven sound first.
    Schedule,
    /// The program's text in the target's language.
    Source,
}

/// A program at a point of the pipeline.
#[derive(Clone, Debug)]
pub enum Printed {
    /// A graph.
    Graph(Graph),
    /// The text of anything else.
    Text(String),
}

/// A model at a point of the pipeline.
#[derive(Clone, Debug)]
pub struct Dump {
    /// For a program in parts, the graph that the interpreter runs; it calls the parts by name.
    pub rest: Option<Graph>,
    /// The program, or its compiled parts, by name.
    pub programs: Vec<(String, Printed)>,
    /// Reason why the interpreter runs parts of it.
    pub interpreted: Option<Interpreted>,
    /// Nodes whose results have no bound: their memory grows while the program runs.
    pub growing: BTreeSet<String>,
    /// The time that each stage took.
    pub stages: StageTimes,
}

/// Compiles a model for a target up to its source, and gives what a stage on the way there made.
///
/// # Errors
///
/// [`Error::NotCompiled`] names the nodes that have no compiled form, if nothing of the program has one; [`Error::Schedule`] is
/// what the verifier found.
pub fn emit(
    model: &Model,
    options: &CompileOptions,
    target: Target,
    emit: Emit,
) -> Result<Dump, Error> {
    let origin = Origin::Read(model.module.clone());
    emit_from(origin, model.load_time(), options, target, emit)
}

/// [`emit`] of a graph that took so long to read.
pub(crate) fn emit_from(
    origin: Origin,
    load: Duration,
    options: &CompileOptions,
    target: Target,
    emit: Emit,
) -> Result<Dump, Error> {
    let options = &CompileOptions {
        verify: options.verify || emit == Emit::Schedule,
        ..options.clone()
    };
    let tap = Tap {
        emit,
        programs: Mutex::default(),
        growing: Mutex::default(),
    };
    // The graph passes are no device's.
    let backend = match emit == Emit::Ir && !options.verify {
        true => backend::interpreter(),
        false => backend::of_target(target, options),
    };
    let pipeline = Pipeline {
        options,
        backend: &*backend,
        log: &Log::default(),
        tap: Some(&tap),
    };
    let program = on_large_stack(|| pipeline.run(origin, load))??;
    let mut programs = tap.programs.into_inner().unwrap_or_else(|e| e.into_inner());
    if programs.is_empty()
        && let Some(interpreted) = &program.report.interpreted
    {
        return Err(Error::NotCompiled(interpreted.clone()));
    }
    // Parts are compiled at the same time; their names end in their numbers.
    programs.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
    let in_parts = emit != Emit::Ir && program.artifact.parts().is_some();
    let rest = program
        .artifact
        .graph()
        .filter(|_| in_parts)
        .cloned()
        .map(Graph);
    Ok(Dump {
        rest,
        programs,
        interpreted: program.report.interpreted,
        growing: tap.growing.into_inner().unwrap_or_else(|e| e.into_inner()),
        stages: program.report.stages,
    })
}

impl Dump {
    /// The program, if it is compiled as a whole.
    pub fn whole(&self) -> Option<&Printed> {
        match (&self.rest, &self.programs[..]) {
            (None, [(_, program)]) => Some(program),
            _ => None,
        }
    }

    /// The part of this name.
    pub fn part(&self, name: &str) -> Option<&Printed> {
        let found = self.programs.iter().find(|(n, _)| n == name);
        found.map(|(_, program)| program)
    }
}

/// The program; of one in parts, each under a line with its name, and the rest first.
impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(program) = self.whole() {
            return program.fmt(f);
        }
        let rest = self.rest.iter().cloned().map(Printed::Graph);
        let rest = rest.map(|graph| ("interpreted".to_owned(), graph));
        for (k, (name, program)) in rest.chain(self.programs.iter().cloned()).enumerate() {
            let gap = if k > 0 { "\n" } else { "" };
            write!(f, "{gap}// {name}\n{program}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Printed::Graph(graph) => graph.fmt(f),
            Printed::Text(text) => f.write_str(text),
        }
    }
}

/// A point of the pipeline, and what was seen there.
#[derive(Debug)]
pub(crate) struct Tap {
    emit: Emit,
    programs: Mutex<Vec<(String, Printed)>>,
    growing: Mutex<BTreeSet<String>>,
}

impl Tap {
    /// Keeps what a program was at this point.
    fn keep(&self, module: &Module, program: Printed) {
        let name = module.entry().sig.name.clone();
        let mut programs = self.programs.lock().unwrap_or_else(|e| e.into_inner());
        programs.push((name, program));
    }

    /// Keeps the graph behind the graph passes.
    pub(crate) fn optimized(&self, module: &Module) {
        if self.emit == Emit::Ir {
            self.keep(module, Printed::Graph(Graph(module.clone())));
        }
    }
}

/// A tap of one program's way. What it saw counts once no stage refused the program.
pub(crate) struct Flow<'a> {
    tap: Option<&'a Tap>,
    seen: Option<Printed>,
    growing: BTreeSet<String>,
}

impl<'a> Flow<'a> {
    pub(crate) fn begin(tap: Option<&'a Tap>) -> Self {
        Self {
            tap,
            seen: None,
            growing: BTreeSet::new(),
        }
    }

    /// Prints a graph if this is where the tap is.
    pub(crate) fn graph(&mut self, at: Emit, graph: &Module) {
        if self.is_at(at) {
            self.seen = Some(Printed::Graph(Graph(graph.clone())));
        }
    }

    /// Notes what grows of a lowered program, and prints it if this is where the tap is.
    pub(crate) fn lowered(&mut self, program: &UProgram) {
        if self.tap.is_some() {
            let growing = program.operators.iter().filter(|(_, op)| op.grow.is_some());
            self.growing = growing.map(|(_, op)| op.name.clone()).collect();
        }
        self.text(Emit::Lowered, || text::print(program));
    }

    /// Prints a text if this is where the tap is.
    pub(crate) fn text(&mut self, at: Emit, print: impl FnOnce() -> String) {
        if self.is_at(at) {
            self.seen = Some(Printed::Text(print()));
        }
    }

    fn is_at(&self, at: Emit) -> bool {
        self.tap.is_some_and(|tap| tap.emit == at)
    }

    /// Keeps what was seen. Is there a tap at all?
    pub(crate) fn end(self, module: &Module) -> bool {
        if let Some(tap) = self.tap {
            let mut growing = tap.growing.lock().unwrap_or_else(|e| e.into_inner());
            growing.extend(self.growing);
            drop(growing);
            if let Some(seen) = self.seen {
                tap.keep(module, seen);
            }
        }
        self.tap.is_some()
    }
}
