//! Sampling of one axis after the other.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::super::cx::{NodeCx, Result, invalid};
use super::super::kernels::cubic_kernel;
use super::super::num::Num;
use super::super::sizes::Int;
use super::settings::{Mode, Nearest, Places, Settings};

/// The resampling of one axis.
pub struct Axis {
    pub axis: usize,
    /// Elements of the input.
    pub from: Int,
    /// Elements of the result.
    pub to: Int,
    /// The scale, where it is not `to / from`.
    pub scale: Option<Num>,
    /// The part that is sampled, in units of the input, where there is one.
    pub crop: Option<(Num, Num)>,
}

/// Samples one axis after the other.
pub fn resample(cx: &mut NodeCx, x: Value, settings: &Settings, plan: &[Axis]) -> Result<Value> {
    let dtype = cx.dtype(x)?;
    let nearest = matches!(settings.mode, Mode::Nearest(_));
    // Weighted sums are rounded once, at the end.
    let mut y = match dtype {
        _ if nearest => x,
        DType::F16 | DType::Bf16 => cx.cast(x, DType::F32)?,
        DType::F32 | DType::F64 => x,
        d if d.is_int() => cx.cast(x, DType::F64)?,
        other => return invalid(format!("interpolation of {other}")),
    };
    let rank = cx.rank(x)?;
    let mut outside: Option<Value> = None;
    for axis in plan {
        if axis.is_identity() {
            continue;
        }
        let places = axis.places(cx, settings.places)?;
        y = match settings.mode {
            Mode::Nearest(rounding) => {
                let indices = axis.nearest(cx, places, rounding)?;
                cx.gather(y, indices, axis.axis)?
            }
            Mode::Linear | Mode::Cubic { .. } if settings.antialias => {
                axis.filter(cx, y, places, settings)?
            }
            _ => axis.interpolate(cx, y, places, settings)?,
        };
        if settings.places == Places::Crop {
            let beyond = axis.outside(cx, places)?;
            let later: Vec<usize> = (1..rank - axis.axis).collect();
            let beyond = cx.unsqueeze(beyond, &later)?;
            outside = Some(cx.fold(BinaryOp::Or, outside, beyond)?);
        }
    }
    if let Some(outside) = outside {
        let value = cx.real_like(y, settings.extrapolation)?;
        y = cx.select(outside, value, y)?;
    }
    if dtype.is_int() && !nearest {
        y = cx.unary(UnaryOp::Round, y)?;
    }
    cx.cast(y, dtype)
}

impl Axis {
    /// True if the axis stays as it is.
    fn is_identity(&self) -> bool {
        let same = match (self.from, self.to, self.scale) {
            (_, _, Some(scale)) => scale.as_const() == Some(1.0),
            (Int::Const(a), Int::Const(b), None) => a == b,
            _ => false,
        };
        let whole = self
            .crop
            .is_none_or(|(a, b)| a.as_const() == Some(0.0) && b.as_const() == Some(1.0));
        same && whole
    }

    /// `x / scale`, exactly where the scale is a quotient of sizes.
    fn unscale(&self, cx: &mut NodeCx, x: Value) -> Result<Value> {
        match self.scale {
            Some(scale) => cx.with_num(BinaryOp::Div, x, scale),
            None => {
                let (from, to) = (cx.num_of(self.from)?, cx.num_of(self.to)?);
                let scaled = cx.with_num(BinaryOp::Mul, x, from)?;
                cx.with_num(BinaryOp::Div, scaled, to)
            }
        }
    }

    /// The length of the result before it was rounded down.
    fn exact_length(&self, cx: &mut NodeCx) -> Result<Num> {
        match self.scale {
            Some(scale) => {
                let from = cx.num_of(self.from)?;
                cx.num_op(BinaryOp::Mul, scale, from)
            }
            None => cx.num_of(self.to),
        }
    }

