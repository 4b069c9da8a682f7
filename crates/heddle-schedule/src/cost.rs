//! The cost model: estimated times of operators on a machine.

use std::collections::BTreeMap;

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, ReduceOp, UnaryOp};
use heddle_machine::{Arithmetic, Cores, Machine, Scalar};

use heddle_uprogram::contract::{Access, Rounding, panel_width};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, Local, LocalKind, Operator, ResidentPart, Share, UProgram,
};
use smallvec::SmallVec;

use crate::select_kernels::is_near;

/// Arithmetic operations to pack one element.
const PACKING: f64 = 5.0;

/// Arithmetic operations in the time of one that is not vectorised.
const SCALAR: f64 = 2.0;

/// The time of products whose operands lie at any address, by that of a kernel's.
const UNALIGNED: f64 = 2.0;

/// Assumed value of a dynamic size.
const UNKNOWN_SIZE: f64 = 64.0;

/// Share of the work assumed for a split along a dynamic size: just below 1, so that it is chosen
/// only where no other axis can be split.
const UNKNOWN_SHARE: f64 = 0.95;

/// The time of an operator under this share in nanoseconds: that of the unit with the largest load.
///
/// It is the larger of arithmetic time and memory time. Data comes from the nearest memory level
/// that keeps data between operators and holds the operator's data, at the rate left to each of the
/// units that read concurrently.
pub fn time(machine: &Machine, program: &UProgram, op: &Operator, share: Share) -> f64 {
    loaded(
        machine,
        program,
        op,
        &Load::new(machine, program, op, share),
    )
}

fn loaded(machine: &Machine, program: &UProgram, op: &Operator, load: &Load) -> f64 {
    let costs = Costs::new(machine, program, op);
    let points = product(program, op.axes.iter().chain(op.body.axes()));
    let compute = points * load.part(|_| true) * costs.point()
        + costs.packing(load)
        + costs.finding_rows(load);
    machine.start_ns + compute.max(costs.memory(load))
}

/// The time of a unit for one place of the reduced axes of one point, all its lanes at work.
pub(super) fn place_ns(machine: &Machine, program: &UProgram, op: &Operator) -> f64 {
    Costs::new(machine, program, op).point()
}

/// The time of a part of each share, such as a tenth, as an operator of its own.
pub(super) fn time_of_part(
    machine: &Machine,
    program: &UProgram,
    op: &Operator,
    share: Share,
    part: f64,
) -> f64 {
    let mut load = Load::new(machine, program, op, share);
    load.parts.iter_mut().for_each(|(_, whole)| *whole *= part);
    loaded(machine, program, op, &load)
}

/// Bytes of each buffer that the unit with the largest load touches.
pub(super) fn touched(
    machine: &Machine,
    program: &UProgram,
    op: &Operator,
    share: Share,
) -> Touched {
    let load = Load::new(machine, program, op, share);
    let costs = Costs::new(machine, program, op);
    costs.touched(&load)
}

/// Bytes of a buffer that all units write that run an operator under this share; `touched` is that of one.
pub(super) fn written(machine: &Machine, touched: &Touched, buffer: Buffer, share: Share) -> f64 {
    let own = touched.get(&buffer).copied().unwrap_or(0.0);
    match share {
        Share::One(_) | Share::Every => own,
        Share::Split(_) | Share::Grid(_) => own * machine.units() as f64,
    }
}

/// The time that a unit takes longer to read what it touches of a buffer if units have just written so many bytes of it, and others
/// than itself this `part` of these. What does not fit the units' nearest memories comes from a memory that they share.
pub(super) fn transfer_time(
    machine: &Machine,
    program: &UProgram,
    touched: &Touched,
    buffer: Buffer,
    written: f64,
    part: f64,
) -> f64 {
    let data = &program.buffers[buffer];
    let whole = estimate(program, data.len) * data.dtype.bits() as f64 / 8.0;
    let written = written.min(whole);
    let near = machine.resident();
    if written > machine.whole_bytes(near) {
        return 0.0;
    }
    let read = touched.get(&buffer).copied().unwrap_or(0.0);
    let bytes = read.min(written) * part;
    let own = machine.unit_rate(near, machine.units());
    (bytes / machine.remote_read_rate - bytes / own).max(0.0)
}

