//! Kernel candidates: the ways to run an operator (Rammer §3.3: the rKernels of an rOperator), with
//! their numbers of uTasks.

use crate::latency::Latency;
use heddle_uprogram::contract::Contract;
use heddle_uprogram::program::{
    Body, Candidate, Grid, Operator, OperatorId, Share, Split, UProgram,
};

/// The candidates of an operator: its current share. A contraction also has: one unit; a split
/// along each axis into as many tasks as there are units, half as many, and so on; and a grid over
/// each two axes. An operator fixed to one unit has one candidate.
pub fn candidates(program: &UProgram, latency: &dyn Latency, id: OperatorId) -> Vec<Candidate> {
    let (op, units) = (&program.operators[id], latency.machine().units());
    let shares = shares(program, op, units).into_iter();
    let candidate = |share| candidate(program, latency, id, share);
    shares.map(candidate).collect()
}

/// The candidate for this share.
pub(super) fn candidate(
    program: &UProgram,
    latency: &dyn Latency,
    id: OperatorId,
    share: Share,
) -> Candidate {
    let share = share.from_unit(0);
    Candidate {
        share,
        parts: 1,
        tasks: tasks(program, share, latency.machine().units()),
        time: latency.operator(program, id, share),
    }
}

/// The shares of the candidates, all beginning with unit 0.
pub(super) fn shares(program: &UProgram, op: &Operator, units: usize) -> Vec<Share> {
    let share = op.share.from_unit(0);
    let (Body::Contract(c), now) = (&op.body, op.share.splits()) else {
        return vec![share];
    };
    if now.is_empty() {
        return vec![share];
    }
    // Ties go to the first candidate, and one unit saves its readers waits for others.
    let mut shares = vec![Share::One(0), share];
    for (axis, &(local, size)) in op.axes.iter().enumerate() {
        let step = c.step(local);
        let mut periods = vec![size];
        let blocks = now.iter().filter(|s| s.axis == axis && s.period != size);
        periods.extend(blocks.map(|s| s.period));
        for period in periods {
            let whole = Split::whole(axis, period);
            shares.push(Share::Split(whole));
            let Some(count) = program.pool.as_int(period) else {
                continue;
            };
            let mut wanted = units as i64;
            while wanted > 1 {
                // Whole tiles: two units that share a tile would both compute it.
                let grain = ((count + wanted - 1) / wanted).max(1);
                let grain = (grain + step - 1) / step * step;
                if grain < count {
                    shares.push(Share::Split(Split { grain, ..whole }));
                }
                wanted /= 2;
            }
        }
    }
    shares.extend(grids(program, op, c, units));
    let mut distinct: Vec<Share> = vec![];
    for share in shares {
        if !distinct.contains(&share) {
            distinct.push(share);
        }
    }
    distinct
}

/// Partitions of two axes of static sizes in whole tiles: grids whose sides are powers of two, or
/// fit one of the axes.
fn grids(program: &UProgram, op: &Operator, c: &Contract, units: usize) -> Vec<Share> {
    let mut grids = vec![];
    let tiles = |k: usize| {
        let (local, size) = op.axes[k];
        let grain = c.step(local);
        let count = program.pool.as_int(size)? as usize;
        Some((count.div_ceil(grain as usize), grain))
    };
    for second in 0..op.axes.len() {
        for first in 0..second {
            let (Some(along), Some(over)) = (tiles(first), tiles(second)) else {
                continue;
            };
            let powers = (1..).map(|n| 1 << n).take_while(|&n| n < units);
            let mut sides: Vec<usize> = powers.flat_map(|n| [n, units / n]).collect();
            sides.extend([over.0, units / along.0.max(1)]);
            sides.retain(|&across| (2..=over.0.min(units / 2)).contains(&across));
            sides.retain(|_| along.0 > 1);
            sides.sort_unstable();
            sides.dedup();
            grids.extend(sides.into_iter().map(|across| {
                let split = |axis: usize, grain| Split {
                    grain,
                    ..Split::whole(axis, op.axes[axis].1)
                };
                Share::Grid(Grid {
                    splits: [split(first, along.1), split(second, over.1)],
                    across: across as u32,
                })
            }));
        }
    }
    grids
}

