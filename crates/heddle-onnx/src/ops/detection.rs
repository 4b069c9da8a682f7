//! Object detection: NonMaxSuppression; and ImageDecoder, which is not supported.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Type, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use crate::refusal::Refusal;

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("NonMaxSuppression", non_max_suppression),
    ("ImageDecoder", image_decoder),
];

/// ImageDecoder 20.
fn image_decoder(_: &mut NodeCx) -> Result<Vec<Value>> {
    Err(Refusal::CompressedImage.into())
}

/// NonMaxSuppression 10, 11: a loop in which all classes of all images select their best box that
/// is left and drop those that overlap it too much, until nothing is left or enough is selected.
fn non_max_suppression(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (boxes, scores) = (cx.input(0)?, cx.input(1)?);
    if cx.rank(boxes)? != 3 || cx.rank(scores)? != 3 {
        return invalid("boxes and scores must have 3 axes");
    }
    let zero = cx.b.i64(0);
    let count = cx.size_of(scores, 2)?;
    let most = match cx.opt(2) {
        Some(most) => {
            let most = cx.int_scalar(most)?;
            let most = cx.int_max(most, 0)?;
            // Exporters write the largest number there is for all of them.
            let most = cx.int_value(most);
            cx.min(most, count)?
        }
        None => zero,
    };
    let threshold = match cx.opt(3) {
        Some(threshold) => cx.reshape(threshold, &[])?,
        None => cx.b.scalar(DType::F32, 0.0),
    };
    let corners = Corners::new(cx, boxes)?;

    // Boxes in the order of their scores; equal ones stay in order.
    let order = Op::TopK {
        axis: 2,
        kind: Extreme::Max,
    };
    let sorted = cx.b.op(order, &[scores, count])?;
    let (scores, order) = (sorted[0], sorted[1]);
    let alive = match cx.opt(4) {
        Some(minimum) => {
            let minimum = cx.reshape(minimum, &[])?;
            cx.compare(CompareOp::Gt, scores, minimum)?
        }
        None => {
            let shape = cx.shape_of(scores)?;
            cx.full(DType::Bool, shape, 1.0)?
        }
    };
    let corners = corners.in_order(cx, order)?;

    let any = cx.reduce(ReduceOp::Max, alive, &[0, 1, 2], false)?;
    let alive_ty = cx.b.ty(alive).clone();
    let (_, params) =
        cx.b.begin_region(&[Type::scalar(DType::I64), alive_ty.clone()]);
    let (chosen, next) = round(cx, params[1], order, &corners, threshold)?;
    cx.b.refine_type(next, alive_ty)?;
    let more = cx.reduce(ReduceOp::Max, next, &[0, 1, 2], false)?;
    let body = cx.b.end_region(&[more, next, chosen]);
    let results = cx.b.loop_(Some(most), Some(any), &[alive], body)?;

    // [rounds, image, class] to rows of image, class and box, without the rounds in which there
    // was none.
    let selected = cx.transpose(results[1], &[1, 2, 0])?;
    let found = cx.compare(CompareOp::Ge, selected, zero)?;
    let places = cx.op(Op::NonZero, &[found])?;
    let places = cx.transpose(places, &[1, 0])?;
    let boxes = cx.op(Op::GatherNd { batch_dims: 0 }, &[selected, places])?;
    let boxes = cx.unsqueeze(boxes, &[1])?;
    let origin = cx.slice(places, 1, 0, 2)?;
    Ok(vec![cx.concat(&[origin, boxes], 1)?])
}

/// One round of the selection: the best box that is left of each image and class, -1 if there is
/// none, and the boxes that are left after it.
fn round(
    cx: &mut NodeCx,
    left: Value,
    order: Value,
    corners: &Corners,
    threshold: Value,
) -> Result<(Value, Value)> {
    let left_numbers = cx.cast(left, DType::I32)?;
    let best = cx.arg_max(left_numbers, 2, true)?;
    let has_any = cx.reduce(ReduceOp::Max, left, &[2], false)?;
    let chosen = cx.op(Op::GatherElements { axis: 2 }, &[order, best])?;
    let chosen = cx.squeeze(chosen, &[2])?;
    let none = cx.b.i64(-1);
    let chosen = cx.select(has_any, chosen, none)?;
    let overlaps = corners.overlap(cx, best, threshold)?;
    let positions = cx.positions(left, 2)?;
    let itself = cx.compare(CompareOp::Eq, positions, best)?;
    let dropped = cx.binary(BinaryOp::Or, overlaps, itself)?;
    let kept = cx.unary(UnaryOp::Not, dropped)?;
    Ok((chosen, cx.binary(BinaryOp::And, left, kept)?))
}

