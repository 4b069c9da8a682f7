//! Stacks that loops carry, take apart and stack again.

mod stacks;

use std::collections::HashMap;

use heddle_ir::patch::Stats;
use heddle_ir::{FuncId, Inst, LoopView, Module, Op, Type, Value};

use super::rebuild::{Rebuild, Result, rebuild_functions};
use crate::Edit;
use stacks::{Read, Stack, changed_operands, read, size, source_axis, stacks};

/// Maximum number of rounds. Each opens one axis of an array: layers, then keys and values.
const MAX_ROUNDS: usize = 4;

/// Lets a loop carry the parts of an array in its place, where each iteration reads the parts one by
/// one and stacks new ones: the caches of all layers in one array, as exporters write them. Each part
/// that is appended to then grows in its place; a stack is written anew in each iteration.
///
/// It does *not* open arrays of fixed size, nor those that an iteration reads as a whole or passes
/// through a branch. Parts whose sizes differ are an error behind the loop only.
pub fn unstack_carried(module: &mut Module) -> Stats {
    let mut stats = Stats::default();
    for _ in 0..MAX_ROUNDS {
        let functions = module.functions.iter();
        let ids = functions.filter(|(_, func)| !stacks(func).is_empty());
        let ids: Vec<FuncId> = ids.map(|(id, _)| id).collect();
        let round = rebuild_functions(module, &ids, |rebuild, stats| {
            let mut unstack = Unstack {
                stacks: stacks(rebuild.source),
                parts: HashMap::new(),
                opened: 0,
            };
            let func = rebuild.function(&mut |rebuild, inst| unstack.inst(rebuild, inst))?;
            (0..unstack.opened).for_each(|_| stats.record(Edit::PartsCarried));
            Ok(func)
        });
        let done = round.total() == 0;
        stats.merge(round);
        if done {
            break;
        }
    }
    stats
}

struct Unstack {
    stacks: HashMap<Value, Stack>,
    /// The parts in the copy, without the axis along which they were stacked.
    parts: HashMap<Value, (Stack, Vec<Value>)>,
    /// The number of carried values that are opened.
    opened: usize,
}

impl Unstack {
    fn inst(&mut self, rebuild: &mut Rebuild, inst: Inst) -> Result<bool> {
        let func = rebuild.source;
        let data = &func.insts[inst];
        if let Some(l) = LoopView::of(func, inst) {
            let is_opened = l.params.iter().any(|p| self.stacks.contains_key(p));
            if is_opened {
                self.repeat(rebuild, inst, &l)?;
            }
            return Ok(is_opened);
        }
        let mut operands = data.args.iter().enumerate();
        let of = operands.find_map(|(k, v)| Some((k, *v, *self.stacks.get(v)?)));
        let Some((operand, value, stack)) = of else {
            return Ok(false);
        };
        let Some(read) = read(func, inst, operand, stack) else {
            return Ok(false);
        };
        let (_, parts) = &self.parts[&value];
        let result = data.results[0];
        match read {
            Read::Shape => {
                let shape = shape(rebuild, parts[0], stack)?;
                rebuild.stands_for(result, shape);
            }
            Read::Part(place, keep) => {
                let axes = vec![stack.axis];
                let part = match keep {
                    true => rebuild.b.op1(Op::Unsqueeze { axes }, &[parts[place]])?,
                    false => parts[place],
                };
                rebuild.stands_for(result, part);
            }
            Read::Chosen(stack, places) => {
                let parts = places.iter().map(|&k| parts[k]).collect();
                self.parts.insert(result, (stack, parts));
            }
            Read::Changed(stack) => {
                let parts = self.parts_of(rebuild, result, stack)?;
                self.parts.insert(result, (stack, parts));
            }
        }
        Ok(true)
    }

