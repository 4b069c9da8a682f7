//! Dead-zero elimination.

use std::collections::HashSet;

use heddle_ir::op::{BinaryOp, UnaryOp};
use heddle_ir::patch::Stats;
use heddle_ir::{
    FuncId, Function, Inst, InstData, LoopView, Module, Op, Region, Tensor, Type, Value,
};

use super::cost::CostModel;
use super::rebuild::{Rebuild, Result, rebuild_functions};
use crate::Edit;

/// Minimum share of a loop's time that peeling its first iteration must save. For a loop with a
/// condition or a dynamic trip count, the share would be one part in 64 or less.
const LEAST_SHARE: f64 = 0.02;

/// Removes products with zeros (`U·0`): those of arrays that are always zero, as at the leaves of a
/// recursion that runs level by level, and those of a loop's initial state, for which the first
/// iteration is peeled off if that saves enough (`LEAST_SHARE`).
///
/// The other operand must be a constant without infinities and NaNs, whose products with zero would
/// not be zero, or of integers. It does *not* peel loops around others, whose body is much code,
/// nor loops with a condition or an unknown trip count.
pub fn drop_zeros(module: &mut Module, costs: &CostModel) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    rebuild_functions(module, &ids, |rebuild, stats| {
        let mut zeros = Zeros {
            costs,
            known: HashSet::new(),
            stats: Stats::default(),
        };
        let built = rebuild.function(&mut |rebuild, inst| zeros.instead(rebuild, inst));
        *stats = zeros.stats;
        built
    })
}

struct Zeros<'a> {
    costs: &'a CostModel,
    /// Source values that are zero at the walk's current place.
    known: HashSet<Value>,
    stats: Stats,
}

impl Zeros<'_> {
    fn instead<'a>(&mut self, rebuild: &mut Rebuild<'a>, inst: Inst) -> Result<bool> {
        let func = rebuild.source;
        if let Some((parts, trips)) = self.to_peel(func, inst) {
            let (before, values) = (rebuild.b.checkpoint(), rebuild.values.clone());
            let (known, counted) = (self.known.clone(), self.stats.clone());
            if self.peel(rebuild, inst, &parts, trips).is_ok() {
                self.stats.record(Edit::ZeroIterationPeeled);
                return Ok(true);
            }
            rebuild.b.rollback(&before);
            rebuild.values = values;
            (self.known, self.stats) = (known, counted);
        }
        let data = &func.insts[inst];
        if is_zero(func, data, &self.known) {
            self.known.insert(data.results[0]);
            return Ok(false);
        }
        if !is_product_with_zeros(func, data, &self.known) {
            return Ok(false);
        }
        let Some(zeros) = zeros(rebuild, func.ty(data.results[0]))? else {
            return Ok(false);
        };
        self.known.insert(data.results[0]);
        rebuild.stands_for(data.results[0], zeros);
        self.stats.record(Edit::ZeroProduct);
        Ok(true)
    }

    /// A loop whose first iteration saves products, and its trip count.
    fn to_peel(&self, func: &Function, inst: Inst) -> Option<(LoopView, i64)> {
        let parts = LoopView::of(func, inst).filter(|p| p.cond.is_none())?;
        let trips = *func.constant(parts.trip?)?.to_i64s()?.first()?;
        let mut nested = false;
        func.for_each_inst_in(parts.body, &mut |_, data| {
            nested |= matches!(data.op, Op::Loop { .. });
        });
        if nested || trips < 2 {
            return None;
        }
        let mut known = self.known.clone();
        known.extend(starts_with_zeros(func, &parts, &self.known));
        let (mut saved, mut time) = (0.0, self.costs.step);
        self.walk(func, parts.body, &mut known, &mut |data, is_saved| {
            let own = self.time(func, data);
            time += own;
            saved += own * is_saved as u8 as f64;
        });
        // The rows of the first iteration and those of the others are joined by copies.
        let stacked = func.insts[inst].results[parts.params.len()..].iter();
        let copies: f64 = stacked.map(|v| self.costs.bytes(func.ty(*v))).sum();
        saved -= copies / self.costs.arrays;
        (saved > LEAST_SHARE * trips as f64 * time).then_some((parts, trips))
    }

    /// Finds the products with zeros in a region, given its zero values.
    fn walk(
        &self,
        func: &Function,
        region: Region,
        known: &mut HashSet<Value>,
        visit: &mut dyn FnMut(&InstData, bool),
    ) {
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            let saved = is_product_with_zeros(func, data, known);
            if saved || is_zero(func, data, known) {
                known.insert(data.results[0]);
            }
            visit(data, saved);
            for &inner in &data.regions {
                self.walk(func, inner, known, visit);
            }
        }
    }

    /// Time of an instruction in nanoseconds, without its regions.
    fn time(&self, func: &Function, data: &InstData) -> f64 {
        let bytes = |v: &Value| self.costs.bytes(func.ty(*v));
        let work = self.costs.contraction(func, data) / self.costs.flops;
        let weight = data.args.iter().filter(|v| func.constant(**v).is_some());
        let written: f64 = data.results.iter().map(bytes).sum();
        match work > 0.0 {
            true => work.max(weight.map(bytes).sum::<f64>() / self.costs.weights),
            false => written / self.costs.arrays,
        }
    }

    /// Builds the first iteration, then a loop over the others.
    fn peel<'a>(
        &mut self,
        rebuild: &mut Rebuild<'a>,
        inst: Inst,
        parts: &LoopView,
        trips: i64,
    ) -> Result<()> {
        let func = rebuild.source;
        let inits = rebuild.all(&parts.inits);
        let zero = rebuild.b.i64(0);
        rebuild.values.insert(parts.iteration, zero);
        let params = parts.params.iter().copied();
        rebuild.values.extend(params.zip(inits));
        let known = self.known.clone();
        let zeros = starts_with_zeros(func, parts, &known);
        self.known.extend(zeros);
        rebuild.insts(parts.body, &mut |r, inst| self.instead(r, inst))?;
        self.known = known.clone();
        let first = rebuild.all(&parts.next);
        let mut rows = vec![];
        for &value in &parts.stacked {
            let (axes, row) = (vec![0], rebuild.values[&value]);
            rows.push(rebuild.b.op1(Op::Unsqueeze { axes }, &[row])?);
        }

        let own = std::iter::once(&parts.iteration).chain(&parts.params);
        let types: Vec<Type> = own.map(|v| func.ty(*v).clone()).collect();
        let (_, inner) = rebuild.b.begin_region(&types);
        let one = rebuild.b.i64(1);
        let iteration = rebuild.b.binary(BinaryOp::Add, inner[0], one)?;
        rebuild.values.insert(parts.iteration, iteration);
        for (&old, &new) in parts.params.iter().zip(&inner[1..]) {
            rebuild.stands_for(old, new);
        }
        rebuild.insts(parts.body, &mut |r, inst| self.instead(r, inst))?;
        self.known = known;
        let yields = [&parts.next[..], &parts.stacked].concat();
        let yields = rebuild.all(&yields);
        let body = rebuild.b.end_region(&yields);
        let rest = rebuild.b.i64(trips - 1);
        let last = rebuild.b.loop_(Some(rest), None, &first, body)?;
        let (last, stacks) = last.split_at(first.len());
        let results = &func.insts[inst].results;
        for (&old, &new) in results.iter().zip(last) {
            rebuild.stands_for(old, new);
        }
        let stacked = results[first.len()..].iter().zip(rows).zip(stacks);
        for ((&old, row), &rest) in stacked {
            let all = rebuild.b.op1(Op::Concat { axis: 0 }, &[row, rest])?;
            rebuild.stands_for(old, all);
        }
        Ok(())
    }
}

