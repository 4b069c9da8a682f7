//! Chooses the lanes that work on a point together.
//!
//! Lanes of a unit take points of its share, next to each other along the innermost axis. Where a unit has fewer points than lanes,
//! the others idle, and where the elements of a point are next to each other, each access of a lane is a memory transaction of its
//! own. Instead, lanes divide what is reduced at a point ([`Lanes`]), and the elements of a row in the steps of a chain:
//!
//! - some neighbouring lanes of a warp take a point: they read along the reduced axis, or along that of a scan, whose results they
//!   exchange at each round;
//! - all lanes of the unit take some neighbouring points: they read along the points, in as many parts of the reduced axis as there
//!   are lanes for;
//! - all lanes of the unit compute a tile of a contraction with rows and columns ([`Tile`](heddle_uprogram::program::Tile)): each element of an operand is evaluated once
//!   for the tile, shared, and used for a rectangle of results at once, by lanes, or by the tensor cores of warps or warpgroups where
//!   operands may be rounded. A warpgroup multiplies 64 rows at a time, so it is for units with as many.
//!
//! Each form is priced: the places that a lane computes, the transactions of its accesses, and the exchange of partial results. Floats are
//! summed in another order, the same in each run. Rows of a chain must fit the memory that lanes share. Shares stay as they are, so the
//! pass comes when they are final.

mod tiled;

use std::collections::BTreeMap;

use heddle_machine::{Exchange, Machine};
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{
    Body, Buffer, BufferKind, Chain, Lanes, Local, Operator, OperatorId, UProgram,
};
use heddle_uprogram::step::Step;

use crate::cost::{estimate, place_ns, units_of};
use tiled::{Tiled, tiles};

/// The part of the time that a form must save: less is within the cost model's error.
const WORTH: f64 = 0.1;

/// Bytes of an element of a row that lanes share.
const WORD: usize = 4;

/// Chooses the lanes of a point for each operator, on machines whose lanes exchange values.
pub fn join_lanes(program: &mut UProgram, machine: &Machine) {
    let Some(exchange) = machine.exchange else {
        return;
    };
    for id in program.running() {
        let op = &program.operators[id];
        if let Some(work) = Work::of(program, machine, op) {
            let lanes = work.best(machine, exchange);
            join(program, id, lanes);
        }
    }
}

/// Has these lanes work on the points of an operator together, whether that pays or not, if it can be done on the machine. Rows of a
/// chain are then in memory that they share.
pub fn join_lanes_of(program: &mut UProgram, machine: &Machine, id: OperatorId, lanes: Lanes) {
    let work = Work::of(program, machine, &program.operators[id]);
    if let (Some(work), Some(exchange)) = (work, machine.exchange)
        && work.fits(machine, exchange, lanes)
    {
        join(program, id, lanes);
    }
}

fn join(program: &mut UProgram, id: OperatorId, lanes: Lanes) {
    if lanes == Lanes::Apart {
        return;
    }
    let mut op = program.operators[id].clone();
    if let Body::Chain(chain) = &op.body {
        let mut names = BTreeMap::new();
        for (row, _) in rows(program, chain).unwrap_or_default() {
            // Another version of the operator may have the same rows.
            let mut data = program.buffers[row].clone();
            data.kind = BufferKind::Shared;
            names.insert(row, program.buffers.push(data));
        }
        op = program.renamed(&op, &names);
    }
    op.lanes = lanes;
    // Copies are laid out for the lanes of before.
    op.resident = None;
    program.operators[id] = op;
}

/// The work of a unit on an operator.
struct Work {
    /// Points next to each other along the innermost axis.
    points: f64,
    /// Rows of such points, one after the other.
    rows: f64,
    /// The steps of a point.
    steps: Vec<Part>,
    /// Elements of the rows of a point that lanes share.
    elements: usize,
    /// The same work by tiles, if it is that of a contraction.
    tiled: Option<Tiled>,
}

