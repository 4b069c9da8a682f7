//! Carried values that keep the sizes they begin with.

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{Dim, FuncId, Inst, LoopView, Module, Op, Type, Value};

use super::Equal;
use super::assumed::Assumed;
use super::equations::Equations;
use crate::Edit;
use crate::facts::Facts;

/// A carried value that each iteration leaves as large as it is.
struct Kept {
    /// The loop, and the place of the value among those that it carries.
    inst: Inst,
    place: usize,
    ty: Type,
}

/// Reshapes what an iteration yields to the shape of the carried value, if the iteration's instructions fail unless that
/// is its shape. By induction the value has the shape that it begins with: the reshape checks it, and inference sees it.
pub(super) fn keep_sizes(module: &mut Module, id: FuncId) -> Stats {
    let func = &module.functions[id];
    let is_open = |v: &Value| {
        let shape = func.ty(*v).as_tensor().and_then(|t| t.shape.as_ref());
        shape.is_some_and(|s| s.iter().any(|d| d.as_expr().is_none()))
    };
    let mut loops = vec![];
    func.for_each_inst(&mut |inst, _| {
        let parts = LoopView::of(func, inst);
        loops.extend(
            parts
                .filter(|parts| parts.params.iter().any(is_open))
                .map(|p| (inst, p)),
        );
    });
    if loops.is_empty() {
        return Stats::default();
    }
    let facts = Facts::of(module, id);
    let equations = Equations::of(func, &facts);
    let kept = loops
        .iter()
        .flat_map(|(inst, parts)| kept_sizes(&equations, *inst, parts));
    let kept: Vec<_> = kept.collect();
    let mut patch = Patch::new(&mut module.functions[id]);
    for Kept { inst, place, ty } in kept {
        let args = patch.args(inst);
        let Some(mut parts) = LoopView::of(patch.func(), inst) else {
            continue;
        };
        let yields = patch.yields(parts.body);
        parts = LoopView::with(patch.func(), inst, &args, &yields).unwrap_or(parts);
        let (body, param) = (parts.body, parts.params[place]);
        let rank = ty.as_tensor().and_then(|t| t.rank()).unwrap_or(0);
        let sizes = Type::tensor(heddle_ir::DType::I64, vec![Dim::from(rank)]);
        let shape = patch.append(body, inst, Op::Shape, &[param], vec![sizes])[0];
        let next = [parts.next[place], shape];
        parts.next[place] = patch.append(body, inst, Op::Reshape, &next, vec![ty])[0];
        patch.set_border(body, parts.body_params(), parts.yields());
        patch.because(Edit::KeptSize);
    }
    patch.apply()
}

/// The carried values of a loop that begin with stated sizes, are not known to keep them, and do.
fn kept_sizes(equations: &Equations, inst: Inst, parts: &LoopView) -> Vec<Kept> {
    let stated = Assumed::of(equations.func, equations.facts);
    let is_told = |v: Value| {
        stated
            .shape(v)
            .is_some_and(|s| s.iter().all(|d| d.as_expr().is_some()))
    };
    let carried = parts.params.iter().zip(&parts.inits).enumerate();
    let open = carried.filter(|(_, (param, init))| is_told(**init) && !is_told(**param));
    let mut places: Vec<usize> = open.map(|(place, _)| place).collect();
    loop {
        if places.is_empty() {
            return vec![];
        }
        let mut assumed = Assumed::of(equations.func, equations.facts);
        for &place in &places {
            assumed.assume(parts.params[place], stated.ty(parts.inits[place]).clone());
        }
        let pairs = equations.of_region(parts.body, &mut assumed);
        if assumed.fails {
            return vec![];
        }
        let one = Equal::of(equations.func, &pairs);
        let sizes = |v: Value| {
            let shape = assumed.shape(v)?.iter();
            Some(shape.map(|d| one.now(d)).collect::<Vec<_>>())
        };
        let before = places.len();
        places.retain(|&place| {
            let next = sizes(parts.next[place]);
            let all = next
                .as_ref()
                .is_some_and(|s| s.iter().all(|d| d.as_expr().is_some()));
            all && next == sizes(parts.inits[place])
        });
        if places.len() == before {
            let ty = |place: usize| stated.ty(parts.inits[place]).clone();
            // A yielded type that says the same needs no check.
            let differs = places
                .iter()
                .filter(|&&k| *assumed.ty(parts.next[k]) != ty(k));
            return differs
                .map(|&place| Kept {
                    inst,
                    place,
                    ty: ty(place),
                })
                .collect();
        }
    }
}
