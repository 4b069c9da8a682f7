//! Compiles a program, runs it on threads, and compares with the interpreter.

use std::sync::Arc;
use std::time::Duration;

use heddle_emit::Dialect;
use heddle_ir::{DType, Datum, Module, Tensor};
use heddle_machine::Machine;
use heddle_runtime::cache::CacheChoice;
use heddle_runtime::plan::PlanFault;
use heddle_runtime::{
    BuildOptions, Grid, Input, Language, Pool, PoolOptions, Program, RunError, RunOptions, Session,
    SessionOptions, Source, Stops,
};
use heddle_schedule::{Layouts, Transforms};
use heddle_uprogram::contract::Rounding;
use heddle_uprogram::program::{Lanes, Size};
use heddle_uprogram::{UProgram, text};

pub mod random;
pub mod sanitized;

/// Arrays as compiled programs hold them.
#[path = "../../../../heddle/src/backend/compiled/marshal.rs"]
mod marshal;

/// Programs by hand, in text form.
pub const PROGRAMS: &[(&str, &str)] = &[
    (
        "elementwise",
        include_str!("../../programs/elementwise.heddle"),
    ),
    ("exchanges", include_str!("../../programs/exchanges.heddle")),
    ("views", include_str!("../../programs/views.heddle")),
    (
        "reductions",
        include_str!("../../programs/reductions.heddle"),
    ),
    ("folds", include_str!("../../programs/folds.heddle")),
    ("windows", include_str!("../../programs/windows.heddle")),
    ("parts", include_str!("../../programs/parts.heddle")),
    ("segments", include_str!("../../programs/segments.heddle")),
    ("rows", include_str!("../../programs/rows.heddle")),
    (
        "contractions",
        include_str!("../../programs/contractions.heddle"),
    ),
    ("kernels", include_str!("../../programs/kernels.heddle")),
    ("matrices", include_str!("../../programs/matrices.heddle")),
    (
        "convolutions",
        include_str!("../../programs/convolutions.heddle"),
    ),
    ("layers", include_str!("../../programs/layers.heddle")),
    ("loops", include_str!("../../programs/loops.heddle")),
    ("branches", include_str!("../../programs/branches.heddle")),
    ("once", include_str!("../../programs/once.heddle")),
    ("updates", include_str!("../../programs/updates.heddle")),
    ("recursion", include_str!("../../programs/recursion.heddle")),
    (
        "forks",
        include_str!("../../../../heddle-schedule/tests/programs/forks.heddle"),
    ),
    ("indexing", include_str!("../../programs/indexing.heddle")),
    ("order", include_str!("../../programs/order.heddle")),
    ("stacks", include_str!("../../programs/stacks.heddle")),
    ("axes", include_str!("../../programs/axes.heddle")),
    ("caches", include_str!("../../programs/caches.heddle")),
    ("lists", include_str!("../../programs/lists.heddle")),
    ("growth", include_str!("../../programs/growth.heddle")),
    (
        "growth_shapes",
        include_str!("../../programs/growth_shapes.heddle"),
    ),
    ("appends", include_str!("../../programs/appends.heddle")),
    ("deep", include_str!("../../programs/deep.heddle")),
    ("draws", include_str!("../../programs/draws.heddle")),
];

/// The outcome of a compilation.
pub enum Outcome {
    /// It gives what the interpreter gives.
    Equal,
    /// It has something that is not compiled, and this is why.
    Refused(String),
}

/// Runs a program in text form, which must compile, on drawn inputs with named sizes of 1, a prime,
/// and more.
pub fn run_text(name: &str, text: &str, threads: usize, seed: u64) {
    for size in [1, 3, 70] {
        let (module, inputs) = drawn(name, text, size, seed);
        match check(name, module, &inputs, threads) {
            Outcome::Equal => {}
            Outcome::Refused(why) => panic!("{name} is not compiled: {why}"),
        }
    }
}

/// A program in text form with inputs whose named sizes are all this.
pub fn drawn(name: &str, text: &str, size: i64, seed: u64) -> (Module, Vec<Datum>) {
    drawn_with(name, text, &|_| size, seed)
}