    /// The input coordinate of each element of the result: `f64[to]`.
    fn places(&self, cx: &mut NodeCx, kind: Places) -> Result<Value> {
        let index = cx.iota(self.to)?;
        let index = cx.cast(index, DType::F64)?;
        let half = |cx: &mut NodeCx| {
            let centre = cx.with_num(BinaryOp::Add, index, 0.5.into())?;
            let place = self.unscale(cx, centre)?;
            cx.with_num(BinaryOp::Sub, place, 0.5.into())
        };
        match kind {
            Places::HalfPixel => half(cx),
            Places::Asymmetric => self.unscale(cx, index),
            Places::TfHalfPixel => {
                let centre = cx.with_num(BinaryOp::Add, index, 0.5.into())?;
                self.unscale(cx, centre)
            }
            Places::PytorchHalfPixel => {
                let place = half(cx)?;
                let factor = cx.num_unless_one(self.to, 1.0.into(), 0.0.into())?;
                cx.with_num(BinaryOp::Mul, place, factor)
            }
            Places::HalfPixelSymmetric => {
                let place = half(cx)?;
                let (from, to) = (cx.num_of(self.from)?, cx.num_of(self.to)?);
                let exact = self.exact_length(cx)?;
                let adjustment = cx.num_op(BinaryOp::Div, to, exact)?;
                let rest = cx.num_op(BinaryOp::Sub, 1.0, adjustment)?;
                let centre = cx.num_op(BinaryOp::Div, from, 2.0)?;
                let offset = cx.num_op(BinaryOp::Mul, centre, rest)?;
                cx.with_num(BinaryOp::Add, place, offset)
            }
            Places::AlignCorners => {
                let (from, length) = (cx.num_of(self.from)?, self.exact_length(cx)?);
                let last = cx.num_op(BinaryOp::Sub, from, 1.0)?;
                let steps = cx.num_op(BinaryOp::Sub, length, 1.0)?;
                let steps = cx.num_unless_one(self.to, steps, 1.0.into())?;
                let reach = cx.with_num(BinaryOp::Mul, index, last)?;
                cx.with_num(BinaryOp::Div, reach, steps)
            }
            Places::Crop => {
                let (start, end) = self.crop.expect("a cropped axis");
                let (from, length) = (cx.num_of(self.from)?, self.exact_length(cx)?);
                let last = cx.num_op(BinaryOp::Sub, from, 1.0)?;
                let extent = cx.num_op(BinaryOp::Sub, end, start)?;
                let extent = cx.num_op(BinaryOp::Mul, extent, last)?;
                let steps = cx.num_op(BinaryOp::Sub, length, 1.0)?;
                let steps = cx.num_unless_one(self.to, steps, 1.0.into())?;
                let first = cx.num_op(BinaryOp::Mul, start, last)?;
                let sum = cx.num_op(BinaryOp::Add, start, end)?;
                let middle = cx.num_op(BinaryOp::Mul, sum, 0.5)?;
                let middle = cx.num_op(BinaryOp::Mul, middle, last)?;
                let first = cx.num_unless_one(self.to, first, middle)?;
                let reach = cx.with_num(BinaryOp::Mul, index, extent)?;
                let reach = cx.with_num(BinaryOp::Div, reach, steps)?;
                cx.with_num(BinaryOp::Add, reach, first)
            }
        }
    }

    /// Mask of the places outside of the input.
    fn outside(&self, cx: &mut NodeCx, places: Value) -> Result<Value> {
        let from = cx.num_of(self.from)?;
        let last = cx.num_op(BinaryOp::Sub, from, 1.0)?;
        let (zero, last) = (cx.b.scalar(DType::F64, 0.0), cx.num_value(last));
        let before = cx.compare(CompareOp::Lt, places, zero)?;
        let after = cx.compare(CompareOp::Gt, places, last)?;
        cx.binary(BinaryOp::Or, before, after)
    }

    /// The index of the element nearest to each place.
    fn nearest(&self, cx: &mut NodeCx, places: Value, rounding: Nearest) -> Result<Value> {
        let (shift, kind) = match rounding {
            Nearest::PreferFloor => (-0.5, UnaryOp::Ceil),
            Nearest::PreferCeil => (0.5, UnaryOp::Floor),
            Nearest::Floor => (0.0, UnaryOp::Floor),
            Nearest::Ceil => (0.0, UnaryOp::Ceil),
            Nearest::Shrink => {
                let down = cx.unary(UnaryOp::Floor, places)?;
                let up = cx.unary(UnaryOp::Ceil, places)?;
                let scale = self.scale.expect("opset 10 has scales");
                let (scale, one) = (cx.num_value(scale), cx.b.scalar(DType::F64, 1.0));
                let shrinks = cx.compare(CompareOp::Lt, scale, one)?;
                let rounded = cx.select(shrinks, up, down)?;
                let indices = cx.cast(rounded, DType::I64)?;
                return cx.clamp_index(indices, self.from);
            }
        };
        let shifted = cx.with_num(BinaryOp::Add, places, shift.into())?;
        let rounded = cx.unary(kind, shifted)?;
        let indices = cx.cast(rounded, DType::I64)?;
        cx.clamp_index(indices, self.from)
    }

