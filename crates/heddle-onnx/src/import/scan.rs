//! `Scan`: a loop over slices of its inputs, in both of its forms.

use heddle_ir::op::{BinaryOp, PadMode};
use heddle_ir::{DType, Dim, FuncBuilder, Op, TypeError, Value};

use super::loops::{Iteration, LoopHead};
use super::scope::{Binding, Frame};
use super::state::{At, Fail, Importer, Outputs, invalid};
use crate::proto::GraphProto;
use crate::refusal::Refusal;

/// A node's parts.
struct Scan<'m> {
    body: &'m GraphProto,
    home: usize,
    states: Vec<Value>,
    inputs: Vec<ScanInput>,
}

/// An input that is cut into slices.
struct ScanInput {
    value: Value,
    axis: usize,
    reverse: bool,
}

impl<'m> Importer<'m> {
    /// `Scan`: opset 8 has a batch axis and sequence lengths, later ones have axes.
    pub(super) fn scan_node(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        match at.version {
            ..=8 => self.scan8(f, at),
            _ => self.scan9(f, at),
        }
    }

    fn scan9(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        let directions = at.ints("scan_input_directions");
        let mut scan = Scan::parse(f, at, 0, at.ints("scan_input_axes"), directions)?;
        let outputs = scan.body.output.len() - scan.states.len();
        let axes = per_item("scan_output_axes", at.ints("scan_output_axes"), outputs)?;
        let directions = per_item(
            "scan_output_directions",
            at.ints("scan_output_directions"),
            outputs,
        )?;
        let length = size(&mut f.b, scan.inputs[0].value, scan.inputs[0].axis)?;
        let first = dim(&f.b, scan.inputs[0].value, scan.inputs[0].axis);
        for input in &mut scan.inputs[1..] {
            check_length(&mut f.b, input, first.as_ref(), length)?;
        }
        let states = scan.states.iter().map(|v| Binding::Value(*v)).collect();
        let mut results = self.scan_loop(f, at, &scan, length, states)?;
        for (k, result) in results[scan.states.len()..].iter_mut().enumerate() {
            let Binding::Value(stacked) = *result else {
                continue;
            };
            *result = Binding::Value(arrange(&mut f.b, stacked, axes[k], directions[k] != 0)?);
        }
        Ok(results)
    }

    /// Scans each item of the batch separately, for its own length; scan outputs are zero-padded to
    /// the longest.
    fn scan8(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        let scan = Scan::parse(f, at, 1, &[], at.ints("directions"))?;
        let lengths = at.optional(0);
        let (states, outputs) = (
            scan.states.len(),
            scan.body.output.len() - scan.states.len(),
        );
        let batch = size(&mut f.b, scan.inputs[0].value, 0)?;
        let longest = size(&mut f.b, scan.inputs[0].value, 1)?;
        let head = LoopHead {
            trip: Some(batch),
            cond: None,
            carried: vec![],
        };
        let mut import = |this: &mut Self, f: &mut Frame<'m>, item: Value, _: &[Binding]| {
            let pick = |f: &mut Frame, v: Value| f.b.op1(Op::Gather { axis: 0 }, &[v, item]);
            let length = match lengths {
                Some(lengths) => pick(f, lengths)?,
                None => longest,
            };
            let mut inner = Scan {
                body: scan.body,
                home: scan.home,
                states: vec![],
                inputs: vec![],
            };
            for &state in &scan.states {
                inner.states.push(pick(f, state)?);
            }
            for input in &scan.inputs {
                let value = pick(f, input.value)?;
                inner.inputs.push(ScanInput {
                    value,
                    axis: 0,
                    reverse: input.reverse,
                });
            }
            let carried = inner.states.iter().map(|v| Binding::Value(*v)).collect();
            f.path.push(1);
            let results = this.scan_loop(f, at, &inner, length, carried);
            f.path.pop();
            let mut stacked = vec![];
            for (k, result) in results?.into_iter().enumerate() {
                stacked.push(match result {
                    Binding::Value(v) if k >= states && lengths.is_some() => {
                        Some(pad_to(&mut f.b, v, length, longest)?)
                    }
                    Binding::Value(v) => Some(v),
                    _ => None,
                });
            }
            debug_assert_eq!(stacked.len(), states + outputs);
            Ok(Iteration {
                cond: None,
                carried: vec![],
                stacked,
            })
        };
        self.build_loop(f, at, head, &mut import)
    }

    /// The loop proper: states, then slices of each input, go in; states and slices of each output
    /// come out.
    fn scan_loop(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        scan: &Scan<'m>,
        length: Value,
        carried: Vec<Binding>,
    ) -> Outputs {
        let one = f.b.i64(1);
        let last = f.b.op1(Op::Binary(BinaryOp::Sub), &[length, one])?;
        let head = LoopHead {
            trip: Some(length),
            cond: None,
            carried,
        };
        let mut import = |this: &mut Self, f: &mut Frame<'m>, i: Value, carried: &[Binding]| {
            let mut args = carried.to_vec();
            for input in &scan.inputs {
                let index = match input.reverse {
                    true => f.b.op1(Op::Binary(BinaryOp::Sub), &[last, i])?,
                    false => i,
                };
                let gather = Op::Gather { axis: input.axis };
                args.push(Binding::Value(f.b.op1(gather, &[input.value, index])?));
            }
            let mut outputs = this.graph(f, scan.body, Some(scan.home), args)?;
            let stacked = outputs.split_off(carried.len());
            Ok(Iteration {
                cond: None,
                carried: outputs,
                stacked,
            })
        };
        self.build_loop(f, at, head, &mut import)
    }
}

