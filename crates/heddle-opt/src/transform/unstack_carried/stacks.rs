//! The choice of carried arrays that are stacks of parts.

use std::collections::{BTreeMap, HashMap, HashSet};

use heddle_ir::infer::shape::{slice_bounds, slice_count};
use heddle_ir::{Dim, Function, Inst, LoopView, Op, Region, Value};

/// Maximum number of parts of one array.
const MAX_PARTS: usize = 256;

/// Maximum number of instructions between a carried value and the stack that it is made of.
const MAX_DEPTH: usize = 16;

/// The axis along which an array is a stack, and the number of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stack {
    pub axis: usize,
    pub count: usize,
}

/// The result of an instruction that reads a stack.
pub(super) enum Read {
    /// A stack of such parts, one for each number: the parts of these positions.
    Chosen(Stack, Vec<usize>),
    /// The same parts, each changed.
    Changed(Stack),
    /// The part of this position; its axis is kept with size 1, or dropped.
    Part(usize, bool),
    /// The shape.
    Shape,
}

/// A use of a value.
#[derive(Clone, Copy)]
enum Use {
    Operand(Inst, usize),
    Yield(Region, usize),
}

/// The stacks of a function that are replaced by their parts: carried values, and what is made of
/// them with all parts alike.
pub(super) fn stacks(func: &Function) -> HashMap<Value, Stack> {
    let mut loops = vec![];
    func.for_each_inst(&mut |inst, _| loops.extend(LoopView::of(func, inst).map(|l| (inst, l))));
    let (mut chosen, mut places) = (BTreeMap::new(), Places::default());
    for (inst, l) in &loops {
        for (k, &param) in l.params.iter().enumerate() {
            let init = l.args().len() - l.inits.len() + k;
            places.inits.insert((*inst, init), param);
            let yielded = l.next_cond.is_some() as usize + k;
            places.nexts.insert((l.body, yielded), param);
            let stack = candidates(func, param).find(|s| is_stacked(func, l.next[k], s.axis));
            chosen.extend(stack.map(|stack| (param, stack)));
        }
    }
    if chosen.is_empty() {
        return HashMap::new();
    }
    places.find_uses(func);
    loop {
        let (mut all, mut refused) = (HashMap::new(), vec![]);
        for (&param, &stack) in &chosen {
            let found = places.spread(func, (param, stack), &chosen);
            let mut agrees =
                |&(value, stack): &(Value, Stack)| *all.entry(value).or_insert(stack) == stack;
            if !found.is_some_and(|found| found.iter().all(&mut agrees)) {
                refused.push(param);
            }
        }
        if refused.is_empty() {
            return all;
        }
        refused.iter().for_each(|param| {
            chosen.remove(param);
        });
    }
}

/// The axes along which a carried array could be a stack, if it grows along another one.
fn candidates(func: &Function, param: Value) -> impl Iterator<Item = Stack> {
    let shape = func.ty(param).as_tensor().and_then(|t| t.shape.as_deref());
    let shape = shape.unwrap_or_default();
    let grows = shape.iter().any(|d| matches!(d, Dim::Unknown(_)));
    let sizes = shape.iter().map(|d| d.as_const()).enumerate();
    let stacks = sizes.filter_map(|(axis, size)| {
        let count = usize::try_from(size?).ok()?;
        (2..=MAX_PARTS)
            .contains(&count)
            .then_some(Stack { axis, count })
    });
    stacks.filter(move |_| grows)
}

/// Is a value put together along an axis, maybe with changes that are alike for all parts?
fn is_stacked(func: &Function, value: Value, axis: usize) -> bool {
    // An array may be an operand of many: each is looked at once, at its least distance.
    let (mut open, mut seen) = (vec![(value, axis)], HashSet::new());
    for _ in 0..MAX_DEPTH {
        let mut before = vec![];
        for (value, axis) in open {
            let inst = func.def_inst(value);
            let Some(inst) = inst.filter(|_| seen.insert((value, axis))) else {
                continue;
            };
            let data = &func.insts[inst];
            match &data.op {
                Op::Concat { axis: along } if *along == axis => {
                    let is_static = |v: &Value| size(func, *v, axis).is_some();
                    if data.args.len() > 1 && data.args.iter().all(is_static) {
                        return true;
                    }
                }
                Op::Loop { .. } => before.extend(LoopView::of(func, inst).and_then(|l| {
                    let place = l.last.iter().position(|v| *v == value)?;
                    Some((l.next[place], axis))
                })),
                _ => before.extend(source_axis(func, inst, axis).into_iter().flat_map(|axis| {
                    let args = data.args.iter().take(changed_operands(func, inst));
                    args.map(move |&arg| (arg, axis))
                })),
            }
        }
        open = before;
    }
    false
}

/// The size of an axis, if it is static.
pub(super) fn size(func: &Function, value: Value, axis: usize) -> Option<usize> {
    let shape = func.ty(value).as_tensor()?.shape.as_deref()?;
    usize::try_from(shape.get(axis)?.as_const()?).ok()
}

/// The number of operands, from the first on, that give an instruction's result its elements.
pub(super) fn changed_operands(func: &Function, inst: Inst) -> usize {
    match func.insts[inst].op {
        Op::Concat { .. } => func.insts[inst].args.len(),
        _ => 1,
    }
}