/// A program in text form with inputs whose named sizes are these.
pub fn drawn_with(
    name: &str,
    text: &str,
    sizes: &dyn Fn(&str) -> i64,
    seed: u64,
) -> (Module, Vec<Datum>) {
    let module = heddle_ir::text::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let params = module.entry().sig.params.iter();
    let inputs = params.map(|(_, ty)| draw(ty, sizes, seed)).collect();
    (module, inputs)
}

/// Compares the compiled program with the interpreter.
pub fn check(name: &str, module: Module, inputs: &[Datum], threads: usize) -> Outcome {
    match Case::new(name, module, inputs) {
        Ok(case) => {
            case.check(name, &BuildOptions::default(), &[threads]);
            Outcome::Equal
        }
        Err(reason) => Outcome::Refused(reason),
    }
}

/// A program with what it is run on and what it should give.
pub struct Case {
    /// The emitted program.
    pub source: Source,
    /// The scheduled program.
    pub program: UProgram,
    /// The launch's named sizes.
    pub sizes: Vec<i64>,
    tensors: Vec<Tensor>,
    dims: Vec<Vec<i64>>,
    expected: Vec<Datum>,
}

impl Case {
    /// Runs the interpreter and emits the program; an error says what has no compiled form.
    pub fn new(name: &str, module: Module, inputs: &[Datum]) -> Result<Case, String> {
        // Small programs would stay on one unit if synchronising cost anything.
        let machine = Machine::reference_host(2).with_barrier_ns(0.0);
        Self::scheduled(name, module, inputs, &machine)
    }

    /// The same with the program scheduled for this machine.
    pub fn scheduled(
        name: &str,
        module: Module,
        inputs: &[Datum],
        machine: &Machine,
    ) -> Result<Case, String> {
        Self::with(name, module, inputs, machine, &|program| {
            heddle_schedule::schedule(program, machine);
        })
    }

    /// The same with the program scheduled for this machine by `schedule`.
    pub fn with(
        name: &str,
        module: Module,
        inputs: &[Datum],
        machine: &Machine,
        schedule: &dyn Fn(&mut UProgram),
    ) -> Result<Case, String> {
        Self::copying(name, module, inputs, machine, schedule, false)
    }

    /// The same, with copies of all rows that products read if `copies_rows`.
    pub fn copying(
        name: &str,
        module: Module,
        inputs: &[Datum],
        machine: &Machine,
        schedule: &dyn Fn(&mut UProgram),
        copies_rows: bool,
    ) -> Result<Case, String> {
        let form = (
            &heddle_emit::C,
            copies_rows,
            (Layouts::ByPrice, Transforms::ByPrice),
        );
        Self::written(name, module, inputs, machine, schedule, form)
    }

    /// The program with the maps of its convolutions in this layout.
    pub fn laid_out(
        name: &str,
        module: Module,
        inputs: &[Datum],
        layouts: (Layouts, Transforms),
    ) -> Result<Case, String> {
        let machine = Machine::reference_host(2).with_barrier_ns(0.0);
        let schedule = |program: &mut UProgram| heddle_schedule::schedule(program, &machine);
        let form = (&heddle_emit::C, false, layouts);
        Self::written(name, module, inputs, &machine, &schedule, form)
    }

    /// The program with weights in this type, against the interpreter with weights rounded to it.
    pub fn narrowed(
        name: &str,
        mut module: Module,
        inputs: &[Datum],
        stored: DType,
    ) -> Result<Case, String> {
        heddle_opt::round_weights(&mut module, stored);
        let machine = Machine::reference_host(2).with_barrier_ns(0.0);
        let schedule = |program: &mut UProgram| {
            let left = heddle_schedule::narrow_weights(program, stored);
            assert!(left.is_empty(), "{name}: {stored} does not hold {left:?}");
            heddle_uprogram::verify_program(program).expect("a well-formed program");
            heddle_schedule::schedule(program, &machine);
        };
        Self::with(name, module, inputs, &machine, &schedule)
    }