/// True if the shares give each unit the same points up to a rotation of the units, though their
/// grains may differ.
pub fn are_alike(program: &UProgram, a: Share, b: Share, units: usize) -> bool {
    let (a, b) = (a.from_unit(0), b.from_unit(0));
    if a == b {
        return true;
    }
    let sides = a.sides(units);
    let (a_splits, b_splits) = (a.splits(), b.splits());
    if a_splits.is_empty() || a_splits.len() != b_splits.len() || sides != b.sides(units) {
        return false;
    }
    let mut pairs = a_splits.iter().zip(b_splits).zip(sides);
    pairs.all(|((a, b), side)| {
        let Some(count) = program.pool.as_int(a.period) else {
            return a == b;
        };
        let begin = |split: &Split, unit: i64| {
            let grains = (count + split.grain - 1) / split.grain;
            (grains * unit / side as i64 * split.grain).min(count)
        };
        let same = |unit| begin(a, unit) == begin(b, unit);
        (a.axis, a.period) == (b.axis, b.period) && (0..side as i64).all(same)
    })
}

/// The number of units with at least one point of an operator.
pub(super) fn tasks(program: &UProgram, share: Share, units: usize) -> usize {
    let busy = loads(program, share, units).into_iter();
    busy.filter(|&load| load > 0.0).count()
}

/// The load of each unit relative to the largest. Loads along dynamic sizes count as equal.
pub(super) fn loads(program: &UProgram, share: Share, units: usize) -> Vec<f64> {
    let splits = share.splits();
    let [first, ..] = splits else {
        return one_load(share, units);
    };
    let sides = share.sides(units);
    // The load of a part of a split axis.
    let load = |split: &Split, side: usize, part: usize| {
        let Some(count) = program.pool.as_int(split.period).filter(|&n| n > 0) else {
            return 1.0;
        };
        let grains = (count as usize).div_ceil(split.grain as usize);
        let most = grains.div_ceil(side) as f64;
        let begin = |part: usize| grains * part / side;
        (begin(part + 1) - begin(part)) as f64 / most
    };
    let of_unit = |unit: usize| {
        let turn = (unit + units - first.first as usize % units) % units;
        if turn >= sides[0] * sides[1] {
            return 0.0;
        }
        let parts = [turn / sides[1], turn % sides[1]];
        let loads = splits.iter().zip(sides).zip(parts);
        loads.fold(1.0, |product, ((split, side), part)| {
            product * load(split, side, part)
        })
    };
    (0..units).map(of_unit).collect()
}

/// The loads where one unit runs everything.
fn one_load(share: Share, units: usize) -> Vec<f64> {
    let mut loads = vec![0.0; units];
    if let Share::One(unit) = share {
        loads[unit as usize % units] = 1.0;
    }
    loads
}

/// The unit with which units' times begin if they then end earliest, behind what the units' clocks say.
pub(super) fn earliest(clocks: &[f64], times: &[f64]) -> usize {
    let all = clocks.len();
    let is_even = times.iter().all(|time| *time == times[0]);
    let end = |first: usize| {
        let rotated = (0..all).map(|unit| times[(unit + all - first) % all]);
        let ends = rotated.zip(clocks).filter(|(time, _)| *time > 0.0);
        ends.map(|(time, clock)| clock + time).fold(0.0, f64::max)
    };
    let units = if is_even { 1 } else { all };
    let first = (0..units).min_by(|&a, &b| end(a).total_cmp(&end(b)));
    first.unwrap_or(0)
}

/// Adds to the units' clocks what an operator with these loads takes.
pub(super) fn add(clocks: &mut [f64], loads: &[f64], time: f64) {
    let both = clocks.iter_mut().zip(loads);
    both.for_each(|(clock, load)| *clock += load * time);
}