impl<'m> Scan<'m> {
    /// `first` is the place of the first state among the node's inputs, and the default axis.
    fn parse(
        f: &Frame,
        at: &At<'m>,
        first: usize,
        axes: &[i64],
        directions: &[i64],
    ) -> Result<Self, Fail> {
        let (body, home) = at.graph("body")?;
        let given = at.inputs.len().saturating_sub(first);
        let count = at.int("num_scan_inputs").unwrap_or(0);
        let count = match usize::try_from(count) {
            Ok(count) if count >= 1 && count <= given => count,
            _ => {
                return invalid(format!(
                    "num_scan_inputs is {count}, but it has {given} inputs"
                ));
            }
        };
        let states = given - count;
        if body.input.len() != given || body.output.len() < states {
            return invalid(format!(
                "its body must take {given} inputs and give at least {states} outputs, not {} and {}",
                body.input.len(),
                body.output.len()
            ));
        }
        let axes = per_item("scan_input_axes", axes, count)?;
        let directions = per_item("scan directions", directions, count)?;
        let mut inputs = vec![];
        for k in 0..count {
            let value = at.input(first + states + k)?;
            let axis = if first == 0 {
                axis_of(&f.b, value, axes[k])?
            } else {
                1
            };
            inputs.push(ScanInput {
                value,
                axis,
                reverse: directions[k] != 0,
            });
        }
        let lengths: Vec<_> = inputs
            .iter()
            .filter_map(|i| dim(&f.b, i.value, i.axis))
            .collect();
        if lengths.iter().any(|l| l.differs(&lengths[0])) {
            return invalid("the inputs that it scans differ in length");
        }
        let states = (0..states)
            .map(|k| at.input(first + k))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            body,
            home,
            states,
            inputs,
        })
    }
}

/// A list with one number per item, zeros when it is left out.
fn per_item(name: &str, list: &[i64], count: usize) -> Result<Vec<i64>, Fail> {
    match list.len() {
        0 => Ok(vec![0; count]),
        n if n == count => Ok(list.to_vec()),
        n => invalid(format!("{name} has {n} numbers for {count} items")),
    }
}

