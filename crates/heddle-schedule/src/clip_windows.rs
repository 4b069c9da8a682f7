//! Leaves out copies of maps with their border: windows are cut off at the border instead.
//!
//! Lowering gives a map a border, so that plain loops along a line read neighbours without a test. Where channels are innermost, windows of
//! a place have the same taps inside for all channels, and emitters test once.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_machine::Machine;

use crate::fuse::substitute::Substitution;
use crate::fuse::uses::Uses;
use crate::fuse::{discard, for_each_block};
use crate::largest::most;
use crate::read_rows::may_move;
use crate::select_kernels::is_near;
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::neutral::is_neutral;
use heddle_uprogram::program::{Body, Buffer, Local, Operator, OperatorId, Stmt, Store, UProgram};
use heddle_uprogram::step::{Step, origin};

/// Channels from which on a test for a tap is cheap beside its sums.
const LEAST_CHANNELS: i64 = 8;

/// Removes copies of maps with a border if only reductions read them, along whose innermost axis the border is the same: these choose
/// between an element of the map and what stands for those outside, which is the neutral element of the reduction.
///
/// It runs behind [`select_kernels`](crate::select_kernels()), which lays out maps, for machines whose lanes take neighbouring points.
/// Taps outside are left out, also those of weights that are not finite.
pub fn clip_windows(program: &mut UProgram, machine: &Machine) {
    if machine.exchange.is_some() {
        return;
    }
    for_each_block(program, &mut |program, uses, block| {
        let mut k = 0;
        while k < block.len() {
            match block[k] {
                Stmt::Run(copy) if clipped(program, uses, &block[k + 1..], copy) => {
                    block.remove(k);
                }
                _ => k += 1,
            }
        }
    });
}

/// Lets the readers of a copy with a border read its source, if they can.
fn clipped(program: &mut UProgram, uses: &mut Uses, after: &[Stmt], copy: OperatorId) -> bool {
    let Some(framed) = Framed::of(program, &program.operators[copy]) else {
        return false;
    };
    let readers = uses.readers(framed.map);
    if readers.is_empty()
        || uses.sole_writer(program, framed.map) != Some(copy)
        || !may_move(program, after, &readers, framed.value)
    {
        return false;
    }
    let new: Option<Vec<_>> = readers
        .iter()
        .map(|id| framed.read_by(program, *id))
        .collect();
    let Some(new) = new else {
        return false;
    };
    for (id, op) in readers.into_iter().zip(new) {
        uses.remove(program, id);
        program.operators[id] = op;
        uses.add(program, id);
    }
    discard(program, uses, copy);
    true
}

/// A map with its border.
struct Framed {
    map: Buffer,
    /// The element that the copy has at a point: one of its source, or `nothing`.
    value: ExprId,
    inside: ExprId,
    nothing: ExprId,
    /// The copy's axes, outermost first, with the elements from a place of an axis to the next one.
    axes: Vec<(Local, i64)>,
}

impl Framed {
    /// The map that an operator copies, if the border is the same along its innermost axis.
    fn of(program: &UProgram, op: &Operator) -> Option<Self> {
        let Body::Map { store, value } = op.body else {
            return None;
        };
        let Expr::Select(_, inside, _, nothing) = program.pool[value] else {
            return None;
        };
        let Store { buffer, offset } = store;
        let axis =
            |axis: &(Local, ExprId)| Some((axis.0, Step::of(program, offset, axis.0)?.as_int()?));
        let mut axes = op.axes.iter().map(axis).collect::<Option<Vec<_>>>()?;
        axes.sort_by_key(|axis| -axis.1);
        let (innermost, step) = *axes.last()?;
        let size = op.axes.iter().find(|axis| axis.0 == innermost)?.1;
        let is_next = |axes: &[(Local, i64)]| axes[1].1 > 0 && axes[0].1 % axes[1].1 == 0;
        let loads = program.pool.loads([value]);
        let fits = matches!(program.pool[nothing], Expr::Num(..))
            && op.grow.is_none()
            && step == 1
            && axes.windows(2).all(is_next)
            && origin(program, offset) == Some(0)
            && program.pool.as_int(size) >= Some(LEAST_CHANNELS)
            && !program.locals_of(inside).contains(&innermost)
            && loads.iter().all(|load| is_near(program, load.1, innermost));
        fits.then_some(Self {
            map: buffer,
            value,
            inside,
            nothing,
            axes,
        })
    }