/// The edges of boxes along both axes, and their areas.
struct Corners {
    /// Low and high edge: of rows, then of columns.
    edges: [(Value, Value); 2],
    area: Value,
}

impl Corners {
    /// The corners of `boxes[image, box, 4]`, each `[image, box]`.
    fn new(cx: &mut NodeCx, boxes: Value) -> Result<Self> {
        let centred = match cx.int_or("center_point_box", 0) {
            0 => false,
            1 => true,
            other => {
                return invalid(format!("center_point_box is {other}"));
            }
        };
        let mut edges = vec![];
        for i in 0..2 {
            let (a, b) = (cx.pick(boxes, i, 2)?, cx.pick(boxes, i + 2, 2)?);
            edges.push(if centred {
                // A centre and an extent.
                let two = cx.scalar_like(b, 2.0)?;
                let half = cx.div(b, two)?;
                (cx.sub(a, half)?, cx.add(a, half)?)
            } else {
                // Two corners, in any order.
                let low = cx.min(a, b)?;
                (low, cx.max(a, b)?)
            });
        }
        let height = cx.sub(edges[0].1, edges[0].0)?;
        let width = cx.sub(edges[1].1, edges[1].0)?;
        Ok(Self {
            edges: [edges[0], edges[1]],
            area: cx.mul(height, width)?,
        })
    }

    /// With the boxes of `order[image, class, position]`.
    fn in_order(self, cx: &mut NodeCx, order: Value) -> Result<Self> {
        let indices = cx.unsqueeze(order, &[3])?;
        let mut pick = |x| cx.op(Op::GatherNd { batch_dims: 1 }, &[x, indices]);
        let [rows, columns] = self.edges;
        Ok(Self {
            edges: [
                (pick(rows.0)?, pick(rows.1)?),
                (pick(columns.0)?, pick(columns.1)?),
            ],
            area: pick(self.area)?,
        })
    }

    /// Mask of the boxes that overlap the one at position `of[image, class, 1]` by more than the
    /// threshold.
    fn overlap(&self, cx: &mut NodeCx, of: Value, threshold: Value) -> Result<Value> {
        let pick = |cx: &mut NodeCx, x| cx.op(Op::GatherElements { axis: 2 }, &[x, of]);
        let zero = cx.scalar_like(self.area, 0.0)?;
        let mut shared: Option<Value> = None;
        let mut overlaps: Option<Value> = None;
        for (low, high) in self.edges {
            let (one_low, one_high) = (pick(cx, low)?, pick(cx, high)?);
            let start = cx.max(low, one_low)?;
            let end = cx.min(high, one_high)?;
            let length = cx.sub(end, start)?;
            let positive = cx.compare(CompareOp::Gt, end, start)?;
            (shared, overlaps) = match (shared, overlaps) {
                (Some(s), Some(o)) => (
                    Some(cx.mul(s, length)?),
                    Some(cx.binary(BinaryOp::And, o, positive)?),
                ),
                _ => (Some(length), Some(positive)),
            };
        }
        let (shared, mut overlaps) = (shared.expect("two axes"), overlaps.expect("two axes"));
        let area = pick(cx, self.area)?;
        let sum = cx.add(self.area, area)?;
        let union = cx.sub(sum, shared)?;
        let ratio = cx.div(shared, union)?;
        let threshold = {
            let dtype = cx.dtype(ratio)?;
            cx.cast(threshold, dtype)?
        };
        let too_much = cx.compare(CompareOp::Gt, ratio, threshold)?;
        overlaps = cx.binary(BinaryOp::And, overlaps, too_much)?;
        // Boxes without area overlap nothing.
        for size in [shared, self.area, area, union] {
            let positive = cx.compare(CompareOp::Gt, size, zero)?;
            overlaps = cx.binary(BinaryOp::And, overlaps, positive)?;
        }
        Ok(overlaps)
    }
}
