//! Run-time checks of values against types. A function's arguments bind its named sizes.

use std::collections::HashMap;
use std::sync::Arc;

use heddle_ir::{DType, Datum, Dim, Signature, Type};

use crate::error::{Fault, InputError};
use crate::value::Val;

/// Values of named sizes in one evaluation of a function.
#[derive(Default)]
pub struct Bindings(HashMap<Arc<str>, i64>);

impl Bindings {
    /// The value of a dim, if it is known.
    pub fn eval(&self, dim: &Dim) -> Option<i64> {
        dim.as_expr()?.eval(&|name| self.0.get(name).copied())
    }

    /// Binds the names that are a whole dim of a parameter's type to the argument's sizes, unless
    /// they are bound.
    pub fn bind(&mut self, ty: &Type, val: &Val) {
        match (ty, val) {
            (Type::Tensor(t), Val::Tensor(a)) => {
                let dims = t.shape.iter().flatten();
                for (dim, &size) in dims.zip(&a.shape) {
                    if let Some(name) = dim.as_expr().and_then(|e| e.as_sym()) {
                        self.0.entry(name.clone()).or_insert(size as i64);
                    }
                }
            }
            (Type::Seq(t), Val::Seq(s)) => s.items.iter().for_each(|v| self.bind(t, v)),
            (Type::Opt(t), Val::Opt(Some(v))) => self.bind(t, v),
            _ => {}
        }
    }

    /// True if a value is of a type. Dynamic dims hold any size up to their bound.
    pub fn holds(&self, ty: &Type, val: &Val) -> bool {
        match (ty, val) {
            (Type::Tensor(t), Val::Tensor(a)) => {
                let fits = |shape: &Vec<Dim>| {
                    shape.len() == a.shape.len()
                        && shape.iter().zip(&a.shape).all(|(d, &n)| match d {
                            Dim::Unknown(max) => max.is_none_or(|m| n as u64 <= m),
                            Dim::Expr(_) => self.eval(d).is_none_or(|v| v == n as i64),
                        })
                };
                t.dtype == a.dtype && t.shape.as_ref().is_none_or(fits)
            }
            (Type::Seq(t), Val::Seq(s)) => s.items.iter().all(|v| self.holds(t, v)),
            (Type::Opt(t), Val::Opt(v)) => v.as_deref().is_none_or(|v| self.holds(t, v)),
            _ => false,
        }
    }

    /// [`Bindings::holds`] as an error.
    pub fn check(&self, index: usize, ty: &Type, val: &Val) -> Result<(), Fault> {
        if self.holds(ty, val) {
            return Ok(());
        }
        let mut names = vec![];
        ty.map_dims(&mut |d| {
            if let Some(e) = d.as_expr() {
                e.for_each_sym(&mut |s| {
                    if let Some(v) = self.0.get(s) {
                        names.push(format!("{s} = {v}"));
                    }
                });
            }
            d.clone()
        });
        names.sort();
        names.dedup();
        let bound = match names.is_empty() {
            true => String::new(),
            false => format!(" with {}", names.join(", ")),
        };
        Err(Fault::Type {
            index,
            expected: format!("{ty}{bound}"),
            found: val.describe(),
        })
    }
}

/// Checks a run's inputs against the entry function's parameters; gives the values of named sizes.
///
/// With `double`, inputs of type `f64` are taken for parameters of any float type.
pub fn check_inputs(
    sig: &Signature,
    inputs: &[Datum],
    double: bool,
) -> Result<HashMap<Arc<str>, i64>, InputError> {
    if sig.params.len() != inputs.len() {
        let names: Vec<_> = sig.params.iter().map(|(n, _)| format!("`{n}`")).collect();
        return Err(InputError::Count {
            function: sig.name.clone(),
            expected: sig.params.len(),
            names: names.join(", "),
            found: inputs.len(),
        });
    }
    let mut names = HashMap::new();
    // Names are bound by axes that are just a name; only then can expressions of them be checked.
    for bind in [true, false] {
        for ((name, ty), datum) in sig.params.iter().zip(inputs) {
            let mut walk = Walk {
                sig,
                name,
                param: ty,
                double,
                bind,
                names: &mut names,
            };
            walk.check(ty, datum)?;
        }
    }
    Ok(names)
}

