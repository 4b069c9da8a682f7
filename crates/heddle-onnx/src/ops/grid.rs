//! Sampling at computed places: GridSample, AffineGrid, CenterCropPad.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Dim, Emit, Op, Type, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use super::kernels::cubic_kernel;
use super::num::Num;
use super::sample::{Image, Tap};
use super::sizes::Int;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("GridSample", grid_sample),
    ("AffineGrid", affine_grid),
    ("CenterCropPad", center_crop_pad),
];

/// GridSample 16 (`bilinear`, `bicubic`), 20, 22 (`linear`, `cubic`), over any number of spatial
/// axes.
fn grid_sample(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, grid) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.dtype(x)?;
    let k = cx.spatial_rank(x, 1)?;
    if cx.rank(grid)? != k + 2 || cx.shape(grid)?[k + 1].differs(&Dim::from(k)) {
        return invalid(format!(
            "the grid is {} for {k} spatial axes",
            cx.b.ty(grid)
        ));
    }
    let mode = cx.choice(
        "mode",
        "linear",
        &[
            ("linear", Mode::Linear),
            ("bilinear", Mode::Linear),
            ("cubic", Mode::Cubic),
            ("bicubic", Mode::Cubic),
            ("nearest", Mode::Nearest),
        ],
    )?;
    let padding = cx.choice(
        "padding_mode",
        "zeros",
        &[
            ("zeros", Padding::Zeros),
            ("border", Padding::Border),
            ("reflection", Padding::Reflection),
        ],
    )?;
    let align = cx.flag("align_corners", false);
    let value = match mode {
        Mode::Nearest => x,
        _ if dtype.is_int() => cx.cast(x, DType::F64)?,
        _ => cx.widen(x)?,
    };
    let image = Image::new(cx, value)?;
    let grid = cx.widen(grid)?;
    let numbers = image.numbers(cx, k)?;
    let mut taps = vec![];
    for axis in 0..k {
        // The grid's components run from the last spatial axis to the first.
        let coordinate = cx.pick(grid, k - 1 - axis, k + 1)?;
        let size = cx.num_of(image.sizes[axis])?;
        let border = Border::new(cx, size, align)?;
        let mut place = border.denormalize(cx, coordinate)?;
        if mode == Mode::Nearest {
            place = cx.unary(UnaryOp::Round, place)?;
        }
        // As in PyTorch, cubic weights belong to the unclamped coordinate; only the reads are
        // clamped.
        if mode != Mode::Cubic || padding != Padding::Border {
            place = border.bring_inside(cx, place, padding)?;
        }
        taps.push(axis_taps(cx, &image, axis, place, mode, padding, &border)?);
    }
    let y = match mode {
        Mode::Nearest => {
            let indices: Vec<Value> = taps.iter().map(|t| t[0].index).collect();
            let inside: Vec<Value> = taps.iter().filter_map(|t| t[0].inside).collect();
            image.at(cx, numbers, &indices, &inside)?
        }
        _ => image.weighted(cx, numbers, &taps)?,
    };
    let perm: Vec<usize> = [0, k + 1].into_iter().chain(1..=k).collect();
    let y = cx.transpose(y, &perm)?;
    Ok(vec![cx.cast(y, dtype)?])
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// The ends of an axis, where the grid is -1 and 1.
struct Border {
    low: f64,
    high: Num,
    size: Num,
}

impl Border {
    fn new(cx: &mut NodeCx, size: Num, align: bool) -> Result<Self> {
        let (low, cut) = if align { (0.0, 1.0) } else { (-0.5, 0.5) };
        let high = cx.num_op(BinaryOp::Sub, size, cut)?;
        Ok(Self { low, high, size })
    }

    /// A number of the axis in the type of `like`.
    fn number(&self, cx: &mut NodeCx, like: Value, number: Num) -> Result<Value> {
        let number = cx.num_value(number);
        let dtype = cx.dtype(like)?;
        cx.cast(number, dtype)
    }

    /// From -1…1 to places in the image.
    fn denormalize(&self, cx: &mut NodeCx, x: Value) -> Result<Value> {
        let [one, half, low] = [1.0, 0.5, self.low].map(|v| cx.real_like(x, v));
        let extent = cx.num_op(BinaryOp::Sub, self.high, self.low)?;
        let extent = self.number(cx, x, extent)?;
        let shifted = cx.add(x, one?)?;
        let scaled = cx.mul(shifted, extent)?;
        let halved = cx.mul(scaled, half?)?;
        cx.add(halved, low?)
    }

