//! Values, names of sizes, constants and element types that a graph's nodes see.

use std::collections::HashMap;
use std::sync::Arc;

use heddle_ir::{DType, FuncBuilder, Loc, Tensor, Value};

use crate::error::{OpError, Result, invalid, refuse};
use crate::graph::{self, Arg, Node, SIZE, Size};
use crate::size::Expr;

/// Constants by name.
pub type Constants = HashMap<String, Tensor>;

/// A value, and its nature.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub value: Value,
    /// It is an integer outside of arrays, which does not decide element types.
    pub is_size: bool,
    /// It is an array of complex numbers, which are pairs along a last axis that the graph does not state.
    pub is_complex: bool,
}

impl Bound {
    pub fn new(value: Value, stated: &graph::Value) -> Self {
        Self {
            value,
            is_size: stated.ty == SIZE,
            is_complex: part(&stated.ty).is_some(),
        }
    }
}

/// The origin of a named size.
#[derive(Clone, Copy, Debug)]
enum Named {
    Axis(Value, usize),
    Value(Value),
}

/// A predicate without which a graph has no results.
#[derive(Clone, Debug)]
pub struct Assertion {
    /// `bool[]`.
    pub predicate: Value,
    pub message: String,
    pub loc: Option<Arc<Loc>>,
}

/// Definitions in force.
#[derive(Debug, Default)]
pub struct Scope {
    values: HashMap<i64, Bound>,
    names: HashMap<String, Named>,
    /// Assertions of the graph, in order.
    pub assertions: Vec<Assertion>,
}

impl Scope {
    /// The scope of a graph within, which sees names of sizes only.
    pub fn inner(&self) -> Scope {
        Scope {
            names: self.names.clone(),
            ..Default::default()
        }
    }

    /// Defines a value.
    pub fn define(&mut self, id: i64, bound: Bound) -> Result<()> {
        match self.values.insert(id, bound) {
            None => Ok(()),
            Some(_) => invalid(format!("two values have the id {id}")),
        }
    }

    /// Binds the names of sizes that an input states.
    pub fn rebind(&mut self, stated: &graph::Value, bound: &Bound) -> Result<()> {
        if bound.is_size {
            self.names
                .insert(stated.name.clone(), Named::Value(bound.value));
        }
        for (axis, name) in names(stated)? {
            self.names.insert(name, Named::Axis(bound.value, axis));
        }
        Ok(())
    }

    /// Checks a node's results against what it states, and defines them.
    pub fn bind_results(&mut self, b: &FuncBuilder, node: &Node, values: Vec<Value>) -> Result<()> {
        if values.len() != node.results.len() {
            let (n, m) = (values.len(), node.results.len());
            return invalid(format!("it has {n} results, but {m} are stated"));
        }
        for (stated, value) in node.results.iter().zip(values) {
            let ty = b.ty(value).as_tensor();
            let found = ty.map(|t| (t.dtype, t.rank()));
            let (want, axes) = match (stated.ty.as_str(), part(&stated.ty)) {
                (_, Some(part)) => (part, stated.shape.len() + 1),
                (SIZE, None) => (DType::I64, stated.shape.len()),
                (name, None) => (dtype(name)?, stated.shape.len()),
            };
            if found != Some((want, Some(axes))) {
                let ty = b.ty(value);
                let name = &stated.name;
                return invalid(format!(
                    "its result `{name}` is stated as {want} with {axes} axes, but is {ty}"
                ));
            }
            let bound = Bound::new(value, stated);
            self.define(stated.id, bound)?;
            for (axis, name) in names(stated)? {
                self.names.entry(name).or_insert(Named::Axis(value, axis));
            }
            if bound.is_size {
                let named = Named::Value(value);
                self.names.entry(stated.name.clone()).or_insert(named);
            }
        }
        Ok(())
    }

    /// The value of an id.
    pub fn bound(&self, id: i64) -> Result<Bound> {
        let found = self.values.get(&id).copied();
        found.ok_or_else(|| OpError::Invalid(format!("value {id} is not defined before it")))
    }

    /// Is an argument an array of complex numbers?
    pub fn is_complex(&self, arg: &Arg, constants: &Constants) -> bool {
        match arg {
            Arg::Value(id) => self.values.get(id).is_some_and(|b| b.is_complex),
            Arg::Constant(name) => constants.get(name).is_some_and(|t| t.dtype().is_complex()),
            Arg::List(list) => list.iter().any(|arg| self.is_complex(arg, constants)),
            _ => false,
        }
    }

