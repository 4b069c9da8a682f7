//! Constant folding.

use std::collections::HashSet;

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::tensor::{byte_size, element_count};
use heddle_ir::{
    DType, Dim, Entity, FuncId, Function, Inst, LoopView, Module, Op, Region, Tensor, Type, Value,
    ValueDef,
};

use crate::Edit;
use crate::facts::Facts;
use crate::stop_misfits::stop_misfits;
use crate::uses::count_uses;

/// Maximum size in bytes of results that are always folded.
const SMALL: usize = 16 << 10;
/// Maximum size in bytes of results that are folded if that does not add to the constants.
const LARGE: usize = 64 << 20;
/// Maximum number of element operations to fold one instruction.
const MAX_WORK: usize = 1 << 24;

/// Evaluates instructions on constants, selects the arm of an `if` with a constant condition, and
/// drops a loop that never starts. The known elements of a small integer array (the shape of an
/// array of constant dims) are constants too. What turns out not to fit becomes a failure
/// (`stop_misfits`).
///
/// It does *not* fold an instruction that would make the program much larger (a broadcast of a
/// scalar to a big array, unless it is a weight: kernels want those in memory) or takes the
/// interpreter long, nor calls.
pub fn fold_constants(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let facts = Facts::of(module, id);
        let func = &mut module.functions[id];
        let body = func.body;
        let mut fold = Fold {
            facts: &facts,
            uses: count_uses(func),
            weights: weights(func),
            patch: Patch::new(func),
        };
        fold.region(body);
        stats.merge(fold.patch.apply());
    }
    stats.merge(stop_misfits(module));
    stats
}

struct Fold<'a, 'f> {
    facts: &'a Facts,
    uses: Vec<u32>,
    /// Operands of contractions, and the arrays that those are views of.
    weights: HashSet<Value>,
    patch: Patch<'f>,
}

impl Fold<'_, '_> {
    fn region(&mut self, region: Region) {
        for inst in self.patch.func().regions[region].insts.clone() {
            match self.patch.func().insts[inst].op {
                Op::Const(_) | Op::RunKey | Op::Call(_) => {}
                Op::If => self.if_(inst),
                Op::Loop { .. } => self.loop_(inst),
                _ => {
                    let _ = self.known(inst) || self.fold(inst);
                }
            }
        }
    }

    fn constant(&self, value: Value) -> Option<&Tensor> {
        self.patch.func().constant(self.patch.resolve(value))
    }

    fn truth(&self, value: Value) -> Option<bool> {
        self.constant(value).and_then(Tensor::truth)
    }

    /// Replaces an instruction whose only result is known by a constant.
    fn known(&mut self, inst: Inst) -> bool {
        let &[result] = self.patch.func().insts[inst].results.as_slice() else {
            return false;
        };
        let Some(tensor) = self.facts.known(result).and_then(|known| {
            let values: Option<Vec<i64>> = known.iter().map(|d| d.as_const()).collect();
            Tensor::of_integers(self.patch.ty(result), &values?)
        }) else {
            return false;
        };
        self.replace(inst, vec![tensor], Edit::KnownSize)
    }

    fn fold(&mut self, inst: Inst) -> bool {
        let args = self.patch.args(inst);
        let func = self.patch.func();
        let data = &func.insts[inst];
        let constants: Option<Vec<&Tensor>> = args.iter().map(|v| func.constant(*v)).collect();
        let Some(constants) = constants else {
            return false;
        };
        let bytes = |ty: &Type| {
            let t = ty.as_tensor()?;
            byte_size(t.dtype, element_count(&t.static_shape()?)?)
        };
        // Without a static type the result may still be small, as that of `nonzero`.
        let estimate = data.results.iter().try_fold(0usize, |sum, v| {
            Some(sum.saturating_add(bytes(
                self.facts.narrower(*v).unwrap_or_else(|| self.patch.ty(*v)),
            )?))
        });
        let given: usize = constants.iter().map(|t| t.bytes().len()).sum();
        let estimate = estimate.unwrap_or(given.saturating_mul(8));
        // A constant whose readers are all folded is freed, so each reader may produce its share of
        // bytes: for example, the reordered gates of a weight.
        let freed = data.args.iter().zip(&constants).map(|(v, t)| {
            let readers = self.uses.get(v.index()).map_or(1, |uses| (*uses).max(1));
            t.bytes().len() / readers as usize
        });
        let freed: usize = freed.sum();
        let contracted = data.results.iter().any(|v| self.weights.contains(v));
        let is_weight = contracted && matches!(data.op, Op::Broadcast);
        let large = estimate <= LARGE && (is_weight || estimate <= freed + SMALL);
        let fits = estimate <= SMALL || large;
        if !fits || work(&data.op, &constants, estimate) > MAX_WORK {
            return false;
        }
        match heddle_interp::fold(&data.op, &constants) {
            Some(tensors) => self.replace(inst, tensors, Edit::ConstantOperands),
            None => false,
        }
    }

