//! Decides which stages of a distributed loop different units could work on at the same time.

use std::ops::Range;

use heddle_ir::Op;

use super::chunks::PADDED;
use super::plan::{Body, Mode, Plan};
use crate::transform::cost::CostModel;

/// One unit's time must fall to this share at least: less is lost again by chunks that are filled up and by waiting.
const WORTH: f64 = 0.8;

/// What the number of chunks is taken to be at least where only the run knows it.
const CHUNKS: f64 = 4.0;

/// Groups of stages, and how they work.
pub struct Groups {
    /// The stages of each, of which there are at least two.
    pub stages: Vec<Range<usize>>,
    /// How many iterations a chunk has.
    pub size: i64,
}

/// Groups of stages, if working on the groups at the same time may pay: each layer's weights
/// stay near the unit that works on it, and the groups have about as much to do. `trips`: how many iterations there are, about.
pub fn groups(body: &Body, plan: &Plan, trips: f64, costs: &CostModel) -> Option<Groups> {
    let (work, weights) = stages(body, plan, costs);
    if body.parts.cond.is_some() || weights.iter().any(|w| *w > costs.near) {
        return None;
    }
    let exact = body
        .parts
        .trip
        .is_some_and(|t| body.func.constant(t).is_some());
    let all: f64 = work.iter().sum();
    let trips = match exact {
        true => trips,
        false => trips.max(CHUNKS * PADDED as f64),
    };
    let sizes = if exact {
        PADDED / 2..=PADDED
    } else {
        PADDED..=PADDED
    };
    // Besides its iterations a chunk costs about one more.
    let chunked = |Groups { stages, size }: &Groups| {
        let chunks = (trips / *size as f64).ceil() + stages.len() as f64 - 1.0;
        chunks * (*size + 1) as f64
    };
    let time = |groups: &Groups| {
        let works = groups.stages.iter();
        let works = works.map(|g| work[g.clone()].iter().sum::<f64>());
        works.fold(0.0, f64::max) * chunked(groups)
    };
    let layers = work.iter().filter(|w| **w > 0.0).count();
    let candidates = (2..=costs.units.min(layers)).flat_map(|count| {
        let stages = cut(&work, count);
        sizes.clone().map(move |size| Groups {
            stages: stages.clone(),
            size,
        })
    });
    let best = candidates.min_by(|a, b| time(a).total_cmp(&time(b)))?;
    (best.stages.len() > 1 && time(&best) < WORTH * all * trips).then_some(best)
}

/// What an iteration of each stage's loop takes, in nanoseconds, and the bytes of weights that it reads.
fn stages(body: &Body, plan: &Plan, costs: &CostModel) -> (Vec<f64>, Vec<f64>) {
    let (mut work, mut weights) = (vec![0.0; plan.stages], vec![0.0; plan.stages]);
    for (&inst, &mode) in body.insts.iter().zip(&plan.modes) {
        let Mode::Step(stage) = mode else { continue };
        let data = &body.func.insts[inst];
        let results = data.results.iter().map(|v| costs.bytes(body.func.ty(*v)));
        let contraction = costs.contraction(body.func, data);
        work[stage] += contraction / costs.flops + results.sum::<f64>() / costs.arrays;
        if let (Op::Dot | Op::Conv { .. }, Some(&w)) = (&data.op, data.args.get(1)) {
            weights[stage] += costs.bytes(body.func.ty(w));
        }
    }
    (work, weights)
}

/// Cuts stages into at most so many groups, so that the one with the most work has as little as possible.
fn cut(work: &[f64], count: usize) -> Vec<Range<usize>> {
    let ends = 1..=work.len();
    let sums = ends.flat_map(|end| (0..end).map(move |start| work[start..end].iter().sum()));
    let mut limits: Vec<f64> = sums.collect();
    limits.sort_by(f64::total_cmp);
    let cuts = limits.into_iter().map(|limit| filled(work, limit));
    let mut fitting = cuts.filter(|groups| groups.len() <= count);
    fitting.next().unwrap_or_default()
}

/// Groups in each of which there is no more work than this, unless a stage alone has more.
fn filled(work: &[f64], limit: f64) -> Vec<Range<usize>> {
    let (mut groups, mut start, mut sum) = (vec![], 0, 0.0);
    for (stage, more) in work.iter().enumerate() {
        if stage > start && sum + more > limit * (1.0 + 1e-9) {
            groups.push(start..stage);
            (start, sum) = (stage, 0.0);
        }
        sum += more;
    }
    groups.push(start..work.len());
    groups
}