    /// A loop that carries the parts.
    fn repeat(&mut self, rebuild: &mut Rebuild, inst: Inst, l: &LoopView) -> Result<()> {
        let func = rebuild.source;
        let data = &func.insts[inst];
        let mut types = vec![func.ty(l.iteration).clone()];
        for param in &l.params {
            let ty = func.ty(*param);
            match self.stacks.get(param) {
                Some(stack) => types.extend(vec![without(ty, stack.axis); stack.count]),
                None => types.push(ty.clone()),
            }
        }
        let inits = self.all(rebuild, &l.params, &l.inits)?;
        let (_, params) = rebuild.b.begin_region(&types);
        let mut new = params.iter().copied();
        for &old in &l.body_params() {
            match self.stacks.get(&old) {
                Some(&stack) => {
                    let parts = new.by_ref().take(stack.count).collect();
                    self.parts.insert(old, (stack, parts));
                    self.opened += 1;
                }
                None => new
                    .by_ref()
                    .take(1)
                    .for_each(|v| rebuild.stands_for(old, v)),
            }
        }
        rebuild.insts(l.body, &mut |rebuild, inst| self.inst(rebuild, inst))?;
        let mut yields = rebuild.all(l.next_cond.as_slice());
        yields.extend(self.all(rebuild, &l.params, &l.next)?);
        yields.extend(rebuild.all(&l.stacked));
        let body = rebuild.b.end_region(&yields);
        rebuild.b.set_loc(data.loc.clone());
        let [trip, cond] = [l.trip, l.cond].map(|v| v.map(|v| rebuild.values[&v]));
        let results = rebuild.b.loop_(trip, cond, &inits, body)?;
        let mut new = results.iter().copied();
        for (param, &last) in l.params.iter().zip(&l.last) {
            match self.stacks.get(param) {
                Some(&stack) => {
                    let parts: Vec<Value> = new.by_ref().take(stack.count).collect();
                    let whole = put_together(rebuild, &parts, stack.axis)?;
                    rebuild.stands_for(last, whole);
                    self.parts.insert(last, (stack, parts));
                }
                None => new
                    .by_ref()
                    .take(1)
                    .for_each(|v| rebuild.stands_for(last, v)),
            }
        }
        for (&old, new) in l.scans.iter().zip(new) {
            // Without iterations, the stated type of a scan output gives it its shape.
            if rebuild.b.ty(new).compatible(func.ty(old)) {
                rebuild.b.refine_type(new, func.ty(old).clone())?;
            }
            rebuild.stands_for(old, new);
        }
        Ok(())
    }

    /// The counterparts of values that these parameters carry.
    fn all(&self, rebuild: &mut Rebuild, params: &[Value], values: &[Value]) -> Result<Vec<Value>> {
        let mut all = vec![];
        for (param, &value) in params.iter().zip(values) {
            match self.stacks.get(param) {
                Some(&stack) => all.extend(self.parts_of(rebuild, value, stack)?),
                None => all.push(rebuild.values[&value]),
            }
        }
        Ok(all)
    }

    /// The parts of an array: those that it was put together of, or else elements of its axis.
    fn parts_of(&self, rebuild: &mut Rebuild, value: Value, stack: Stack) -> Result<Vec<Value>> {
        match self.parts.get(&value) {
            Some((known, parts)) if *known == stack => return Ok(parts.clone()),
            _ => {}
        }
        if let Some(inst) = rebuild.source.def_inst(value)
            && let Some(parts) = self.parts_by_op(rebuild, inst, stack)?
        {
            return Ok(parts);
        }
        let whole = match (rebuild.values.get(&value), self.parts.get(&value)) {
            (None, Some((known, parts))) => put_together(rebuild, parts, known.axis)?,
            _ => rebuild.values[&value],
        };
        if stack.count == 1 {
            let axes = vec![stack.axis];
            return Ok(vec![rebuild.b.op1(Op::Squeeze { axes }, &[whole])?]);
        }
        let element = |k| {
            let place = rebuild.b.i64(k as i64);
            let op = Op::Gather { axis: stack.axis };
            rebuild.b.op1(op, &[whole, place])
        };
        (0..stack.count).map(element).collect()
    }