    /// The program as a simulated launch of so many blocks of 64 threads runs it, written in CUDA.
    pub fn simulated(
        name: &str,
        module: Module,
        inputs: &[Datum],
        blocks: usize,
    ) -> Result<Case, String> {
        Self::simulated_in(name, module, inputs, [blocks, 64])
    }

    /// The same for so many blocks and threads of each.
    pub fn simulated_in(
        name: &str,
        module: Module,
        inputs: &[Datum],
        grid: [usize; 2],
    ) -> Result<Case, String> {
        Self::joining(name, module, inputs, grid, None)
    }

    /// The same with these lanes on a point of each operator that they can work on together, if any are given.
    pub fn joining(
        name: &str,
        module: Module,
        inputs: &[Datum],
        grid: [usize; 2],
        lanes: Option<Lanes>,
    ) -> Result<Case, String> {
        Self::rounding(name, module, inputs, grid, (lanes, None))
    }

    /// The same with operands of products that may be rounded.
    pub fn rounding(
        name: &str,
        module: Module,
        inputs: &[Datum],
        [blocks, threads]: [usize; 2],
        (lanes, rounding): (Option<Lanes>, Option<Rounding>),
    ) -> Result<Case, String> {
        let machine = Machine::h100().with_grid(blocks, threads);
        let machine = machine.with_barrier_ns(0.0);
        let schedule = |program: &mut UProgram| {
            let Some(lanes) = lanes else {
                return heddle_schedule::schedule(program, &machine);
            };
            for pass in heddle_schedule::schedule_passes(&[]) {
                if pass.name != "join_lanes" {
                    pass.apply(program, &machine);
                    continue;
                }
                if let Some(to) = rounding {
                    heddle_schedule::round_products(program, to);
                }
                for id in program.running() {
                    heddle_schedule::join_lanes_of(program, &machine, id, lanes);
                }
            }
            program.drop_idle_operators();
        };
        Self::on_gpu(name, module, inputs, &machine, &schedule)
    }

    /// The program written in CUDA, scheduled for this machine by `schedule`.
    pub fn on_gpu(
        name: &str,
        module: Module,
        inputs: &[Datum],
        machine: &Machine,
        schedule: &dyn Fn(&mut UProgram),
    ) -> Result<Case, String> {
        let form = (
            &heddle_emit::CUDA,
            false,
            (Layouts::ByPrice, Transforms::ByPrice),
        );
        Self::written(name, module, inputs, machine, schedule, form)
    }

    fn written(
        name: &str,
        mut module: Module,
        inputs: &[Datum],
        machine: &Machine,
        schedule: &dyn Fn(&mut UProgram),
        (dialect, copies_rows, layouts): (&Dialect, bool, (Layouts, Transforms)),
    ) -> Result<Case, String> {
        let expected = heddle_interp::run(&module, inputs, &Default::default());
        let expected = expected.expect("the interpreter runs it");
        heddle_opt::optimize(&mut module);
        let lowered = heddle_lower::lower(&module);
        let mut program = lowered.map_err(|e| e.cause.to_string())?;
        heddle_schedule::fuse(&mut program);
        heddle_schedule::simplify_indices(&mut program, machine);
        if !copies_rows {
            heddle_schedule::read_rows(&mut program, machine);
        }
        heddle_schedule::select_kernels_in(&mut program, machine, layouts.0, layouts.1);
        let read = program.read_buffers();
        for (id, buffer) in program.buffers.iter() {
            let empty = program.pool.as_int(buffer.len) == Some(0);
            let unread = heddle_emit::is_constant(&buffer.kind) && !empty && !read.contains(&id);
            assert!(!unread, "{name}: nothing reads {}", buffer.name);
        }
        schedule(&mut program);
        heddle_uprogram::verify_schedule(&program, machine.synced_lanes())
            .expect("a sound schedule");
        // The program that is read back runs, so that a fact missing from the text would show.
        let written = text::print(&program);
        let program = text::parse(&written).unwrap_or_else(|e| panic!("{name}: {e}"));
        let again = text::print(&program);
        let differ = again.lines().zip(written.lines()).find(|(a, b)| a != b);
        assert!(again == written, "{name} does not go round: {differ:?}");
        let layout = heddle_uprogram::layout(&program).map_err(|e| e.to_string())?;
        let emitted = heddle_emit::write(&program, &layout, dialect);
        let constants = heddle_emit::Constants::of(&program);
        let constants = constants.iter().map(|c| c.bytes().into()).collect();
        let tensors = inputs.iter().map(|d| match d {
            Datum::Tensor(t) => marshal::unpacked(t),
            _ => panic!("lowering lets only tensors in"),
        });
        let tensors: Vec<Tensor> = tensors.collect();
        let dims = tensors
            .iter()
            .map(|t| t.shape().iter().map(|&d| d as i64).collect());
        Ok(Case {
            source: Source {
                name: name.into(),
                text: emitted.source,
                constants,
                plan: layout.plan,
            },
            sizes: sizes(&module, &program, &tensors),
            program,
            dims: dims.collect(),
            tensors,
            expected,
        })
    }