    /// Weighs the two (linear) or four (cubic) elements around each place.
    fn interpolate(
        &self,
        cx: &mut NodeCx,
        x: Value,
        places: Value,
        settings: &Settings,
    ) -> Result<Value> {
        let base = cx.unary(UnaryOp::Floor, places)?;
        let ratio = cx.sub(places, base)?;
        let base = cx.cast(base, DType::I64)?;
        let offsets = match settings.mode {
            Mode::Cubic { .. } => -1..=2,
            _ => 0..=1,
        };
        let mut taps = vec![];
        for offset in offsets {
            let shift = cx.b.i64(offset);
            let index = cx.add(base, shift)?;
            let distance = cx.with_num(BinaryOp::Sub, ratio, (offset as f64).into())?;
            let mut weight = kernel(cx, distance, settings.mode)?;
            if settings.exclude_outside {
                weight = self.inside_only(cx, index, weight)?;
            }
            taps.push((cx.clamp_index(index, self.from)?, weight));
        }
        if settings.exclude_outside {
            let mut sum = taps[0].1;
            for tap in &taps[1..] {
                sum = cx.add(sum, tap.1)?;
            }
            for tap in &mut taps {
                tap.1 = share(cx, tap.1, sum)?;
            }
        }
        let dtype = cx.dtype(x)?;
        let rank = cx.rank(x)?;
        let later: Vec<usize> = (1..rank - self.axis).collect();
        let mut total: Option<Value> = None;
        for (index, weight) in taps {
            let weight = cx.cast(weight, dtype)?;
            let weight = cx.unsqueeze(weight, &later)?;
            let picked = cx.gather(x, index, self.axis)?;
            let term = cx.mul(picked, weight)?;
            total = Some(cx.fold(BinaryOp::Add, total, term)?);
        }
        Ok(total.expect("there are taps"))
    }

    /// Weighs all elements that a kernel stretched by the scale reaches: with `antialias`.
    fn filter(
        &self,
        cx: &mut NodeCx,
        x: Value,
        places: Value,
        settings: &Settings,
    ) -> Result<Value> {
        let scale = match self.scale {
            Some(scale) => scale,
            None => {
                let (from, to) = (cx.num_of(self.from)?, cx.num_of(self.to)?);
                cx.num_op(BinaryOp::Div, to, from)?
            }
        };
        let scale = cx.num_op(BinaryOp::Min, scale, 1.0)?;
        // Indices from those that the kernel reaches before the first element to those after the
        // last.
        let support = match settings.mode {
            Mode::Cubic { .. } => 2.0,
            _ => 1.0,
        };
        let reach = cx.num_op(BinaryOp::Div, support, scale)?;
        let reach = cx.num_floor(reach)?;
        let reach = cx.int_add(reach, 2)?;
        let start = cx.int_sub(0, reach)?;
        let end = cx.int_add(self.from, reach)?;
        let (start, end) = (cx.int_value(start), cx.int_value(end));
        let index = cx.range(start, end)?;
        let column = cx.unsqueeze(places, &[1])?;
        let position = cx.cast(index, DType::F64)?;
        let distance = cx.sub(column, position)?;
        let distance = cx.with_num(BinaryOp::Mul, distance, scale)?;
        let mut weights = kernel(cx, distance, settings.mode)?;
        if settings.exclude_outside {
            weights = self.inside_only(cx, index, weights)?;
        }
        let sum = cx.reduce(ReduceOp::Sum, weights, &[1], true)?;
        let weights = share(cx, weights, sum)?;
        let dtype = cx.dtype(x)?;
        let weights = cx.cast(weights, dtype)?;

        let index = cx.clamp_index(index, self.from)?;
        let spread = cx.gather(x, index, self.axis)?;
        let rank = cx.rank(x)?;
        // The axis comes last, is multiplied by the weights and goes back.
        let mut to_last: Vec<usize> = (0..rank).filter(|a| *a != self.axis).collect();
        to_last.push(self.axis);
        let mut back: Vec<usize> = (0..rank - 1).collect();
        back.insert(self.axis, rank - 1);
        let rows = cx.transpose(spread, &to_last)?;
        let weights = cx.transpose(weights, &[1, 0])?;
        let product = cx.matmul(rows, weights)?;
        cx.transpose(product, &back)
    }

    /// Weights with 0 for indices outside of the input.
    fn inside_only(&self, cx: &mut NodeCx, index: Value, weight: Value) -> Result<Value> {
        let inside = cx.is_index(index, self.from)?;
        let none = cx.real_like(weight, 0.0)?;
        cx.select(inside, weight, none)
    }
}

/// `weight / sum`, and 0 where there is no weight at all.
fn share(cx: &mut NodeCx, weight: Value, sum: Value) -> Result<Value> {
    let zero = cx.real_like(sum, 0.0)?;
    let one = cx.real_like(sum, 1.0)?;
    let none = cx.compare(CompareOp::Eq, sum, zero)?;
    let divisor = cx.select(none, one, sum)?;
    cx.div(weight, divisor)
}

/// The interpolation kernel: an element's weight by its distance.
fn kernel(cx: &mut NodeCx, distance: Value, mode: Mode) -> Result<Value> {
    let d = cx.unary(UnaryOp::Abs, distance)?;
    let zero = cx.real_like(d, 0.0)?;
    let one = cx.real_like(d, 1.0)?;
    match mode {
        Mode::Cubic { a } => cubic_kernel(cx, d, a),
        _ => {
            let weight = cx.sub(one, d)?;
            cx.max(weight, zero)
        }
    }
}
