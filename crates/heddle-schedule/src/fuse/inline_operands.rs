//! Has contractions without a kernel evaluate their operands.

use heddle_ir::DType;

use super::inline_maps::{is_checked, may_move, work};
use super::substitute::Substitution;
use super::uses::{Uses, loads};
use super::{discard, remove_each};
use heddle_uprogram::contract::{Access, Contract};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Buffer, Local, OperatorId, Stmt, UProgram};

/// Arithmetic operations that an operand's element may cost at each of its uses.
const CHEAP: usize = 2;

/// Lets contractions of a block evaluate the elements of maps that only they read, and whose elements are cheap and made of one that takes
/// no more memory: a conversion from half precision is never stored. Contractions with a kernel read whole vectors and are left alone, as
/// are maps whose inputs are overwritten before.
pub fn inline_operands(program: &mut UProgram) {
    remove_each(program, inline);
}

/// Inlines the map at this place of a block, if all that read it can evaluate it.
fn inline(
    program: &mut UProgram,
    uses: &mut Uses,
    block: &[Stmt],
    place: usize,
    map: OperatorId,
) -> bool {
    let op = &program.operators[map];
    let (Body::Map { store, value }, axes) = (&op.body, op.axes.clone()) else {
        return false;
    };
    let (store, value) = (*store, *value);
    let readers = uses.readers(store.buffer);
    if uses.sole_writer(program, store.buffer) != Some(map)
        || readers.is_empty()
        || !is_cheap(program, value, store.buffer)
        || !may_move(program, &block[place + 1..], &readers, value)
    {
        return false;
    }
    let mut bodies = vec![];
    for &reader in &readers {
        let op = &program.operators[reader];
        let Body::Contract(c) = &op.body else {
            return false;
        };
        let mut own = op.axes.clone();
        own.push(c.depth);
        match evaluated(
            program,
            c.clone(),
            &own,
            (store.buffer, store.offset),
            &axes,
            value,
        ) {
            Some(c) => bodies.push((reader, c)),
            None => return false,
        }
    }
    for (reader, c) in bodies {
        uses.remove(program, reader);
        program.operators[reader].body = Body::Contract(c);
        uses.add(program, reader);
    }
    discard(program, uses, map);
    true
}

/// One element that takes no more memory than the result, and hardly any arithmetic besides its index.
fn is_cheap(program: &UProgram, value: ExprId, to: Buffer) -> bool {
    let pool = &program.pool;
    let [(from, at)] = pool.loads([value])[..] else {
        return false;
    };
    let bits = |buffer: Buffer| program.buffers[buffer].dtype.bits();
    bits(from) <= bits(to)
        && !is_checked(program, value)
        && work(program, value) <= CHEAP + work(program, at)
}

/// A contraction that evaluates what it read of a map; `None` if it reads the map in its epilogue, or elements that are not those of the
/// map at places of the contraction's own axes.
fn evaluated(
    program: &mut UProgram,
    mut c: Contract,
    own: &[(Local, ExprId)],
    (buffer, offset): (Buffer, ExprId),
    axes: &[(Local, ExprId)],
    value: ExprId,
) -> Option<Contract> {
    if c.tile != 1 || loads(program, [c.finish, c.store.offset, c.depth.1]).contains(&buffer) {
        return None;
    }
    for operand in [&mut c.a, &mut c.b] {
        let mut at = program.pool.loads([operand.value]).into_iter();
        let Some((_, at)) = at.find(|load| load.0 == buffer) else {
            continue;
        };
        let mut renamed = renaming(program, axes, own, offset, at)?;
        let element = program.pool.add(Expr::Load(buffer, at));
        let value = renamed.apply(&mut program.pool, value);
        let mut inlined = Substitution::new([(element, value)]);
        operand.value = inlined.apply(&mut program.pool, operand.value);
        operand.access = Access::Computed;
        if loads(program, [operand.value]).contains(&buffer) {
            return None;
        }
    }
    Some(c)
}

/// Axes of a map as axes of a reader, of the same sizes, such that the map's element is at the offset that is read.
fn renaming(
    program: &mut UProgram,
    axes: &[(Local, ExprId)],
    own: &[(Local, ExprId)],
    offset: ExprId,
    at: ExprId,
) -> Option<Substitution> {
    /// Limit on the axes of which all orders are tried.
    const AXES: usize = 5;
    if axes.len() > AXES || own.len() > AXES {
        return None;
    }
    let mut chosen = vec![];
    try_axes(program, axes, own, &mut chosen, &mut |program, chosen| {
        let pool = &mut program.pool;
        let pairs = axes.iter().zip(chosen).map(|(axis, to)| (axis.0, *to));
        let pairs: Vec<_> = pairs.map(|(a, b)| (pool.local(a), pool.local(b))).collect();
        let mut renamed = Substitution::new(pairs);
        (renamed.apply(pool, offset) == at).then_some(renamed)
    })
}

/// The first result for an assignment of different axes of equal sizes to the rest of a map's axes.
fn try_axes(
    program: &mut UProgram,
    axes: &[(Local, ExprId)],
    own: &[(Local, ExprId)],
    chosen: &mut Vec<Local>,
    found: &mut dyn FnMut(&mut UProgram, &[Local]) -> Option<Substitution>,
) -> Option<Substitution> {
    let Some(&(_, size)) = axes.get(chosen.len()) else {
        return found(program, chosen);
    };
    for &(to, own_size) in own {
        if own_size != size || chosen.contains(&to) {
            continue;
        }
        chosen.push(to);
        let result = try_axes(program, axes, own, chosen, found);
        chosen.pop();
        if result.is_some() {
            return result;
        }
    }
    None
}

/// The type of half precision from which both operands of a contraction of `f32` are converted, if there is one.
pub fn half_operands(program: &UProgram, c: &Contract) -> Option<DType> {
    let from = |value: ExprId| match program.pool[value] {
        Expr::Cast(from @ (DType::F16 | DType::Bf16), DType::F32, _) => Some(from),
        _ => None,
    };
    let both = from(c.a.value)?;
    (c.dtype == DType::F32 && from(c.b.value) == Some(both)).then_some(both)
}