/// A step of a chain, or the only one.
struct Part {
    /// Its points, of which lanes divide the innermost axis if nothing is reduced.
    points: [f64; 2],
    /// Places of the innermost reduced axis, and of the others; none if nothing is reduced.
    depth: Option<[f64; 2]>,
    /// Do lanes exchange values at each round of places, and not at the end only?
    in_step: bool,
    /// Nanoseconds of a lane for a place.
    place_ns: f64,
    /// Elements that are read at a place.
    loads: Vec<Load>,
}

/// An element that is read at each place.
struct Load {
    bytes: f64,
    /// Elements from that of the neighbouring point, and from that of the neighbouring place; infinite if not static.
    steps: [f64; 2],
}

impl Work {
    /// `None` if lanes can't divide the operator's points.
    fn of(program: &UProgram, machine: &Machine, op: &Operator) -> Option<Self> {
        let values = op.body.of_lanes().filter(|_| op.goes_in_step(program))?;
        let own = op.body.store().buffer;
        let loads = program.pool.loads(values);
        // No lane may read what another one writes.
        if loads.iter().any(|load| load.0 == own) {
            return None;
        }
        let point = op.axes.last().map(|axis| axis.0);
        let mut work = Self {
            points: 1.0,
            rows: 1.0,
            steps: vec![],
            elements: 0,
            tiled: Tiled::of(program, machine, op),
        };
        match &op.body {
            Body::Chain(chain) => {
                work.elements = rows(program, chain)?.iter().map(|row| row.1).sum();
                for step in &chain.steps {
                    let step = Operator {
                        axes: step.axes.clone(),
                        body: step.body.clone(),
                        ..op.clone()
                    };
                    work.steps.push(Part::of(program, machine, &step, point));
                }
            }
            _ => {
                let mut part = Part::of(program, machine, op, point);
                part.points = [1.0, 1.0];
                work.steps.push(part);
            }
        }
        for k in 0..op.axes.len() {
            let (places, blocks) = share_of(program, machine, op, k);
            match k + 1 == op.axes.len() {
                true => {
                    work.points = places;
                    work.rows *= blocks;
                }
                false => work.rows *= places * blocks,
            }
        }
        Some(work)
    }

    /// The fastest form.
    fn best(&self, machine: &Machine, exchange: Exchange) -> Lanes {
        let powers = || (0..=exchange.warp.ilog2()).map(|k| 1u32 << k);
        let warps = powers().skip(1).map(Lanes::Warp);
        let units = powers().map(Lanes::Unit);
        let tiles = tiles(machine.lanes()).map(Lanes::Tile);
        let apart = self.time(machine, exchange, Lanes::Apart) * (1.0 - WORTH);
        let mut best = (Lanes::Apart, apart);
        for lanes in warps.chain(units).chain(tiles) {
            if !self.fits(machine, exchange, lanes) || !self.fills(lanes) {
                continue;
            }
            let time = self.time(machine, exchange, lanes);
            if time < best.1 {
                best = (lanes, time);
            }
        }
        best.0
    }

    /// Do groups of lanes exchange values, and their rows have room?
    fn fits(&self, machine: &Machine, exchange: Exchange, lanes: Lanes) -> bool {
        let count = match lanes {
            Lanes::Apart => return true,
            Lanes::Tile(tile) => {
                let tiled = self.tiled.as_ref();
                return tiled.is_some_and(|tiled| tiled.fits(machine, exchange, tile));
            }
            Lanes::Warp(count) | Lanes::Unit(count) => count,
        };
        let groups = Form::of(machine, lanes).groups as usize;
        let bytes = groups * self.elements * WORD;
        count as usize <= exchange.warp && bytes <= exchange.shared_bytes
    }

    /// Do a unit's points fill what is computed at a time?
    fn fills(&self, lanes: Lanes) -> bool {
        match (lanes, &self.tiled) {
            (Lanes::Tile(tile), Some(tiled)) => tiled.fills(tile),
            _ => true,
        }
    }

