//! Short forms of instructions that are appended often.

use crate::builder::FuncBuilder;
use crate::dim::Atom;
use crate::op::{BinaryOp, CompareOp, ReduceOp};
use crate::{DType, Dim, DimExpr, Op, Tensor, TensorType, Type, TypeError, Value};

type Result<T> = std::result::Result<T, TypeError>;

/// The size with a name, `i64[]`, if it is known.
pub type SizeOf<'a> = dyn FnMut(&mut FuncBuilder, &str) -> Result<Option<Value>> + 'a;

impl FuncBuilder {
    /// Appends a binary elementwise op.
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Result<Value> {
        self.op1(Op::Binary(op), &[a, b])
    }

    /// Appends a comparison.
    pub fn compare(&mut self, op: CompareOp, a: Value, b: Value) -> Result<Value> {
        self.op1(Op::Compare(op), &[a, b])
    }

    /// Appends a select: `a` where the condition holds, else `b`.
    pub fn select(&mut self, cond: Value, a: Value, b: Value) -> Result<Value> {
        self.op1(Op::Select, &[cond, a, b])
    }

    /// Appends a gather of elements along the first axis.
    pub fn gather(&mut self, x: Value, indices: Value) -> Result<Value> {
        self.op1(Op::Gather { axis: 0 }, &[x, indices])
    }

    /// The number of axes of a tensor of known rank.
    pub fn rank(&self, x: Value) -> Option<usize> {
        self.ty(x).as_tensor()?.rank()
    }

    /// Appends the size of an axis, `i64[]`; a constant if it is static.
    pub fn size(&mut self, x: Value, axis: usize) -> Result<Value> {
        let known = |b: &Self| b.ty(x).as_tensor()?.shape.as_ref()?.get(axis)?.as_const();
        if let Some(n) = known(self) {
            return Ok(self.i64(n));
        }
        let shape = self.op1(Op::Shape, &[x])?;
        let axis = self.i64(axis as i64);
        self.gather(shape, axis)
    }

    /// Appends the sizes of some axes, `i64[k]`; a constant if all are static.
    pub fn sizes(&mut self, x: Value, axes: std::ops::Range<usize>) -> Result<Value> {
        let known = |b: &Self| {
            let shape = b.ty(x).as_tensor()?.shape.as_ref()?.get(axes.clone())?;
            shape
                .iter()
                .map(|d| d.as_const())
                .collect::<Option<Vec<_>>>()
        };
        if let Some(all) = known(self) {
            return Ok(self.i64s(&all));
        }
        let shape = self.op1(Op::Shape, &[x])?;
        let places: Vec<i64> = axes.map(|a| a as i64).collect();
        let places = self.i64s(&places);
        self.gather(shape, places)
    }

    /// Appends the size that a type states, `i64[]`, computed from axes of parameters; `None` if
    /// nothing states it.
    pub fn size_of(&mut self, dim: &Dim) -> Result<Option<Value>> {
        self.size_by(dim, &mut |_, _| Ok(None))
    }

    /// [`FuncBuilder::size_of`], where `own` gives the sizes of some names.
    pub fn size_by(&mut self, dim: &Dim, own: &mut SizeOf) -> Result<Option<Value>> {
        if let Some(n) = dim.as_const() {
            return Ok(Some(self.i64(n)));
        }
        if let Some(name) = dim.as_expr().and_then(|e| e.as_sym())
            && let Some(size) = own(self, name)?
        {
            return Ok(Some(size));
        }
        for param in self.params().to_vec() {
            let shape = self.ty(param).as_tensor().and_then(|t| t.shape.as_ref());
            let axis = shape.and_then(|s| s.iter().position(|d| d.equals(dim)));
            if let Some(axis) = axis {
                return self.size(param, axis).map(Some);
            }
        }
        match dim {
            Dim::Expr(expr) if expr.as_sym().is_none() => self.size_of_sum(expr, own),
            _ => Ok(None),
        }
    }

    fn size_of_sum(&mut self, expr: &DimExpr, own: &mut SizeOf) -> Result<Option<Value>> {
        let mut sum = self.i64(0);
        for (atoms, factor) in expr.terms() {
            let mut product = self.i64(factor);
            for atom in atoms {
                let Some(size) = self.size_of_atom(atom, own)? else {
                    return Ok(None);
                };
                product = self.binary(BinaryOp::Mul, product, size)?;
            }
            sum = self.binary(BinaryOp::Add, sum, product)?;
        }
        Ok(Some(sum))
    }

