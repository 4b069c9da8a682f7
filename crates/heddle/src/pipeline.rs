//! The pipeline: from a model to a program that runs.
//!
//! ```text
//! load        file -> graph                        Model::load
//! verify      the graph is well-formed             Model::load
//! passes      graph -> graph                       heddle_opt::optimize
//! round       weights as numbers of fewer bytes, on request    round_weights      tap: ir
//!
//! the whole program, or each part of one that has no compiled form as a whole (backend/parts):
//! transform   graph -> graph for this device       heddle_opt::transform          tap: transformed
//! profile     counts of a run, on request          heddle_interp::run_profiled
//! lower       graph -> uProgram                    heddle_lower::lower            tap: lowered
//! kernels     fuse, select_kernels                 heddle_schedule::kernel_passes
//! narrow      weights in fewer bytes, on request   heddle_schedule::narrow_weights
//! round       operands of tensor cores, on request heddle_schedule::round_products
//! schedule    uTasks, order, memory, syncs         heddle_schedule::schedule_passes
//! verify      the schedule is sound, on request    heddle_uprogram::verify_schedule
//!                                                                                 tap: uprogram, schedule
//! lay_out     the memory plan                      heddle_uprogram::layout
//! emit        text in the device's language        Backend::emit                  tap: source
//! build       the artifact                         Backend::build
//! ```
//!
//! Architecture invariant: there is no other way from a graph to a program. A [dump](crate::emit) is a tap of this one,
//! taken behind the last stage that could refuse the program, so that what is printed is what runs.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use heddle_ir::Module;
use heddle_lower::lower_expecting;
use heddle_opt::{Edit, RoundedWeights};
use heddle_schedule::{
    PLAIN_KERNELS, SELECT_KERNELS, has_cores, kernel_passes, narrow_weights, round_products,
    schedule_passes,
};
use heddle_uprogram::text;

use crate::backend::{self, Backend, Built, Lowered, Parts, Scheduled, interpreted};
use crate::dump::{Emit, Flow, Tap};
use crate::exec::Program;
use crate::log::Log;
use crate::options::{CompileOptions, MAX_THREADS, Tune};
use crate::ports::Ports;
use crate::profile::expected;
use crate::report::{Interpreted, Report};
use crate::round_trip::round_trip;
use crate::stack::on_large_stack;
use crate::stages::{Packing, estimated, layout, prove};
use crate::steps::{passes, transform_options};
use crate::{Error, Model};

/// A graph on its way into the pipeline.
pub(crate) enum Origin {
    /// As it was read.
    Read(Module),
    /// Behind the graph passes, if the options ask for any.
    Optimized(Arc<Module>),
}

/// That the device of these options is there, with what builds programs for it, where that is looked for before a model is compiled.
///
/// # Errors
///
/// An error of kind [`Device`](crate::ErrorKind::Device).
pub fn check_device(options: &CompileOptions) -> Result<(), Error> {
    backend::of(options).map(drop)
}

/// Compiles a model: optimises the graph and prepares it for the device.
pub fn compile(model: &Model, options: &CompileOptions) -> Result<Program, Error> {
    let program = compile_module(model.module.clone(), model.load_time(), options)?;
    Ok(Program {
        structures: model.structures.clone(),
        ..program
    })
}

/// Compiles a program that took so long to load.
pub(crate) fn compile_module(
    module: Module,
    load: Duration,
    options: &CompileOptions,
) -> Result<Program, Error> {
    compile_for(&*backend::of(options)?, Origin::Read(module), load, options)
}

/// Compiles a program for a back end.
pub(crate) fn compile_for(
    backend: &dyn Backend,
    origin: Origin,
    load: Duration,
    options: &CompileOptions,
) -> Result<Program, Error> {
    if options.threads() > MAX_THREADS {
        return Err(Error::Threads(options.threads()));
    }
    if options.device == crate::Device::Sim {
        options.grid.check()?;
    }
    let (log, tap) = (&Log::default(), None);
    let pipeline = Pipeline {
        options,
        backend,
        log,
        tap,
    };
    on_large_stack(|| pipeline.run(origin, load))?
}

