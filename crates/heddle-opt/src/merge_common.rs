//! Common subexpression elimination.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{DType, Dim, FuncId, Inst, Module, Op, Region, Tensor, Type, Value};

use crate::Edit;
use crate::canonicalize::commutes;
use crate::facts::Facts;

/// Replaces an instruction by an equal earlier one of its region or of a region around it.
/// Constants are equal if their elements are. Operands of commutative ops may be swapped. Integers
/// that are known to be the same expression over symbolic sizes are equal, regardless of their
/// computation.
///
/// Constants move out of branches and loops, so that each stands in a function once.
///
/// The pass does *not* merge `if` or `loop`. It moves only constants: computations that
/// two branches share stay in both.
pub fn merge_common(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let facts = Facts::of(module, id);
        let func = &mut module.functions[id];
        let body = func.body;
        let mut merge = Merge {
            facts: &facts,
            patch: Patch::new(func),
            seen: HashMap::new(),
            sizes: HashMap::new(),
            log: vec![],
            outermost: None,
        };
        merge.region(body);
        stats.merge(merge.patch.apply());
    }
    stats
}

struct Merge<'a, 'f> {
    facts: &'a Facts,
    patch: Patch<'f>,
    /// Instructions in scope, by the hash of op and operands.
    seen: HashMap<u64, Vec<Inst>>,
    /// Values in scope by the sizes that they hold.
    sizes: HashMap<(Type, Vec<Dim>), Vec<Value>>,
    /// Undo log: entries to remove at the end of a region.
    log: Vec<Added>,
    /// Instruction of the function body that contains the current region.
    outermost: Option<Inst>,
}

enum Added {
    Inst(u64),
    Size((Type, Vec<Dim>)),
}

impl Merge<'_, '_> {
    fn region(&mut self, region: Region) {
        let mark = self.log.len();
        for inst in self.patch.func().regions[region].insts.clone() {
            let data = &self.patch.func().insts[inst];
            if data.regions.is_empty() {
                self.inst(inst);
            } else {
                let inner = data.regions.clone();
                let outermost = self.outermost;
                self.outermost = outermost.or(Some(inst));
                for inner in inner {
                    self.region(inner);
                }
                self.outermost = outermost;
            }
        }
        for added in self.log.drain(mark..) {
            match added {
                Added::Inst(hash) => drop(self.seen.get_mut(&hash).and_then(Vec::pop)),
                Added::Size(key) => drop(self.sizes.get_mut(&key).and_then(Vec::pop)),
            }
        }
    }

    fn inst(&mut self, inst: Inst) {
        let data = &self.patch.func().insts[inst];
        let args = self.patch.args(inst);
        let dtype = args
            .first()
            .and_then(|v| self.patch.ty(*v).as_tensor())
            .map(|t| t.dtype);
        let args = operands(&data.op, dtype, args);
        let hash = hash(&data.op, &args);
        let same = self
            .seen
            .get(&hash)
            .into_iter()
            .flatten()
            .copied()
            .find(|&earlier| {
                let other = &self.patch.func().insts[earlier];
                other.op == data.op && operands(&other.op, dtype, self.patch.args(earlier)) == args
            });
        if let Some(earlier) = same {
            let earlier = self.patch.func().insts[earlier].results.clone();
            if self.replace(inst, &earlier) {
                self.patch.because(Edit::CommonSubexpression);
                return;
            }
        }
        let is_const = matches!(self.patch.func().insts[inst].op, Op::Const(_));
        if let (true, Some(outermost)) = (is_const, self.outermost) {
            self.patch.move_before(inst, outermost);
            self.patch.because(Edit::ConstantMoved);
            // It stays in scope for the rest of the function. Entries of the undo log pop from the
            // end, so it goes to the front.
            self.seen.entry(hash).or_default().insert(0, inst);
            return;
        }
        self.seen.entry(hash).or_default().push(inst);
        self.log.push(Added::Inst(hash));
        self.size(inst);
    }

    /// Merges an instruction whose result is a known size with an earlier one that holds the same.
    fn size(&mut self, inst: Inst) {
        let data = &self.patch.func().insts[inst];
        let &[result] = data.results.as_slice() else {
            return;
        };
        let Some(known) = self.facts.known(result) else {
            return;
        };
        let symbolic = known.iter().any(|d| d.as_const().is_none());
        if !symbolic || known.iter().any(|d| d.as_expr().is_none()) {
            return;
        }
        let Type::Tensor(t) = self.patch.ty(result) else {
            return;
        };
        // Narrower integers might wrap where the expression does not.
        if t.dtype != DType::I64 {
            return;
        }
        // A vector's type may be stated in several ways.
        let shape = t.static_shape().unwrap_or_else(|| vec![known.len()]);
        let key = (Type::fixed(t.dtype, &shape), known.to_vec());
        let earlier = self.sizes.get(&key).and_then(|all| all.first().copied());
        if let Some(earlier) = earlier
            && self.replace(inst, &[earlier])
        {
            self.patch.because(Edit::CommonSize);
            return;
        }
        self.sizes.entry(key.clone()).or_default().push(result);
        self.log.push(Added::Size(key));
    }

    fn replace(&mut self, inst: Inst, by: &[Value]) -> bool {
        let results = self.patch.func().insts[inst].results.clone();
        let mut pairs = results.iter().zip(by);
        if !pairs
            .clone()
            .all(|(&old, &new)| self.patch.can_replace(old, new))
        {
            return false;
        }
        let all = pairs.all(|(&old, &new)| self.patch.replace(old, new));
        self.patch.remove(inst);
        all
    }
}

/// Operands, sorted if the op is commutative.
fn operands(op: &Op, dtype: Option<DType>, mut args: Vec<Value>) -> Vec<Value> {
    if dtype.is_some_and(|d| commutes(op, d)) {
        args.sort();
    }
    args
}

fn hash(op: &Op, args: &[Value]) -> u64 {
    let mut hasher = DefaultHasher::new();
    match op {
        Op::Const(tensor) => hash_tensor(tensor, &mut hasher),
        // Name and attributes. Ops with equal hashes are compared, so a collision is harmless.
        op => format!("{op:?}").hash(&mut hasher),
    }
    args.hash(&mut hasher);
    hasher.finish()
}

/// Hashes only the first and last bytes of a tensor, so that large weights need not be read whole.
fn hash_tensor(tensor: &Tensor, hasher: &mut impl Hasher) {
    const PART: usize = 4096;
    let bytes = tensor.bytes();
    (tensor.dtype(), tensor.shape()).hash(hasher);
    bytes[..bytes.len().min(PART)].hash(hasher);
    bytes[bytes.len() - bytes.len().min(PART)..].hash(hasher);
    tensor.strs().hash(hasher);
}
