//! `ai.onnx.ml`: encoders and scalers of features.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme, ReduceOp, UnaryOp};
use heddle_ir::{DType, Op, Tensor, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid};
use crate::refusal::Refusal;

pub(super) const OPS: Table = &[
    ("ArrayFeatureExtractor", extract),
    ("Binarizer", binarize),
    ("FeatureVectorizer", vectorize),
    ("Imputer", impute),
    ("LabelEncoder", encode_labels),
    ("LinearRegressor", linear_regressor),
    ("Normalizer", normalize),
    ("OneHotEncoder", one_hot),
    ("Scaler", scale),
];

/// A list attribute as a constant vector.
fn strings(list: &[&str]) -> Result<Tensor> {
    let items = list.iter().map(|&s| Box::from(s)).collect();
    Tensor::strings(vec![list.len()], items).map_err(|e| OpError::Invalid(e.to_string()))
}

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
        return strings(&list).map(Some);
    }
    let tensor = cx.tensor(&name("tensor"))?;
    let flat = |t: Tensor| t.reshaped(vec![t.len()]);
    Ok(tensor.and_then(flat))
}

/// Maps keys to values, anything else to the default. Version 1 maps between strings and their
/// indices in a list.
fn encode_labels(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let (keys, values) = match cx.strs("classes_strings")? {
        Some(classes) => {
            let places: Vec<i64> = (0..classes.len() as i64).collect();
            let (names, places) = (strings(&classes)?, Tensor::vector(&places));
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
    let default = default_label(cx, values.dtype())?;
    let (keys, values, default) = (
        cx.b.constant(keys),
        cx.b.constant(values),
        cx.b.constant(default),
    );
    // A key of NaN matches NaN since version 4.
    let hit = matches(cx, x, keys, cx.opset >= 4)?;
    let (found, place) = last_match(cx, hit)?;
    let label = cx.gather(values, place, 0)?;
    Ok(vec![cx.select(found, label, default)?])
}

fn default_label(cx: &NodeCx, dtype: DType) -> Result<Tensor> {
    if let Some(t) = cx.tensor("default_tensor")? {
        let one = t.reshaped(vec![]).filter(|t| t.dtype() == dtype);
        return one.ok_or_else(|| OpError::Invalid("the default is not one value".into()));
    }
    match dtype {
        DType::Str => {
            let text = cx.str_or("default_string", "_Unused")?;
            let one = Tensor::strings(vec![], vec![text.into()]);
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

/// Mask of the rows with a match along the last axis, and the index of the last match.
fn last_match(cx: &mut NodeCx, hit: Value) -> Result<(Value, Value)> {
    let axis = cx.rank(hit)? - 1;
    let found = cx.reduce(ReduceOp::Max, hit, &[axis], false)?;
    let number = cx.cast(hit, DType::I32)?;
    let argmax = Op::ArgReduce {
        kind: Extreme::Max,
        axis,
        keep: false,
        last: true,
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

/// Divides each row by its norm; a row whose norm is zero stays.
fn normalize(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let x = cx.cast(x, DType::F32)?;
    let last = cx
        .rank(x)?
        .checked_sub(1)
        .ok_or_else(|| OpError::Invalid("a scalar has no rows".into()))?;
    let abs = cx.unary(UnaryOp::Abs, x)?;
    let norm = match cx.str_or("norm", "MAX")? {
        "MAX" => cx.reduce(ReduceOp::Max, abs, &[last], true)?,
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

/// One at the index of the element's category; all zeros for an unknown category.
fn one_hot(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    if !cx.flag("zeros", true) {
        return Err(Refusal::StrictEncoder.into());
    }
    let categories = list_attr(cx, "cats")?;
    let categories =
        categories.ok_or_else(|| OpError::Invalid("the categories are missing".into()))?;
    let categories = cx.b.constant(categories);
    let hit = matches(cx, x, categories, false)?;
    Ok(vec![cx.cast(hit, DType::F32)?])
}

fn linear_regressor(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let transform = cx.str_or("post_transform", "NONE")?;
    if transform != "NONE" {
        return Err(Refusal::PostTransform(transform.into()).into());
    }
    let targets = cx.int_or("targets", 1);
    let coefficients = cx.floats("coefficients").unwrap_or_default();
    let weights = cx.b.constant(Tensor::vector(coefficients));
    let weights = cx.reshape(weights, &[targets, -1])?;
    let weights = cx.transpose(weights, &[1, 0])?;
    let x = cx.cast(x, DType::F32)?;
    let mut y = cx.matmul(x, weights)?;
    if let Some(intercepts) = cx.floats("intercepts").filter(|l| !l.is_empty()) {
        let intercepts = cx.b.constant(Tensor::vector(intercepts));
        y = cx.add(y, intercepts)?;
    }
    Ok(vec![y])
}