/// The part of a buffer that other units have written, if it is split evenly.
pub(super) fn remote_part(machine: &Machine) -> f64 {
    1.0 - 1.0 / machine.units() as f64
}

/// Arithmetic rates for a type.
pub(super) fn arithmetic(machine: &Machine, dtype: DType) -> Arithmetic {
    machine.arithmetic(scalar(dtype))
}

/// Nanoseconds of a unit to add a product of numbers of a type on its tensor cores; `None` if it has none for it.
pub(super) fn cores_ns(machine: &Machine, rounding: Rounding) -> Option<f64> {
    rate(&machine.cores, rounding)
}

/// The same by instructions of a warpgroup.
pub(super) fn warpgroups_ns(machine: &Machine, rounding: Rounding) -> Option<f64> {
    rate(&machine.warpgroups, rounding)
}

fn rate(rates: &[(Cores, f64)], rounding: Rounding) -> Option<f64> {
    let wanted = match rounding {
        Rounding::Tf32 => Cores::Tf32,
        Rounding::Bf16 => Cores::Bf16,
        Rounding::F16 => Cores::F16,
    };
    let found = rates.iter().find(|cores| cores.0 == wanted);
    found.map(|cores| cores.1)
}

/// The machine's name for an element type.
pub(super) fn scalar(dtype: DType) -> Scalar {
    match dtype.is_float() {
        true => Scalar::float(dtype.bits()),
        false => Scalar::int(dtype.bits()),
    }
}

/// The units that run an operator, and the number of teams of which they are one.
pub(super) fn units_of(machine: &Machine, op: &Operator) -> (usize, usize) {
    let all = machine.units();
    match op.team {
        Some(team) => (team.units(all).len(), team.of as usize),
        None => (all, 1),
    }
}

/// The share of the unit with the largest load.
struct Load {
    /// The split axes, with its fraction of each.
    parts: SmallVec<[(Local, f64); 2]>,
    /// Units with a non-empty share.
    active: usize,
    /// Units that are at work at the same time: those of other teams, too.
    busy: usize,
}

impl Load {
    fn new(machine: &Machine, program: &UProgram, op: &Operator, share: Share) -> Self {
        let (units, teams) = units_of(machine, op);
        let mut load = Self {
            parts: SmallVec::new(),
            active: 1,
            busy: 1,
        };
        for (split, units) in share.splits().iter().zip(share.sides(units)) {
            // A dynamic size may be 1, which leaves all work to one unit.
            let count = size_if(program, split.period, 1.0).max(1.0);
            let unknown = count < estimate(program, split.period);
            let grain = split.grain as f64;
            let grains = (count / grain).ceil();
            let most = ((grains / units as f64).ceil() * grain).min(count);
            let axis = op.axes[split.axis].0;
            let most = match &op.body {
                Body::Contract(c) => c.computed(axis, split.grain, most),
                _ => most,
            };
            let hope = if unknown { UNKNOWN_SHARE } else { 1.0 };
            load.parts.push((axis, most / count * hope));
            load.active *= units.min(grains as usize).max(1);
        }
        if share == Share::Every {
            load.active = units;
        }
        load.busy = (load.active * teams).min(machine.units());
        load
    }

    /// Its fraction of a space that has the split axes selected by `has`.
    fn part(&self, has: impl Fn(Local) -> bool) -> f64 {
        let parts = self.parts.iter().filter(|(axis, _)| has(*axis));
        parts.fold(1.0, |product, (_, part)| product * part)
    }
}

/// An operator on a machine.
struct Costs<'a> {
    machine: &'a Machine,
    program: &'a UProgram,
    op: &'a Operator,
}

impl<'a> Costs<'a> {
    fn new(machine: &'a Machine, program: &'a UProgram, op: &'a Operator) -> Self {
        Self {
            machine,
            program,
            op,
        }
    }

