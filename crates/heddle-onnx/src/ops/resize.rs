//! Resize and Upsample: each axis in turn is sampled at computed places.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Dim, Op, Value};

use super::cx::{NodeCx, Result};
use super::num::Num;
use super::sizes::Int;
use super::{OpError, Table};

/// The operators of this file.
pub(super) const OPS: Table = &[("Resize", resize), ("Upsample", upsample)];

/// Resize 10, 11, 13, 18, 19.
fn resize(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let settings = match cx.opset {
        ..11 => Settings::simple(cx, true)?,
        _ => Settings::of(cx)?,
    };
    let rank = cx.rank(x)?;
    let axes: Vec<usize> = match cx.ints("axes") {
        Some(axes) => {
            let axes: Vec<usize> = axes
                .iter()
                .map(|&a| cx.axis(a, rank))
                .collect::<Result<_>>()?;
            axes
        }
        None => (0..rank).collect(),
    };
    let (roi, scales, sizes) = match cx.opset {
        ..11 => (None, cx.opt(1), None),
        _ => (cx.opt(1), cx.opt(2), cx.opt(3)),
    };
    let scales = not_empty(cx, scales)?;
    let sizes = not_empty(cx, sizes)?;
    let mut plan = match (scales, sizes) {
        (Some(scales), None) => by_scales(cx, x, &axes, scales)?,
        (None, Some(sizes)) => by_sizes(cx, x, &axes, sizes)?,
        _ => {
            let message = "either scales or sizes must be given".into();
            return Err(OpError::Invalid(message));
        }
    };
    if settings.places == Places::Crop {
        let roi = roi.ok_or_else(|| OpError::Invalid("tf_crop_and_resize needs a roi".into()))?;
        let roi = cx.num_elements(roi, 2 * axes.len())?;
        for (i, axis) in plan.iter_mut().enumerate() {
            axis.crop = Some((roi[i], roi[axes.len() + i]));
        }
    }
    Ok(vec![resample(cx, x, &settings, &plan)?])
}

/// Upsample 7 (scales as an attribute), 9.
fn upsample(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axes: Vec<usize> = (0..cx.rank(x)?).collect();
    let scales = match cx.floats("scales") {
        Some(list) if cx.opset < 9 => cx.b.constant(heddle_ir::Tensor::vector(list)),
        _ => cx.input(1)?,
    };
    let plan = by_scales(cx, x, &axes, scales)?;
    let settings = Settings::simple(cx, false)?;
    Ok(vec![resample(cx, x, &settings, &plan)?])
}

/// Attributes that hold for all axes.
struct Settings {
    mode: Mode,
    places: Places,
    exclude_outside: bool,
    antialias: bool,
    extrapolation: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest(Nearest),
    Linear,
    Cubic { a: f64 },
}

/// How a place between two elements is rounded.
#[derive(Clone, Copy, PartialEq)]
enum Nearest {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
    /// Of opset 10: up where the scale is below 1, else down.
    Shrink,
}

/// How an index of the result becomes a place in the input.
#[derive(Clone, Copy, PartialEq)]
enum Places {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    TfHalfPixel,
    AlignCorners,
    Asymmetric,
    Crop,
}

impl Settings {
    fn of(cx: &NodeCx) -> Result<Self> {
        let unknown = |what: &str, name: &str| OpError::Invalid(format!("{what} is `{name}`"));
        let mode = match cx.str_or("mode", "nearest")? {
            "nearest" => Mode::Nearest(match cx.str_or("nearest_mode", "round_prefer_floor")? {
                "round_prefer_floor" | "" => Nearest::PreferFloor,
                "round_prefer_ceil" => Nearest::PreferCeil,
                "floor" => Nearest::Floor,
                "ceil" => Nearest::Ceil,
                other => return Err(unknown("nearest_mode", other)),
            }),
            "linear" => Mode::Linear,
            "cubic" => Mode::Cubic {
                a: f64::from(cx.float_or("cubic_coeff_a", -0.75)),
            },
            other => return Err(unknown("mode", other)),
        };
        let places = match cx.str_or("coordinate_transformation_mode", "half_pixel")? {
            "half_pixel" => Places::HalfPixel,
            "half_pixel_symmetric" => Places::HalfPixelSymmetric,
            "pytorch_half_pixel" => Places::PytorchHalfPixel,
            "tf_half_pixel_for_nn" => Places::TfHalfPixel,
            "align_corners" => Places::AlignCorners,
            "asymmetric" => Places::Asymmetric,
            "tf_crop_and_resize" => Places::Crop,
            other => return Err(unknown("coordinate_transformation_mode", other)),
        };
        Ok(Self {
            mode,
            places,
            exclude_outside: cx.flag("exclude_outside", false),
            antialias: cx.flag("antialias", false) && !matches!(mode, Mode::Nearest(_)),
            extrapolation: f64::from(cx.float_or("extrapolation_value", 0.0)),
        })
    }