    /// Moves coordinates outside the ends by the padding mode.
    fn bring_inside(&self, cx: &mut NodeCx, x: Value, padding: Padding) -> Result<Value> {
        if padding == Padding::Zeros {
            return Ok(x);
        }
        let low = cx.real_like(x, self.low)?;
        let high = self.number(cx, x, self.high)?;
        if padding == Padding::Reflection {
            return self.reflect(cx, x);
        }
        let last = cx.num_op(BinaryOp::Sub, self.size, 1.0)?;
        let (first, last) = (cx.real_like(x, 0.0)?, self.number(cx, x, last)?);
        let below = cx.compare(CompareOp::Lt, x, low)?;
        let above = cx.compare(CompareOp::Gt, x, high)?;
        let x = cx.select(below, first, x)?;
        cx.select(above, last, x)
    }

    /// Mirrors coordinates at the ends, repeatedly.
    fn reflect(&self, cx: &mut NodeCx, x: Value) -> Result<Value> {
        let low = cx.real_like(x, self.low)?;
        let high = self.number(cx, x, self.high)?;
        let zero = cx.real_like(x, 0.0)?;
        let range = cx.sub(high, low)?;
        let below = cx.compare(CompareOp::Lt, x, low)?;
        let above = cx.compare(CompareOp::Gt, x, high)?;
        let under = cx.sub(low, x)?;
        let over = cx.sub(x, high)?;
        let excess = cx.select(below, under, over)?;
        // The parity of the crossings decides from which end the rest is counted.
        let crossed = cx.div(excess, range)?;
        let crossed = cx.unary(UnaryOp::Floor, crossed)?;
        let whole = cx.mul(crossed, range)?;
        let rest = cx.sub(excess, whole)?;
        let two = cx.real_like(x, 2.0)?;
        let parity = cx.binary(BinaryOp::Mod, crossed, two)?;
        let even = cx.compare(CompareOp::Eq, parity, zero)?;
        let from_low = cx.add(low, rest)?;
        let from_high = cx.sub(high, rest)?;
        let at_low = cx.select(even, from_low, from_high)?;
        let at_high = cx.select(even, from_high, from_low)?;
        let mirrored = cx.select(below, at_low, at_high)?;
        let outside = cx.binary(BinaryOp::Or, below, above)?;
        cx.select(outside, mirrored, x)
    }
}

/// The elements along one axis that a sample reads.
fn axis_taps(
    cx: &mut NodeCx,
    image: &Image,
    axis: usize,
    place: Value,
    mode: Mode,
    padding: Padding,
    border: &Border,
) -> Result<Vec<Tap>> {
    let base = cx.unary(UnaryOp::Floor, place)?;
    let ratio = cx.sub(place, base)?;
    let offsets = match mode {
        Mode::Nearest => 0..=0,
        Mode::Linear => 0..=1,
        Mode::Cubic => -1..=2,
    };
    let mut taps = vec![];
    for offset in offsets {
        let shift = cx.real_like(base, offset as f64)?;
        let position = cx.add(base, shift)?;
        let distance = cx.sub(ratio, shift)?;
        let distance = cx.unary(UnaryOp::Abs, distance)?;
        let weight = match mode {
            Mode::Cubic => cubic_kernel(cx, distance, -0.75)?,
            _ => {
                let one = cx.real_like(distance, 1.0)?;
                cx.sub(one, distance)?
            }
        };
        let position = match padding {
            Padding::Reflection => border.reflect(cx, position)?,
            _ => position,
        };
        let index = cx.cast(position, DType::I64)?;
        let (index, inside) = match padding {
            Padding::Zeros => {
                let (index, inside) = image.bounded(cx, index, axis)?;
                (index, Some(inside))
            }
            _ => (image.clamped(cx, index, axis)?, None),
        };
        taps.push(Tap {
            index,
            inside,
            weight,
        });
    }
    Ok(taps)
}