    /// Time of the unit with the largest load to pack an operand into its own memory.
    fn packing(&self, load: &Load) -> f64 {
        let (program, op) = (self.program, self.op);
        let Body::Contract(c) = &op.body else {
            return 0.0;
        };
        if c.own.is_none() {
            return 0.0;
        }
        let axes = op.axes.iter().chain([&c.depth]);
        let elements = product(program, axes.filter(|a| Some(a.0) != c.rows));
        let part = load.part(|axis| Some(axis) != c.rows);
        elements * part * PACKING * arithmetic(self.machine, c.dtype).elementwise_ns
    }

    /// Time of the unit with the largest load to find the first operand's rows, and to fetch their addresses for each pair of
    /// panels.
    fn finding_rows(&self, load: &Load) -> f64 {
        let Body::Contract(c) = &self.op.body else {
            return 0.0;
        };
        let Access::Rows { at, .. } = c.a.access else {
            return 0.0;
        };
        let axes = self.op.axes.iter().filter(|a| a.0 != c.columns);
        let rows = product(self.program, axes) * load.part(|axis| axis != c.columns);
        let columns = self.op.axes.iter().filter(|a| a.0 == c.columns);
        let columns = product(self.program, columns) * load.part(|axis| axis == c.columns);
        let pairs = columns / (2 * panel_width(c.dtype)) as f64;
        let mut nodes = 0.0;
        self.program.pool.walk(at, &mut |_, _| nodes += 1.0);
        rows * (nodes + pairs) * SCALAR * arithmetic(self.machine, DType::I64).elementwise_ns
    }

    /// Time of a point of the parallel and reduction axes.
    fn point(&self) -> f64 {
        match &self.op.body {
            Body::Contract(c) => return arithmetic(self.machine, c.dtype).fma_ns,
            Body::Fold {
                columns: true,
                dtype,
                ..
            } => return arithmetic(self.machine, *dtype).fma_ns,
            // Lanes of a GPU compute addresses for each element.
            _ if self.machine.exchange.is_some() => {}
            // A border has loops of its own, so that neither tests nor addresses take time.
            Body::Map { value, .. } if self.is_border(*value) => {
                return self.values(&[*value], false);
            }
            Body::Fold { .. } => return self.reduced(&self.op.body, &self.op.axes),
            Body::Chain(chain) => {
                if let Some(fold) = chain.reduction() {
                    return self.reduced(fold, &self.op.axes);
                }
            }
            _ => {}
        }
        self.values(&self.op.body.exprs(), true)
    }

    /// Time of a point of a reduction. Where neighbours are contiguous, vectors take them, and addresses only move.
    fn reduced(&self, fold: &Body, around: &[(Local, ExprId)]) -> f64 {
        let Body::Fold {
            kind,
            dtype,
            axes,
            value,
            ..
        } = fold
        else {
            return 0.0;
        };
        let program = self.program;
        let loads = program.pool.loads([*value]);
        let near =
            |axis: &(Local, ExprId)| loads.iter().all(|load| is_near(program, load.1, axis.0));
        let is_contiguous = [around.last(), axes.last()].into_iter().flatten().any(near);
        let is_product = *kind == ReduceOp::Sum
            && matches!(program.pool[*value], Expr::Binary(BinaryOp::Mul, _, a, b)
                if [a, b].iter().all(|e| matches!(program.pool[*e], Expr::Load(..))));
        match is_contiguous {
            true if is_product => UNALIGNED * arithmetic(self.machine, *dtype).fma_ns,
            _ => self.values(&[*value], !is_contiguous),
        }
    }

    /// True for a choice by the place of a point, among elements at sums and multiples of axes.
    fn is_border(&self, value: ExprId) -> bool {
        let loads = self.program.pool.loads([value]);
        self.is_by_place(value) && loads.iter().all(|load| self.is_place(load.1))
    }

    fn is_by_place(&self, value: ExprId) -> bool {
        matches!(self.program.pool[value], Expr::Select(_, cond, ..) if self.is_place(cond))
    }