/// An axis of a value as an index.
fn axis_of(b: &FuncBuilder, v: Value, axis: i64) -> Result<usize, Fail> {
    let Some(rank) = b.ty(v).as_tensor().and_then(|t| t.rank()) else {
        if axis == 0 {
            return Ok(0);
        }
        return Err(Refusal::AxisOfUnknownRank.into());
    };
    match if axis < 0 { axis + rank as i64 } else { axis } {
        index if (0..rank as i64).contains(&index) => Ok(index as usize),
        _ => invalid(format!("axis {axis} is out of range for {rank} axes")),
    }
}

fn dim(b: &FuncBuilder, v: Value, axis: usize) -> Option<Dim> {
    b.ty(v).as_tensor()?.shape.as_ref()?.get(axis).cloned()
}

/// The size of an axis, as `i64[]`.
fn size(b: &mut FuncBuilder, v: Value, axis: usize) -> Result<Value, TypeError> {
    if let Some(size) = dim(b, v, axis).and_then(|d| d.as_const()) {
        return Ok(b.i64(size));
    }
    let shape = b.op1(Op::Shape, &[v])?;
    let index = b.i64(axis as i64);
    b.op1(Op::Gather { axis: 0 }, &[shape, index])
}

/// Makes the program check an input that may differ in length from the first: a longer one would be
/// cut off.
fn check_length(
    b: &mut FuncBuilder,
    input: &mut ScanInput,
    first: Option<&Dim>,
    length: Value,
) -> Result<(), TypeError> {
    let own = dim(b, input.value, input.axis);
    let rank = b.ty(input.value).as_tensor().and_then(|t| t.rank());
    let same = own.is_some_and(|own| first.is_some_and(|first| own.equals(first)));
    let Some(rank) = rank.filter(|_| !same) else {
        return Ok(());
    };
    let mut sizes = vec![];
    for axis in 0..rank {
        let size = match axis == input.axis {
            true => length,
            false => size(b, input.value, axis)?,
        };
        sizes.push(b.op1(Op::Unsqueeze { axes: vec![0] }, &[size])?);
    }
    let shape = b.op1(Op::Concat { axis: 0 }, &sizes)?;
    input.value = b.op1(Op::Reshape, &[input.value, shape])?;
    Ok(())
}

/// A scan output in the node's direction and along its axis.
fn arrange(b: &mut FuncBuilder, stacked: Value, axis: i64, reverse: bool) -> Result<Value, Fail> {
    let mut value = stacked;
    if reverse {
        let bounds = [-1, i64::MIN, -1].map(|v| b.i64s(&[v]));
        value = b.op1(
            Op::Slice { axes: vec![0] },
            &[value, bounds[0], bounds[1], bounds[2]],
        )?;
    }
    let to = axis_of(b, value, axis)?;
    if to == 0 {
        return Ok(value);
    }
    let rank = b.ty(value).as_tensor().and_then(|t| t.rank()).unwrap_or(0);
    let mut perm: Vec<usize> = (1..rank).collect();
    perm.insert(to, 0);
    Ok(b.op1(Op::Transpose { perm }, &[value])?)
}

/// Zeros added at the end of axis 0, which has this length, up to the longest one.
fn pad_to(b: &mut FuncBuilder, v: Value, length: Value, longest: Value) -> Result<Value, Fail> {
    let Some(t) = b.ty(v).as_tensor().cloned() else {
        return invalid("only tensors can be stacked");
    };
    let Some(rank) = t.rank() else {
        return Err(Refusal::PaddedUnknownRank.into());
    };
    if !t.dtype.is_arith() && t.dtype != DType::Bool {
        return Err(Refusal::PaddedType(t.dtype).into());
    }
    let missing = b.op1(Op::Binary(BinaryOp::Sub), &[longest, length])?;
    let missing = b.op1(Op::Unsqueeze { axes: vec![0] }, &[missing])?;
    let (before, after) = (b.i64s(&vec![0; rank]), b.i64s(&vec![0; rank - 1]));
    let pads = b.op1(Op::Concat { axis: 0 }, &[before, missing, after])?;
    let zero = b.scalar(t.dtype, 0.0);
    Ok(b.op1(
        Op::Pad {
            mode: PadMode::Constant,
        },
        &[v, pads, zero],
    )?)
}
