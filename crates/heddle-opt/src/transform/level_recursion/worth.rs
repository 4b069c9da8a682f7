//! Profitability of evaluation by levels.
//!
//! A batch reads the weights of a product once for all of its rows; nothing else is saved. The
//! costs are, for each call, the walk and the copies between the results' array and a batch, and
//! for each level, the synchronisations and a partly filled batch. Small weights stay in near
//! caches anyway: for them, individual calls are faster, however wide a tree is.
//!
//! Early work is evaluated beside the levels ([`pace`]) where these leave units idle that have time
//! for it: then it takes none of its own.

use heddle_ir::{Inst, Region, Value};

use super::LevelOptions;
use super::analyze::{Kind, Member, Origin, Recursion};
use super::stream::Pace;
use crate::transform::cost::CostModel;

/// Minimum mean number of contractions in a level; none if batches save less than they cost.
pub fn least_width(
    recursion: &Recursion,
    options: &LevelOptions,
    costs: &CostModel,
) -> Option<f64> {
    let saved = recursion
        .kinds
        .iter()
        .map(|k| Products::of(recursion, k, costs))
        .map(|p| saving(p.weights, p.flops, options, costs));
    let gain = saved.fold(0.0, f64::max) - costs.call;
    (gain > 0.0).then(|| options.width.max(costs.level / gain))
}

/// Nanoseconds saved per call or iteration in a batch, given its products' bytes of weights and
/// operations.
fn saving(bytes: f64, flops: f64, options: &LevelOptions, costs: &CostModel) -> f64 {
    // A row's arithmetic takes as long in a batch.
    let reading = bytes / weights_rate(bytes, costs) - flops / costs.flops;
    reading.max(0.0) * (1.0 - 1.0 / options.batch as f64)
}

/// [`saving`] minus the overhead of a batch.
pub fn gain(bytes: f64, flops: f64, options: &LevelOptions, costs: &CostModel) -> f64 {
    saving(bytes, flops, options, costs) - costs.call
}

/// The contractions that a kind runs; those in loops and branches of its own count once.
fn on_the_way(member: &Member, region: Region, kind: &Kind, found: &mut dyn FnMut(Inst)) {
    let func = member.func;
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        if data.op.is_contraction() {
            found(inst);
        }
        let decided = kind.decisions.iter().find(|(i, _)| *i == inst);
        for (k, &inner) in data.regions.iter().enumerate() {
            if decided.is_none_or(|(_, arm)| *arm == (k == 0)) {
                on_the_way(member, inner, kind, found);
            }
        }
    }
}

/// Nanoseconds saved per state if products with `bytes` of weights are evaluated for all states at
/// once instead of level by level, and `kept` bytes of their results are written and read again.
pub fn at_once(bytes: f64, kept: f64, options: &LevelOptions, costs: &CostModel) -> f64 {
    (bytes / weights_rate(bytes, costs) + costs.step) / options.batch as f64
        - 2.0 * kept / costs.arrays
}

/// Share of a batch's time that may go to what it takes besides its rows.
const OVERHEAD: f64 = 1.0 / 32.0;

/// Maximum rows of a batch.
const MOST_ROWS: f64 = 4096.0;

/// Rows that the kernels of contractions take as a block: larger batches are whole blocks.
const BLOCK: f64 = 96.0;

/// Smaller batches are multiples of this.
const SMALL: f64 = 32.0;

/// Maximum batch size where levels are wide: enough rows that reading weights and barriers take a
/// small share of the time, and so few that operands and results of products stay in the cache.
pub fn rows(recursion: &Recursion, costs: &CostModel) -> usize {
    let rows = |kind: &Kind| {
        let products = Products::of(recursion, kind, costs);
        if products.flops == 0.0 {
            return 0.0;
        }
        let batch = products.weights / weights_rate(products.weights, costs) + costs.level;
        let wanted = batch / (OVERHEAD * products.flops / costs.flops);
        wanted.min(costs.chunk / products.arrays)
    };
    let most = recursion.kinds.iter().map(rows).fold(0.0, f64::max);
    let block = if most <= BLOCK { SMALL } else { BLOCK };
    ((most / block).ceil() * block).clamp(SMALL, MOST_ROWS) as usize
}

/// The pace of early products beside those of a level, if that is faster than all of them before the
/// first level, where they occupy all units. `kept` bytes of their results are read by a state.
///
/// Units get whole tiles of columns, so a level's products may occupy fewer than there are. The
/// others compute early rows: as many as a batch has take no time if they take less than the level.
pub fn pace(level: &Products, early: &Products, kept: f64, costs: &CostModel) -> Option<Pace> {
    let units = costs.streamed as f64;
    let occupied = |p: &Products, units: f64| (p.columns / costs.tile).ceil().min(units);
    let used = occupied(level, units);
    let others = occupied(early, units - used);
    if used < 1.0 || others < 1.0 {
        return None;
    }
    let rows = costs.unknown;
    // Nanoseconds for a batch on some of the units.
    let time = |p: &Products, some: f64| {
        let weights = p.weights / weights_rate(p.weights, costs);
        (rows * p.flops / costs.flops).max(weights) * units / some
    };
    let (during, beside) = (time(level, used), time(early, others));
    let before = rows * (early.flops / costs.flops + 2.0 * kept / costs.arrays);
    if before <= (beside - during).max(0.0) {
        return None;
    }
    // Rows that stay are copied in each iteration, in the time of a row of the level at most.
    let copy = 2.0 * kept / costs.near_rate * units / others;
    Some(Pace {
        share: during / beside,
        ahead: (during / rows / copy).min(rows) as usize,
    })
}

/// The contractions of a kind that multiply with weights.
#[derive(Default)]
pub struct Products {
    /// Bytes of weights.
    weights: f64,
    /// Operations for a row.
    flops: f64,
    /// Bytes of the other operands, and of the results, of a row.
    arrays: f64,
    /// Elements of the results of a row.
    columns: f64,
}

impl Products {
    fn of(recursion: &Recursion, kind: &Kind, costs: &CostModel) -> Self {
        let member = &recursion.members[kind.member];
        let mut found = Products::default();
        on_the_way(member, member.func.body, kind, &mut |inst| {
            found.add(member, inst, costs);
        });
        found
    }

    /// Adds an instruction, if it is one.
    pub fn add(&mut self, member: &Member, inst: Inst, costs: &CostModel) {
        let data = &member.func.insts[inst];
        if !data.op.is_contraction() {
            return;
        }
        let ty = |v: &Value| member.ty(member.func.ty(*v));
        let bytes = |v: &Value| costs.bytes(&ty(v));
        let is_weight = |v: &&Value| member.origins.get(v) == Some(&Origin::Fixed);
        let weights: f64 = data.args.iter().filter(is_weight).map(bytes).sum();
        if weights > 0.0 {
            let rest = data.args.iter().filter(|v| !is_weight(v));
            self.arrays += rest.chain(&data.results).map(bytes).sum::<f64>();
            self.weights += weights;
            self.flops += costs.contraction(member.func, data);
            self.columns += costs.elements(&ty(&data.results[0]));
        }
    }
}

/// Bytes of weights in a nanosecond.
fn weights_rate(bytes: f64, costs: &CostModel) -> f64 {
    match bytes <= costs.near_all {
        true => costs.near_rate,
        false => costs.weights,
    }
}