    /// True for a place or a condition that sums and multiples of axes decide.
    fn is_place(&self, e: ExprId) -> bool {
        use BinaryOp::{Add, And, Mul, Or, Sub};
        let is_other = |e| match e {
            Expr::Binary(op, ..) => !matches!(op, Add | Sub | Mul | And | Or),
            Expr::Compare(..) | Expr::Select(..) | Expr::Num(..) | Expr::Local(_) => false,
            _ => true,
        };
        !self.program.pool.any(e, &is_other)
    }

    /// Time to compute these expressions one after the other, with or without the offsets of what they load and the choices by places.
    fn values(&self, roots: &[ExprId], with_offsets: bool) -> f64 {
        let rates = |dtype| arithmetic(self.machine, dtype);
        let mut time = 0.0;
        for root in roots {
            self.program.pool.walk_some(*root, &mut |id, e, open| {
                match e {
                    Expr::Load(..) if !with_offsets => {}
                    Expr::Select(_, _, a, b) if !with_offsets && self.is_by_place(id) => {
                        return open.extend([a, b]);
                    }
                    _ => open.extend(e.operands()),
                }
                time += match e {
                    Expr::Unary(op, dtype, _) if is_function(op) => rates(dtype).transcendental_ns,
                    Expr::Binary(op, dtype, ..) if op.is_function() => {
                        rates(dtype).transcendental_ns
                    }
                    Expr::Num(..) | Expr::Local(_) => 0.0,
                    Expr::Unary(_, dtype, _)
                    | Expr::Binary(_, dtype, ..)
                    | Expr::Compare(_, dtype, ..)
                    | Expr::Select(dtype, ..) => rates(dtype).elementwise_ns,
                    _ => rates(DType::I32).elementwise_ns,
                };
            });
        }
        time
    }

    /// Time of the unit with the largest load to read and write its data.
    fn memory(&self, load: &Load) -> f64 {
        let alone = Load {
            parts: SmallVec::new(),
            active: 1,
            busy: 1,
        };
        let (mut own, mut whole) = (self.touched(load), self.touched(&alone));
        let mut resident = 0.0;
        let near_by = |buffer: &Buffer| {
            let kind = &self.program.buffers[*buffer].kind;
            self.resident() == Some(*buffer) || kind.first_word().is_some()
        };
        own.retain(|buffer, bytes| {
            let stays = !near_by(buffer);
            resident += if stays { 0.0 } else { *bytes };
            stays
        });
        whole.retain(|buffer, _| !near_by(buffer));
        let whole: f64 = whole.values().sum();
        let whole = whole * (load.busy / load.active) as f64;
        let level = self.machine.memory(own.values().sum(), whole, load.busy);
        let near = self.machine.memories.first();
        let near = near.map_or(f64::INFINITY, |memory| self.machine.unit_rate(memory, 1));
        self.moved(own, load) / self.machine.unit_rate(level, load.busy) + resident / near
    }

    /// The array of which each unit has its part in shared memory.
    fn resident(&self) -> Option<Buffer> {
        let resident = self.op.resident?;
        Some(ResidentPart::of(self.program, self.op, resident.second)?.buffer)
    }

    /// Bytes of each buffer that the unit with the largest load touches.
    fn touched(&self, load: &Load) -> Touched {
        let (program, op) = (self.program, self.op);
        let mut touched = Touched::new();
        let mut touch = |buffer, offset: ExprId| {
            let data = &program.buffers[buffer];
            let locals = program.locals_of(offset);
            let axes = op.axes.iter().chain(op.body.axes());
            let elements = product(program, axes.filter(|a| locals.contains(&a.0)));
            let share = load.part(|axis| locals.contains(&axis));
            let bytes =
                elements.min(estimate(program, data.len)) * share * data.dtype.bits() as f64 / 8.0;
            let most = touched.entry(buffer).or_insert(0.0f64);
            *most = most.max(bytes);
        };
        let store = op.body.store();
        touch(store.buffer, store.offset);
        for (buffer, offset) in program.pool.loads(op.body.exprs()) {
            touch(buffer, offset);
        }
        touched
    }

