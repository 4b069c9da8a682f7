//! Sequences and optionals.

use std::rc::Rc;

use heddle_ir::{DType, Op};

use super::arrange::concat;
use super::movement::{no_axis, strided};
use super::tensors;
use super::walk::strides;
use crate::context::Context;
use crate::error::Fault;
use crate::value::{Array, Seq, Val};

/// Evaluates an op on sequences or optionals.
pub fn eval(cx: &Context, op: &Op, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let result = match op {
        Op::SeqNew { .. } => new(cx, args)?,
        Op::SeqInsert => {
            let [s, x, position] = take(args)?;
            let position = position.tensor()?.int()?;
            let mut s = seq(s)?;
            let len = s.items.len();
            // One past the last element is a position too.
            let at = match position == len as i64 {
                true => len,
                false => resolve(position, len)?,
            };
            own(cx, &mut s, 1)?.items.insert(at, x);
            Val::Seq(s)
        }
        Op::SeqErase => {
            let [s, position] = take(args)?;
            let mut s = seq(s)?;
            let at = resolve(position.tensor()?.int()?, s.items.len())?;
            own(cx, &mut s, 0)?.items.remove(at);
            Val::Seq(s)
        }
        Op::SeqAt => {
            let [s, position] = take(args)?;
            let s = seq(s)?;
            s.items[resolve(position.tensor()?.int()?, s.items.len())?].clone()
        }
        Op::SeqLen => {
            let [s] = take(args)?;
            let len = seq(s)?.items.len() as i64;
            cx.array(DType::I64, vec![], vec![len])?.into()
        }
        Op::SeqConcat { axis, stack } => {
            let [s] = take(args)?;
            join(cx, &*seq(s)?, *axis, *stack)?.into()
        }
        Op::SeqSplit { axis, squeeze } => {
            let [x, lengths] = tensors(args)?;
            split(cx, &x, lengths.data()?, *axis, *squeeze)?
        }
        Op::OptSome => {
            let [x] = take(args)?;
            Val::Opt(Some(Rc::new(x)))
        }
        Op::OptNone { .. } => Val::Opt(None),
        Op::OptHas => {
            let [o] = take(args)?;
            let has = matches!(o, Val::Opt(Some(_)));
            cx.array(DType::Bool, vec![], vec![has])?.into()
        }
        Op::OptGet => match take(args)? {
            [Val::Opt(Some(v))] => Rc::unwrap_or_clone(v),
            [_] => return Err(Fault::Value("the optional is empty".into())),
        },
        _ => return Err(Fault::Unsupported(format!("`{}` on sequences", op.name()))),
    };
    Ok(vec![result])
}

fn take<const N: usize>(args: Vec<Val>) -> Result<[Val; N], Fault> {
    args.try_into()
        .map_err(|_| Fault::Unsupported("this number of operands".into()))
}

fn seq(val: Val) -> Result<Rc<Seq>, Fault> {
    match val {
        Val::Seq(s) => Ok(s),
        _ => Err(Fault::Unsupported("something that is no sequence".into())),
    }
}

fn new(cx: &Context, items: Vec<Val>) -> Result<Val, Fault> {
    let lease = cx.claim((items.len() * size_of::<Val>()) as u64)?;
    Ok(Val::Seq(Rc::new(Seq { items, lease })))
}

fn resolve(position: i64, len: usize) -> Result<usize, Fault> {
    super::resolve(position, 0, len).map_err(|_| Fault::Position { position, len })
}

/// The sequence to change, with memory for `more` elements: copied if it has another owner.
fn own<'a>(cx: &Context, s: &'a mut Rc<Seq>, more: usize) -> Result<&'a mut Seq, Fault> {
    if Rc::get_mut(s).is_none() {
        cx.tick(s.items.len())?;
        if let Val::Seq(copy) = new(cx, s.items.clone())? {
            *s = copy;
        }
    }
    let own = Rc::get_mut(s).expect("just made the only owner");
    cx.extend(&mut own.lease, (more * size_of::<Val>()) as u64)?;
    Ok(own)
}

fn join(cx: &Context, s: &Seq, axis: usize, stack: bool) -> Result<Array, Fault> {
    if s.items.is_empty() {
        return Err(Fault::Value("an empty sequence cannot be joined".into()));
    }
    let mut arrays = vec![];
    for item in &s.items {
        let mut array = item.tensor()?.clone();
        if stack {
            if axis > array.shape.len() {
                return Err(no_axis(axis, &array.shape));
            }
            array.shape.insert(axis, 1);
        }
        arrays.push(array);
    }
    concat(cx, &arrays.iter().collect::<Vec<_>>(), axis)
}

fn split(
    cx: &Context,
    x: &Array,
    lengths: &[i64],
    axis: usize,
    squeeze: bool,
) -> Result<Val, Fault> {
    let size = *x.shape.get(axis).ok_or_else(|| no_axis(axis, &x.shape))?;
    let sum = lengths.iter().try_fold(
        0i64,
        |sum, &l| if l < 0 { None } else { sum.checked_add(l) },
    );
    if sum != Some(size as i64) || squeeze && lengths.iter().any(|&l| l != 1) {
        return Err(Fault::Shape(format!(
            "lengths {lengths:?} do not divide axis {axis} of size {size}"
        )));
    }
    let steps = strides(&x.shape);
    let (mut items, mut first) = (vec![], 0);
    for &len in lengths {
        let mut shape = x.shape.clone();
        shape[axis] = len as usize;
        // An empty array is never read: the product may wrap.
        let from = isize::wrapping_mul(first, steps[axis]);
        let mut piece = strided(cx, x, from, shape, &steps)?;
        if squeeze {
            piece.shape.remove(axis);
        }
        items.push(piece.into());
        first += len as isize;
    }
    new(cx, items)
}