    /// Those of Upsample and of Resize 10.
    fn simple(cx: &NodeCx, shrink: bool) -> Result<Self> {
        let mode = match cx.str_or("mode", "nearest")? {
            "nearest" if shrink => Mode::Nearest(Nearest::Shrink),
            "nearest" => Mode::Nearest(Nearest::Floor),
            "linear" | "bilinear" | "trilinear" => Mode::Linear,
            other => return Err(OpError::Invalid(format!("mode is `{other}`"))),
        };
        Ok(Self {
            mode,
            places: Places::Asymmetric,
            exclude_outside: false,
            antialias: false,
            extrapolation: 0.0,
        })
    }
}

/// What happens along one axis.
struct Axis {
    axis: usize,
    /// Elements of the input.
    from: Int,
    /// Elements of the result.
    to: Int,
    /// The scale, where it is not `to / from`.
    scale: Option<Num>,
    /// The part that is sampled, in units of the input, where there is one.
    crop: Option<(Num, Num)>,
}

fn not_empty(cx: &NodeCx, list: Option<Value>) -> Result<Option<Value>> {
    let Some(list) = list else {
        return Ok(None);
    };
    let empty = cx.shape(list)?.first().is_some_and(|d| d.is(0));
    Ok(Some(list).filter(|_| !empty))
}

fn by_scales(cx: &mut NodeCx, x: Value, axes: &[usize], scales: Value) -> Result<Vec<Axis>> {
    check_length(cx, scales, axes.len())?;
    let numbers = cx.num_elements(scales, axes.len())?;
    let mut plan = vec![];
    for (&axis, &scale) in axes.iter().zip(&numbers) {
        let from = cx.size(x, axis)?;
        let to = match (from, scale) {
            (_, Num::Const(s)) if s <= 0.0 || !s.is_finite() => {
                return Err(OpError::Invalid(format!("scale {s}")));
            }
            // Sizes are products in single precision, as shape inference has them.
            (Int::Const(n), Num::Const(s)) => Int::Const((n as f32 * s as f32).floor() as i64),
            (n, Num::Const(s)) if s.fract() == 0.0 => cx.int_mul(n, s as i64)?,
            (n, s) => {
                let n = cx.int_value(n);
                let n = cx.cast(n, DType::F32)?;
                let s = cx.num_value(s);
                let s = cx.cast(s, DType::F32)?;
                let product = cx.mul(n, s)?;
                let product = cx.unary(UnaryOp::Floor, product)?;
                Int::Value(cx.cast(product, DType::I64)?)
            }
        };
        plan.push(Axis {
            axis,
            from,
            to,
            scale: Some(scale),
            crop: None,
        });
    }
    Ok(plan)
}

fn by_sizes(cx: &mut NodeCx, x: Value, axes: &[usize], sizes: Value) -> Result<Vec<Axis>> {
    check_length(cx, sizes, axes.len())?;
    let sizes = match cx.shape(sizes)?[0].as_const() {
        Some(_) => sizes,
        None => cx.reshape(sizes, &[axes.len() as i64])?,
    };
    let sizes = cx.int_elements(sizes)?;
    let mut plan = vec![];
    for (&axis, &to) in axes.iter().zip(&sizes) {
        let from = cx.size(x, axis)?;
        plan.push(Axis {
            axis,
            from,
            to,
            scale: None,
            crop: None,
        });
    }
    let keep = match cx.str_or("keep_aspect_ratio_policy", "stretch")? {
        "stretch" | "" => return Ok(plan),
        "not_larger" => BinaryOp::Min,
        "not_smaller" => BinaryOp::Max,
        other => {
            let message = format!("keep_aspect_ratio_policy is `{other}`");
            return Err(OpError::Invalid(message));
        }
    };
    let mut common: Option<Num> = None;
    for axis in &plan {
        let (to, from) = (cx.num_of(axis.to)?, cx.num_of(axis.from)?);
        let scale = cx.num_op(BinaryOp::Div, to, from)?;
        common = Some(match common {
            None => scale,
            Some(c) => cx.num_op(keep, c, scale)?,
        });
    }
    for axis in &mut plan {
        let scale = common.expect("there is an axis");
        let from = cx.num_of(axis.from)?;
        let exact = cx.num_op(BinaryOp::Mul, scale, from)?;
        let rounded = cx.num_op(BinaryOp::Add, exact, 0.5)?;
        axis.to = cx.num_floor(rounded)?;
        axis.scale = Some(scale);
    }
    Ok(plan)
}

fn check_length(cx: &NodeCx, list: Value, n: usize) -> Result<()> {
    let shape = cx.shape(list)?;
    match shape.as_slice() {
        [length] if !length.differs(&Dim::from(n)) => Ok(()),
        _ => Err(OpError::Invalid(format!(
            "scales or sizes are {} for {n} axes",
            cx.b.ty(list)
        ))),
    }
}