    /// Nanoseconds of a unit under a form.
    fn time(&self, machine: &Machine, exchange: Exchange, lanes: Lanes) -> f64 {
        if let (Lanes::Tile(tile), Some(tiled)) = (lanes, &self.tiled) {
            return tiled.time(machine, exchange, tile);
        }
        let form = Form::of(machine, lanes);
        let rounds = self.rows * (self.points / form.groups).ceil();
        let joining = form.joining_ns(machine, exchange, lanes);
        let steps = self.steps.iter().map(|step| {
            let slower = step.transactions(machine, exchange, lanes, self.points);
            let [inner, outer] = step.points;
            let (places, joins) = match step.depth {
                None => ((inner / form.members).ceil() * outer, 0.0),
                Some([depth, others]) => {
                    let places = (depth / form.members).ceil() * others * inner * outer;
                    let joins = if step.in_step { places } else { inner * outer };
                    (places, joins)
                }
            };
            // A lane that takes each place behind the one before waits for its element.
            let nearest = machine.memories.first().map_or(0.0, |m| m.latency_ns);
            let waiting = if step.in_step { nearest } else { 0.0 };
            places * (step.place_ns * slower).max(waiting) + joins * joining
        });
        rounds * steps.sum::<f64>()
    }
}

/// The division of a unit's lanes into groups.
struct Form {
    groups: f64,
    members: f64,
}

impl Form {
    fn of(machine: &Machine, lanes: Lanes) -> Self {
        let all = machine.lanes() as f64;
        let (groups, members) = match lanes {
            Lanes::Apart | Lanes::Tile(_) => (all, 1.0),
            Lanes::Warp(lanes) => ((all / lanes as f64).floor().max(1.0), lanes as f64),
            Lanes::Unit(points) => (points as f64, all / points as f64),
        };
        Self { groups, members }
    }

    /// Nanoseconds to combine the partial results of all points side by side.
    fn joining_ns(&self, machine: &Machine, exchange: Exchange, lanes: Lanes) -> f64 {
        match lanes {
            Lanes::Apart | Lanes::Tile(_) => 0.0,
            Lanes::Warp(lanes) => lanes.ilog2() as f64 * exchange.shuffle_ns,
            Lanes::Unit(points) => {
                let warps = (machine.lanes() as f64 / exchange.warp as f64).ceil();
                let within = exchange.warp.ilog2() as f64 - points.ilog2() as f64;
                let sync = machine.syncs.lanes_ns.unwrap_or(0.0);
                within * exchange.shuffle_ns + sync + (1.0 + warps) * exchange.shared_ns
            }
        }
    }
}

impl Part {
    /// A step, for which `point` is the axis of neighbouring points of its operator.
    fn of(program: &UProgram, machine: &Machine, op: &Operator, point: Option<Local>) -> Self {
        let size = |axis: &(Local, ExprId)| estimate(program, axis.1);
        let split = |axes: &[(Local, ExprId)]| match axes.split_last() {
            Some((inner, outer)) => [size(inner), outer.iter().map(size).product()],
            None => [1.0, 1.0],
        };
        let is_map = matches!(op.body, Body::Map { .. });
        let place = match is_map {
            true => op.axes.last(),
            false => op.body.axes().last(),
        };
        let loads = program
            .pool
            .loads(op.body.of_lanes().unwrap_or_else(|| op.body.exprs()));
        // Rows are near in any case.
        let loads = loads
            .into_iter()
            .filter(|load| !program.buffers[load.0].kind.is_row());
        let loads = loads.map(|(buffer, offset)| Load {
            bytes: program.buffers[buffer].dtype.bits() as f64 / 8.0,
            steps: [point, place.map(|axis| axis.0)].map(|axis| step(program, offset, axis)),
        });
        // A multiplication takes less time than the accesses to what it multiplies.
        let accesses = match op.body {
            Body::Contract(_) => 2.0 * access_ns(machine),
            _ => 0.0,
        };
        Self {
            points: split(&op.axes),
            depth: (!is_map).then(|| split(op.body.axes())),
            in_step: op.body.in_step().is_some(),
            place_ns: place_ns(machine, program, op) * machine.lanes() as f64 + accesses,
            loads: loads.collect(),
        }
    }

