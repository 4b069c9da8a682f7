//! Profitability of evaluation by levels.
//!
//! A batch reads the weights of a product once for all of its rows; nothing else is saved. The
//! costs are, for each call, the walk and the copies between the results' array and a batch, and
//! for each level, the synchronisations and a partly filled batch. Small weights stay in near
//! caches anyway: for them, individual calls are faster, however wide a tree is.

use heddle_ir::{Inst, Region};

use super::LevelOptions;
use super::analyze::{Kind, Member, Origin, Recursion};
use crate::transform::cost::{CostModel, is_contraction};

/// Minimum mean number of contractions in a level; none if batches save less than they cost.
pub fn least_width(
    recursion: &Recursion,
    options: &LevelOptions,
    costs: &CostModel,
) -> Option<f64> {
    let saved = recursion
        .kinds
        .iter()
        .map(|k| saved(recursion, k, options, costs));
    let gain = saved.fold(0.0, f64::max) - costs.call;
    (gain > 0.0).then(|| options.width.max(costs.level / gain))
}

/// Nanoseconds saved by evaluating a call of this kind in a batch.
fn saved(recursion: &Recursion, kind: &Kind, options: &LevelOptions, costs: &CostModel) -> f64 {
    let member = &recursion.members[kind.member];
    let mut products = vec![];
    on_the_way(member, member.func.body, kind, &mut |inst| {
        products.push(inst)
    });
    let (mut bytes, mut flops) = (0.0, 0.0);
    for inst in products {
        let data = &member.func.insts[inst];
        let fixed = data
            .args
            .iter()
            .filter(|v| member.origins.get(v) == Some(&Origin::Fixed));
        let weights = fixed.map(|v| costs.bytes(&member.ty(member.func.ty(*v))));
        let weights: f64 = weights.sum();
        if weights > 0.0 {
            bytes += weights;
            flops += costs.contraction(member.func, data);
        }
    }
    saving(bytes, flops, options, costs)
}

/// Nanoseconds saved per call or iteration in a batch, given its products' bytes of weights and
/// operations.
fn saving(bytes: f64, flops: f64, options: &LevelOptions, costs: &CostModel) -> f64 {
    let rate = match bytes <= costs.near_all {
        true => costs.near_rate,
        false => costs.weights,
    };
    // A row's arithmetic takes as long in a batch.
    let reading = bytes / rate - flops / costs.flops;
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
        if is_contraction(&data.op) {
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