    /// The same with control flow that the host runs.
    pub fn hosted(mut self) -> Case {
        let layout = heddle_uprogram::layout(&self.program).expect("it was laid out before");
        let emitted = heddle_emit::write_hosted(&self.program, &layout, &heddle_emit::C);
        self.source.text = emitted.source;
        self
    }

    /// Bytes of the program's constants.
    pub fn constant_bytes(&self) -> usize {
        let constants = heddle_emit::Constants::of(&self.program);
        constants.iter().map(|c| c.size()).sum()
    }

    /// Does a size follow from elements of an input?
    fn computes_sizes(&self) -> bool {
        let sizes = &self.program.sizes;
        sizes.iter().any(|s| matches!(s.0, Size::Element { .. }))
    }

    /// Builds the program and compares what each of these numbers of workers gives, and teams of
    /// fewer of them.
    pub fn check(&self, name: &str, options: &BuildOptions, workers: &[usize]) {
        let text = &self.source.text;
        let built = Program::build(&self.source, options);
        let built = Arc::new(built.unwrap_or_else(|e| panic!("{name}: {e}\n{text}")));
        let teams = |&threads: &usize| (1..=threads).map(move |team| (threads, team));
        for (threads, team) in workers.iter().flat_map(teams) {
            let options = PoolOptions {
                adapt: false,
                ..PoolOptions::new(threads)
            };
            let pool = Pool::shared_with(&options).expect("threads");
            let options = SessionOptions {
                poison: true,
                ..Default::default()
            };
            let mut session = Session::new(built.clone(), pool, options);
            let what = format!("{name}, {team} of {threads} threads");
            if !self.agrees(&mut session, team, &what) {
                return;
            }
        }
    }

    /// The bytes of what the program gives on one worker.
    pub fn results(&self, name: &str, options: &BuildOptions) -> Vec<Vec<u8>> {
        let built = Program::build(&self.source, options).unwrap_or_else(|e| panic!("{name}: {e}"));
        let pool = Arc::new(Pool::new(&PoolOptions::new(1)).expect("no threads"));
        let mut session = Session::new(Arc::new(built), pool, SessionOptions::default());
        let outputs = session.run(&self.inputs(), &self.sizes, &limits(1));
        let outputs = outputs.unwrap_or_else(|e| panic!("{name}: {e}"));
        let all = 0..self.expected.len();
        all.map(|i| outputs.data(i).to_vec()).collect()
    }

    /// Builds the program and compares what launches of these grids give. `false` if a launch is refused.
    pub fn check_grids(&self, name: &str, grids: &[Grid]) -> bool {
        self.stops_on(name, grids).is_some()
    }

    /// The same; how often each run was launched again, or `None` if one is refused.
    pub fn stops_on(&self, name: &str, grids: &[Grid]) -> Option<Vec<Stops>> {
        let launch = self.simulation(name);
        let stops = grids.iter().map(|&grid| {
            let mut session = launch(grid);
            let agrees = self.agrees(&mut session, usize::MAX, &format!("{name}, {grid:?}"));
            agrees.then(|| session.stops())
        });
        stops.collect()
    }

