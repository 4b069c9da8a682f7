//! Scan outputs whose elements have a size that is computed.

use heddle_ir::op::CompareOp;
use heddle_ir::patch::Stats;
use heddle_ir::{DType, FuncId, Function, Inst, LoopView, Module, Op, Tensor, Type, Value};

use super::rebuild::{Rebuild, Result, rebuild_functions};
use crate::Edit;

/// Collects the elements of a scan output in a sequence, which is stacked behind the loop, if a size
/// of the elements is known only in the iterations: a scan output has its memory's strides before
/// the first one.
pub fn list_scans(module: &mut Module) -> Stats {
    let has_open = |func: &Function| {
        let mut found = false;
        func.for_each_inst(&mut |inst, _| {
            let l = LoopView::of(func, inst);
            found |= l.is_some_and(|l| l.scans.iter().any(|&v| is_open(func, v)));
        });
        found
    };
    let ids = module.functions.iter().filter(|(_, func)| has_open(func));
    let ids: Vec<FuncId> = ids.map(|(id, _)| id).collect();
    rebuild_functions(module, &ids, |rebuild, stats| {
        rebuild.function(&mut |rebuild, inst| list(rebuild, inst, stats))
    })
}

/// Do a scan output's elements have a dynamic size?
fn is_open(func: &Function, scan: Value) -> bool {
    let Some(tensor) = func.ty(scan).as_tensor().filter(|t| t.dtype.bits() >= 8) else {
        return false;
    };
    let mut dims = tensor.shape.iter().flatten().skip(1);
    tensor.dtype != DType::Str && dims.any(|dim| dim.as_expr().is_none())
}

fn list(rebuild: &mut Rebuild, inst: Inst, stats: &mut Stats) -> Result<bool> {
    let func = rebuild.source;
    let Some(l) = LoopView::of(func, inst) else {
        return Ok(false);
    };
    let mut listed = vec![];
    for &scan in &l.scans {
        listed.push(match is_open(func, scan) {
            true => none(rebuild, scan)?,
            false => None,
        });
    }
    if listed.iter().all(Option::is_none) {
        return Ok(false);
    }
    let elems = l
        .stacked
        .iter()
        .zip(&listed)
        .filter(|(_, none)| none.is_some());
    let elems: Vec<Type> = elems.map(|(v, _)| func.ty(*v).clone()).collect();
    let mut inits = rebuild.all(&l.inits);
    for elem in &elems {
        let elem = elem.clone();
        inits.push(rebuild.b.op1(Op::SeqNew { elem }, &[])?);
    }
    let body_params = l.body_params();
    let mut types: Vec<Type> = body_params.iter().map(|v| func.ty(*v).clone()).collect();
    types.extend(elems.into_iter().map(|elem| Type::Seq(Box::new(elem))));
    let (_, params) = rebuild.b.begin_region(&types);
    for (&old, &new) in body_params.iter().zip(&params) {
        rebuild.stands_for(old, new);
    }
    rebuild.insts(l.body, &mut |rebuild, inst| list(rebuild, inst, stats))?;
    let mut yields = rebuild.all(&l.yields()[..l.yields().len() - l.stacked.len()]);
    let (mut lists, mut stacked) = (params[body_params.len()..].iter(), vec![]);
    for (x, none) in l.stacked.iter().zip(&listed) {
        let x = rebuild.values[x];
        match none.is_some().then(|| lists.next()).flatten() {
            Some(&list) => {
                let end = rebuild.b.op1(Op::SeqLen, &[list])?;
                yields.push(rebuild.b.op1(Op::SeqInsert, &[list, x, end])?);
            }
            None => stacked.push(x),
        }
    }
    yields.extend(stacked);
    let body = rebuild.b.end_region(&yields);
    rebuild.b.set_loc(func.insts[inst].loc.clone());
    let [trip, cond] = [l.trip, l.cond].map(|v| v.map(|v| rebuild.values[&v]));
    let results = rebuild.b.loop_(trip, cond, &inits, body)?;
    let (last, rest) = results.split_at(l.last.len());
    for (&old, &new) in l.last.iter().zip(last) {
        rebuild.stands_for(old, new);
    }
    let (lists, scans) = rest.split_at(inits.len() - l.inits.len());
    let (mut lists, mut scans) = (lists.iter(), scans.iter());
    for (&old, none) in l.scans.iter().zip(&listed) {
        let next = match none {
            Some(_) => lists.next(),
            None => scans.next(),
        };
        let value = *next.expect("a result for each scan output");
        let value = match none {
            Some(none) => {
                stats.record(Edit::ScanListed);
                stacked_or(rebuild, value, *none)?
            }
            None => value,
        };
        rebuild.stands_for(old, value);
    }
    Ok(true)
}

/// The scan output of no iteration; `None` if one of its sizes has no value here.
fn none(rebuild: &mut Rebuild, scan: Value) -> Result<Option<Value>> {
    let tensor = rebuild
        .source
        .ty(scan)
        .as_tensor()
        .expect("an array")
        .clone();
    let mut sizes = vec![rebuild.b.i64s(&[0])];
    for dim in tensor.shape.iter().flatten().skip(1) {
        let size = match (dim.as_expr(), rebuild.b.size_of(dim)?) {
            (None, _) => rebuild.b.i64(0),
            (Some(_), Some(size)) => size,
            (Some(_), None) => return Ok(None),
        };
        sizes.push(rebuild.b.vector_of(size)?);
    }
    let shape = rebuild.b.join(&sizes)?;
    let zero = rebuild.b.constant(Tensor::splat(tensor.dtype, vec![], 0.0));
    Ok(Some(rebuild.b.op1(Op::Broadcast, &[zero, shape])?))
}

/// The elements of a sequence stacked, or this if there is none.
fn stacked_or(rebuild: &mut Rebuild, list: Value, none: Value) -> Result<Value> {
    let b = &mut rebuild.b;
    let (length, zero) = (b.op1(Op::SeqLen, &[list])?, b.i64(0));
    let is_empty = b.compare(CompareOp::Eq, length, zero)?;
    b.begin_region(&[]);
    let empty = b.end_region(&[none]);
    b.begin_region(&[]);
    let (axis, stack) = (0, true);
    let all = b.op1(Op::SeqConcat { axis, stack }, &[list])?;
    let filled = b.end_region(&[all]);
    Ok(b.if_(is_empty, empty, filled)?[0])
}