/// The operands' axis that a result's axis is, if the instruction changes all elements along it
/// alike.
pub(super) fn source_axis(func: &Function, inst: Inst, axis: usize) -> Option<usize> {
    let data = &func.insts[inst];
    match &data.op {
        Op::Concat { axis: along } => (*along != axis).then_some(axis),
        Op::Slice { axes } => (!axes.contains(&axis)).then_some(axis),
        Op::Cast { .. } | Op::Unary(_) => Some(axis),
        Op::Transpose { perm } => perm.get(axis).copied(),
        Op::Gather { axis: along } => {
            let rank = func.ty(data.args[1]).as_tensor()?.rank()?;
            match axis {
                _ if axis < *along => Some(axis),
                _ if axis >= along + rank => Some(axis + 1 - rank),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The result's axis that an operand's axis becomes; see [`source_axis`].
fn result_axis(func: &Function, inst: Inst, axis: usize) -> Option<usize> {
    let result = *func.insts[inst].results.first()?;
    let rank = func.ty(result).as_tensor()?.rank()?;
    (0..rank).find(|&k| source_axis(func, inst, k) == Some(axis))
}

/// Reads a stack, the operand of this position.
pub(super) fn read(func: &Function, inst: Inst, operand: usize, stack: Stack) -> Option<Read> {
    let data = &func.insts[inst];
    if operand >= changed_operands(func, inst) {
        return None;
    }
    match &data.op {
        Op::Shape => return Some(Read::Shape),
        Op::Slice { axes } if axes.contains(&stack.axis) => {
            let bounds: Option<Vec<_>> = data.args[1..].iter().map(|&v| ints(func, v)).collect();
            let (count, bounds) = (stack.count as i64, bounds?);
            let [start, end, step] = [0, 1, 2].map(|k| bounds[k][0]);
            if axes.len() > 1 || step != 1 {
                return None;
            }
            let (first, _) = slice_bounds(count, start, end, step);
            let places = first..first + slice_count(count, start, end, step);
            return chosen(stack, places.map(|k| k as usize).collect());
        }
        Op::Gather { axis } if *axis == stack.axis => {
            let indices = ints(func, data.args[1])?;
            let count = stack.count as i64;
            let place = |&i: &i64| usize::try_from(if i < 0 { i + count } else { i }).ok();
            let places: Option<Vec<_>> = indices.iter().map(place).collect();
            let places = places.filter(|all| all.iter().all(|k| *k < stack.count))?;
            return match func.ty(data.args[1]).as_tensor()?.rank()? {
                0 => Some(Read::Part(*places.first()?, false)),
                1 => chosen(stack, places),
                _ => None,
            };
        }
        _ => {}
    }
    let axis = result_axis(func, inst, stack.axis)?;
    Some(Read::Changed(Stack { axis, ..stack }))
}

/// The parts of these positions.
fn chosen(stack: Stack, places: Vec<usize>) -> Option<Read> {
    match places[..] {
        [] => None,
        [place] => Some(Read::Part(place, true)),
        _ => {
            let count = places.len();
            Some(Read::Chosen(Stack { count, ..stack }, places))
        }
    }
}

fn ints(func: &Function, value: Value) -> Option<Vec<i64>> {
    func.constant(value)?.to_i64s()
}

/// The places of carried values, and all uses.
#[derive(Default)]
struct Places {
    /// The carried value that begins with an operand of a loop.
    inits: HashMap<(Inst, usize), Value>,
    /// The carried value that becomes what a loop's body yields.
    nexts: HashMap<(Region, usize), Value>,
    uses: HashMap<Value, Vec<Use>>,
}

impl Places {
    fn find_uses(&mut self, func: &Function) {
        let mut yielded = |region: Region| {
            for (k, &value) in func.regions[region].yields.iter().enumerate() {
                let uses = self.uses.entry(value).or_default();
                uses.push(Use::Yield(region, k));
            }
        };
        yielded(func.body);
        func.for_each_inst(&mut |_, data| data.regions.iter().copied().for_each(&mut yielded));
        func.for_each_inst(&mut |inst, data| {
            for (k, &value) in data.args.iter().enumerate() {
                let uses = self.uses.entry(value).or_default();
                uses.push(Use::Operand(inst, k));
            }
        });
    }

    /// A stack and all that is made of it with all parts alike; `None` if something else than its
    /// parts is read.
    fn spread(
        &self,
        func: &Function,
        first: (Value, Stack),
        chosen: &BTreeMap<Value, Stack>,
    ) -> Option<Vec<(Value, Stack)>> {
        let mut found = vec![first];
        let mut next = 0;
        while let Some(&(value, stack)) = found.get(next) {
            next += 1;
            for &used in self.uses.get(&value).into_iter().flatten() {
                let carried = match used {
                    Use::Yield(region, k) => self.nexts.get(&(region, k)),
                    Use::Operand(inst, k) => self.inits.get(&(inst, k)),
                };
                if carried.is_some_and(|param| chosen.get(param) == Some(&stack)) {
                    continue;
                }
                let Use::Operand(inst, k) = used else {
                    return None;
                };
                match read(func, inst, k, stack)? {
                    Read::Part(..) | Read::Shape => {}
                    Read::Changed(stack) | Read::Chosen(stack, _) => {
                        let more = (func.insts[inst].results[0], stack);
                        if !found.contains(&more) {
                            found.push(more);
                        }
                    }
                }
            }
        }
        Some(found)
    }
}
