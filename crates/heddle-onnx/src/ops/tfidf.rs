//! TfIdfVectorizer: counts of listed n-grams.

use std::collections::HashMap;

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce};
use heddle_ir::{DType, Emit, Op, Tensor, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid};
use crate::refusal::Refusal;

pub(super) const OPS: Table = &[("TfIdfVectorizer", vectorize)];

/// Each skip is an expansion of its own.
const MAX_SKIPS: usize = 256;

/// Each place of each length is compared at each distance, by some instructions.
const MAX_COMPARISONS: usize = 20_000;

/// Listed n-grams of one length.
struct Grams {
    length: usize,
    /// The first items of all, then the second ones, and so on.
    items: Vec<Tensor>,
    /// The column in which each is counted.
    columns: Vec<i64>,
}

fn vectorize(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let input = cx.input(0)?;
    let x = match cx.rank(input)? {
        1 => cx.unsqueeze(input, &[0])?,
        2 => input,
        other => return invalid(format!("the input has {other} axes")),
    };
    let columns = cx.ints("ngram_indexes").unwrap_or_default();
    let width = columns.iter().max().map_or(0, |m| m.saturating_add(1));
    if columns.iter().any(|c| *c < 0) {
        return invalid("an index is negative");
    }
    let skips = usize::try_from(cx.int_req("max_skip_count")?)
        .map_err(|_| OpError::Invalid("max_skip_count is negative".into()))?;
    if skips > MAX_SKIPS {
        return Err(Refusal::SkipCount { limit: MAX_SKIPS }.into());
    }
    let x = match cx.dtype(x)? {
        DType::Str => x,
        _ => cx.cast(x, DType::I64)?,
    };
    let (rows, width) = (cx.size_of(x, 0)?, cx.b.i64(width));
    let shape = cx.stack_i64s(&[rows, width])?;
    let mut counts = cx.full(DType::F32, shape, 0.0)?;
    let pool = pool(cx)?;
    let items = pool.iter().map(|grams| grams.length);
    let comparisons = items.sum::<usize>().saturating_mul(skips + 1);
    if comparisons > MAX_COMPARISONS {
        let (count, limit) = (comparisons, MAX_COMPARISONS);
        return Err(Refusal::Comparisons { count, limit }.into());
    }
    for grams in pool {
        // A unigram has no distance.
        let distances = if grams.length == 1 { 1 } else { skips + 1 };
        for distance in 1..=distances {
            let found = count(cx, x, &grams, distance)?;
            counts = add_columns(cx, counts, found, &grams.columns)?;
        }
    }
    let y = weigh(cx, counts)?;
    Ok(vec![match cx.rank(input)? {
        1 => cx.squeeze(y, &[0])?,
        _ => y,
    }])
}

/// The n-grams of the requested lengths; among equal ones the last counts.
fn pool(cx: &NodeCx) -> Result<Vec<Grams>> {
    let starts = cx.ints("ngram_counts").unwrap_or_default();
    let columns = cx.ints("ngram_indexes").unwrap_or_default();
    let texts = cx.strs("pool_strings")?.filter(|p| !p.is_empty());
    let numbers = cx.ints("pool_int64s").unwrap_or_default();
    let total = texts.as_ref().map_or(numbers.len(), Vec::len);
    let (least, most) = (
        cx.int_req("min_gram_length")?,
        cx.int_req("max_gram_length")?,
    );
    let mut id = 0;
    let mut all = vec![];
    for (i, &start) in starts.iter().enumerate() {
        let length = i + 1;
        let end = starts.get(i + 1).map_or(total as i64, |e| *e);
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let Some((start, end)) = range.filter(|(s, e)| s <= e && *e <= total) else {
            return invalid("ngram_counts do not ascend within the pool");
        };
        let count = (end - start) / length;
        let own = columns
            .get(id..id + count)
            .ok_or_else(|| OpError::Invalid("there are fewer indexes than n-grams".into()))?;
        id += count;
        if count == 0 || !(least..=most).contains(&(length as i64)) {
            continue;
        }
        let item = |gram: usize, place: usize| start + gram * length + place;
        let key = |gram: usize| -> Vec<String> {
            let text = |p: usize| match &texts {
                Some(t) => t[item(gram, p)].to_owned(),
                None => numbers[item(gram, p)].to_string(),
            };
            (0..length).map(text).collect()
        };
        let last: HashMap<_, _> = (0..count).map(|g| (key(g), g)).collect();
        let kept: Vec<usize> = (0..count).filter(|&g| last[&key(g)] == g).collect();
        let place = |p: usize| match &texts {
            Some(t) => {
                let items = kept.iter().map(|&g| Box::from(t[item(g, p)])).collect();
                Tensor::strings(vec![kept.len()], items)
                    .map_err(|e| OpError::Invalid(e.to_string()))
            }
            None => {
                let items = kept.iter().map(|&g| numbers[item(g, p)]);
                Ok(Tensor::vector(&items.collect::<Vec<_>>()))
            }
        };
        all.push(Grams {
            length,
            items: (0..length).map(place).collect::<Result<_>>()?,
            columns: kept.iter().map(|&g| own[g]).collect(),
        });
    }
    Ok(all)
}

/// Occurrences of each n-gram in each row with items `distance` apart: `[rows, grams]`.
fn count(cx: &mut NodeCx, x: Value, grams: &Grams, distance: usize) -> Result<Value> {
    let far = |steps: usize| {
        let span = steps.checked_mul(distance);
        span.and_then(|s| i64::try_from(s).ok())
            .ok_or_else(|| OpError::Invalid("max_skip_count is too large".into()))
    };
    let mut all: Option<Value> = None;
    for (place, items) in grams.items.iter().enumerate() {
        // Windows begin where there is room for all items: this one's columns leave out as many at
        // each end.
        let rest = far(grams.length - 1 - place)?;
        let end = if rest == 0 { i64::MAX } else { -rest };
        let part = cx.slice(x, 1, far(place)?, end)?;
        let part = cx.unsqueeze(part, &[2])?;
        let items = cx.b.constant(items.clone());
        let equal = cx.compare(CompareOp::Eq, part, items)?;
        all = Some(cx.fold(BinaryOp::And, all, equal)?);
    }
    let all = all.ok_or_else(|| OpError::Invalid("an n-gram without items".into()))?;
    let ones = cx.cast(all, DType::F32)?;
    cx.reduce(ReduceOp::Sum, ones, &[1], false)
}

/// Adds the columns of `found` to those columns of `counts` that are listed.
fn add_columns(cx: &mut NodeCx, counts: Value, found: Value, columns: &[i64]) -> Result<Value> {
    let columns = cx.b.i64s(columns);
    let shape = cx.shape_of(found)?;
    let places = cx.broadcast_to(columns, shape)?;
    let add = Op::ScatterElements {
        axis: 1,
        reduce: ScatterReduce::Add,
    };
    cx.op(add, &[counts, places, found])
}

/// Weights belong to columns, as all implementations read them.
fn weigh(cx: &mut NodeCx, counts: Value) -> Result<Value> {
    let weights = cx.floats("weights").filter(|w| !w.is_empty());
    let seen = match cx.str_or("mode", "")? {
        "TF" => return Ok(counts),
        "IDF" => {
            let seen = cx.compare_to(CompareOp::Gt, counts, 0.0)?;
            cx.cast(seen, DType::F32)?
        }
        "TFIDF" => counts,
        other => return invalid(format!("mode is `{other}`")),
    };
    match weights {
        Some(weights) => {
            let weights = cx.b.constant(Tensor::vector(weights));
            cx.mul(seen, weights)
        }
        None => Ok(seen),
    }
}
