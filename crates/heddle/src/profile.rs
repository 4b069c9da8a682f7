//! Measures operators on the cpu device, for the scheduler.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_runtime::cache::{Cache, CacheChoice, Key};
use heddle_runtime::{BuildOptions, Pool, Program, RunOptions, Session, SessionOptions, Source};
use heddle_task::program::{OperatorId, Share, Sync};
use heddle_task::{Device, Latency, UProgram, benchmark, choices};

/// Times of operators as measured; of what was not, the cost model's in proportion.
pub(crate) struct Profiler {
    device: Device,
    times: HashMap<OperatorId, Vec<(Share, f64)>>,
}

/// The size that is measured with where only a launch knows it.
const TYPICAL_SIZE: i64 = 64;

/// How long a choice runs at a time.
const ROUND: Duration = Duration::from_micros(200);

/// Of so many rounds the fastest counts.
const ROUNDS: usize = 3;

/// All measurements together take at most this long; what is left then is the cost model's.
const BUDGET: Duration = Duration::from_secs(10);

impl Profiler {
    /// Measures the ways in which a program's operators may be shared, or reads from the cache what was measured on a
    /// processor like this one before. `None` if the program that measures cannot be built or run.
    pub(crate) fn new(program: &mut UProgram, device: &Device) -> Option<Self> {
        let choices = choices(program, device);
        let bench = benchmark(program, &choices);
        let text = heddle_emit::write(&bench, &heddle_emit::C).source;
        let cache = Cache::open(&CacheChoice::Default, BuildOptions::default().cache_limit);
        let units = device.units.to_string();
        let hardware = heddle_runtime::cpu::identity();
        let key = Key::new(&[text.as_bytes(), units.as_bytes(), hardware.as_bytes()]);
        let cached = cache.get("times", key).and_then(|bytes| read(&bytes));
        let times = match cached.filter(|times| times.len() == choices.len() + 1) {
            Some(times) => times,
            None => {
                let times = measure(&bench, text, choices.len() + 1, device.units)?;
                // A cache that takes nothing costs time, not results.
                let _ = cache.put("times", key, &bytes(&times));
                times
            }
        };
        let mut profiler = Self {
            device: device.clone(),
            times: HashMap::new(),
        };
        let sync = times.last().copied().filter(|t| *t > 0.0);
        profiler.device.sync_ns = sync.unwrap_or(device.sync_ns).max(device.sync_ns / 4.0);
        for (&(id, share), time) in choices.iter().zip(times) {
            if time > 0.0 {
                profiler.times.entry(id).or_default().push((share, time));
            }
        }
        Some(profiler)
    }
}

impl Latency for Profiler {
    fn device(&self) -> &Device {
        &self.device
    }

    fn operator(&self, program: &UProgram, id: OperatorId, share: Share) -> f64 {
        let op = &program.operators[id];
        let model = |share| self.device.time(program, op, share);
        let Some(times) = self.times.get(&id) else {
            return model(share);
        };
        // Any one unit takes as long as the first.
        let alike = |s: Share| s == share || matches!((s, share), (Share::One(_), Share::One(_)));
        if let Some(&(_, time)) = times.iter().find(|t| alike(t.0)) {
            return time;
        }
        // The operator may have other axes than when it was measured.
        let still = |t: &&(Share, f64)| match t.0 {
            Share::Dealt(split) => split.axis < op.axes.len(),
            Share::One(_) => false,
        };
        match times.iter().find(still) {
            Some(&(known, time)) => model(share) * time / model(known).max(f64::MIN_POSITIVE),
            None => model(share),
        }
    }

    fn sync(&self, sync: Sync) -> f64 {
        self.device.sync(sync)
    }
}

/// The time of each choice in nanoseconds; 0 of what could not be measured.
fn measure(bench: &UProgram, text: String, count: usize, threads: usize) -> Option<Vec<f64>> {
    let source = Source {
        name: "measure".into(),
        text,
        constants: vec![],
    };
    let built = Program::build(&source, &BuildOptions::default()).ok()?;
    let pool = Pool::shared(threads).ok()?;
    let mut session = Session::new(Arc::new(built), pool, SessionOptions::default());
    let options = RunOptions {
        timeout: Some(Duration::from_secs(2)),
        ..RunOptions::default()
    };
    let mut sizes = vec![TYPICAL_SIZE; bench.sizes.len()];
    let last = sizes.len().checked_sub(2)?;
    let mut run = |which: usize, times: i64| {
        sizes[last] = which as i64;
        sizes[last + 1] = times;
        let start = Instant::now();
        session.run(&[], &sizes, &options).ok()?;
        Some(start.elapsed().as_nanos() as f64)
    };
    let begin = Instant::now();
    let mut one = |which: usize| {
        if begin.elapsed() > BUDGET {
            return None;
        }
        run(which, 1)?;
        let (empty, once) = (run(which, 0)?, run(which, 1)?);
        let each = (once - empty).max(20.0);
        let times = (ROUND.as_nanos() as f64 / each).clamp(1.0, 1e4) as i64;
        let rounds: Option<Vec<f64>> = (0..ROUNDS).map(|_| run(which, times)).collect();
        let least = rounds?.into_iter().fold(f64::INFINITY, f64::min);
        let empty = (0..ROUNDS)
            .filter_map(|_| run(which, 0))
            .fold(empty, f64::min);
        Some(((least - empty) / times as f64).max(1.0))
    };
    Some((0..count).map(|which| one(which).unwrap_or(0.0)).collect())
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
