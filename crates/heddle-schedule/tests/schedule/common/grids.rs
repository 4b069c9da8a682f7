//! Splits operators by two axes, whether that pays or not.

use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Grid, OperatorId, Share, Split};

/// Splits each operator that has two axes and that one unit need not run by two of them; the seed
/// says which ones, in which grains, and over which grid of units. Returns the operators that are
/// split by two axes.
pub fn force_grids(program: &mut UProgram, seed: u64) -> Vec<OperatorId> {
    let mut draw = Draw(seed.wrapping_mul(2).wrapping_add(1));
    let mut forced = vec![];
    for id in program.running() {
        let op = &mut program.operators[id];
        let count = op.axes.len() as u64;
        if count < 2 || matches!(op.share, Share::One(_)) {
            continue;
        }
        let first = draw.below(count);
        let second = (first + 1 + draw.below(count - 1)) % count;
        let unit = draw.below(3) as u32;
        let mut split = |axis: u64| Split {
            grain: [1, 1, 2, 16][draw.below(4) as usize],
            first: unit,
            ..Split::whole(axis as usize, op.axes[axis as usize].1)
        };
        let splits = [split(first), split(second)];
        let across = 1 + draw.below(4) as u32;
        op.share = Share::Grid(Grid { splits, across });
        forced.push(id);
    }
    forced
}

/// The passes that would share operators otherwise.
pub const SHARING: [&str; 6] = [
    "align_splits",
    "order_waves",
    "split_depths",
    "choose_kernels",
    "choose_levels",
    "fork_calls",
];

struct Draw(u64);

impl Draw {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}
