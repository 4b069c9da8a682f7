//! What a device is to the scheduler, and what things cost on it when nothing has been measured.

use std::collections::BTreeMap;

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, UnaryOp};

use heddle_uprogram::contract::Access;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Local, LocalKind, Operator, Share, Split, UProgram};
use smallvec::SmallVec;

/// A device as a number of identical units that run a uProgram together, with the costs of the cost model.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// How many units there are. Programs are right on any number; they are scheduled for this one.
    pub units: usize,
    /// How many lanes a unit has, which need a synchronisation among them.
    pub lanes: usize,
    /// A synchronisation of all units, with what they wait because none finish at the same time. Nanoseconds.
    pub sync_ns: f64,
    /// Starting an operator. Nanoseconds.
    pub start_ns: f64,
    /// An arithmetic operation of one unit. Nanoseconds.
    pub arithmetic_ns: f64,
    /// A function such as an exponential. Nanoseconds.
    pub function_ns: f64,
    /// A multiplication with an addition in a contraction. Nanoseconds.
    pub contraction_ns: f64,
    /// Reading or writing a byte. Nanoseconds.
    pub byte_ns: f64,
}

/// Arithmetic operations that packing an element takes.
const PACKING: f64 = 5.0;

/// Bytes of a page of memory, within which processors ask for what follows before it is needed.
const PAGE: f64 = 4096.0;

/// Bytes that the nearest cache holds, where runs may be short.
const NEAR: f64 = 32768.0;

/// How much more a byte takes at most that is read in runs of few bytes of longer rows than in runs that fill pages. Measured on Zen 3 with
/// runs of 256 to 2048 bytes; it is the same where rows are a cache line longer, so that runs meet all sets of a cache.
const SHORT_RUNS: f64 = 0.6;

/// What a size that only the launch knows is taken for.
const UNKNOWN_SIZE: f64 = 64.0;

/// What a split by such a size is worth beside none: it wins where nothing else can be split.
const UNKNOWN_SHARE: f64 = 0.95;

impl Device {
    /// Cores of a processor.
    pub fn cpu(threads: usize) -> Self {
        Self {
            units: threads.max(1),
            lanes: 1,
            sync_ns: 200.0,
            start_ns: 5.0,
            arithmetic_ns: 0.1,
            function_ns: 0.5,
            contraction_ns: 0.02,
            byte_ns: 0.01,
        }
    }

    /// A GPU of the size of an H100: its multiprocessors, each with a resident block of 256 threads. A barrier of the grid
    /// takes 1.1 to 2.3 µs by public reports; the rest follows from 67 TFLOP/s of f32 and 3.3 TB/s.
    pub fn gpu() -> Self {
        Self {
            units: 132,
            lanes: 256,
            sync_ns: 1500.0,
            start_ns: 20.0,
            arithmetic_ns: 0.008,
            function_ns: 0.032,
            contraction_ns: 0.004,
            byte_ns: 0.04,
        }
    }

    /// The time that an operator takes when it is shared like this, in nanoseconds: that of the unit with the largest share.
    pub fn time(&self, program: &UProgram, op: &Operator, share: Share) -> f64 {
        let splits = share.splits().iter().zip(share.sides(self.units));
        let parts = splits.map(|(split, units)| largest_part(program, op, split, units));
        let parts: Parts = parts.collect();
        let points = product(program, op.axes.iter().chain(op.body.axes()));
        let compute = points * part_of(&parts, |_| true) * self.point(program, op)
            + self.packing(program, op, &parts) * self.arithmetic_ns * PACKING;
        let memory = self.bytes(program, op, &parts) * self.byte_ns;
        self.start_ns + compute.max(memory)
    }

    /// The elements of an operand that the unit with the largest share packs for itself.
    fn packing(&self, program: &UProgram, op: &Operator, parts: &Parts) -> f64 {
        let Body::Contract(c) = &op.body else {
            return 0.0;
        };
        if c.own.is_none() {
            return 0.0;
        }
        let axes = op.axes.iter().chain([&c.depth]);
        let elements = product(program, axes.filter(|a| Some(a.0) != c.rows));
        elements * part_of(parts, |axis| Some(axis) != c.rows)
    }

