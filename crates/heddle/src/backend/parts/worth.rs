//! The profit of compiling a part by itself: the interpreter's time for it against the cost of a launch.
//!
//! Dynamic sizes are guessed. Only the ratio of compute to transfer matters; it rarely depends on them.

use std::collections::HashSet;

use heddle_ir::{Dim, FuncId, Function, Inst, Module, Op, Region, Type, Value, ValueDef};
use heddle_machine::Host;
use heddle_opt::Outlined;

/// Assumed size of a dynamic axis, and trip count of a dynamic loop.
const GUESS: f64 = 64.0;

/// Depth to which calls are followed.
const DEPTH: usize = 3;

/// Does compiling a part of a region pay?
pub(crate) fn is_worth_it(
    module: &Module,
    func: &Function,
    region: Region,
    part: &[Inst],
    outlined: &Outlined,
    host: &Host,
) -> bool {
    let work = part.iter().map(|&inst| work(module, func, inst, 0, host));
    // Values of enclosing regions stay the same from one call to the next, so they are transferred once.
    let data = &func.regions[region];
    let own: HashSet<_> = data.insts.iter().collect();
    let is_own = |value: &&Value| match func.values[**value].def {
        ValueDef::Result(inst, _) => own.contains(&inst),
        ValueDef::Param(of, _) => of == region,
    };
    let moved = outlined.args.iter().filter(is_own).chain(&outlined.results);
    let bytes: f64 = moved.map(|&v| bytes(func.ty(v))).sum();
    work.sum::<f64>() > host.launch_ns + host.transfer_byte_ns * bytes
}

/// The interpreter's time for an instruction, in nanoseconds.
fn work(module: &Module, func: &Function, inst: Inst, depth: usize, host: &Host) -> f64 {
    let data = &func.insts[inst];
    let count = |value: Option<&Value>| value.map_or(0.0, |&v| elements(func.ty(v)));
    let result = || count(data.results.first());
    let inside = |region: &Region| {
        let insts = func.regions[*region].insts.iter();
        insts
            .map(|&i| work(module, func, i, depth, host))
            .sum::<f64>()
    };
    let own = match &data.op {
        Op::Const(_) => return 0.0,
        op if op.only_moves() || *op == Op::Shape => 0.0,
        Op::Dot => {
            let depth = data.args.first().map(|&v| last(func.ty(v)));
            host.product_ns * result() * depth.unwrap_or(GUESS)
        }
        Op::Conv { .. } => {
            let weights = data.args.get(1).map(|&v| func.ty(v));
            let each = weights.map_or(GUESS, |ty| elements(ty) / first(ty).max(1.0));
            host.product_ns * result() * each
        }
        Op::UpdateSlice => host.element_ns * count(data.args.get(1)),
        Op::ScatterElements { .. } | Op::ScatterNd { .. } => {
            host.element_ns * count(data.args.get(2))
        }
        Op::Reduce { .. }
        | Op::SegmentReduce { .. }
        | Op::ArgReduce { .. }
        | Op::NonZero
        | Op::TopK { .. } => host.element_ns * count(data.args.first()),
        Op::If => data.regions.iter().map(inside).fold(0.0, f64::max),
        Op::Loop { trip, .. } => {
            let trip = data.args.first().filter(|_| *trip);
            let known = trip.and_then(|&v| func.constant(v)?.to_i64s()?.first().copied());
            let iterations = known.map_or(GUESS, |n| (n.max(0) as f64).min(GUESS));
            iterations * data.regions.iter().map(inside).sum::<f64>()
        }
        Op::Call(callee) if depth < DEPTH => body(module, *callee, depth + 1, host),
        _ => host.element_ns * result(),
    };
    host.instruction_ns + own
}

fn body(module: &Module, id: FuncId, depth: usize, host: &Host) -> f64 {
    let func = &module.functions[id];
    let insts = func.regions[func.body].insts.iter();
    insts
        .map(|&inst| work(module, func, inst, depth, host))
        .sum()
}

fn sizes(ty: &Type) -> Vec<f64> {
    let shape = ty.as_tensor().and_then(|t| t.shape.as_deref());
    let size = |dim: &Dim| dim.as_const().map_or(GUESS, |n| n.max(0) as f64);
    shape.map_or(vec![GUESS], |dims| dims.iter().map(size).collect())
}

fn elements(ty: &Type) -> f64 {
    sizes(ty).into_iter().product()
}

fn first(ty: &Type) -> f64 {
    sizes(ty).first().copied().unwrap_or(1.0)
}

fn last(ty: &Type) -> f64 {
    sizes(ty).last().copied().unwrap_or(1.0)
}

fn bytes(ty: &Type) -> f64 {
    let width = ty.as_tensor().map_or(8, |t| t.dtype.bits().div_ceil(8));
    elements(ty) * width as f64
}