/// A graph with its weights rounded to the numbers of the type that they are stored in, and what became of them; `None` if that is
/// the model's type.
pub(crate) fn with_rounded_weights(
    module: &Module,
    options: &CompileOptions,
) -> Option<(Module, RoundedWeights)> {
    let to = options.weights.stored()?;
    let mut rounded = module.clone();
    let report = heddle_opt::round_weights(&mut rounded, to);
    if options.optimize {
        // Views of constants that products read no more.
        heddle_opt::remove_dead(&mut rounded);
    }
    Some((rounded, report))
}

/// The part of the time without clusters that one with them may take at most: the cost model is no nearer to the truth.
const GAIN: f64 = 0.95;

/// A graph as a device that compiles takes it.
#[derive(Default)]
struct Transformed {
    /// The graph, if it is another one.
    graph: Option<Module>,
    /// The scheduled program's time by the cost model, if it was compared with that of another graph.
    time: Option<f64>,
}

/// A way to launch a program, with the graph for it.
struct Way {
    backend: Box<dyn Backend>,
    graph: Transformed,
}

/// One compilation.
#[derive(Clone, Copy)]
pub(crate) struct Pipeline<'a> {
    pub(crate) options: &'a CompileOptions,
    pub(crate) backend: &'a dyn Backend,
    pub(crate) log: &'a Log,
    /// Takes what a stage gives. Then nothing is built.
    pub(crate) tap: Option<&'a Tap>,
}