struct Walk<'a> {
    sig: &'a Signature,
    name: &'a str,
    param: &'a Type,
    double: bool,
    bind: bool,
    names: &'a mut HashMap<Arc<str>, i64>,
}

impl Walk<'_> {
    fn check(&mut self, ty: &Type, datum: &Datum) -> Result<(), InputError> {
        match (ty, datum) {
            (Type::Tensor(t), Datum::Tensor(a)) => {
                let widened = self.double && t.dtype.is_float() && a.dtype() == DType::F64;
                let rank = t.rank().unwrap_or(a.shape().len());
                if t.dtype != a.dtype() && !widened || rank != a.shape().len() {
                    return Err(self.mismatch(datum));
                }
                let dims = t.shape.iter().flatten();
                for (axis, (dim, &size)) in dims.zip(a.shape()).enumerate() {
                    self.axis(axis, dim, size)?;
                }
                Ok(())
            }
            (Type::Seq(t), Datum::Seq(items)) => items.iter().try_for_each(|d| self.check(t, d)),
            (Type::Opt(_), Datum::Opt(None)) => Ok(()),
            (Type::Opt(t), Datum::Opt(Some(d))) => self.check(t, d),
            _ => Err(self.mismatch(datum)),
        }
    }

    fn axis(&mut self, axis: usize, dim: &Dim, size: usize) -> Result<(), InputError> {
        let name = || self.name.to_string();
        let wrong = |expected: String| InputError::Size {
            name: name(),
            axis,
            expected,
            found: size,
        };
        match dim {
            Dim::Unknown(Some(max)) if size as u64 > *max => Err(wrong(format!("at most {max}"))),
            Dim::Unknown(_) => Ok(()),
            Dim::Expr(e) => match (e.as_sym(), self.bind) {
                (Some(symbol), true) => {
                    if let Some(bound) = self.sig.bounds.get(symbol) {
                        let max = bound.max;
                        if (size as u64) < bound.min || max.is_some_and(|m| size as u64 > m) {
                            let bounds = match max {
                                Some(max) => format!("from {} to {max}", bound.min),
                                None => format!("at least {}", bound.min),
                            };
                            return Err(InputError::Bounds {
                                name: name(),
                                axis,
                                symbol: symbol.to_string(),
                                bounds,
                                found: size,
                            });
                        }
                    }
                    let first = *self.names.entry(symbol.clone()).or_insert(size as i64);
                    if first == size as i64 {
                        return Ok(());
                    }
                    Err(wrong(format!("{symbol} = {first}")))
                }
                (None, false) => match e.eval(&|n| self.names.get(n).copied()) {
                    Some(value) if value != size as i64 => Err(wrong(match e.as_const() {
                        Some(value) => value.to_string(),
                        None => format!("{e} = {value}"),
                    })),
                    _ => Ok(()),
                },
                _ => Ok(()),
            },
        }
    }

    fn mismatch(&self, datum: &Datum) -> InputError {
        InputError::Type {
            name: self.name.to_string(),
            expected: self.param.to_string(),
            found: describe(datum),
            wanted: self.wanted(datum),
        }
    }

    /// The element type that the parameter has in the place of the array's, if all else fits.
    fn wanted(&self, datum: &Datum) -> Option<DType> {
        let (Type::Tensor(t), Datum::Tensor(array)) = (self.param, datum) else {
            return None;
        };
        let rank = array.shape().len();
        (t.dtype != array.dtype() && t.rank().unwrap_or(rank) == rank).then_some(t.dtype)
    }
}

fn describe(datum: &Datum) -> String {
    match datum {
        Datum::Tensor(t) => t.ty().to_string(),
        Datum::Seq(items) => match items.first() {
            Some(d) => format!("a sequence of {}", describe(d)),
            None => "an empty sequence".into(),
        },
        Datum::Opt(Some(d)) => format!("an optional {}", describe(d)),
        Datum::Opt(None) => "an empty optional".into(),
    }
}
