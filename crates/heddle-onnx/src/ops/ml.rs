//! `ai.onnx.ml`: encoders and scalers of features.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme, ReduceOp, UnaryOp};
use heddle_ir::{DType, Dim, Emit, Op, Tensor, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid};
use super::scores::{class_labels, text};
use crate::refusal::Refusal;

pub(super) const OPS: Table = &[
    ("ArrayFeatureExtractor", extract),
    ("Binarizer", binarize),
    ("CategoryMapper", map_categories),
    ("FeatureVectorizer", vectorize),
    ("Imputer", impute),
    ("LabelEncoder", encode_labels),
    ("Normalizer", normalize),
    ("OneHotEncoder", one_hot),
    ("Scaler", scale),
    ("ZipMap", zip_map),
];

/// The one of `{prefix}_floats`, `_int64s`, `_strings`, `_tensor` that the node has.
fn list_attr(cx: &NodeCx, prefix: &str) -> Result<Option<Tensor>> {
    let name = |kind: &str| format!("{prefix}_{kind}");
    if let Some(list) = cx.floats(&name("floats")).filter(|l| !l.is_empty()) {
        return Ok(Some(Tensor::vector(list)));
    }
    if let Some(list) = cx.ints(&name("int64s")).filter(|l| !l.is_empty()) {
        return Ok(Some(Tensor::vector(list)));
    }
    if let Some(list) = cx.strs(&name("strings"))?.filter(|l| !l.is_empty()) {
        return text(&list).map(Some);
    }
    let tensor = cx.tensor(&name("tensor"))?;
    let flat = |t: Tensor| t.reshaped(vec![t.len()]);
    Ok(tensor.and_then(flat))
}

/// LabelEncoder: maps keys to values, anything else to the default. Version 1 maps between strings and
/// their indices in a list, where the last of equal keys counts; later ones take the first.
fn encode_labels(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let (keys, values) = match cx.strs("classes_strings")? {
        Some(classes) => {
            let places: Vec<i64> = (0..classes.len() as i64).collect();
            let (names, places) = (text(&classes)?, Tensor::vector(&places));
            match cx.dtype(x)? {
                DType::Str => (names, places),
                _ => (places, names),
            }
        }
        None => {
            let missing = |what: &str| OpError::Invalid(format!("the {what} are missing"));
            let keys = list_attr(cx, "keys")?.ok_or_else(|| missing("keys"))?;
            let values = list_attr(cx, "values")?.ok_or_else(|| missing("values"))?;
            (keys, values)
        }
    };
    if keys.len() != values.len() {
        return invalid(format!("{} keys for {} values", keys.len(), values.len()));
    }
    // A key of NaN matches NaN since version 4.
    let nan = cx.opset >= 4;
    let last = cx.opset < 2;
    Ok(vec![look_up(cx, x, keys, values, nan, last)?])
}

/// CategoryMapper 1: maps between the two lists, anything else to the default.
fn map_categories(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let names = cx.strs("cats_strings")?.unwrap_or_default();
    let numbers = cx.ints("cats_int64s").unwrap_or_default();
    let (mut keys, mut values) = (text(&names)?, Tensor::vector(numbers));
    if keys.len() != values.len() {
        return invalid(format!("{} names for {} numbers", keys.len(), values.len()));
    }
    if cx.dtype(x)? != DType::Str {
        std::mem::swap(&mut keys, &mut values);
    }
    Ok(vec![look_up(cx, x, keys, values, false, true)?])
}

/// The value of the first or last key that equals each element, or the default.
fn look_up(
    cx: &mut NodeCx,
    x: Value,
    keys: Tensor,
    values: Tensor,
    nan: bool,
    last: bool,
) -> Result<Value> {
    let default = default_label(cx, values.dtype())?;
    let (keys, values, default) = (
        cx.b.constant(keys),
        cx.b.constant(values),
        cx.b.constant(default),
    );
    let hit = matches(cx, x, keys, nan)?;
    let (found, place) = place_of_match(cx, hit, last)?;
    let label = cx.gather(values, place, 0)?;
    cx.select(found, label, default)
}

