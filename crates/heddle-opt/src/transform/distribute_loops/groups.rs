//! Partitions the stages of a distributed loop into groups for units that work at the same time.

use std::ops::Range;

use heddle_ir::Op;

use super::chunks::PADDED;
use super::plan::{Body, Mode, Plan};
use crate::transform::cost::CostModel;

/// Maximum share of the sequential time that a pipeline may take: padded chunks and waiting cost
/// the rest.
const WORTH: f64 = 0.8;

/// Synchronisations of a layer in a step where a team works on it: before its products, and after them.
const SYNCS: f64 = 2.0;

/// Assumed minimum number of chunks with a dynamic trip count.
const CHUNKS: f64 = 4.0;

/// A pipeline: groups of stages, and the chunk size.
pub struct Groups {
    /// The stages of each group; at least two groups.
    pub stages: Vec<Range<usize>>,
    /// Iterations of a chunk.
    pub size: i64,
}

/// Groups of stages, if a pipeline may pay: each layer's weights stay near its unit, and the groups
/// are balanced. `trips`: estimated trip count.
pub fn groups(body: &Body, plan: &Plan, trips: f64, costs: &CostModel) -> Option<Groups> {
    let (mut work, weights) = stages(body, plan, costs);
    if body.parts.cond.is_some() || weights.iter().any(|w| *w > costs.near) {
        return None;
    }
    let exact = body
        .parts
        .trip
        .is_some_and(|t| body.func.constant(t).is_some());
    if costs.teams {
        // Weights come from the memory that all share, in each step.
        let both = work.iter_mut().zip(&weights);
        both.for_each(|(work, bytes)| *work += bytes / costs.near_rate);
    }
    // The time of a layer besides its work.
    let sync = if costs.teams { SYNCS * costs.step } else { 0.0 };
    let layers = |group: &Range<usize>| {
        let layers = work[group.clone()].iter().filter(|w| **w > 0.0);
        layers.count()
    };
    let all = work.iter().sum::<f64>() + sync * layers(&(0..work.len())) as f64;
    let trips = match exact {
        true => trips,
        false => trips.max(CHUNKS * PADDED as f64),
    };
    let sizes = match exact {
        _ if costs.teams => 1..=PADDED,
        true => PADDED / 2..=PADDED,
        false => PADDED..=PADDED,
    };
    // A chunk's overhead is about one iteration.
    let chunked = |Groups { stages, size }: &Groups| {
        let chunks = (trips / *size as f64).ceil() + stages.len() as f64 - 1.0;
        chunks * (*size + 1) as f64
    };
    let time = |groups: &Groups| {
        // Rates are those of all units, of which a team has a part.
        let slower = if costs.teams {
            groups.stages.len() as f64
        } else {
            1.0
        };
        let step = |g: &Range<usize>| {
            slower * work[g.clone()].iter().sum::<f64>() + sync * layers(g) as f64
        };
        groups.stages.iter().map(step).fold(0.0, f64::max) * chunked(groups)
    };
    let most = costs.units.min(layers(&(0..work.len())));
    let candidates = (2..=most).flat_map(|count| {
        let stages = cut(&work, count);
        sizes.clone().map(move |size| Groups {
            stages: stages.clone(),
            size,
        })
    });
    let best = candidates.min_by(|a, b| time(a).total_cmp(&time(b)))?;
    (best.stages.len() > 1 && time(&best) < WORTH * all * trips).then_some(best)
}

/// Time of an iteration of each stage's loop in nanoseconds, and the bytes of weights that it
/// reads.
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

/// Partitions stages into at most `count` consecutive groups that minimise the largest group's
/// work.
fn cut(work: &[f64], count: usize) -> Vec<Range<usize>> {
    let ends = 1..=work.len();
    let sums = ends.flat_map(|end| (0..end).map(move |start| work[start..end].iter().sum()));
    let mut limits: Vec<f64> = sums.collect();
    limits.sort_by(f64::total_cmp);
    let cuts = limits.into_iter().map(|limit| filled(work, limit));
    let mut fitting = cuts.filter(|groups| groups.len() <= count);
    fitting.next().unwrap_or_default()
}

/// Consecutive groups with at most `limit` work each, unless a single stage exceeds it.
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
