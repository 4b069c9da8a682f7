//! Recursion level by level.

mod analyze;
mod evaluate;
mod forest;
mod rows;
mod stages;
mod stream;
mod tree;
mod walk;
mod worth;

use std::collections::HashMap;

use heddle_ir::dim::Atom;
use heddle_ir::op::BinaryOp;
use heddle_ir::{Dim, FuncBuilder, FuncId, Function, Module, Op, Region, Value, ValueDef};

pub use self::analyze::definition;
use self::analyze::{Recursion, beginnings};
use self::evaluate::Policy;
use self::stages::Stages;
pub use self::stream::Pace;
pub use self::worth::gain;
use crate::Edit;
use crate::batch::{Refusal, Result};
use crate::transform::cost::CostModel;
use heddle_ir::patch::{Patch, Stats};

/// Policy of running recursion and loops level by level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelOptions {
    /// Batch size in calls that lets products reach the units' peak. [`level_recursion`] takes larger
    /// batches where levels are wide, unless `always` holds.
    pub batch: usize,
    /// Applies it even if no contraction gains.
    pub always: bool,
    /// Minimum mean number of contractions per level; a run that finds fewer makes individual
    /// calls.
    pub width: f64,
    /// Maximum number of calls whose results are kept at once; a run that finds more makes
    /// individual calls.
    pub frames: Option<usize>,
    /// Evaluates early work beside the levels at this pace, whatever it costs. If none, costs decide.
    pub streams: Option<Pace>,
}

impl LevelOptions {
    /// Batches if they pay.
    pub const USUAL: Self = Self {
        batch: 24,
        always: false,
        width: 1.5,
        frames: None,
        streams: None,
    };
}

/// Runs recursions over data structures level by level (ACROBAT §3, Cavs §3.2): calls that are
/// ready are evaluated together, as one batch of rows, so that a product of each node's vector with
/// a matrix becomes a product of two matrices.
///
/// It applies if one integer parameter, an index into an array, is the node of a call, all others
/// are passed on unchanged, and the calls that follow do not depend on results of calls: trees and
/// graphs of any shape, by one function or several that call each other. Shared nodes are evaluated
/// once. Calls from outside become calls of a new function, which walks the nodes (`walk`), then
/// evaluates batch after batch (`evaluate`), and what needs no level for all nodes at once
/// (`stages`), or beside the levels (`stream`). If the walk does not end, is too deep, or leaves the
/// array, that function falls back to the original calls, so errors stay the same; likewise if the
/// walk finds a narrow tree, such as a chain, whose levels are no batches. If weights are so small
/// that batches save less than they cost (`worth`), small trees are not walked at all (`tree`), but
/// graphs are, in which calls would be repeated.
///
/// It does *not* change recursions with calls in loops, or that pass on results of calls; nor,
/// unless [`LevelOptions::always`], those where no contraction follows at least two calls.
/// Functions that do not recurse should have been inlined. Applied twice, it would also change the
/// fallback's calls.
pub fn level_recursion(module: &mut Module, options: &LevelOptions, costs: &CostModel) -> Stats {
    let mut stats = Stats::default();
    for first in beginnings(module) {
        let Some(recursion) = Recursion::of(module, first) else {
            continue;
        };
        let gains = |k: &analyze::Kind| k.heavy && k.calls.len() > 1;
        if !options.always && !recursion.kinds.iter().any(gains) {
            continue;
        }
        let members: Vec<FuncId> = recursion.members.iter().map(|m| m.id).collect();
        let forest = match forest::loops(module, first, &recursion).is_empty() {
            true => None,
            false => build(module, &recursion, options, costs, true).ok(),
        };
        let leveled = build(module, &recursion, options, costs, false).ok();
        let mut own = members;
        if let Some(f) = forest {
            stats.merge(forest::redirect(module, first, f));
            own.extend(module.functions.keys().last());
        }
        if let Some(f) = leveled {
            let leveled = module.functions.push(f);
            stats.merge(redirect(module, &own, first, leveled));
        }
    }
    stats
}

/// Redirects calls from outside to the new function.
fn redirect(module: &mut Module, members: &[FuncId], from: FuncId, to: FuncId) -> Stats {
    let mut stats = Stats::default();
    let callers: Vec<FuncId> = module
        .functions
        .keys()
        .filter(|f| *f != to && !members.contains(f))
        .collect();
    for caller in callers {
        let func = &mut module.functions[caller];
        let mut calls = vec![];
        func.for_each_inst(&mut |inst, data| {
            if data.op == Op::Call(from) {
                calls.push((inst, data.args.clone(), data.results.clone()));
            }
        });
        let mut patch = Patch::new(func);
        for (inst, args, results) in calls {
            patch.change(inst, Op::Call(to), args, results);
            patch.because(Edit::RecursionLeveled);
        }
        stats.merge(patch.apply());
    }
    stats
}