/// Samples one axis after the other.
fn resample(cx: &mut NodeCx, x: Value, settings: &Settings, plan: &[Axis]) -> Result<Value> {
    let dtype = cx.dtype(x)?;
    let nearest = matches!(settings.mode, Mode::Nearest(_));
    // Weighted sums are rounded once, at the end.
    let mut y = match dtype {
        _ if nearest => x,
        DType::F16 | DType::Bf16 => cx.cast(x, DType::F32)?,
        DType::F32 | DType::F64 => x,
        d if d.is_int() => cx.cast(x, DType::F64)?,
        other => return Err(OpError::Invalid(format!("interpolation of {other}"))),
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
            outside = Some(match outside {
                None => beyond,
                Some(o) => cx.binary(BinaryOp::Or, o, beyond)?,
            });
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
    /// Whether the axis stays as it is.
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

    /// Where in the input each element of the result lies: `f64[to]`.
    fn places(&self, cx: &mut NodeCx, kind: Places) -> Result<Value> {
        let (zero, to) = (cx.b.i64(0), cx.int_value(self.to));
        let index = cx.range(zero, to)?;
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

    /// Whether places lie outside of the input.
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
                return self.clamp(cx, indices);
            }
        };
        let shifted = cx.with_num(BinaryOp::Add, places, shift.into())?;
        let rounded = cx.unary(kind, shifted)?;
        let indices = cx.cast(rounded, DType::I64)?;
        self.clamp(cx, indices)
    }

    /// Indices brought into the input.
    fn clamp(&self, cx: &mut NodeCx, indices: Value) -> Result<Value> {
        let last = cx.int_sub(self.from, 1)?;
        let (zero, last) = (cx.b.i64(0), cx.int_value(last));
        let indices = cx.binary(BinaryOp::Min, indices, last)?;
        cx.binary(BinaryOp::Max, indices, zero)
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
            taps.push((self.clamp(cx, index)?, weight));
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
            total = Some(match total {
                None => term,
                Some(t) => cx.add(t, term)?,
            });
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

        let index = self.clamp(cx, index)?;
        let spread = cx.gather(x, index, self.axis)?;
        let rank = cx.rank(x)?;
        // The axis comes last, is multiplied by the weights and goes back.
        let mut to_last: Vec<usize> = (0..rank).filter(|a| *a != self.axis).collect();
        to_last.push(self.axis);
        let mut back: Vec<usize> = (0..rank - 1).collect();
        back.insert(self.axis, rank - 1);
        let rows = cx.transpose(spread, &to_last)?;
        let rows = if rank == 1 {
            cx.unsqueeze(rows, &[0])?
        } else {
            rows
        };
        let weights = cx.transpose(weights, &[1, 0])?;
        let product = cx.op(Op::Dot, &[rows, weights])?;
        match rank {
            1 => cx.squeeze(product, &[0]),
            _ => cx.transpose(product, &back),
        }
    }

    /// Weights with 0 for indices outside of the input.
    fn inside_only(&self, cx: &mut NodeCx, index: Value, weight: Value) -> Result<Value> {
        let (zero, end) = (cx.b.i64(0), cx.int_value(self.from));
        let above = cx.compare(CompareOp::Ge, index, zero)?;
        let below = cx.compare(CompareOp::Lt, index, end)?;
        let inside = cx.binary(BinaryOp::And, above, below)?;
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

/// The interpolation kernel: how much an element counts at a distance.
fn kernel(cx: &mut NodeCx, distance: Value, mode: Mode) -> Result<Value> {
    let d = cx.unary(UnaryOp::Abs, distance)?;
    let zero = cx.real_like(d, 0.0)?;
    let one = cx.real_like(d, 1.0)?;
    match mode {
        Mode::Cubic { a } => cubic_kernel(cx, d, a),
        _ => {
            let weight = cx.sub(one, d)?;
            cx.binary(BinaryOp::Max, weight, zero)
        }
    }
}

/// Keys' kernel with parameter `a` at distances that are not negative.
pub(super) fn cubic_kernel(cx: &mut NodeCx, d: Value, a: f64) -> Result<Value> {
    // (a+2) d^3 - (a+3) d^2 + 1
    let near = polynomial(cx, d, &[a + 2.0, -(a + 3.0), 0.0, 1.0])?;
    // a d^3 - 5a d^2 + 8a d - 4a
    let far = polynomial(cx, d, &[a, -5.0 * a, 8.0 * a, -4.0 * a])?;
    let [zero, one, two] = [0.0, 1.0, 2.0].map(|v| cx.real_like(d, v));
    let (zero, one, two) = (zero?, one?, two?);
    let is_near = cx.compare(CompareOp::Le, d, one)?;
    let is_far = cx.compare(CompareOp::Lt, d, two)?;
    let far = cx.select(is_far, far, zero)?;
    cx.select(is_near, near, far)
}

/// A polynomial by Horner's rule, the highest power first.
fn polynomial(cx: &mut NodeCx, x: Value, coefficients: &[f64]) -> Result<Value> {
    let mut sum = cx.real_like(x, coefficients[0])?;
    for &c in &coefficients[1..] {
        let c = cx.real_like(x, c)?;
        let product = cx.mul(sum, x)?;
        sum = cx.add(product, c)?;
    }
    Ok(sum)
}