/// AffineGrid 20.
fn affine_grid(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (theta, size) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.dtype(theta)?;
    let sizes = cx.int_elements(size)?;
    let k = sizes.len().saturating_sub(2);
    if !(2..=3).contains(&k) || cx.rank(theta)? != 3 {
        return invalid(format!(
            "a size of {} elements, theta {}",
            k + 2,
            cx.b.ty(theta)
        ));
    }
    let align = cx.flag("align_corners", false);
    // Homogeneous coordinates of all places, the last axis first: [places, k + 1].
    let mut columns = vec![];
    let spatial = cx.ints_value(&sizes[2..])?;
    let mut total = Int::Const(1);
    for axis in (0..k).rev() {
        let size = sizes[2 + axis];
        total = cx.int_mul(total, size)?;
        let steps = steps(cx, size, align)?;
        let later: Vec<usize> = (1..k - axis).collect();
        let steps = cx.unsqueeze(steps, &later)?;
        columns.push(cx.broadcast_to(steps, spatial)?);
    }
    columns.push(cx.full(DType::F64, spatial, 1.0)?);
    let columns: Vec<Value> = columns
        .into_iter()
        .map(|c| cx.unsqueeze(c, &[k]))
        .collect::<Result<_>>()?;
    let base = cx.concat(&columns, k)?;
    let base = cx.reshape_ints(base, &[total, Int::Const(k as i64 + 1)])?;
    let theta = cx.widen(theta)?;
    let compute = cx.dtype(theta)?;
    let base = cx.cast(base, compute)?;
    let theta = cx.transpose(theta, &[0, 2, 1])?;
    let grid = cx.op(Op::Dot, &[base, theta])?;
    let shape = [&[sizes[0]], &sizes[2..], &[Int::Const(k as i64)]].concat();
    let grid = cx.reshape_ints(grid, &shape)?;
    Ok(vec![cx.cast(grid, dtype)?])
}

/// Places along one axis from -1 to 1: `f64[size]`.
fn steps(cx: &mut NodeCx, size: Int, align: bool) -> Result<Value> {
    let index = cx.iota(size)?;
    let mut index = cx.cast(index, DType::F64)?;
    let mut count = cx.num_of(size)?;
    if align {
        let gaps = cx.num_op(BinaryOp::Sub, count, 1.0)?;
        count = cx.num_unless_one(size, gaps, 1.0.into())?;
    } else {
        index = cx.with_num(BinaryOp::Add, index, 0.5.into())?;
    }
    let step = cx.num_op(BinaryOp::Div, 2.0, count)?;
    let place = cx.with_num(BinaryOp::Mul, index, step)?;
    cx.with_num(BinaryOp::Sub, place, 1.0.into())
}

/// CenterCropPad 18: an odd element is cut off or added at the end.
fn center_crop_pad(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, target) = (cx.input(0)?, cx.input(1)?);
    let sizes = cx.sizes(x)?;
    let rank = sizes.len();
    let axes: Vec<usize> = match cx.ints("axes") {
        Some(axes) => axes
            .iter()
            .map(|&a| cx.axis(a, rank))
            .collect::<Result<_>>()?,
        None => (0..rank).collect(),
    };
    let target = cx.int_elements(target)?;
    if target.len() != axes.len() {
        return invalid(format!("{} sizes for {} axes", target.len(), axes.len()));
    }
    let mut pads = vec![Int::Const(0); 2 * rank];
    let mut shape = cx.shape(x)?;
    for (&axis, &size) in axes.iter().zip(&target) {
        if let Some(size) = size.as_const().filter(|size| *size < 0) {
            return invalid(format!("a size of {size} for axis {axis}"));
        }
        let difference = cx.int_sub(size, sizes[axis])?;
        pads[axis] = cx.int_div(difference, 2)?;
        pads[rank + axis] = cx.int_sub(difference, pads[axis])?;
        shape[axis] = match size {
            Int::Const(c) => Dim::constant(c),
            Int::Value(_) => Dim::UNKNOWN,
        };
    }
    let pads = cx.ints_value(&pads)?;
    let dtype = cx.dtype(x)?;
    let zero = cx.zero(dtype)?;
    let y = cx.pad(x, pads, zero)?;
    cx.b.refine_type(y, Type::tensor(dtype, shape))?;
    Ok(vec![y])
}