    fn replace(&mut self, inst: Inst, tensors: Vec<Tensor>, edit: Edit) -> bool {
        let results = self.patch.func().insts[inst].results.clone();
        let fits = |(value, t): (&Value, &Tensor)| self.patch.ty(*value).compatible(&t.ty());
        if results.len() != tensors.len() || !results.iter().zip(&tensors).all(fits) {
            return false;
        }
        for (&old, tensor) in results.iter().zip(tensors) {
            let ty = tensor.ty();
            let new = self
                .patch
                .insert(inst, Op::Const(tensor), &[], vec![], vec![ty])[0];
            if !self.patch.replace(old, new) {
                return false;
            }
        }
        self.patch.remove(inst);
        self.patch.because(edit);
        true
    }

    fn if_(&mut self, inst: Inst) {
        let data = self.patch.func().insts[inst].clone();
        let chosen = self.truth(data.args[0]);
        if let Some(chosen) = chosen {
            let region = data.regions[if chosen { 0 } else { 1 }];
            self.region(region);
            if self
                .patch
                .inline_region(inst, region, &[], 0, &data.results)
            {
                self.patch.because(Edit::ConstantCondition);
            }
            return;
        }
        for region in data.regions {
            self.region(region);
        }
    }

    fn loop_(&mut self, inst: Inst) {
        let Some(parts) = LoopView::of(self.patch.func(), inst) else {
            return;
        };
        let count = parts.trip.and_then(|t| self.integer(t));
        let begins = parts.cond.and_then(|c| self.truth(c));
        let none = count.is_some_and(|n| n <= 0) || begins == Some(false);
        if !none || !self.drop_loop(inst, &parts) {
            self.region(parts.body);
        }
    }

    fn integer(&self, value: Value) -> Option<i64> {
        self.constant(value)?.to_i64s()?.first().copied()
    }

    /// Replaces the results of a loop that does not iterate by initial values and empty scan
    /// outputs.
    fn drop_loop(&mut self, inst: Inst, parts: &LoopView) -> bool {
        let (carried, stacked) = (&parts.last, &parts.scans);
        let empty = |v: &Value| {
            let t = self.patch.ty(*v).as_tensor()?;
            let shape = t.shape.as_ref()?.iter().skip(1);
            let size = |d: &Dim| match d {
                Dim::Expr(e) => e.as_const().and_then(|c| usize::try_from(c).ok()),
                Dim::Unknown(_) => Some(0),
            };
            let rest: Option<Vec<usize>> = shape.map(size).collect();
            let shape = [vec![0], rest?].concat();
            match t.dtype {
                DType::Str => Tensor::strings(shape, vec![]).ok(),
                dtype => Tensor::new(dtype, shape, Default::default()).ok(),
            }
        };
        let Some(empties) = stacked.iter().map(empty).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let mut pairs = carried.iter().zip(&parts.inits);
        if !pairs
            .clone()
            .all(|(&old, &new)| self.patch.can_replace(old, new))
        {
            return false;
        }
        let fits = |(value, t): (&Value, &Tensor)| self.patch.ty(*value).compatible(&t.ty());
        if !stacked.iter().zip(&empties).all(fits) {
            return false;
        }
        let mut done = pairs.all(|(&old, &new)| self.patch.replace(old, new));
        for (&old, tensor) in stacked.iter().zip(empties) {
            let ty = tensor.ty();
            let new = self
                .patch
                .insert(inst, Op::Const(tensor), &[], vec![], vec![ty])[0];
            done &= self.patch.replace(old, new);
        }
        self.patch.remove(inst);
        self.patch.because(Edit::LoopWithoutIterations);
        done
    }
}

/// The arrays that contractions read, as they are or through views.
fn weights(func: &Function) -> HashSet<Value> {
    let mut found = HashSet::new();
    func.for_each_inst(&mut |_, data| {
        if !matches!(data.op, Op::Dot | Op::Conv { .. }) {
            return;
        }
        for &operand in data.args.iter().take(2) {
            let mut at = Some(operand);
            while let Some(value) = at.filter(|v| found.insert(*v)) {
                at = viewed(func, value);
            }
        }
    });
    found
}

/// The array that a value is a view of.
fn viewed(func: &Function, value: Value) -> Option<Value> {
    let ValueDef::Result(inst, _) = func.values[value].def else {
        return None;
    };
    let data = &func.insts[inst];
    match data.op {
        Op::Reshape | Op::Transpose { .. } | Op::Unsqueeze { .. } | Op::Squeeze { .. } => {
            data.args.first().copied()
        }
        _ => None,
    }
}

/// Estimated number of element operations of an op.
fn work(op: &Op, args: &[&Tensor], out_bytes: usize) -> usize {
    let largest = args.iter().map(|t| t.len()).max().unwrap_or(0);
    match op {
        Op::Dot => match args[0].shape() {
            [.., k] => out_bytes.saturating_mul(*k),
            [] => largest,
        },
        Op::Conv { .. } => out_bytes.saturating_mul(args[1].len()),
        Op::Window { window, .. } => window
            .iter()
            .fold(out_bytes, |work, size| work.saturating_mul(*size)),
        _ => largest.max(out_bytes / 8),
    }
}