fn default_label(cx: &NodeCx, dtype: DType) -> Result<Tensor> {
    if let Some(t) = cx.tensor("default_tensor")? {
        let one = t.reshaped(vec![]).filter(|t| t.dtype() == dtype);
        return one.ok_or_else(|| OpError::Invalid("the default is not one value".into()));
    }
    match dtype {
        DType::Str => {
            let name = cx.str_or("default_string", "_Unused")?;
            let one = Tensor::strings(vec![], vec![name.into()]);
            one.map_err(|e| OpError::Invalid(e.to_string()))
        }
        DType::F32 | DType::F64 => {
            let number = cx.float_or("default_float", -0.0);
            Ok(Tensor::splat(dtype, vec![], number.into()))
        }
        DType::I16 | DType::I32 | DType::I64 => {
            let number = cx.int_or("default_int64", -1);
            let wide = Tensor::scalar(number);
            Ok(match dtype {
                DType::I64 => wide,
                _ => Tensor::splat(dtype, vec![], number as f64),
            })
        }
        other => Err(Refusal::Labels(other).into()),
    }
}

/// `bool[.., keys]`: which of the keys each element equals; NaN equals NaN if `match_nan`.
fn matches(cx: &mut NodeCx, x: Value, keys: Value, match_nan: bool) -> Result<Value> {
    let (dtype, key_type) = (cx.dtype(x)?, cx.dtype(keys)?);
    let x = if dtype == DType::Str || key_type == DType::Str {
        x
    } else {
        cx.cast(x, key_type)?
    };
    let rank = cx.rank(x)?;
    let x = cx.unsqueeze(x, &[rank])?;
    let equal = cx.compare(CompareOp::Eq, x, keys)?;
    if !key_type.is_float() || !match_nan {
        return Ok(equal);
    }
    let (a, b) = (
        cx.unary(UnaryOp::IsNan, x)?,
        cx.unary(UnaryOp::IsNan, keys)?,
    );
    let both = cx.binary(BinaryOp::And, a, b)?;
    cx.binary(BinaryOp::Or, equal, both)
}

/// Mask of the rows with a match along the last axis, and the index of the first or last match.
fn place_of_match(cx: &mut NodeCx, hit: Value, last: bool) -> Result<(Value, Value)> {
    let axis = cx.rank(hit)? - 1;
    let found = cx.reduce(ReduceOp::Max, hit, &[axis], false)?;
    let number = cx.cast(hit, DType::I32)?;
    let argmax = Op::ArgReduce {
        kind: Extreme::Max,
        axis,
        keep: false,
        last,
    };
    Ok((found, cx.op(argmax, &[number])?))
}

fn binarize(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let threshold = f64::from(cx.float_or("threshold", 0.0));
    let dtype = cx.dtype(x)?;
    // An integer is above a threshold when it is above its floor.
    let threshold = if dtype.is_float() {
        threshold
    } else {
        threshold.floor()
    };
    let above = cx.compare_to(CompareOp::Gt, x, threshold)?;
    Ok(vec![cx.cast(above, dtype)?])
}

/// Picks features along the last axis; a vector is seen as a matrix of one row.
fn extract(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, places) = (cx.input(0)?, cx.input(1)?);
    let x = match cx.rank(x)? {
        1 => cx.unsqueeze(x, &[0])?,
        _ => x,
    };
    let places = cx.to_indices(places)?;
    let last = cx
        .rank(x)?
        .checked_sub(1)
        .ok_or_else(|| OpError::Invalid("a scalar has no features".into()))?;
    Ok(vec![cx.gather(x, places, last)?])
}

/// `(x - offset) * scale`; either is one number or one for each feature.
fn scale(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let mut y = cx.cast(x, DType::F32)?;
    for (name, kind) in [("offset", BinaryOp::Sub), ("scale", BinaryOp::Mul)] {
        let Some(list) = cx.floats(name).filter(|l| !l.is_empty()) else {
            continue;
        };
        let list = match list {
            [one] => Tensor::scalar(*one),
            _ => Tensor::vector(list),
        };
        let list = cx.b.constant(list);
        y = cx.binary(kind, y, list)?;
    }
    Ok(vec![y])
}