    /// Does a launch of one of these grids fail or give something else?
    pub fn is_wrong_on(&self, name: &str, grids: &[Grid]) -> bool {
        let launch = self.simulation(name);
        let limits = RunOptions {
            watchdog: Duration::from_millis(100),
            ..limits(usize::MAX)
        };
        grids.iter().any(|&grid| {
            let mut session = launch(grid);
            let Ok(outputs) = session.run(&self.inputs(), &self.sizes, &limits) else {
                return true;
            };
            let mut all = 0..self.expected.len();
            all.any(|i| {
                self.difference(i, outputs.dims(i), outputs.data(i))
                    .is_some()
            })
        })
    }

    /// The error of a launch of this grid.
    pub fn error_on(&self, name: &str, grid: Grid) -> RunError {
        self.errors_with(name, &[grid], &self.inputs()).remove(0)
    }

    /// The error of a launch of this grid whose blocks may wait for each other for 2 ms only.
    pub fn stuck_on(&self, name: &str, grid: Grid) -> RunError {
        let mut session = self.simulation(name)(grid);
        let options = RunOptions {
            watchdog: Duration::from_millis(2),
            ..RunOptions::default()
        };
        let outputs = session.run(&self.inputs(), &self.sizes, &options);
        outputs.err().unwrap_or_else(|| panic!("{name} runs"))
    }

    /// The errors of launches of these grids on other inputs of the same sizes.
    pub fn errors_with(&self, name: &str, grids: &[Grid], inputs: &[Input]) -> Vec<RunError> {
        let launch = self.simulation(name);
        let errors = grids.iter().map(|&grid| {
            let mut session = launch(grid);
            let outputs = session.run(inputs, &self.sizes, &RunOptions::default());
            outputs.err().unwrap_or_else(|| panic!("{name} runs"))
        });
        errors.collect()
    }

    /// Builds the program for the simulator; sessions that launch grids of it, on poisoned memory.
    fn simulation(&self, name: &str) -> impl Fn(Grid) -> Session {
        let options = BuildOptions {
            language: Language::Simulated,
            cache: CacheChoice::Off,
            ..Default::default()
        };
        let text = &self.source.text;
        let built = Program::build(&self.source, &options);
        let built = Arc::new(built.unwrap_or_else(|e| panic!("{name}: {e}\n{text}")));
        let pool = Arc::new(Pool::new(&PoolOptions::new(1)).expect("no threads"));
        move |grid| {
            let options = SessionOptions {
                poison: true,
                grid: Some(grid),
                ..Default::default()
            };
            Session::new(built.clone(), pool.clone(), options)
        }
    }

    /// The program's part of the text, behind the prelude.
    pub fn own_text(&self) -> &str {
        let text = &self.source.text;
        &text[text.rfind("HEDDLE_PROGRAM(").expect("a program")..]
    }

    /// Runs the program and compares its outputs. `false` if the launch is refused.
    fn agrees(&self, session: &mut Session, team: usize, name: &str) -> bool {
        let text = &self.source.text;
        let outputs = session.run(&self.inputs(), &self.sizes, &limits(team));
        // A size that is computed from elements may wrap. The launch refuses it before anything
        // runs, and the program is the interpreter's.
        if let Err(RunError::Plan(error)) = &outputs
            && self.computes_sizes()
            && error.fault == PlanFault::Overflow
        {
            return false;
        }
        let outputs = outputs.unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        for i in 0..self.expected.len() {
            let what = format!("{name}, output {i}\n{text}");
            self.compare(i, outputs.dims(i), outputs.data(i), &what);
        }
        true
    }

    /// That a program gives the same: the one that this was made of.
    pub fn expects(&self, original: &Module, inputs: &[Datum]) {
        let results = heddle_interp::run(original, inputs, &Default::default());
        self.expects_all(&results.expect("the interpreter runs it"));
    }

    /// That these results are the same.
    pub fn expects_all(&self, results: &[Datum]) {
        assert_eq!(self.expected.len(), results.len());
        for (want, result) in self.expected.iter().zip(results) {
            let (Datum::Tensor(want), Datum::Tensor(result)) = (want, result) else {
                panic!("only tensors come out")
            };
            assert_eq!(want.shape(), result.shape());
            let difference = difference(result, want);
            assert!(
                difference.is_none(),
                "{difference:?}: the program that it was made of"
            );
        }
    }