    /// The factor by which accesses take longer than those of neighbouring elements; a unit has so many neighbouring points.
    fn transactions(
        &self,
        machine: &Machine,
        exchange: Exchange,
        lanes: Lanes,
        points: f64,
    ) -> f64 {
        let depth = self.depth.unwrap_or(self.points)[0];
        let (axis, run) = match lanes {
            Lanes::Apart | Lanes::Tile(_) => (0, points.min(machine.lanes() as f64)),
            Lanes::Warp(lanes) => (1, depth.min(lanes as f64)),
            Lanes::Unit(1) => (1, depth.min(machine.lanes() as f64)),
            Lanes::Unit(side_by_side) => (0, points.min(side_by_side as f64)),
        };
        slower(&self.loads, exchange, axis, run)
    }
}

/// The factor by which reads of so many places next to each other along an axis take longer than those of as many elements in a row.
fn slower(loads: &[Load], exchange: Exchange, axis: usize, run: f64) -> f64 {
    let moved = loads.iter().map(|load| {
        let run = match load.steps[axis] {
            0.0 => return 1.0,
            1.0 => run * load.bytes,
            _ => load.bytes,
        };
        (exchange.sector_bytes / run).max(1.0)
    });
    match loads.len() {
        0 => 1.0,
        loads => moved.sum::<f64>() / loads as f64,
    }
}

/// Nanoseconds in which each lane of a unit reads or writes a word of the nearest memory.
fn access_ns(machine: &Machine) -> f64 {
    let rate = machine.memories.first();
    let rate = rate.map_or(f64::INFINITY, |nearest| nearest.unit_rate);
    (WORD * machine.lanes()) as f64 / rate
}

/// The rows of a chain with more than one element, and their lengths; `None` if lanes can't share them.
fn rows(program: &UProgram, chain: &Chain) -> Option<Vec<(Buffer, usize)>> {
    let mut rows = vec![];
    for step in &chain.steps {
        // All lanes must go round equally often.
        let mut axes = step.axes.iter().chain(step.body.axes());
        if axes.any(|axis| program.pool.as_int(axis.1).is_none()) {
            return None;
        }
        let buffer = step.body.store().buffer;
        let data = &program.buffers[buffer];
        if !data.kind.is_row() {
            continue;
        }
        let len = program.pool.as_int(data.len)?;
        if len > 1 {
            if data.dtype.bits() > 8 * WORD {
                return None;
            }
            rows.push((buffer, len as usize));
        }
    }
    Some(rows)
}

/// Places of an axis in a block of the share of a unit, and the blocks.
fn share_of(program: &UProgram, machine: &Machine, op: &Operator, axis: usize) -> (f64, f64) {
    let size = estimate(program, op.axes[axis].1);
    let splits = op.share.splits().iter();
    let (units, _) = units_of(machine, op);
    let mut splits = splits.zip(op.share.sides(units));
    let Some((split, units)) = splits.find(|(split, _)| split.axis == axis) else {
        return (size, 1.0);
    };
    let (period, grain) = (estimate(program, split.period), split.grain as f64);
    let places = ((period / grain).ceil() / units as f64).ceil() * grain;
    (places.min(period), (size / period.max(1.0)).ceil())
}

/// Elements between those of neighbouring places of an axis.
fn step(program: &UProgram, offset: ExprId, axis: Option<Local>) -> f64 {
    let Some(axis) = axis else {
        return 0.0;
    };
    match Step::of(program, offset, axis) {
        Some(step) if step == Step::STILL => 0.0,
        Some(step) if step == Step::by(1) => 1.0,
        _ => f64::INFINITY,
    }
}
