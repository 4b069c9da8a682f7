//! Kernel candidates: the ways to run an operator (Rammer §3.3: the rKernels of an rOperator), and the uTasks that each makes.

use crate::latency::Latency;
use heddle_uprogram::contract::panel_width;
use heddle_uprogram::program::{Body, Candidate, Operator, OperatorId, Share, Split, UProgram};

/// The candidates of an operator: as it is; and of a contraction also on one unit, and dealt out by each axis into as many
/// tasks as there are units, half as many, and so on. What one unit must run has one candidate.
pub fn candidates(program: &UProgram, latency: &dyn Latency, id: OperatorId) -> Vec<Candidate> {
    let (op, units) = (&program.operators[id], latency.machine().units());
    let shares = shares(program, op, units).into_iter();
    let candidate = |share| candidate(program, latency, id, share);
    shares.map(candidate).collect()
}

/// An operator that is shared like this.
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

/// The shares that candidates have. All begin with unit 0.
pub(super) fn shares(program: &UProgram, op: &Operator, units: usize) -> Vec<Share> {
    let share = op.share.from_unit(0);
    let (Share::Dealt(now), Body::Contract(c)) = (op.share, &op.body) else {
        return vec![share];
    };
    // Of two that take as long the first is chosen, and whoever waits for one unit waits for no other.
    let mut shares = vec![Share::One(0), share];
    for (axis, &(local, size)) in op.axes.iter().enumerate() {
        let step = match local == c.columns {
            true => panel_width(c.dtype),
            false => 1,
        };
        let mut periods = vec![size];
        periods.extend((axis == now.axis && now.period != size).then_some(now.period));
        for period in periods {
            let whole = Split::whole(axis, period);
            shares.push(Share::Dealt(whole));
            let Some(count) = program.pool.as_int(period) else {
                continue;
            };
            let mut wanted = units as i64;
            while wanted > 1 {
                // Whole panels: what two units share of one, both compute.
                let grain = ((count + wanted - 1) / wanted).max(1);
                let grain = (grain + step - 1) / step * step;
                if grain < count {
                    shares.push(Share::Dealt(Split { grain, ..whole }));
                }
                wanted /= 2;
            }
        }
    }
    let mut distinct: Vec<Share> = vec![];
    for share in shares {
        if !distinct.contains(&share) {
            distinct.push(share);
        }
    }
    distinct
}

/// Whether shares give each of so many units the same, whichever unit begins: by different grains, say.
pub fn are_alike(program: &UProgram, a: Share, b: Share, units: usize) -> bool {
    let (a, b) = (a.from_unit(0), b.from_unit(0));
    if a == b {
        return true;
    }
    let (Share::Dealt(a), Share::Dealt(b)) = (a, b) else {
        return false;
    };
    let Some(count) = program.pool.as_int(a.period) else {
        return false;
    };
    let begin = |split: Split, unit: i64| {
        let grains = (count + split.grain - 1) / split.grain;
        (grains * unit / units as i64 * split.grain).min(count)
    };
    let same = |unit| begin(a, unit) == begin(b, unit);
    (a.axis, a.period) == (b.axis, b.period) && (0..units as i64).all(same)
}

/// How many units have something of an operator to do.
pub(super) fn tasks(program: &UProgram, share: Share, units: usize) -> usize {
    let busy = loads(program, share, units).into_iter();
    busy.filter(|&load| load > 0.0).count()
}

/// What each unit has of an operator to do, where 1 is the largest share. Of sizes that only the launch knows every unit has as
/// much.
pub(super) fn loads(program: &UProgram, share: Share, units: usize) -> Vec<f64> {
    let split = match share {
        Share::One(unit) => {
            let mut loads = vec![0.0; units];
            loads[unit as usize % units] = 1.0;
            return loads;
        }
        Share::Dealt(split) => split,
    };
    let Some(count) = program.pool.as_int(split.period).filter(|&n| n > 0) else {
        return vec![1.0; units];
    };
    let grains = (count as usize).div_ceil(split.grain as usize);
    let most = grains.div_ceil(units) as f64;
    let load = |unit: usize| {
        let turn = (unit + units - split.first as usize % units) % units;
        let begin = |turn: usize| grains * turn / units;
        (begin(turn + 1) - begin(turn)) as f64 / most
    };
    (0..units).map(load).collect()
}