/// The function that evaluates calls of the first member level by level: one call, or the calls of
/// many roots, an array in the place of the node.
fn build(
    module: &Module,
    recursion: &Recursion,
    options: &LevelOptions,
    costs: &CostModel,
    is_forest: bool,
) -> Result<Function> {
    let first = &recursion.members[0];
    let sig = &first.func.sig;
    let what = if is_forest { "forest" } else { "levels" };
    let mut sig = sig.specialised(fresh_name(module, &format!("{}.{what}", sig.name)));
    if is_forest {
        forest::with_roots(&mut sig, first.node);
    }
    let results = sig.results.clone();
    let mut b = FuncBuilder::new(sig);
    let params = b.params().to_vec();
    let mut named = Named {
        params: params.clone(),
        known: HashMap::new(),
        roots: is_forest.then_some(first.node),
    };
    let extent = named.size(&mut b, &recursion.extent)?;
    let policy = Policy {
        rows: match options.always {
            true => options.batch,
            false => worth::rows(recursion, costs).max(options.batch),
        },
        frames: options.frames,
        stages: Stages::of(recursion, options, costs),
    };
    let width = match options.always {
        true => Some(options.width),
        false => worth::least_width(recursion, options, costs),
    };
    let values = match width {
        width if is_forest || width.is_some() => {
            walked(&mut b, recursion, extent, &policy, width, &mut named)?
        }
        _ => {
            let tree = tree::is_small_tree(&mut b, recursion, extent)?;
            b.begin_region(&[]);
            let calls = b.call(first.id, &first.func.sig, &params)?;
            let then = b.end_region(&calls);
            b.begin_region(&[]);
            let values = walked(&mut b, recursion, extent, &policy, width, &mut named)?;
            let otherwise = b.end_region(&values);
            choice(&mut b, tree, [then, otherwise], recursion)?
        }
    };
    let results: Vec<_> = results.into_iter().map(|r| r.0).zip(values).collect();
    Ok(b.finish(&results))
}

/// The walk, and a choice between levels and calls.
fn walked(
    b: &mut FuncBuilder,
    recursion: &Recursion,
    extent: Value,
    policy: &Policy,
    width: Option<f64>,
    named: &mut Named,
) -> Result<Vec<Value>> {
    let first = &recursion.members[0];
    let walk = walk::walk(b, recursion, extent, width, policy.frames)?;
    b.begin_region(&[]);
    let mut sizes = |b: &mut FuncBuilder, dims: &[Dim]| named.sizes(b, dims);
    let levels = evaluate::evaluate(b, recursion, &walk, policy, &mut sizes)?;
    let then = b.end_region(&levels);
    b.begin_region(&[]);
    let calls = match named.roots {
        None => b.call(first.id, &first.func.sig, &named.params)?,
        Some(node) => forest::calls(b, first, &named.params, node)?,
    };
    let otherwise = b.end_region(&calls);
    choice(b, walk.ok, [then, otherwise], recursion)
}

/// Results of the recursion, from one of two regions.
fn choice(
    b: &mut FuncBuilder,
    cond: Value,
    [then, otherwise]: [Region; 2],
    recursion: &Recursion,
) -> Result<Vec<Value>> {
    let values = b.if_(cond, then, otherwise)?;
    let results = b.func().sig.results.clone();
    debug_assert_eq!(results.len(), recursion.members[0].func.sig.results.len());
    for (&value, (_, ty)) in values.iter().zip(results) {
        b.refine_type(value, ty)?;
    }
    Ok(values)
}

fn fresh_name(module: &Module, name: &str) -> String {
    let mut fresh = name.to_string();
    while module.find(&fresh).is_some() {
        fresh.push('_');
    }
    fresh
}

/// Named sizes as values: each is the size of an axis of a parameter.
struct Named {
    params: Vec<Value>,
    known: HashMap<String, Value>,
    /// The parameter with the roots, if there are many.
    roots: Option<usize>,
}

impl Named {
    fn sizes(&mut self, b: &mut FuncBuilder, dims: &[Dim]) -> Result<Value> {
        let mut parts = vec![];
        for dim in dims {
            let size = self.size(b, dim)?;
            parts.push(b.vector_of(size)?);
        }
        match parts.is_empty() {
            true => Ok(b.i64s(&[])),
            false => Ok(b.join(&parts)?),
        }
    }

    fn size(&mut self, b: &mut FuncBuilder, dim: &Dim) -> Result<Value> {
        if let Some(n) = dim.as_const() {
            return Ok(b.i64(n));
        }
        let expr = dim.as_expr().ok_or(Refusal::UnknownSize)?;
        let mut sum = None;
        for (product, coefficient) in expr.terms() {
            let mut term = None;
            for atom in product {
                let Atom::Sym(name) = atom else {
                    return Err(Refusal::UnknownSize);
                };
                let value = self.named(b, name)?;
                term = Some(match term {
                    None => value,
                    Some(t) => b.binary(BinaryOp::Mul, t, value)?,
                });
            }
            let factor = b.i64(coefficient);
            let term = match (term, coefficient) {
                (Some(t), 1) => t,
                (Some(t), _) => b.binary(BinaryOp::Mul, t, factor)?,
                (None, _) => factor,
            };
            sum = Some(match sum {
                None => term,
                Some(s) => b.binary(BinaryOp::Add, s, term)?,
            });
        }
        sum.map_or_else(|| Ok(b.i64(0)), Ok)
    }

    fn named(&mut self, b: &mut FuncBuilder, name: &str) -> Result<Value> {
        let found = self.known.get(name).copied();
        if let Some(v) = found.filter(|v| is_outer(b, *v)) {
            return Ok(v);
        }
        for &param in &self.params {
            let shape = b.ty(param).as_tensor().and_then(|t| t.shape.clone());
            let axis = shape.iter().flatten().position(|d| {
                let sym = d.as_expr().and_then(|e| e.as_sym());
                sym.is_some_and(|s| **s == *name)
            });
            if let Some(axis) = axis {
                let size = b.size(param, axis)?;
                self.known.insert(name.to_string(), size);
                return Ok(size);
            }
        }
        Err(Refusal::UnknownSize)
    }
}

/// Is a value defined in the function's body, and so visible everywhere after?
fn is_outer(b: &FuncBuilder, value: Value) -> bool {
    let f = b.func();
    match f.values[value].def {
        ValueDef::Param(region, _) => region == f.body,
        ValueDef::Result(inst, _) => f.regions[f.body].insts.contains(&inst),
    }
}