    /// The program's inputs.
    pub fn inputs(&self) -> Vec<Input<'_>> {
        let pairs = self.tensors.iter().zip(&self.dims);
        pairs
            .map(|(t, dims)| Input {
                data: t.bytes(),
                dims,
            })
            .collect()
    }

    /// Compares an output.
    pub fn compare(&self, i: usize, dims: &[i64], data: &[u8], what: &str) {
        if let Some(difference) = self.difference(i, dims, data) {
            panic!("{difference}: {what}");
        }
    }

    /// The first thing that is wrong with an output.
    fn difference(&self, i: usize, dims: &[i64], data: &[u8]) -> Option<String> {
        let Datum::Tensor(want) = &self.expected[i] else {
            panic!("only tensors come out")
        };
        let shape: Vec<i64> = want.shape().iter().map(|&d| d as i64).collect();
        if dims != shape {
            return Some(format!("{dims:?} elements instead of {shape:?}"));
        }
        let width = want.dtype().bits().div_ceil(8);
        let data = marshal::packed(want.dtype(), &data[..want.len() * width]);
        let got = Tensor::new(want.dtype(), want.shape().to_vec(), data.into()).expect("fits");
        difference(&got, want)
    }
}

/// Launches of these blocks and threads with warps of both kinds, each in an order of its own.
pub fn grids(blocks: u32, threads: u32) -> Vec<Grid> {
    let grid = |(warp, seed)| Grid {
        blocks,
        threads,
        warp,
        cluster: 1,
        seed,
    };
    [(32, 1), (64, 2)].map(grid).to_vec()
}

/// Schedules a program whose units split all that they can, and give each other all that they may. On the machine waits are dear.
pub fn all_gather(program: &mut UProgram, machine: &Machine) {
    all_gather_after(program, machine, |_| {});
}

/// The same after a change once shares are chosen.
pub fn all_gather_after(program: &mut UProgram, machine: &Machine, change: impl Fn(&mut UProgram)) {
    let eager = machine.clone().with_barrier_ns(0.0);
    let mut dear = machine.clone().with_barrier_ns(1e6);
    dear.syncs.gather_ns = Some(0.0);
    for pass in heddle_schedule::schedule_passes(&[]) {
        let machine = match pass.name {
            "gather_state" => &dear,
            _ => &eager,
        };
        if pass.name == "keep_resident" {
            change(program);
        }
        pass.apply(program, machine);
    }
    program.drop_idle_operators();
}

/// Frames for deeper recursion would only have to be poisoned.
fn limits(team: usize) -> RunOptions<'static> {
    RunOptions {
        max_depth: 250,
        team,
        ..Default::default()
    }
}

/// The launch's named sizes, read off the inputs.
fn sizes(module: &Module, program: &UProgram, inputs: &[Tensor]) -> Vec<i64> {
    let find = |name: &str| {
        let params = module.entry().sig.params.iter().zip(inputs);
        for ((_, ty), tensor) in params {
            let dims = ty
                .as_tensor()
                .and_then(|t| t.shape.clone())
                .unwrap_or_default();
            for (dim, &size) in dims.iter().zip(tensor.shape()) {
                if dim
                    .as_expr()
                    .and_then(|e| e.as_sym())
                    .is_some_and(|s| **s == *name)
                {
                    return size as i64;
                }
            }
        }
        panic!("{name} is no input's size")
    };
    let given = program.sizes.iter().map(|(size, _)| match size {
        Size::Named(name) => find(name),
        Size::Axis { input, axis } => inputs[*input].shape()[*axis] as i64,
        Size::Element { input, place } => {
            let tensor = &inputs[*input];
            marshal::element(tensor.dtype(), tensor.bytes(), *place)
        }
        Size::RunKey => heddle_interp::Options::default().seed as i64,
    });
    given.collect()
}

