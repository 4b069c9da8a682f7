//! Scaled dot-product attention.

use heddle_ir::op::{CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::Table;
use super::cx::NodeCx;
use super::random::dropped;
use crate::error::{Result, invalid, refuse};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("_scaled_dot_product_flash_attention_for_cpu", |cx| {
        if cx.float(3, "dropout_p", 0.0)? != 0.0 {
            return refuse("dropout whose gradient PyTorch computes by its own numbers");
        }
        let scale = cx.opt_float(usize::MAX, "scale")?;
        let mask = cx.opt_value(usize::MAX, "attn_mask")?;
        let form = Form {
            mask,
            dropout: 3,
            causal: 4,
            scale,
        };
        let (y, scores) = attention(cx, &form)?;
        let log = log_sum(cx, scores)?;
        Ok(vec![y, log])
    }),
    ("scaled_dot_product_attention", |cx| {
        let scale = cx.opt_float(usize::MAX, "scale")?;
        let mask = cx.opt_value(3, "attn_mask")?;
        let form = Form {
            mask,
            dropout: 4,
            causal: 5,
            scale,
        };
        Ok(vec![attention(cx, &form)?.0])
    }),
];

struct Form {
    mask: Option<Value>,
    /// Places of arguments.
    dropout: usize,
    causal: usize,
    scale: Option<f64>,
}

/// `softmax(q k^T * scale + mask) v`, and the scores.
fn attention(cx: &mut NodeCx, form: &Form) -> Result<(Value, Value)> {
    let given = [
        cx.value(0, "query")?,
        cx.value(1, "key")?,
        cx.value(2, "value")?,
    ];
    let dropout = cx.float(form.dropout, "dropout_p", 0.0)?;
    let ranks = [cx.rank(given[0])?, cx.rank(given[1])?, cx.rank(given[2])?];
    let rank = ranks.into_iter().fold(0, usize::max);
    if ranks.into_iter().any(|rank| rank < 2) {
        return invalid("queries, keys and values have at least two axes");
    }
    let [q, mut k, mut v] = [
        lifted(cx, given[0], rank)?,
        lifted(cx, given[1], rank)?,
        lifted(cx, given[2], rank)?,
    ];
    let dtype = cx.dtype(q)?;
    if cx.flag(usize::MAX, "enable_gqa", false)? {
        (k, v) = (shared(cx, k, q)?, shared(cx, v, q)?);
    }
    let scale = match form.scale {
        Some(scale) => cx.b.scalar(DType::F32, scale),
        None => {
            let width = cx.size(q, rank - 1)?;
            let float = cx.b.scalar(DType::F32, 0.0);
            let width = cx.real(width, float)?;
            let root = cx.unary(UnaryOp::Sqrt, width)?;
            cx.inverse(root)?
        }
    };
    let (wide, k) = (cx.widen(q)?, cx.widen(k)?);
    let scale_type = cx.dtype(wide)?;
    let scale = cx.cast(scale, scale_type)?;
    let wide = cx.mul(wide, scale)?;
    let k = cx.swap(k, rank - 2, rank - 1)?;
    let mut scores = cx.matmul(wide, k)?;
    let least = cx.like(scores, f64::NEG_INFINITY)?;
    if cx.flag(form.causal, "is_causal", false)? {
        let (rows, columns) = (cx.size(scores, rank - 2)?, cx.size(scores, rank - 1)?);
        let (rows, columns) = (cx.iota(rows)?, cx.iota(columns)?);
        let rows = cx.unsqueeze(rows, &[1])?;
        let sees = cx.compare(CompareOp::Le, columns, rows)?;
        scores = cx.select(sees, scores, least)?;
    }
    let mut has_gaps = false;
    if let Some(mask) = form.mask {
        has_gaps = true;
        scores = match cx.dtype(mask)? {
            DType::Bool => cx.select(mask, scores, least)?,
            _ => {
                let dtype = cx.dtype(scores)?;
                let mask = cx.cast(mask, dtype)?;
                cx.add(scores, mask)?
            }
        };
    }
    let axis = cx.rank(scores)? - 1;
    let mut shares = cx.softmax(scores, &[axis])?;
    if has_gaps {
        // A row that sees nothing gives zeros.
        let most = cx.reduce(ReduceOp::Max, scores, &[axis], true)?;
        let is_blind = cx.compare_with(CompareOp::Eq, most, f64::NEG_INFINITY)?;
        let zero = cx.like(shares, 0.0)?;
        shares = cx.select(is_blind, zero, shares)?;
    }
    if dropout != 0.0 {
        shares = dropped(cx, shares, dropout)?[0];
    }
    let v = cx.widen(v)?;
    let y = cx.matmul(shares, v)?;
    Ok((cx.cast(y, dtype)?, scores))
}

/// With axes of size 1 in front, so that it has so many.
fn lifted(cx: &mut NodeCx, x: Value, rank: usize) -> Result<Value> {
    let front: Vec<usize> = (0..rank - cx.rank(x)?).collect();
    match front.is_empty() {
        true => Ok(x),
        false => cx.unsqueeze(x, &front),
    }
}

/// Heads of keys or values repeated for the queries that share them.
fn shared(cx: &mut NodeCx, x: Value, q: Value) -> Result<Value> {
    let rank = cx.rank(x)?;
    let Some(axis) = rank.checked_sub(3) else {
        return invalid("shared heads need an axis of heads");
    };
    let (sizes, heads) = (cx.sizes(x)?, cx.size(q, axis)?);
    let times = cx.int_div(heads, sizes[axis])?;
    let lifted = cx.unsqueeze(x, &[axis + 1])?;
    let mut wide = sizes.clone();
    wide.insert(axis + 1, times);
    let wide = cx.filled(lifted, &wide)?;
    let mut joined = sizes;
    joined[axis] = heads;
    cx.reshape(wide, &joined)
}

/// `log(sum(exp(scores)))` of each row.
fn log_sum(cx: &mut NodeCx, scores: Value) -> Result<Value> {
    let axis = cx.rank(scores)? - 1;
    let most = cx.reduce(ReduceOp::Max, scores, &[axis], true)?;
    let gap = cx.sub(scores, most)?;
    let exp = cx.unary(UnaryOp::Exp, gap)?;
    let sum = cx.reduce(ReduceOp::Sum, exp, &[axis], false)?;
    let log = cx.unary(UnaryOp::Log, sum)?;
    let most = cx.squeeze(most, &[axis])?;
    cx.add(log, most)
}
