//! Constants, filled and counted arrays.

use heddle_ir::op::CompareOp;
use heddle_ir::{DType, Emit, Op, Tensor, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid};
use crate::proto::SparseTensorProto;
use crate::sparse::dense;

pub(super) const OPS: Table = &[
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("Range", range),
    ("EyeLike", eye_like),
];

fn constant(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let attrs = &cx.attrs;
    let found = attrs.iter().find(|(name, _)| {
        *name == "value" || *name == "sparse_value" || name.starts_with("value_")
    });
    let Some((name, attr)) = found else {
        return invalid("a constant without a value");
    };
    let text = |bytes: &[u8]| {
        std::str::from_utf8(bytes)
            .map(Box::from)
            .map_err(|_| OpError::Invalid(format!("attribute `{name}` is not UTF-8")))
    };
    let strings = |shape: Vec<usize>, items: Vec<Box<str>>| {
        Tensor::strings(shape, items).map_err(|e| OpError::Invalid(e.to_string()))
    };
    let tensor = match *name {
        "value" => cx.tensor("value")?,
        "sparse_value" => {
            let Some(sparse) = &attr.sparse_tensor else {
                return invalid("sparse_value is empty");
            };
            return Ok(vec![sparse_value(cx, sparse)?]);
        }
        "value_float" => attr.f.map(Tensor::scalar),
        "value_floats" => Some(Tensor::vector(&attr.floats)),
        "value_int" => attr.i.map(Tensor::scalar),
        "value_ints" => Some(Tensor::vector(&attr.ints)),
        "value_string" => {
            let item = text(attr.s.as_deref().unwrap_or_default())?;
            Some(strings(vec![], vec![item])?)
        }
        "value_strings" => {
            let items = attr.strings.iter().map(|s| text(s));
            let items = items.collect::<Result<Vec<Box<str>>>>()?;
            Some(strings(vec![items.len()], items)?)
        }
        _ => None,
    };
    let tensor =
        tensor.ok_or_else(|| OpError::Invalid(format!("attribute `{name}` holds no value")))?;
    Ok(vec![cx.b.constant(tensor)])
}

fn sparse_value(cx: &mut NodeCx, sparse: &SparseTensorProto) -> Result<Value> {
    let (Some(values), Some(indices)) = (&sparse.values, &sparse.indices) else {
        return invalid("a sparse tensor without values or indices");
    };
    let (values, indices) = ((cx.load)(values)?, (cx.load)(indices)?);
    dense(cx.b, values, indices, &sparse.dims)
}

fn constant_of_shape(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let shape = cx.input(0)?;
    let value = match cx.tensor("value")? {
        None => Tensor::scalar(0f32),
        Some(t) => t.reshaped(vec![]).ok_or_else(|| {
            OpError::Invalid(format!("the value must have one element, not {t:?}"))
        })?,
    };
    let value = cx.b.constant(value);
    let shape = cx.to_indices(shape)?;
    Ok(vec![cx.broadcast_to(value, shape)?])
}

/// Half-precision numbers are counted in single precision, else steps would be lost.
fn range(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let inputs = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
    let dtype = cx.dtype(inputs[0])?;
    let wide = match dtype {
        DType::F16 | DType::Bf16 => match cx.int_or("stash_type", 1) {
            11 => DType::F64,
            _ => DType::F32,
        },
        _ => dtype,
    };
    let mut parts = vec![];
    for x in inputs {
        let x = cx.to_scalar(x)?;
        parts.push(cx.cast(x, wide)?);
    }
    let y = cx.op(Op::Range, &parts)?;
    Ok(vec![cx.cast(y, dtype)?])
}

fn eye_like(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    if cx.rank(x)? != 2 {
        return invalid("the input must have two axes");
    }
    let dtype = match cx.dtype_attr("dtype")? {
        Some(dtype) => dtype,
        None => cx.dtype(x)?,
    };
    let rows = cx.positions(x, 0)?;
    let columns = cx.positions(x, 1)?;
    let k = cx.b.i64(cx.int_or("k", 0));
    let rows = cx.add(rows, k)?;
    let rows = cx.along(rows, 0, 2)?;
    let columns = cx.along(columns, 1, 2)?;
    let eye = cx.compare(CompareOp::Eq, rows, columns)?;
    Ok(vec![cx.cast(eye, dtype)?])
}
