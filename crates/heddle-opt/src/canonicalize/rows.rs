//! Rules that compute only the rows of a result that are read: the logits of the last position, of
//! which a decoder's first run gives those of the whole prompt.

use heddle_ir::{Inst, Op, Value};

use super::Rule;
use super::rewriter::Rewriter;

pub const RULES: &[Rule] = &[
    Rule::new("rows of a product", rows_of_product),
    Rule::new("rows of an elementwise result", rows_of_elementwise),
];

/// Rows along one axis: a slice, or what an index chooses.
struct Rows {
    /// The value that they are rows of.
    of: Value,
    axis: usize,
    op: Op,
    /// The operands behind the value.
    bounds: Vec<Value>,
    /// Is the axis dropped behind it?
    drops: bool,
}

impl Rows {
    /// The rows that an instruction reads of a larger array of floats, which nothing else reads. A
    /// value of another region, such as one before a loop, is computed less often.
    fn read(cx: &mut Rewriter, inst: Inst) -> Option<Self> {
        let data = &cx.patch.func().insts[inst];
        let (op, args) = (data.op.clone(), cx.patch.args(inst));
        let axis = match &op {
            Op::Slice { axes } if axes.len() == 1 => axes[0],
            Op::Gather { axis } => *axis,
            _ => return None,
        };
        let of = *args.first()?;
        let source = cx.patch.func().def_inst(of)?;
        let is_near =
            cx.patch.home(source).is_some() && cx.patch.home(source) == cx.patch.home(inst);
        let is_float = cx.ty(of).as_tensor()?.dtype.is_float();
        let shape = cx.shape(of)?;
        let saves = shape.len() > 1 && !shape[axis].is(1);
        if !is_near || !is_float || !saves || cx.uses(of) != 1 {
            return None;
        }
        let mut rows = Rows {
            of,
            axis,
            op,
            bounds: args[1..].to_vec(),
            drops: false,
        };
        if let Op::Gather { .. } = rows.op {
            match cx.static_shape(rows.bounds[0])?[..] {
                [1] => {}
                [] => {
                    let axes = vec![0];
                    rows.bounds[0] = match cx.integer_of(rows.bounds[0]) {
                        Some(index) => cx.integers(&[index])?,
                        None => cx.op(Op::Unsqueeze { axes }, &rows.bounds)?,
                    };
                    rows.drops = true;
                }
                _ => return None,
            }
        }
        Some(rows)
    }

    /// The same rows of another value.
    fn of(&self, cx: &mut Rewriter, x: Value, axis: usize) -> Option<Value> {
        let op = match self.op {
            Op::Gather { .. } => Op::Gather { axis },
            _ => Op::Slice { axes: vec![axis] },
        };
        cx.op(op, &[&[x], &self.bounds[..]].concat())
    }

    /// The reader's result, made of the rows.
    fn result(&self, cx: &mut Rewriter, rows: Value) -> Option<Vec<Value>> {
        let axes = vec![self.axis];
        match self.drops {
            true => Some(vec![cx.op(Op::Squeeze { axes }, &[rows])?]),
            false => Some(vec![rows]),
        }
    }
}

/// Rows of a matrix product are the product of the left operand's rows.
fn rows_of_product(cx: &mut Rewriter, inst: Inst) -> Option<Vec<Value>> {
    let rows = Rows::read(cx, inst)?;
    let (Op::Dot, args) = cx.definition(rows.of)? else {
        return None;
    };
    let [rank, left, right] = [rows.of, args[0], args[1]].map(|v| cx.shape(v).map(<[_]>::len));
    let (rank, left, right) = (rank?, left?, right?);
    let axis = match rows.axis + 2 {
        n if n == rank => left.checked_sub(2)?,
        n if n < rank && right == 2 => rows.axis,
        _ => return None,
    };
    let some = rows.of(cx, args[0], axis)?;
    let product = cx.op(Op::Dot, &[some, args[1]])?;
    rows.result(cx, product)
}

/// Rows of an elementwise result are made of the operands' rows.
fn rows_of_elementwise(cx: &mut Rewriter, inst: Inst) -> Option<Vec<Value>> {
    let rows = Rows::read(cx, inst)?;
    let (op, args) = cx.definition(rows.of)?;
    if !op.is_elementwise() {
        return None;
    }
    let op = op.clone();
    let shape = cx.shape(rows.of)?;
    let (rank, size) = (shape.len(), shape[rows.axis].clone());
    let mut places = vec![];
    for &arg in &args {
        let shape = cx.shape(arg)?;
        let axis = (rows.axis + shape.len()).checked_sub(rank);
        places.push(match axis {
            Some(axis) if args.len() == 1 || shape[axis].equals(&size) => Some(axis),
            Some(axis) if !shape[axis].is(1) => return None,
            _ => None,
        });
    }
    // An operand of an unknown size next to those of size 1 cannot be told apart.
    places.iter().flatten().next()?;
    let mut some = vec![];
    for (&arg, axis) in args.iter().zip(places) {
        some.push(match axis {
            Some(axis) => rows.of(cx, arg, axis)?,
            None => arg,
        });
    }
    let result = cx.op(op, &some)?;
    rows.result(cx, result)
}
