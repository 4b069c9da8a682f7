//! Scattered updates that fill a box.

use std::collections::{BTreeMap, HashSet};

use heddle_ir::op::{BinaryOp, ScatterReduce};
use heddle_ir::patch::{Patch, Stats};
use heddle_ir::tensor::element_count;
use heddle_ir::{DType, FuncId, Function, Inst, Module, Op, Region, Tensor, Type, Value};

use crate::Edit;

/// Turns a `scatter_nd` into an `update_slice` if its indices form a box in order: constants plus
/// multiples of the iteration numbers of surrounding loops, as in a cache of keys and values that
/// grows by a row in each step. Positions are then index arithmetic, and no array of indices is
/// made.
///
/// It does *not* look at indices of more than a few thousand elements, nor at those that may be
/// negative.
pub fn slice_updates(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let func = &mut module.functions[id];
        let mut scatters = vec![];
        let mut iterations = HashSet::new();
        collect(func, func.body, &mut scatters, &mut iterations);
        let mut patch = Patch::new(func);
        for inst in scatters {
            rewrite(&mut patch, inst, &iterations);
        }
        stats.merge(patch.apply());
    }
    stats
}

/// Maximum number of index elements.
const MAX_INDICES: usize = 4096;

/// A constant plus multiples of iteration numbers; none of it negative.
#[derive(Clone, Debug, Default, PartialEq)]
struct Index {
    constant: i64,
    iterations: BTreeMap<Value, i64>,
}

/// An array of indices.
struct Indices {
    shape: Vec<usize>,
    elems: Vec<Index>,
}

fn collect(
    func: &Function,
    region: Region,
    scatters: &mut Vec<Inst>,
    iterations: &mut HashSet<Value>,
) {
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        match data.op {
            Op::ScatterNd {
                reduce: ScatterReduce::Set | ScatterReduce::Once,
            } => scatters.push(inst),
            Op::Loop { .. } => iterations.extend(func.regions[data.regions[0]].params.first()),
            _ => {}
        }
        for &inner in &data.regions {
            collect(func, inner, scatters, iterations);
        }
    }
}

fn rewrite(patch: &mut Patch, inst: Inst, iterations: &HashSet<Value>) -> Option<()> {
    let data = patch.func().insts[inst].clone();
    let [x, indices, updates] = data.args[..] else {
        return None;
    };
    let (ty, update_ty) = (patch.ty(x).clone(), patch.ty(updates).clone());
    let rank = ty.as_tensor()?.rank()?;
    let sizes = fixed_shape(&update_ty)?;
    let indices = indices_of(patch.func(), indices, iterations)?;
    let (&depth, places) = indices.shape.split_last()?;
    let starts = corner(&indices, places, depth)?;

    // The box has the size of the update along the axes that it spans, and 1 along the others.
    let mut shape = vec![1i64; depth];
    for (k, start) in starts.iter().enumerate() {
        if let Some(axis) = start.1 {
            shape[k] = places[axis] as i64;
        }
    }
    shape.extend(sizes[places.len()..].iter().map(|&d| d as i64));
    if shape.len() != rank {
        return None;
    }
    let mut add = |op: Op, args: &[Value]| patch.op(inst, op, args);
    let mut base: Vec<i64> = starts.iter().map(|s| s.0.constant).collect();
    base.resize(rank, 0);
    let mut start = add(Op::Const(Tensor::vector(&base)), &[])?;
    let named: HashSet<Value> = starts
        .iter()
        .flat_map(|s| s.0.iterations.keys().copied())
        .collect();
    let mut named: Vec<_> = named.into_iter().collect();
    named.sort_unstable();
    for iteration in named {
        let times = starts
            .iter()
            .map(|s| s.0.iterations.get(&iteration).copied().unwrap_or(0));
        let mut times: Vec<i64> = times.collect();
        times.resize(rank, 0);
        let times = add(Op::Const(Tensor::vector(&times)), &[])?;
        let scaled = add(Op::Binary(BinaryOp::Mul), &[times, iteration])?;
        start = add(Op::Binary(BinaryOp::Add), &[start, scaled])?;
    }
    let to = add(Op::Const(Tensor::vector(&shape)), &[])?;
    let update = add(Op::Reshape, &[updates, to])?;
    let args = vec![x, update, start];
    patch.change(inst, Op::UpdateSlice, args, data.results.clone());
    patch.because(Edit::BoxUpdate);
    Some(())
}