    /// The parts of an instruction's result, by those of its operands.
    fn parts_by_op(
        &self,
        rebuild: &mut Rebuild,
        inst: Inst,
        stack: Stack,
    ) -> Result<Option<Vec<Value>>> {
        let func = rebuild.source;
        let data = &func.insts[inst];
        match &data.op {
            Op::Concat { axis } if *axis == stack.axis => {
                let mut all = vec![];
                for &arg in &data.args {
                    let Some(count) = size(func, arg, stack.axis) else {
                        return Ok(None);
                    };
                    if count > 0 {
                        all.extend(self.parts_of(rebuild, arg, Stack { count, ..stack })?);
                    }
                }
                return Ok((all.len() == stack.count).then_some(all));
            }
            Op::Unsqueeze { axes } if axes.contains(&stack.axis) => {
                let mut axes = axes.clone();
                axes.retain(|&axis| axis != stack.axis);
                axes.iter_mut()
                    .for_each(|axis| *axis = behind(*axis, stack.axis));
                let x = rebuild.values[&data.args[0]];
                let part = match axes.is_empty() {
                    true => x,
                    false => rebuild.b.op1(Op::Unsqueeze { axes }, &[x])?,
                };
                return Ok(Some(vec![part]));
            }
            _ => {}
        }
        let Some(from) = source_axis(func, inst, stack.axis) else {
            return Ok(None);
        };
        let (source, mut changed) = (
            Stack {
                axis: from,
                ..stack
            },
            vec![],
        );
        let (arrays, rest) = data.args.split_at(changed_operands(func, inst));
        for &arg in arrays {
            changed.push(self.parts_of(rebuild, arg, source)?);
        }
        let op = without_axis(&data.op, from);
        let rest = rebuild.all(rest);
        let part = |k: usize| {
            let args = changed.iter().map(|parts| parts[k]);
            let args: Vec<Value> = args.chain(rest.iter().copied()).collect();
            rebuild.b.op1(op.clone(), &args)
        };
        (0..stack.count).map(part).collect::<Result<_>>().map(Some)
    }
}

/// The op on parts without the operands' axis `from`.
fn without_axis(op: &Op, from: usize) -> Op {
    match op {
        Op::Concat { axis } => Op::Concat {
            axis: behind(*axis, from),
        },
        Op::Gather { axis } => Op::Gather {
            axis: behind(*axis, from),
        },
        Op::Slice { axes } => Op::Slice {
            axes: axes.iter().map(|&axis| behind(axis, from)).collect(),
        },
        Op::Transpose { perm } => {
            let kept = perm.iter().filter(|axis| **axis != from);
            Op::Transpose {
                perm: kept.map(|&axis| behind(axis, from)).collect(),
            }
        }
        op => op.clone(),
    }
}

/// The number of an axis when `dropped` is left out.
fn behind(axis: usize, dropped: usize) -> usize {
    axis - (axis > dropped) as usize
}

/// The type without an axis.
fn without(ty: &Type, axis: usize) -> Type {
    let mut ty = ty.clone();
    if let Type::Tensor(t) = &mut ty
        && let Some(shape) = &mut t.shape
    {
        shape.remove(axis);
    }
    ty
}

/// The parts along a new axis.
fn put_together(rebuild: &mut Rebuild, parts: &[Value], axis: usize) -> Result<Value> {
    let row = |&part| {
        let axes = vec![axis];
        rebuild.b.op1(Op::Unsqueeze { axes }, &[part])
    };
    let rows: Vec<Value> = parts.iter().map(row).collect::<Result<_>>()?;
    rebuild.b.op1(Op::Concat { axis }, &rows)
}

/// The shape of the stack of which this is a part.
fn shape(rebuild: &mut Rebuild, part: Value, stack: Stack) -> Result<Value> {
    let rank = rebuild.b.rank(part).unwrap_or(stack.axis);
    let before = rebuild.b.sizes(part, 0..stack.axis)?;
    let count = rebuild.b.i64s(&[stack.count as i64]);
    let after = rebuild.b.sizes(part, stack.axis..rank)?;
    rebuild.b.join(&[before, count, after])
}