/// The carried values that are zero in the first iteration.
fn starts_with_zeros(func: &Function, parts: &LoopView, known: &HashSet<Value>) -> Vec<Value> {
    let pairs = parts.params.iter().zip(&parts.inits);
    let zero = pairs.filter(|(_, init)| known.contains(init) || is_zero_constant(func, **init));
    zero.map(|(&param, _)| param).collect()
}

/// Is the only result of an instruction zero, given its zero operands?
fn is_zero(func: &Function, data: &InstData, known: &HashSet<Value>) -> bool {
    let zero = |v: &Value| known.contains(v) || is_zero_constant(func, *v);
    match &data.op {
        Op::Const(tensor) => is_all_zero(tensor),
        Op::Unary(UnaryOp::Neg | UnaryOp::Abs)
        | Op::Cast { .. }
        | Op::Reshape
        | Op::Transpose { .. }
        | Op::Unsqueeze { .. }
        | Op::Squeeze { .. }
        | Op::Broadcast
        | Op::Slice { .. }
        | Op::Gather { .. } => zero(&data.args[0]),
        Op::Binary(BinaryOp::Add | BinaryOp::Sub) | Op::Concat { .. } => data.args.iter().all(zero),
        _ => false,
    }
}

/// Does an instruction multiply zeros with finite numbers only?
fn is_product_with_zeros(func: &Function, data: &InstData, known: &HashSet<Value>) -> bool {
    let (Op::Dot | Op::Conv { .. }, &[a, b, ..]) = (&data.op, &data.args[..]) else {
        return false;
    };
    let zero = |v: Value| known.contains(&v) || is_zero_constant(func, v);
    zero(a) && is_finite(func, b) || zero(b) && is_finite(func, a)
}

fn is_zero_constant(func: &Function, value: Value) -> bool {
    func.constant(value).is_some_and(is_all_zero)
}

/// Are all elements zero, of either sign?
fn is_all_zero(tensor: &Tensor) -> bool {
    let dtype = tensor.dtype();
    let sign = match dtype {
        d if d.is_float() => 0x80,
        d if d.is_int() => 0,
        _ => return false,
    };
    let mut elements = tensor.bytes().chunks(dtype.bits().div_ceil(8));
    elements.all(|e| {
        e.split_last()
            .is_some_and(|(last, rest)| last & !sign == 0 && rest.iter().all(|byte| *byte == 0))
    })
}

/// Is a value free of infinities and NaNs?
pub(super) fn is_finite(func: &Function, value: Value) -> bool {
    let integers = func.ty(value).as_tensor().is_some_and(|t| t.dtype.is_int());
    let constant = func.constant(value).and_then(Tensor::to_f64s);
    integers || constant.is_some_and(|all| all.iter().all(|x| x.is_finite()))
}

/// An array of zeros of this type, if its sizes are known.
fn zeros(rebuild: &mut Rebuild, ty: &Type) -> Result<Option<Value>> {
    let Some((dtype, shape)) = ty
        .as_tensor()
        .and_then(|t| Some((t.dtype, t.shape.as_ref()?)))
    else {
        return Ok(None);
    };
    let mut sizes = vec![];
    for dim in shape {
        let Some(size) = rebuild.b.size_of(dim)? else {
            return Ok(None);
        };
        sizes.push(rebuild.b.vector_of(size)?);
    }
    let shape = match sizes.is_empty() {
        true => rebuild.b.i64s(&[]),
        false => rebuild.b.join(&sizes)?,
    };
    let zero = rebuild.b.scalar(dtype, 0.0);
    rebuild.b.op1(Op::Broadcast, &[zero, shape]).map(Some)
}