    /// What a point costs to compute, of the parallel axes and those of its reduction.
    fn point(&self, program: &UProgram, op: &Operator) -> f64 {
        if matches!(
            op.body,
            Body::Fold { columns: true, .. } | Body::Contract(_)
        ) {
            return self.contraction_ns;
        }
        let mut time = 0.0;
        for root in op.body.exprs() {
            program.pool.walk(root, &mut |_, e| {
                time += match e {
                    Expr::Unary(op, ..) if is_function(op) => self.function_ns,
                    Expr::Binary(BinaryOp::Pow | BinaryOp::Atan2, ..) => self.function_ns,
                    Expr::Num(..) | Expr::Local(_) => 0.0,
                    _ => self.arithmetic_ns,
                };
            });
        }
        time
    }

    /// The bytes that the unit with the largest share touches.
    fn bytes(&self, program: &UProgram, op: &Operator, parts: &Parts) -> f64 {
        let mut touched = BTreeMap::new();
        let mut touch = |buffer, offset: ExprId| {
            let data = &program.buffers[buffer];
            let locals = program.locals_of(offset);
            let axes = op.axes.iter().chain(op.body.axes());
            let elements = product(program, axes.filter(|a| locals.contains(&a.0)));
            let share = part_of(parts, |axis| locals.contains(&axis));
            let bytes =
                elements.min(estimate(program, data.len)) * share * data.dtype.bits() as f64 / 8.0;
            let most = touched.entry(buffer).or_insert(0.0f64);
            *most = most.max(bytes);
        };
        let store = op.body.store();
        touch(store.buffer, store.offset);
        for root in op.body.exprs() {
            program.pool.walk(root, &mut |_, e| {
                if let Expr::Load(buffer, offset) = e {
                    touch(buffer, offset);
                }
            });
        }
        if let Body::Contract(c) = &op.body {
            for (operand, outer) in [(c.a, c.rows), (c.b, Some(c.columns))] {
                if let Access::Strided { buffer, .. } = operand.access
                    && let Some(bytes) = touched.get_mut(&buffer).filter(|bytes| **bytes > NEAR)
                    && let Some((run, row)) = runs(program, op, operand.access, outer, parts)
                {
                    let longer = 1.0 + SHORT_RUNS * (1.0 - run / PAGE);
                    *bytes *= longer.min(row / run);
                }
            }
        }
        touched.values().sum()
    }
}

/// Split axes, with the part of each that the unit with the largest share has.
type Parts = SmallVec<[(Local, f64); 2]>;

/// The part of a space in which these axes are.
fn part_of(parts: &Parts, is_in: impl Fn(Local) -> bool) -> f64 {
    let parts = parts.iter().filter(|p| is_in(p.0));
    parts.fold(1.0, |product, part| product * part.1)
}

/// The largest part of an axis that so many units share.
fn largest_part(program: &UProgram, op: &Operator, split: &Split, units: usize) -> (Local, f64) {
    // A dynamic size may be 1, and a split by it share nothing out.
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
    (axis, most / count * hope)
}

/// The bytes that the unit with the largest share reads one after the other of each row of a contraction's operand, and those of a
/// row, if rows are longer and these do not fill a page.
fn runs(
    program: &UProgram,
    op: &Operator,
    access: Access,
    outer: Option<Local>,
    parts: &Parts,
) -> Option<(f64, f64)> {
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
    let count = estimate(program, *size) * part_of(parts, |axis| axis == run);
    let [run, row] = [count, known(row)?].map(|n| n * c.dtype.bits() as f64 / 8.0);
    (run < row && run < PAGE).then_some((run, row))
}

/// Roughly what a size is.
pub fn estimate(program: &UProgram, size: ExprId) -> f64 {
    size_if(program, size, UNKNOWN_SIZE)
}

/// What a size is if those that only the launch knows are this.
fn size_if(program: &UProgram, size: ExprId, unknown: f64) -> f64 {
    match program.pool[size] {
        Expr::Num(DType::I64, bits) => bits as i64 as f64,
        Expr::Local(l) if program.locals[l].kind == LocalKind::Size => unknown,
        // What is left of a size is most at first.
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