/// The first difference, if floats differ by more than how sums are associated, or the rest at all.
fn difference(got: &Tensor, want: &Tensor) -> Option<String> {
    let tolerance = match want.dtype() {
        // Sums in another order round elsewhere: to an element or two of a short type beside it.
        DType::F16 => 4e-3,
        DType::Bf16 => 3e-2,
        DType::F32 | DType::F64 => 1e-5,
        _ if got.bytes() == want.bytes() => return None,
        _ => return Some(format!("{:?} instead of {:?}", got.bytes(), want.bytes())),
    };
    let [got, want] = [got, want].map(|tensor| tensor.to_f64s().expect("floats"));
    let scale = want
        .iter()
        .filter(|v| v.is_finite())
        .fold(1.0f64, |m, v| m.max(v.abs()));
    let mut pairs = got.iter().zip(&want).enumerate();
    let differs = |(_, (g, w)): &(usize, (&f64, &f64))| {
        !(g == w || g.is_nan() && w.is_nan() || (*g - *w).abs() <= tolerance * scale)
    };
    let (i, (g, w)) = pairs.find(differs)?;
    Some(format!("element {i}: {g} instead of {w}"))
}

/// A tensor of a type with named sizes as given; a small generator keeps it reproducible.
fn draw(ty: &heddle_ir::Type, sizes: &dyn Fn(&str) -> i64, seed: u64) -> Datum {
    let t = ty.as_tensor().expect("a tensor");
    let dims = t.shape.as_ref().expect("a rank").iter();
    let shape: Vec<usize> = dims
        .map(|d| {
            d.as_expr()
                .and_then(|e| e.eval(&|name| Some(sizes(name))))
                .expect("a size") as usize
        })
        .collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 40
    };
    let count = shape.iter().product();
    match t.dtype {
        DType::F32 => {
            let v: Vec<f32> = (0..count)
                .map(|_| next() as f32 / 8388608.0 - 1.0)
                .collect();
            Tensor::from_slice(shape, &v).into()
        }
        DType::F64 => {
            let v: Vec<f64> = (0..count)
                .map(|_| next() as f64 / 8388608.0 - 1.0)
                .collect();
            Tensor::from_slice(shape, &v).into()
        }
        DType::I64 => {
            let v: Vec<i64> = (0..count).map(|_| (next() % 7) as i64).collect();
            Tensor::from_slice(shape, &v).into()
        }
        DType::U64 => {
            let v: Vec<u64> = (0..count).map(|_| next() % 7).collect();
            Tensor::from_slice(shape, &v).into()
        }
        DType::U32 => {
            let v: Vec<u32> = (0..count).map(|_| (next() % 15) as u32).collect();
            Tensor::from_slice(shape, &v).into()
        }
        DType::I32 => {
            let v: Vec<i32> = (0..count).map(|_| (next() % 15) as i32 - 7).collect();
            Tensor::from_slice(shape, &v).into()
        }
        DType::Bool => {
            let v: Vec<u8> = (0..count).map(|_| (next() % 2) as u8).collect();
            Tensor::new(DType::Bool, shape, v.into())
                .expect("fits")
                .into()
        }
        other => panic!("no inputs of type {other}"),
    }
}

/// The lines of a program whose loops GCC made vector code of; `None` where the compiler is no GCC.
pub fn vectorised(case: &Case) -> Option<Vec<String>> {
    static REPORTS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let id = REPORTS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = format!("heddle-vectorised-{}-{id}", std::process::id());
    let report = std::env::temp_dir().join(file);
    let options = BuildOptions {
        compiler: Some("gcc".into()),
        cache: heddle_runtime::cache::CacheChoice::Off,
        // Loops become vector code at the highest level.
        optimize: Some(3),
        extra_flags: vec![format!("-fopt-info-vec-optimized={}", report.display())],
        ..Default::default()
    };
    if let Err(e) = Program::build(&case.source, &options) {
        eprintln!("skipped: {e}");
        return None;
    }
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    let _ = std::fs::remove_file(&report);
    let source: Vec<_> = case.source.text.lines().collect();
    let loops = text.lines().filter_map(|line| {
        let place = line.strip_prefix("program.c:")?;
        let number = place.split(':').next()?.parse::<usize>().ok()?;
        line.contains("loop vectorized")
            .then_some(source.get(number - 1)?.trim().to_string())
    });
    Some(loops.collect())
}
