//! Measures operators on the cpu device, for the scheduler.
//!
//! Times that are measured by themselves mislead in four ways, each of which has a remedy here:
//! memory that was never written is one page of zeros, which is always in the cache (all of it is written first); an operator
//! that runs once in a program finds nothing in the caches (it is measured once at a time, in turns with all others); whatever else the
//! machine does makes some runs slow (rounds lie apart, and the fastest counts); and of many choices that take equally long some seem
//! faster (what comes near to the cost model's time, in proportion, is taken to be that).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_machine::Machine;
use heddle_runtime::cache::Key;
use heddle_runtime::{
    BuildOptions, Pool, PoolOptions, Program, RunOptions, Session, SessionOptions, Source,
};
use heddle_schedule::{Choice, Latency, are_alike, benchmark, choices, time};
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{OperatorId, Share, Sync};

use crate::options::cache;

/// Times of operators as measured; of what was not, the cost model's in proportion.
pub(super) struct Profiler {
    machine: Machine,
    times: HashMap<OperatorId, Vec<(Share, f64)>>,
    /// Which operator was measured in the place of another one.
    instead: BTreeMap<OperatorId, OperatorId>,
}

/// The size that is measured with where only a launch knows it.
const TYPICAL_SIZE: i64 = 64;

/// Time of one measurement of a choice.
const ROUND: Duration = Duration::from_micros(200);

/// Rounds of measurements; the fastest counts.
const ROUNDS: usize = 7;

/// All measurements together take at most this long; what is left then is the cost model's.
const BUDGET: Duration = Duration::from_secs(10);

/// A measured time within this fraction of the scaled cost model is replaced by it: the difference is noise.
const MARGIN: f64 = 0.1;

impl Profiler {
    /// Measures the ways in which a program's operators may be shared, or reads from the cache what was measured on a
    /// processor like this one before. `None` if the program that measures cannot be built or run.
    pub(super) fn new(
        program: &mut UProgram,
        machine: &Machine,
        build: &BuildOptions,
    ) -> Option<Self> {
        let choices = choices(program, machine);
        let bench = benchmark(program, &choices.list);
        let layout = heddle_uprogram::layout(&bench).ok()?;
        let text = heddle_emit::write(&bench, &layout, &heddle_emit::C).source;
        let cache = cache(build);
        let units = machine.units().to_string();
        let hardware = heddle_runtime::cpu::identity();
        let key = Key::new(&[text.as_bytes(), units.as_bytes(), hardware.as_bytes()]);
        let cached = cache.get("times", key).and_then(|bytes| read(&bytes));
        let times = match cached.filter(|times| times.len() == choices.list.len() + 1) {
            Some(times) => times,
            None => {
                let times = {
                    let source = Source {
                        name: "measure".into(),
                        text,
                        constants: vec![],
                        plan: layout.plan,
                    };
                    measure(&source, &choices.list, machine.units(), build)?
                };
                // A cache that takes nothing costs time, not results.
                let _ = cache.put("times", key, &bytes(&times));
                times
            }
        };
        let mut profiler = Self {
            machine: machine.clone(),
            times: HashMap::new(),
            instead: choices.instead,
        };
        // Units that come to a synchronisation one right after another hardly wait for each other, as they do in programs.
        let sync = times.last().copied().unwrap_or(0.0);
        let by_model = machine.barrier_ns(machine.units());
        profiler.machine = machine.clone().with_barrier_ns(sync.max(by_model));
        for (choice, time) in choices.list.iter().zip(times) {
            if time > 0.0 {
                let known = profiler.times.entry(choice.op).or_default();
                known.push((choice.share, time));
            }
        }
        for (&id, times) in &mut profiler.times {
            let model = |share: &Share| time(machine, program, &program.operators[id], *share);
            let by_model =
                |a: &&(Share, f64), b: &&(Share, f64)| model(&a.0).total_cmp(&model(&b.0));
            let Some(&(share, time)) = times.iter().min_by(by_model) else {
                continue;
            };
            let scale = time / model(&share);
            for (share, time) in times {
                let expected = scale * model(share);
                if (*time / expected - 1.0).abs() < MARGIN {
                    *time = expected;
                }
            }
        }
        Some(profiler)
    }
}