    /// Bytes touched, scaled up for operands that are read in short runs.
    fn moved(&self, mut touched: Touched, load: &Load) -> f64 {
        let streams = &self.machine.streams;
        let near = self.machine.memories.first().map_or(0.0, |m| m.bytes);
        if let Body::Contract(c) = &self.op.body {
            for (operand, outer) in [(c.a, c.rows), (c.b, Some(c.columns))] {
                if let Access::Strided { buffer, .. } = operand.access
                    && let Some(bytes) = touched.get_mut(&buffer).filter(|bytes| **bytes > near)
                    && let Some((run, row)) = self.runs(operand.access, outer, load)
                {
                    let longer = 1.0 + streams.short_run * (1.0 - run / streams.run_bytes);
                    *bytes *= longer.min(row / run);
                }
            }
        }
        touched.values().sum()
    }

    /// For a contraction's operand that the unit with the largest load reads in runs too short for
    /// the full rate: bytes of a run, and of the row that contains it.
    fn runs(&self, access: Access, outer: Option<Local>, load: &Load) -> Option<(f64, f64)> {
        let (program, op) = (self.program, self.op);
        let (
            Access::Strided {
                depth: step,
                outer: other,
                ..
            },
            Body::Contract(c),
        ) = (access, &op.body)
        else {
            return None;
        };
        let known = |size: ExprId| program.pool.as_int(size).map(|n| n as f64);
        let (run, row) = match (known(other)? == 1.0, known(step)? == 1.0) {
            (true, false) => (outer?, step),
            (false, true) => (c.depth.0, other),
            _ => return None,
        };
        let mut axes = op.axes.iter().chain([&c.depth]);
        let (_, size) = axes.find(|a| a.0 == run)?;
        let count = estimate(program, *size) * load.part(|axis| axis == run);
        let [run, row] = [count, known(row)?].map(|n| n * c.dtype.bits() as f64 / 8.0);
        (run < row && run < self.machine.streams.run_bytes).then_some((run, row))
    }
}

/// Bytes by buffer.
pub(super) type Touched = BTreeMap<Buffer, f64>;

/// An estimate of a size.
pub fn estimate(program: &UProgram, size: ExprId) -> f64 {
    size_if(program, size, UNKNOWN_SIZE)
}

/// A size, with `unknown` for dynamic ones.
fn size_if(program: &UProgram, size: ExprId, unknown: f64) -> f64 {
    match program.pool[size] {
        Expr::Num(DType::I64, bits) => bits as i64 as f64,
        Expr::Local(l) if program.expected.contains_key(&l) => program.expected[&l],
        Expr::Local(l) if program.locals[l].kind == LocalKind::Size => {
            let derived = program.derived.iter().find(|derived| derived.0 == l);
            derived.map_or(unknown, |(_, value)| size_if(program, *value, unknown))
        }
        // The remainder of a size is largest in the first chunk.
        Expr::Local(l) if program.locals[l].kind == LocalKind::Axis => 0.0,
        Expr::Binary(op, DType::I64, a, b) => {
            let (a, b) = (size_if(program, a, unknown), size_if(program, b, unknown));
            match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => (a - b).max(1.0),
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b.max(1.0),
                BinaryOp::Max => a.max(b),
                BinaryOp::Min => a.min(b),
                // A typical remainder.
                BinaryOp::Mod => a.min((b - 1.0).max(0.0) / 2.0),
                _ => a,
            }
        }
        _ => unknown,
    }
}

fn product<'a>(program: &UProgram, axes: impl Iterator<Item = &'a (Local, ExprId)>) -> f64 {
    axes.map(|a| estimate(program, a.1)).product()
}

fn is_function(op: UnaryOp) -> bool {
    use UnaryOp::*;
    !matches!(
        op,
        Neg | Abs | Sign | Not | Round | Floor | Ceil | Trunc | IsNan | IsInf
    )
}