    /// A reader of the copy that reads the source, if it is a reduction that skips what lies outside.
    fn read_by(&self, program: &mut UProgram, id: OperatorId) -> Option<Operator> {
        let mut op = program.operators[id].clone();
        let folds = match &op.body {
            Body::Fold { .. } => vec![(op.axes.clone(), op.body.clone())],
            Body::Chain(chain) => {
                let steps = chain.steps.iter();
                steps
                    .map(|step| (step.axes.clone(), step.body.clone()))
                    .collect()
            }
            _ => return None,
        };
        let mut pairs = vec![];
        for (axes, body) in &folds {
            let loads = program.pool.loads(body.exprs());
            for (buffer, offset) in loads.iter().filter(|load| load.0 == self.map) {
                let load = program.pool.add(Expr::Load(*buffer, *offset));
                let Body::Fold { kind, value, .. } = body else {
                    return None;
                };
                let innermost = axes.last()?.0;
                let near = loads.iter().all(|load| is_near(program, load.1, innermost));
                if !near || !self.is_skipped(program, *kind, *value, load) {
                    return None;
                }
                pairs.push((load, self.element(program, &op, *offset)?));
            }
        }
        let mut loads = Substitution::new(pairs);
        let pool = &mut program.pool;
        op.body.change_exprs(&mut |e| *e = loads.apply(pool, *e));
        Some(op)
    }

    /// True if what stands for elements outside leaves a reduction of this value as it is.
    fn is_skipped(&self, program: &UProgram, kind: ReduceOp, value: ExprId, load: ExprId) -> bool {
        let is_factor = kind == ReduceOp::Sum
            && matches!(program.pool[value], Expr::Binary(BinaryOp::Mul, _, a, b) if a == load || b == load);
        is_neutral(&program.pool, kind, self.nothing) && (value == load || is_factor)
    }

    /// The element of the copy at this offset, from its source.
    fn element(&self, program: &mut UProgram, op: &Operator, offset: ExprId) -> Option<ExprId> {
        let (mut left, mut parts) = (vec![], vec![]);
        terms(&program.pool, offset, 1, &mut left)?;
        let mut room = None;
        for (axis, by) in &self.axes {
            let (own, rest) = left
                .into_iter()
                .partition(|term: &(i64, ExprId)| term.0 % by == 0);
            left = rest;
            let pool = &mut program.pool;
            let part = own.into_iter().fold(pool.int(0), |sum, (factor, e)| {
                let factor = pool.int(factor / by);
                let scaled = pool.product(e, factor);
                pool.sum(sum, scaled)
            });
            // Otherwise an inner axis would be counted in an outer one.
            if room.is_some_and(|room: i64| most(program, op, part).is_none_or(|n| n >= room / by))
            {
                return None;
            }
            room = Some(*by);
            parts.push((*axis, part));
        }
        // The innermost axis has taken all that was left.
        let pool = &mut program.pool;
        let mut pairs: Vec<_> = parts
            .iter()
            .map(|(axis, part)| (pool.local(*axis), *part))
            .collect();
        // There is a neighbour along the innermost axis where there is an element.
        if let Some((axis, part)) = parts.last() {
            let (index, zero) = (pool.local(*axis), pool.int(0));
            let index = pool.select(DType::I64, self.inside, index, zero);
            pairs.push((index, *part));
        }
        for (step, at_step) in &parts {
            for (phase, at_phase) in &parts {
                pairs.extend(joined(pool, [*step, *phase], [*at_step, *at_phase]));
            }
        }
        Some(Substitution::new(pairs).apply(pool, self.value))
    }
}

/// `step * n + phase` and its value where the phase is the remainder of a quotient that is a part of the step: the copy has every `n`-th
/// element next to each other, the source has not.
fn joined(
    pool: &mut Pool,
    [step, phase]: [Local; 2],
    [at_step, at_phase]: [ExprId; 2],
) -> Option<(ExprId, ExprId)> {
    let Expr::Binary(BinaryOp::Mod, DType::I64, whole, phases) = pool[at_phase] else {
        return None;
    };
    let quotient = pool.binary(BinaryOp::Div, DType::I64, whole, phases);
    let rest = match pool[at_step] {
        _ if at_step == quotient => pool.int(0),
        Expr::Binary(BinaryOp::Add, DType::I64, rest, part) if part == quotient => rest,
        Expr::Binary(BinaryOp::Add, DType::I64, part, rest) if part == quotient => rest,
        _ => return None,
    };
    let (step, phase) = (pool.local(step), pool.local(phase));
    let first = pool.product(step, phases);
    let index = pool.sum(first, phase);
    let scaled = pool.product(rest, phases);
    Some((index, pool.sum(scaled, whole)))
}

/// The parts of a sum, with their factors.
fn terms(pool: &Pool, e: ExprId, factor: i64, to: &mut Vec<(i64, ExprId)>) -> Option<()> {
    match pool[e] {
        Expr::Binary(BinaryOp::Add, DType::I64, a, b) => {
            terms(pool, a, factor, to)?;
            terms(pool, b, factor, to)?;
        }
        Expr::Binary(BinaryOp::Mul, DType::I64, a, b) if pool.as_int(b).is_some() => {
            let factor = factor.checked_mul(pool.as_int(b)?)?;
            terms(pool, a, factor, to)?;
        }
        _ => to.push((factor, e)),
    }
    Some(())
}