    fn size_of_atom(&mut self, atom: &Atom, own: &mut SizeOf) -> Result<Option<Value>> {
        let (Atom::FloorDiv(pair) | Atom::Max(pair) | Atom::Min(pair)) = atom else {
            let Atom::Sym(name) = atom else {
                return Ok(None);
            };
            return self.size_by(&Dim::sym(name), own);
        };
        let a = self.size_by(&Dim::Expr(pair.0.clone()), own)?;
        let b = self.size_by(&Dim::Expr(pair.1.clone()), own)?;
        let (Some(a), Some(b)) = (a, b) else {
            return Ok(None);
        };
        let (a, op) = match atom {
            Atom::Max(_) => (a, BinaryOp::Max),
            Atom::Min(_) => (a, BinaryOp::Min),
            _ => {
                let rest = self.binary(BinaryOp::Mod, a, b)?;
                (self.binary(BinaryOp::Sub, a, rest)?, BinaryOp::Div)
            }
        };
        self.binary(op, a, b).map(Some)
    }

    /// Appends a concatenation of vectors; one vector is itself.
    pub fn join(&mut self, parts: &[Value]) -> Result<Value> {
        match parts {
            [one] => Ok(*one),
            _ => self.op1(Op::Concat { axis: 0 }, parts),
        }
    }

    /// Appends a scalar as a vector of one element.
    pub fn vector_of(&mut self, scalar: Value) -> Result<Value> {
        if let Some(one) = self
            .func()
            .constant(scalar)
            .and_then(|t| t.reshaped(vec![1]))
        {
            return Ok(self.constant(one));
        }
        self.op1(Op::Unsqueeze { axes: vec![0] }, &[scalar])
    }

    /// Appends the disjunction of all elements of a `bool` tensor.
    pub fn any(&mut self, x: Value) -> Result<Value> {
        let axes = (0..self.rank(x).unwrap_or(1)).collect();
        let keep = false;
        let kind = ReduceOp::Max;
        self.op1(Op::Reduce { kind, axes, keep }, &[x])
    }

    /// Appends a cast, unless the value has the type.
    pub fn cast(&mut self, to: DType, x: Value) -> Result<Value> {
        match self.ty(x).as_tensor() {
            Some(t) if t.dtype == to => Ok(x),
            _ => self.op1(Op::cast(to), &[x]),
        }
    }

    /// Appends a value of this type that stops the run with an error when it is evaluated.
    pub fn failure(&mut self, message: &str, ty: &Type) -> Result<Value> {
        let number = |b: &mut Self| {
            let message = message.into();
            b.op1(Op::Fail { message }, &[])
        };
        let value = match ty {
            Type::Tensor(tensor) => {
                let number = number(self)?;
                let scalar = self.cast(tensor.dtype, number)?;
                let sizes = self.sizes_or(tensor, number)?;
                self.op1(Op::Broadcast, &[scalar, sizes])?
            }
            Type::Seq(elem) if elem.as_tensor().is_some_and(|t| t.dtype != DType::Str) => {
                // As many elements as the failure says.
                let mut rows = elem.as_tensor().expect("elements are arrays").clone();
                rows.shape.get_or_insert_default().insert(0, Dim::from(1));
                let number = number(self)?;
                let zero = self.constant(Tensor::splat(rows.dtype, vec![], 0.0));
                let sizes = self.sizes_or(&rows, number)?;
                let values = self.op1(Op::Broadcast, &[zero, sizes])?;
                self.refine_type(values, rows.into())?;
                let (axis, squeeze) = (0, true);
                let lengths = self.iota(number)?;
                self.op1(Op::SeqSplit { axis, squeeze }, &[values, lengths])?
            }
            Type::Opt(inner) => {
                let value = self.failure(message, inner)?;
                self.op1(Op::OptSome, &[value])?
            }
            Type::Seq(_) => {
                let none = self.op1(Op::OptNone { elem: ty.clone() }, &[])?;
                self.op1(Op::OptGet, &[none])?
            }
        };
        self.refine_type(value, ty.clone())?;
        Ok(value)
    }

    /// Appends the sizes of a type's axes: 1 for those that are not stated, a number for computed ones.
    fn sizes_or(&mut self, tensor: &TensorType, number: Value) -> Result<Value> {
        let mut sizes = vec![];
        for dim in tensor.shape.iter().flatten() {
            sizes.push(match (dim.as_const(), dim.as_expr()) {
                (None, Some(_)) => self.vector_of(number)?,
                (size, _) => self.i64s(&[size.unwrap_or(1)]),
            });
        }
        match sizes.is_empty() {
            true => Ok(self.i64s(&[])),
            false => self.join(&sizes),
        }
    }

    /// Appends `0, 1, …` below an `i64[]`.
    pub fn iota(&mut self, count: Value) -> Result<Value> {
        let (zero, one) = (self.i64(0), self.i64(1));
        self.op1(Op::Range, &[zero, count, one])
    }
}