/// Divides each row by its norm, which may be negative for MAX; a row whose norm is zero stays.
fn normalize(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let x = cx.cast(x, DType::F32)?;
    let last = cx
        .rank(x)?
        .checked_sub(1)
        .ok_or_else(|| OpError::Invalid("a scalar has no rows".into()))?;
    let abs = cx.unary(UnaryOp::Abs, x)?;
    let norm = match cx.str_or("norm", "MAX")? {
        "MAX" => cx.reduce(ReduceOp::Max, x, &[last], true)?,
        "L1" => cx.reduce(ReduceOp::Sum, abs, &[last], true)?,
        "L2" => {
            let square = cx.mul(x, x)?;
            let sum = cx.reduce(ReduceOp::Sum, square, &[last], true)?;
            cx.unary(UnaryOp::Sqrt, sum)?
        }
        other => return invalid(format!("norm is `{other}`")),
    };
    let nothing = cx.compare_to(CompareOp::Eq, norm, 0.0)?;
    let one = cx.scalar_like(x, 1.0)?;
    let divisor = cx.select(nothing, one, norm)?;
    Ok(vec![cx.div(x, divisor)?])
}

/// Replaces the marker of missing values by another value, or one for each feature.
fn impute(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let (values, missing) = if dtype.is_float() {
        let replaced = cx.float_or("replaced_value_float", 0.0);
        let values = cx.floats("imputed_value_floats").map(Tensor::vector);
        (values, Tensor::vector(&[replaced]))
    } else {
        let replaced = cx.int_or("replaced_value_int64", 0);
        let values = cx.ints("imputed_value_int64s").map(Tensor::vector);
        (values, Tensor::vector(&[replaced]))
    };
    let values = values.ok_or_else(|| OpError::Invalid("there is nothing to impute".into()))?;
    let values = cx.b.constant(values);
    let values = cx.cast(values, dtype)?;
    let missing = cx.b.constant(missing);
    let missing = cx.cast(missing, dtype)?;
    let hit = matches(cx, x, missing, true)?;
    let last = cx.rank(hit)? - 1;
    let hit = cx.squeeze(hit, &[last])?;
    Ok(vec![cx.select(hit, values, x)?])
}

/// Joins features; each input is cut or padded with zeros to the stated number.
fn vectorize(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let inputs = cx.all_inputs()?;
    let counts = cx.ints("inputdimensions").unwrap_or_default();
    let mut parts = vec![];
    for (i, &x) in inputs.iter().enumerate() {
        let x = match cx.rank(x)? {
            1 => cx.unsqueeze(x, &[0])?,
            2 => x,
            other => return invalid(format!("an input has {other} axes")),
        };
        let x = cx.cast(x, DType::F32)?;
        let Some(&count) = counts.get(i) else {
            parts.push(x);
            continue;
        };
        let (have, want) = (cx.size_of(x, 1)?, cx.b.i64(count));
        let more = cx.sub(want, have)?;
        let none = cx.b.i64(0);
        let pads = cx.stack_i64s(&[none, none, none, more])?;
        let zero = cx.scalar_like(x, 0.0)?;
        parts.push(cx.pad(x, pads, zero)?);
    }
    Ok(vec![cx.concat(&parts, 1)?])
}

/// One at the index of the element's category. An unknown category gives zeros, or an error of the run
/// that calls its index out of range.
fn one_hot(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let categories = list_attr(cx, "cats")?;
    let categories =
        categories.ok_or_else(|| OpError::Invalid("the categories are missing".into()))?;
    let count = categories.len() as i64;
    let categories = cx.b.constant(categories);
    let hit = matches(cx, x, categories, false)?;
    if cx.flag("zeros", true) {
        return Ok(vec![cx.cast(hit, DType::F32)?]);
    }
    let (found, place) = place_of_match(cx, hit, true)?;
    let beyond = cx.b.i64(count);
    let place = cx.select(found, place, beyond)?;
    let (columns, rows) = (cx.iota(count)?, cx.iota(count)?);
    let rows = cx.unsqueeze(rows, &[1])?;
    let identity = cx.compare(CompareOp::Eq, rows, columns)?;
    let identity = cx.cast(identity, DType::F32)?;
    Ok(vec![cx.gather(identity, place, 0)?])
}

/// ZipMap: maps from labels to scores become the array of the scores, with a column for each label.
fn zip_map(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let labels = class_labels(cx, "classlabels_int64s")?;
    let columns = cx.shape(x)?.last().and_then(Dim::as_const);
    match columns.is_none_or(|n| n == labels.len() as i64) {
        true => Ok(vec![x]),
        false => invalid(format!("{} labels for {}", labels.len(), cx.b.ty(x))),
    }
}