    /// The pairs of an array of complex numbers.
    pub fn pairs(&self, b: &mut FuncBuilder, arg: &Arg, constants: &Constants) -> Result<Value> {
        match arg {
            Arg::Value(id) => Ok(self.bound(*id)?.value),
            Arg::Constant(name) => {
                let whole = constants.get(name).ok_or_else(|| no_constant(name))?;
                let part = part(whole.dtype().name()).ok_or_else(|| no_constant(name))?;
                let shape = [whole.shape(), &[2]].concat();
                let pairs = Tensor::new(part, shape, whole.bytes().clone());
                let pairs = pairs.map_err(|error| OpError::Invalid(error.to_string()))?;
                let value = b.constant(pairs);
                b.set_name(value, name);
                Ok(value)
            }
            _ => invalid("an argument is no array"),
        }
    }

    /// Appends a size, `i64[]`.
    pub fn size(&self, b: &mut FuncBuilder, size: &Size) -> Result<Value> {
        let text = match size {
            Size::Int(n) => return Ok(b.i64(*n)),
            Size::Expr(text) => text,
        };
        let expr = Expr::parse(text).map_err(OpError::Invalid)?;
        expr.emit(b, &mut |b, name| match self.names.get(name) {
            Some(Named::Value(value)) => Ok(*value),
            Some(Named::Axis(value, axis)) => Ok(b.size(*value, *axis)?),
            None => invalid(format!("no value has the size `{name}`")),
        })
    }

    /// An argument as a value: numbers become scalars, integers `i64[]`, floats `f32[]`.
    pub fn value(&self, b: &mut FuncBuilder, arg: &Arg, constants: &Constants) -> Result<Value> {
        Ok(match arg {
            Arg::Value(id) => match self.bound(*id)? {
                bound if bound.is_complex => return refuse(COMPLEX),
                bound => bound.value,
            },
            Arg::Constant(name) => constant(b, name, constants)?,
            Arg::Size(size) => self.size(b, size)?,
            Arg::Int(n) => b.i64(*n),
            Arg::Float(x) => b.scalar(DType::F32, x.0),
            Arg::Bool(x) => b.scalar(DType::Bool, f64::from(u8::from(*x))),
            _ => return invalid("an argument is no array"),
        })
    }
}

/// Appends a constant.
pub fn constant(b: &mut FuncBuilder, name: &str, constants: &Constants) -> Result<Value> {
    let tensor: &Tensor = constants.get(name).ok_or_else(|| no_constant(name))?;
    if tensor.dtype().is_complex() {
        return refuse(COMPLEX);
    }
    if tensor.dtype() == DType::Bool && tensor.bytes().iter().any(|b| *b > 1) {
        return invalid(format!(
            "the constant `{name}` has a truth value that is neither 0 nor 1"
        ));
    }
    let value = b.constant(tensor.clone());
    b.set_name(value, name);
    Ok(value)
}

/// Names that alone are the size of an axis.
fn names(stated: &graph::Value) -> Result<Vec<(usize, String)>> {
    let mut found = vec![];
    for (axis, size) in stated.shape.iter().enumerate() {
        if let Size::Expr(text) = size
            && let Expr::Name(name) = Expr::parse(text).map_err(OpError::Invalid)?
        {
            found.push((axis, name));
        }
    }
    Ok(found)
}

/// The error that a name has no constant.
pub fn no_constant(name: &str) -> OpError {
    OpError::Invalid(format!("there is no constant `{name}`"))
}

/// Complex numbers where there can't be any.
const COMPLEX: &str = "complex numbers only go from one operator to the next: torch.view_as_real makes pairs of them, and torch.view_as_complex numbers of pairs";

/// The element type of the parts of complex numbers.
pub fn part(name: &str) -> Option<DType> {
    match name {
        "c64" => Some(DType::F32),
        "c128" => Some(DType::F64),
        _ => None,
    }
}

/// The element type of this name.
pub fn dtype(name: &str) -> Result<DType> {
    if part(name).is_some() {
        return refuse(COMPLEX);
    }
    match name.parse() {
        Ok(dtype) if dtype == DType::Bool || DType::is_arith(dtype) => Ok(dtype),
        _ => Err(OpError::Unsupported(format!(
            "there is no element type `{name}`"
        ))),
    }
}