impl Pipeline<'_> {
    /// Compiles a program as a whole if it has a compiled form, and otherwise in parts, which the interpreter calls.
    pub(crate) fn run(&self, origin: Origin, load: Duration) -> Result<Program, Error> {
        let start = Instant::now();
        self.log.add("load", load);
        let module = match origin {
            Origin::Read(module) => Arc::new(self.optimized(module)?),
            Origin::Optimized(module) => module,
        };
        let rounded = self.rounded(&module)?;
        if let Some(tap) = self.tap {
            tap.optimized(&rounded);
        }
        let graph = || Scheduled {
            module: rounded.clone(),
            lowered: None,
        };
        let mut refused = None;
        let artifact = match self.backend.lowers() {
            false => self.backend.build(graph())?,
            true => match self.whole(&rounded)? {
                Ok(artifact) => artifact,
                Err(error) => {
                    refused = Some(error);
                    let parts = Parts {
                        device: self.backend.device(),
                        machine: self.backend.machine(),
                        compile: &|part| self.part(part),
                    };
                    parts.build(graph())?
                }
            },
        };
        let parts = artifact.parts().unwrap_or((0, &[]));
        let interpreted = refused.and_then(|error| Interpreted::rest(parts, error));
        let is_interpreted = artifact.device() == crate::Device::Interp;
        let report = Report {
            load,
            compile: start.elapsed(),
            stages: self.log.times(),
            notes: self.log.notes(),
            run: Duration::ZERO,
            verified: self.options.verify && !is_interpreted,
            texts_checked: self.log.texts(),
            interpreter: None,
            interpreted,
        };
        Ok(Program {
            module,
            artifact,
            report,
            structures: vec![],
            options: Arc::new(self.options.clone()),
        })
    }

    /// The graph passes.
    fn optimized(&self, mut module: Module) -> Result<Module, Error> {
        if self.options.optimize {
            let report = heddle_opt::optimize(&mut module);
            self.log.extend(report.times());
            self.log
                .time("verify", || heddle_ir::verify(&module))
                .map_err(|errors| Error::invalid("a graph pass", &errors))?;
        }
        Ok(module)
    }

    /// The graph with its weights rounded to the numbers of the type that they are stored in. The program keeps the graph as it was, whose
    /// constants lie in the model's file.
    fn rounded(&self, module: &Arc<Module>) -> Result<Arc<Module>, Error> {
        let weights = self.options.weights;
        if weights.stored().is_none() {
            return Ok(module.clone());
        }
        if self.backend.lowers() && !heddle_schedule::packs_weights(&self.backend.machine()) {
            return Err(Error::Weights(weights));
        }
        let round = || with_rounded_weights(module, self.options);
        let Some((rounded, report)) = self.log.time("round_weights", round) else {
            return Ok(module.clone());
        };
        if let Some((node, cause)) = report.left.first() {
            let more = match report.left.len() {
                1 => String::new(),
                n => format!(" (and those of {} more)", n - 1),
            };
            self.log.note(format!(
                "the weights of {node} stay f32, not {weights}: {cause}{more}"
            ));
        }
        Ok(Arc::new(rounded))
    }

    /// Builds a program without parts, for launches in clusters if it then takes less time and they fit at once.
    fn whole(&self, module: &Arc<Module>) -> Built {
        let graph = self.prepared(module)?;
        if let Some(way) = self.faster_in_clusters(module, &graph)? {
            let pipeline = Pipeline {
                backend: &*way.backend,
                ..*self
            };
            match pipeline.for_machine(module, way.graph) {
                Err(error) if error.resident_units().is_some() => {
                    (self.log).note(format!("{error}: it is launched without clusters"));
                }
                built => return built,
            }
        }
        self.without_clusters(module, graph)
    }

    /// The way to launch a program in clusters in which it takes less time than without, by the cost model, with its graph.
    fn faster_in_clusters(
        &self,
        module: &Arc<Module>,
        own: &Transformed,
    ) -> Result<Option<Way>, Error> {
        let ways = self.backend.in_clusters();
        if ways.is_empty() || !self.options.optimize {
            return Ok(None);
        }
        let mut least = GAIN * self.time_of(module, own);
        let mut found = None;
        for backend in ways {
            let pipeline = Pipeline {
                backend: &*backend,
                ..*self
            };
            let graph = pipeline.prepared(module)?;
            let time = pipeline.time_of(module, &graph);
            if time < least {
                (least, found) = (time, Some(Way { backend, graph }));
            }
        }
        Ok(found)
    }

    /// The time of a scheduled program by the cost model; infinite if it has no compiled form.
    fn time_of(&self, module: &Module, transformed: &Transformed) -> f64 {
        let graph = transformed.graph.as_ref().unwrap_or(module);
        let machine = || self.backend.machine();
        let time = || estimated(graph, &machine(), &self.options.without);
        transformed.time.unwrap_or_else(time)
    }

    /// Builds a program without parts, for fewer units if the device turns out to hold no more of them at once.
    fn without_clusters(&self, module: &Arc<Module>, graph: Transformed) -> Built {
        match self.for_machine(module, graph) {
            Err(error) => {
                let fits = error.resident_units().filter(|fits| *fits > 0);
                let fewer = fits.and_then(|fits| self.backend.with_units(fits));
                let Some(fewer) = fewer else {
                    return Err(error);
                };
                self.log.note(format!("{error}: it is scheduled for these"));
                let pipeline = Pipeline {
                    backend: &*fewer,
                    ..*self
                };
                pipeline.for_machine(module, pipeline.prepared(module)?)
            }
            built => built,
        }
    }

    /// The graph as the device takes it, unless graph passes are left out.
    fn prepared(&self, module: &Arc<Module>) -> Result<Transformed, Error> {
        match self.options.optimize {
            true => self.transformed(module),
            false => Ok(Transformed::default()),
        }
    }

    /// Builds a program without parts, with transformations if it has a compiled form then.
    fn for_machine(&self, module: &Arc<Module>, transformed: Transformed) -> Built {
        let graph = transformed.graph;
        let changed = graph.is_some();
        let plain = || {
            // A call with a dynamic size has no compiled form, the body in its place may have one.
            let mut graph = (**module).clone();
            heddle_opt::inline_calls(&mut graph);
            graph
        };
        match self.build(module, graph.unwrap_or_else(plain))? {
            Err(_) if changed => self.build(module, plain()),
            built => Ok(built),
        }
    }

    /// All stages behind the transformations. The inner error names a node without a compiled form.
    fn build(&self, module: &Arc<Module>, mut graph: Module) -> Built {
        let Self {
            options,
            backend,
            log,
            tap,
        } = *self;
        let (machine, without) = (&backend.machine(), &passes(&options.without));
        let mut flow = Flow::begin(tap);
        let ports = self.ports(&mut graph)?;
        flow.graph(Emit::Transformed, &graph);
        let expected = match options.profile.as_ref().filter(|_| !ports.are_changed()) {
            Some(inputs) => {
                let build = options.build();
                Some(log.time("profile", || expected(&graph, inputs, &build))?)
            }
            None => None,
        };
        let lower = || lower_expecting(&graph, expected.as_ref());
        let mut program = match log.time("lower", lower) {
            Ok(program) => program,
            Err(error) => return Ok(Err(error)),
        };
        // The program has the constants that the transformations made, until they are packed.
        drop(graph);
        flow.lowered(&program);
        let stored = options.weights.stored();
        for pass in kernel_passes(without) {
            let is_narrow = stored.is_some() && *pass == SELECT_KERNELS;
            let pass = if is_narrow { &PLAIN_KERNELS } else { pass };
            log.time(pass.name, || pass.apply(&mut program, machine));
        }
        if let Some(to) = stored {
            let left = log.time("narrow_weights", || narrow_weights(&mut program, to));
            if let Some(&first) = left.first() {
                let (name, weights) = (&program.buffers[first].name, options.weights);
                let more = match left.len() {
                    1 => String::new(),
                    n => format!(" (and {} more)", n - 1),
                };
                log.note(format!(
                    "packed constant `{name}` stays f32: it has numbers that {weights} does not hold{more}"
                ));
            }
        }
        if let Some(to) = options.precision.rounding() {
            match has_cores(machine, to) {
                true => log.time("round_products", || round_products(&mut program, to)),
                false => log.note(format!(
                    "products are multiplied in f32, not {}: there are no tensor cores for it here",
                    to.name()
                )),
            }
        }
        let (layout, constants) = thread::scope(|scope| {
            let packing = tap
                .is_none()
                .then(|| Packing::begin(scope, &program, options));
            let measured = match options.tune {
                Tune::On => log.time("measure", || backend.measured(&mut program)),
                Tune::Off => None,
            };
            let latency = measured.as_deref().unwrap_or(machine);
            for pass in schedule_passes(without) {
                log.time(pass.name, || pass.apply(&mut program, latency));
            }
            program.drop_idle_operators();
            if options.verify {
                log.time("verify", || prove("the program", &program, machine))?;
            }
            let layout = log.time("lay_out", || layout(&program));
            let constants = log.time("pack", || packing.map_or(Ok(vec![]), Packing::finish))?;
            Ok::<_, Error>((layout, constants))
        })?;
        let layout = match layout {
            Ok(layout) => layout,
            Err(error) => return Ok(Err(error)),
        };
        flow.text(Emit::Uprogram, || text::print(&program));
        flow.text(Emit::Schedule, || heddle_schedule::print(&program, machine));
        let emitted = log.time("emit", || backend.emit(&program, &layout))?;
        flow.text(Emit::Source, || emitted.source.clone());
        if options.check_text {
            log.time("round_trip", || round_trip(&program, &emitted, backend))?;
            log.count_text();
        }
        if flow.end(module) {
            // Nothing is built: the interpreter stands in.
            return Ok(Ok(interpreted(module.clone())));
        }
        let program = Scheduled {
            module: module.clone(),
            lowered: Some(Lowered {
                program,
                layout,
                constants,
                ports,
                emitted,
            }),
        };
        let built = log.time("build", || backend.build(program))?;
        if let Some(remark) = built.remark() {
            log.note(remark);
        }
        Ok(Ok(built))
    }

    /// Makes arrays of sequences, optionals and text that enter or leave the program. The transformations see them then.
    fn ports(&self, graph: &mut Module) -> Result<Ports, Error> {
        let ports = self
            .log
            .time("open_ports", || Ports::open(graph, &self.options.without));
        if ports.are_changed() && self.options.optimize {
            heddle_opt::optimize(graph);
            if let Some(transformed) = self.transformed(graph)?.graph {
                *graph = transformed;
            }
        }
        Ok(ports)
    }

    /// Builds a part of a program, for one worker unless several gain more on a call than it takes to wake them: between calls they may
    /// fall asleep, and on a busy machine each call waits until all of them have run.
    fn part(&self, module: &Module) -> Built {
        let single = self.backend.single();
        let single = single.as_deref().filter(|single| {
            let [one, all] = [*single, self.backend].map(|backend| backend.machine());
            let time = |machine| estimated(module, machine, &self.options.without);
            time(&one) - time(&all) < all.host.wake_ns
        });
        let options = CompileOptions {
            // The inputs are those of the whole program.
            profile: None,
            ..self.options.clone()
        };
        let pipeline = Pipeline {
            options: &options,
            backend: single.unwrap_or(self.backend),
            ..*self
        };
        on_large_stack(|| pipeline.whole(&Arc::new(module.clone())))?
    }

    /// The graph as a device that compiles takes it, if that is another one. Layers are pipelined over units where the scheduled
    /// program then takes less time by the cost model.
    fn transformed(&self, module: &Module) -> Result<Transformed, Error> {
        let without = &self.options.without;
        let machine = self.backend.machine();
        let transform = |units| {
            let options = transform_options(self.options, units);
            let mut module = module.clone();
            let report = heddle_opt::transform(&mut module, &options, &machine);
            self.log.extend(report.times());
            (module, report.total())
        };
        let (mut graph, mut edits) = transform(machine.units());
        let mut least = None;
        if edits.count(Edit::LayersPipelined) > 0 {
            let plain = transform(1);
            let time = |graph| estimated(graph, &machine, without);
            let [pipelined, shared] = self.log.time("compare", || [&graph, &plain.0].map(time));
            least = Some(pipelined.min(shared));
            if pipelined >= shared {
                (graph, edits) = plain;
            }
        }
        if edits.total() == 0 {
            return Ok(Transformed {
                graph: None,
                time: least,
            });
        }
        self.log
            .time("verify", || heddle_ir::verify(&graph))
            .map_err(|errors| Error::invalid("a transformation", &errors))?;
        Ok(Transformed {
            graph: Some(graph),
            time: least,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_parts_run_on_one_worker() {
        let threads = |size: usize| {
            let text = format!(
                "fn @main(%x: f32[{size},{size}]) -> (%y: f32[{size},{size}]) {{
  %y = dot(%x, %x)
  return %y
}}"
            );
            let model = Model::parse("m", &text).unwrap();
            let options = &CompileOptions {
                device: crate::Device::Cpu,
                threads: Some(4),
                ..Default::default()
            };
            let pipeline = Pipeline {
                options,
                backend: &*backend::of(options).unwrap(),
                log: &Log::default(),
                tap: None,
            };
            let part = pipeline.part(&model.module).unwrap().unwrap();
            part.threads()
        };
        assert_eq!(threads(16), 1);
        assert_eq!(threads(512), 4);
    }

    #[test]
    fn each_stage_is_timed() {
        let text = "fn @main(%x: f32[4,4]) -> (%y: f32[4,4]) {
  %y = dot(%x, %x)
  return %y
}
";
        let model = Model::parse("m", text).unwrap();
        let options = CompileOptions {
            device: crate::Device::Cpu,
            verify: true,
            ..Default::default()
        };
        let program = compile(&model, &options).unwrap();
        let mut stages = program.report().stages.iter().map(|(name, _)| *name);
        // In this order, others between them.
        for stage in [
            "load",
            "fold_constants",
            "lower",
            "fuse",
            "select_kernels",
            "place_syncs",
            "lay_out",
            "emit",
            "build",
        ] {
            assert!(
                stages.any(|name| name == stage),
                "{stage}: {:?}",
                program.report().stages
            );
        }
    }
}