/// For each indexed axis, the box's start and the axis of the update along it. Each axis of the
/// update must correspond to one, in order.
fn corner(
    indices: &Indices,
    places: &[usize],
    depth: usize,
) -> Option<Vec<(Index, Option<usize>)>> {
    let count: usize = places.iter().product();
    if count == 0 {
        return None;
    }
    let mut stride = vec![1; places.len()];
    for k in (1..places.len()).rev() {
        stride[k - 1] = stride[k] * places[k];
    }
    let mut next = 0;
    let mut starts = vec![];
    for k in 0..depth {
        let at = |place: usize| &indices.elems[place * depth + k];
        let first = at(0).clone();
        let runs = |axis: Option<usize>| {
            (0..count).all(|place| {
                let step = axis.map_or(0, |a| place / stride[a] % places[a]);
                let index = at(place);
                index.iterations == first.iterations
                    && index.constant.checked_sub(first.constant) == i64::try_from(step).ok()
            })
        };
        let axis = match runs(None) {
            true => None,
            false => Some((next..places.len()).find(|&a| runs(Some(a)))?),
        };
        if let Some(axis) = axis {
            if places[next..axis].iter().any(|&n| n != 1) {
                return None;
            }
            next = axis + 1;
        }
        starts.push((first, axis));
    }
    places[next..].iter().all(|&n| n == 1).then_some(starts)
}

/// The contents of an array of indices.
fn indices_of(func: &Function, value: Value, iterations: &HashSet<Value>) -> Option<Indices> {
    let ty = func.ty(value);
    if ty.as_tensor()?.dtype != DType::I64 {
        return None;
    }
    let shape = fixed_shape(ty)?;
    let count = element_count(&shape)?;
    if count > MAX_INDICES {
        return None;
    }
    if iterations.contains(&value) {
        let iterations = BTreeMap::from([(value, 1)]);
        let elems = vec![Index {
            constant: 0,
            iterations,
        }];
        return Some(Indices { shape, elems });
    }
    if let Some(tensor) = func.constant(value) {
        let elem = |constant| Index {
            constant,
            ..Index::default()
        };
        let numbers = tensor.to_i64s()?;
        let elems = numbers.into_iter().map(elem).collect::<Vec<_>>();
        let positive = elems.iter().all(|e| e.constant >= 0);
        return positive.then_some(Indices { shape, elems });
    }
    let data = &func.insts[func.def_inst(value)?];
    let of = |k: usize| indices_of(func, data.args[k], iterations);
    let elems = match data.op {
        Op::Reshape | Op::Unsqueeze { .. } | Op::Squeeze { .. } => of(0)?.elems,
        Op::Broadcast => of(0)?.broadcast(&shape)?,
        Op::Binary(op @ (BinaryOp::Add | BinaryOp::Mul)) => {
            let (a, b) = (of(0)?.broadcast(&shape)?, of(1)?.broadcast(&shape)?);
            let pairs = a.iter().zip(&b);
            let both = pairs.map(|(a, b)| match op {
                BinaryOp::Add => a.plus(b),
                _ => a.times(b),
            });
            both.collect::<Option<_>>()?
        }
        _ => return None,
    };
    (elems.len() == count).then_some(Indices { shape, elems })
}

impl Indices {
    fn broadcast(&self, shape: &[usize]) -> Option<Vec<Index>> {
        let skip = shape.len().checked_sub(self.shape.len())?;
        let count = element_count(shape)?;
        let element = |place: usize| {
            let (mut rest, mut from, mut step) = (place, 0, 1);
            for k in (0..shape.len()).rev() {
                let i = rest % shape[k];
                rest /= shape[k];
                if k >= skip {
                    let own = self.shape[k - skip];
                    from += if own == 1 { 0 } else { i * step };
                    step *= own;
                }
            }
            self.elems.get(from).cloned()
        };
        (0..count).map(element).collect()
    }
}

impl Index {
    fn plus(&self, other: &Index) -> Option<Index> {
        let mut sum = self.clone();
        sum.constant = sum.constant.checked_add(other.constant)?;
        for (&iteration, &times) in &other.iterations {
            let own = sum.iterations.entry(iteration).or_insert(0);
            *own = own.checked_add(times)?;
        }
        Some(sum)
    }

    fn times(&self, other: &Index) -> Option<Index> {
        let (by, index) = match (self.iterations.is_empty(), other.iterations.is_empty()) {
            (true, _) => (self.constant, other),
            (_, true) => (other.constant, self),
            _ => return None,
        };
        let mut product = Index {
            constant: index.constant.checked_mul(by)?,
            ..Index::default()
        };
        for (&iteration, &times) in &index.iterations {
            if by != 0 {
                product.iterations.insert(iteration, times.checked_mul(by)?);
            }
        }
        Some(product)
    }
}

fn fixed_shape(ty: &Type) -> Option<Vec<usize>> {
    let dims = ty.as_tensor()?.shape.as_ref()?.iter();
    let sizes = dims.map(|d| usize::try_from(d.as_const()?).ok());
    sizes.collect()
}
