//! Attributes that convolutions and pooling share: strides, dilations and padding.

use heddle_ir::{DType, Emit, Value};

use super::cx::{NodeCx, Result, invalid};
use super::sizes::Int;

/// Placement of windows along each spatial axis.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// Step from one window to the next.
    pub strides: Vec<usize>,
    /// Distance of a window's elements.
    pub dilations: Vec<usize>,
    /// The attribute `auto_pad`.
    pub auto_pad: AutoPad,
}

/// Source of the padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoPad {
    /// By the attribute `pads`.
    Explicit,
    /// None.
    Valid,
    /// `ceil(size / stride)` windows; an odd element of padding goes to the end.
    SameUpper,
    /// The same, but an odd element goes to the beginning.
    SameLower,
}

impl Windows {
    /// Reads the attributes of a node with `k` spatial axes.
    pub fn of(cx: &NodeCx, k: usize) -> Result<Self> {
        let auto_pad = cx.choice(
            "auto_pad",
            "NOTSET",
            &[
                ("NOTSET", AutoPad::Explicit),
                ("", AutoPad::Explicit),
                ("VALID", AutoPad::Valid),
                ("SAME_UPPER", AutoPad::SameUpper),
                ("SAME_LOWER", AutoPad::SameLower),
            ],
        )?;
        Ok(Self {
            strides: cx.positive_list("strides", k)?,
            dilations: cx.positive_list("dilations", k)?,
            auto_pad,
        })
    }

    /// From a window's first element to its last, per axis.
    pub fn spans(&self, cx: &mut NodeCx, kernel: &[Int]) -> Result<Vec<Int>> {
        let mut spans = vec![];
        for (&size, &dilation) in kernel.iter().zip(&self.dilations) {
            let gaps = cx.int_sub(size, 1)?;
            let reach = cx.int_mul(gaps, dilation as i64)?;
            spans.push(cx.int_add(reach, 1)?);
        }
        Ok(spans)
    }

    /// Padding before each spatial axis of `x`, then after.
    pub fn pads(&self, cx: &mut NodeCx, x: Value, kernel: &[Int]) -> Result<Vec<Int>> {
        let k = kernel.len();
        match self.auto_pad {
            AutoPad::Explicit => explicit_pads(cx, k),
            AutoPad::Valid => Ok(vec![Int::Const(0); 2 * k]),
            AutoPad::SameUpper | AutoPad::SameLower => {
                let spans = self.spans(cx, kernel)?;
                let (mut begins, mut ends) = (vec![], vec![]);
                for (i, &span) in spans.iter().enumerate() {
                    let size = cx.size(x, i + 2)?;
                    let stride = self.strides[i] as i64;
                    let count = cx.int_div_up(size, stride)?;
                    let steps = cx.int_sub(count, 1)?;
                    let reach = cx.int_mul(steps, stride)?;
                    let needed = cx.int_add(reach, span)?;
                    let missing = cx.int_sub(needed, size)?;
                    let total = cx.int_max(missing, 0)?;
                    let (begin, end) = self.distribute(cx, total)?;
                    begins.push(begin);
                    ends.push(end);
                }
                Ok([begins, ends].concat())
            }
        }
    }

    /// Splits padding between beginning and end.
    pub fn distribute(&self, cx: &mut NodeCx, total: Int) -> Result<(Int, Int)> {
        let half = cx.int_div(total, 2)?;
        let rest = cx.int_sub(total, half)?;
        Ok(match self.auto_pad {
            AutoPad::SameUpper => (half, rest),
            _ => (rest, half),
        })
    }
}

/// The attribute `pads`.
pub(super) fn explicit_pads(cx: &NodeCx, k: usize) -> Result<Vec<Int>> {
    match cx.ints("pads") {
        None | Some([]) => Ok(vec![Int::Const(0); 2 * k]),
        Some(pads) if pads.len() == 2 * k => Ok(pads.iter().map(|&p| Int::Const(p)).collect()),
        Some(pads) => invalid(format!(
            "pads has {} elements for {k} spatial axes",
            pads.len()
        )),
    }
}

impl NodeCx<'_> {
    /// A list of positive numbers, one for each of `k` axes; 1 where the attribute is missing.
    pub(super) fn positive_list(&self, name: &str, k: usize) -> Result<Vec<usize>> {
        let Some(list) = self.ints(name).filter(|l| !l.is_empty()) else {
            return Ok(vec![1; k]);
        };
        let limit = i64::from(i32::MAX);
        if list.len() != k || list.iter().any(|&v| v < 1 || v > limit) {
            return invalid(format!("{name} is {list:?} for {k} spatial axes"));
        }
        Ok(list.iter().map(|&v| v as usize).collect())
    }

    /// The number of spatial axes of `x[n, c, s…]`, at least `min`.
    pub(super) fn spatial_rank(&self, x: Value, min: usize) -> Result<usize> {
        let rank = self.rank(x)?;
        if rank < 2 + min {
            return invalid(format!(
                "the input has {rank} axes, at least {} are needed",
                2 + min
            ));
        }
        Ok(rank - 2)
    }

    /// `bias[c]` with axes of size 1 added so that it is broadcast along the channels of `x[n, c,
    /// s…]`.
    pub(super) fn per_channel(&mut self, list: Value, spatial: usize) -> Result<Value> {
        match self.rank(list)? {
            1 => {
                let axes: Vec<usize> = std::iter::once(0).chain(2..2 + spatial).collect();
                self.unsqueeze(list, &axes)
            }
            _ => Ok(list),
        }
    }

    /// Half floats as `f32`, for expansions in several steps of which only the last one rounds.
    pub(super) fn widen(&mut self, x: Value) -> Result<Value> {
        match self.dtype(x)? {
            DType::F16 | DType::Bf16 => self.cast(x, DType::F32),
            _ => Ok(x),
        }
    }
}

/// An image whose channels may be `last`, with the channels behind the batch.
pub(super) fn channels_first(cx: &mut NodeCx, x: Value, last: bool) -> Result<Value> {
    let mut perm: Vec<usize> = (0..cx.rank(x)?).collect();
    if last && perm.len() > 2 {
        perm[1..].rotate_right(1);
    }
    cx.transpose(x, &perm)
}

/// The inverse of [`channels_first`].
pub(super) fn channels_last(cx: &mut NodeCx, x: Value, last: bool) -> Result<Value> {
    let mut perm: Vec<usize> = (0..cx.rank(x)?).collect();
    if last && perm.len() > 2 {
        perm[1..].rotate_left(1);
    }
    cx.transpose(x, &perm)
}