impl Latency for Profiler {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn operator(&self, program: &UProgram, id: OperatorId, share: Share) -> f64 {
        let op = &program.operators[id];
        let model = |share| time(&self.machine, program, op, share);
        let measured = self.instead.get(&id).unwrap_or(&id);
        let Some(times) = self.times.get(measured) else {
            return model(share);
        };
        let same = |t: &&(Share, f64)| are_alike(program, t.0, share, self.machine.units());
        if let Some(&(_, time)) = times.iter().find(same) {
            return time;
        }
        // The operator may have other axes than when it was measured.
        let still = |t: &&(Share, f64)| match t.0.splits() {
            [] => false,
            splits => splits.iter().all(|split| split.axis < op.axes.len()),
        };
        match times.iter().find(still) {
            Some(&(known, time)) => model(share) * time / model(known).max(f64::MIN_POSITIVE),
            None => model(share),
        }
    }

    fn sync(&self, sync: Sync) -> f64 {
        self.machine.sync(sync)
    }
}

/// The time of each choice in nanoseconds, and of a synchronisation; 0 of what could not be measured.
fn measure(
    source: &Source,
    choices: &[Choice],
    threads: usize,
    build: &BuildOptions,
) -> Option<Vec<f64>> {
    let built = Program::build(source, build).ok()?;
    // Times are of all workers, whatever else goes on.
    let options = PoolOptions {
        adapt: false,
        ..PoolOptions::new(threads)
    };
    let pool = Pool::shared_with(&options).ok()?;
    let mut session = Session::new(Arc::new(built), pool, SessionOptions::default());
    let mut sizes = vec![TYPICAL_SIZE; source.plan.sizes()];
    let last = sizes.len().checked_sub(2)?;
    sizes[last..].fill(0);
    session.run(&[], &sizes, &limits()).ok()?;
    session.touch();
    let mut run = |which: usize, times: i64| {
        sizes[last] = which as i64;
        sizes[last + 1] = times;
        let start = Instant::now();
        session.run(&[], &sizes, &limits()).ok()?;
        Some(start.elapsed().as_nanos() as f64)
    };
    let nothing = (0..ROUNDS).filter_map(|_| run(0, 0));
    let nothing = nothing.fold(f64::INFINITY, f64::min);

    let begin = Instant::now();
    let count = choices.len() + 1;
    let repeated = |k: usize| choices.get(k).is_none_or(|choice| choice.repeated);
    let mut times = vec![1; count];
    let mut least = vec![f64::INFINITY; count];
    for round in 0..=ROUNDS {
        for which in in_turns(choices) {
            if least[which] <= 0.0 || begin.elapsed() > BUDGET {
                continue;
            }
            let Some(time) = run(which, times[which]) else {
                least[which] = 0.0;
                continue;
            };
            let each = ((time - nothing) / times[which] as f64).max(1.0);
            if round > 0 {
                least[which] = least[which].min(each);
            } else if repeated(which) {
                times[which] = (ROUND.as_nanos() as f64 / each.max(20.0)).clamp(1.0, 1e4) as i64;
            }
        }
    }
    least
        .iter_mut()
        .for_each(|t| *t = if t.is_finite() { *t } else { 0.0 });
    Some(least)
}

/// The choices in an order in which those of one operator lie apart; the synchronisation is the last.
fn in_turns(choices: &[Choice]) -> Vec<usize> {
    let mut seen: HashMap<OperatorId, usize> = HashMap::new();
    let mut order: Vec<(usize, usize)> = vec![];
    for (k, choice) in choices.iter().enumerate() {
        let place = seen.entry(choice.op).or_default();
        order.push((*place, k));
        *place += 1;
    }
    order.sort_unstable();
    let order = order.into_iter().map(|(_, k)| k);
    order.chain([choices.len()]).collect()
}

fn limits() -> RunOptions<'static> {
    RunOptions {
        timeout: Some(Duration::from_secs(2)),
        ..RunOptions::default()
    }
}

fn bytes(times: &[f64]) -> Vec<u8> {
    times.iter().flat_map(|t| t.to_le_bytes()).collect()
}

fn read(bytes: &[u8]) -> Option<Vec<f64>> {
    let words = bytes
        .chunks(8)
        .map(|word| word.try_into().map(f64::from_le_bytes));
    words.collect::<Result<_, _>>().ok()
}
