//! Shorthands on the builder that several constructs share.

use heddle_ir::{DType, FuncBuilder, Op, Type, TypeError, Value};

use super::scope::{Binding, Frame};

/// A value of one element as a scalar.
pub fn scalar(b: &mut FuncBuilder, v: Value) -> Result<Value, TypeError> {
    if b.ty(v).as_tensor().is_some_and(|t| t.rank() == Some(0)) {
        return Ok(v);
    }
    let shape = b.i64s(&[]);
    b.op1(Op::Reshape, &[v, shape])
}

/// The truth of a scalar, if it is the same in every run.
pub fn known_truth(b: &FuncBuilder, v: Value) -> Option<bool> {
    let constant = b.func().constant(v).filter(|t| t.dtype() == DType::Bool);
    match (constant.map(|t| &t.bytes()[..]), b.known(v)) {
        (Some([byte]), _) => Some(*byte != 0),
        (_, Some([dim])) => dim.as_const().map(|c| c != 0),
        _ => None,
    }
}

/// A value of a type for programs that are only built to infer types and never run.
pub fn stand_in(b: &mut FuncBuilder, ty: Type) -> Result<Value, TypeError> {
    let none = b.op1(Op::OptNone { elem: ty }, &[])?;
    b.op1(Op::OptGet, &[none])
}

/// Stand-ins for values of these types, and poison where the type is not known either.
pub fn stand_ins(
    f: &mut Frame,
    types: impl IntoIterator<Item = Option<Type>>,
) -> Result<Vec<Binding>, TypeError> {
    let mut values = vec![];
    for ty in types {
        let value = ty.map(|t| stand_in(&mut f.b, t)).transpose()?;
        values.push(Binding::from(value));
    }
    Ok(values)
}
