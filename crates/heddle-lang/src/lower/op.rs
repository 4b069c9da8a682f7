//! Operations of the graph IR, by their names.

use heddle_ir::op::{BinaryOp, OperandType};
use heddle_ir::text::syntax::{Attr, named_op};
use heddle_ir::{DType, Op, Value};

use super::{Lower, Result};
use crate::lexer::Span;
use crate::value::{List, Ty, Val};

impl<'a> Lower<'a> {
    /// The results of an operation; several are a tuple.
    pub(super) fn op(
        &mut self,
        name: &str,
        args: Vec<Val<'a>>,
        attrs: Vec<(String, Attr)>,
        span: Span,
    ) -> Result<Val<'a>> {
        let first = args.iter().find_map(|v| match v {
            Val::Ir(v) => Some(self.frame.b.ty(*v).clone()),
            _ => None,
        });
        let op = match named_op(name, attrs, first.as_ref()) {
            Some(Ok(op)) => op,
            Some(Err(message)) => return Err(self.error(span, format!("{name}: {message}"))),
            None => return Err(self.error(span, format!("`{name}` is no operation"))),
        };
        let shared = self.shared_dtype(&op, &args);
        let mut operands = vec![];
        for (i, arg) in args.into_iter().enumerate() {
            let value = match arg {
                Val::Ir(v) => v,
                Val::Literal(l) => {
                    let dtype = match wants(&op, i) {
                        Some(OperandType::Is(dtype)) => dtype,
                        Some(OperandType::Index) => DType::I64,
                        Some(OperandType::Shared) => shared.unwrap_or(l.dtype()),
                        _ => l.dtype(),
                    };
                    self.constant(&l, dtype, span)?
                }
                Val::List(list) => return Err(self.no_list(name, &list, span)),
                val => {
                    let ty = self.ty(&val);
                    let message = format!("{name} takes arrays, not {}", self.show(&ty));
                    return Err(self.error(span, message));
                }
            };
            operands.push(value);
        }
        let results = self.frame.b.op(op, &operands).map_err(self.misfit(span))?;
        let types = results.iter().map(|v| self.frame.b.ty(*v).weight()).sum();
        self.charge(types, span)?;
        Ok(match results[..] {
            [one] => Val::Ir(one),
            _ => Val::Tuple(results.into_iter().map(Val::Ir).collect()),
        })
    }

    /// Counts what a type takes beyond a plain one.
    pub(super) fn charge(&mut self, weight: usize, span: Span) -> Result<()> {
        self.steps += weight / 16;
        self.step(span)
    }

    fn no_list(&self, name: &str, list: &List<'a>, span: Span) -> super::Stop {
        let ty = self.ty(&Val::List(list.clone()));
        let message = format!("{name} takes arrays, not {}", self.show(&ty));
        self.error_with(
            span,
            message,
            "stack(list) is the array of a list's elements",
        )
    }

    /// The element type that literals share with other operands.
    fn shared_dtype(&self, op: &Op, args: &[Val<'a>]) -> Option<DType> {
        let of = |(i, arg): (usize, &Val<'a>)| match (wants(op, i)?, arg) {
            (OperandType::Shared, Val::Ir(v)) => Some(self.tensor_type(*v)?.dtype),
            _ => None,
        };
        let looks = |(i, arg): (usize, &Val<'a>)| match (wants(op, i)?, arg) {
            (OperandType::Shared, Val::Literal(l)) => Some(l.dtype()),
            _ => None,
        };
        let all = || args.iter().enumerate();
        let float = all().filter_map(looks).find(|d| d.is_float());
        all().find_map(of).or(float)
    }

    /// The product of matrices; a vector is a row on the left, a column on the right.
    pub(super) fn product(&mut self, a: Val<'a>, b: Val<'a>, span: Span) -> Result<Val<'a>> {
        let (mut x, mut y) = (self.matrix(a, span)?, self.matrix(b, span)?);
        let rank = |s: &Self, v: Value| s.tensor_type(v).and_then(|t| t.rank());
        let vectors = (rank(self, x) == Some(1), rank(self, y) == Some(1));
        let misfit = self.misfit(span);
        let builder = &mut self.frame.b;
        if vectors.0 {
            x = builder
                .op1(Op::Unsqueeze { axes: vec![0] }, &[x])
                .map_err(&misfit)?;
        }
        if vectors.1 {
            y = builder
                .op1(Op::Unsqueeze { axes: vec![1] }, &[y])
                .map_err(&misfit)?;
        }
        let product = builder.op1(Op::Dot, &[x, y]).map_err(&misfit)?;
        let rank = builder.rank(product).unwrap_or(2);
        let mut axes = vec![];
        if rank >= 2 {
            axes.extend(vectors.0.then_some(rank - 2));
            axes.extend(vectors.1.then_some(rank - 1));
        }
        Ok(Val::Ir(match axes.is_empty() {
            true => product,
            false => builder
                .op1(Op::Squeeze { axes }, &[product])
                .map_err(misfit)?,
        }))
    }

    fn matrix(&mut self, val: Val<'a>, span: Span) -> Result<Value> {
        match &val {
            Val::List(list) => Err(self.no_list("a product", list, span)),
            _ => self.array_of(val, DType::F32, span),
        }
    }

    /// An array from a value that should be one; a literal takes the type that it looks like.
    pub(super) fn plain_array(&mut self, val: Val<'a>, span: Span) -> Result<Value> {
        let dtype = match self.ty(&val) {
            Ty::Literal(_, dtype) => dtype,
            _ => DType::F32,
        };
        self.array_of(val, dtype, span)
    }

    /// The size of the first axis of a value's first array.
    pub(super) fn rows_of(&mut self, val: &Val<'a>, span: Span) -> Result<Value> {
        match val {
            Val::Tuple(all) if !all.is_empty() => return self.rows_of(&all[0], span),
            Val::Nested { offsets, .. } => {
                let misfit = self.misfit(span);
                let b = &mut self.frame.b;
                let (size, one) = (b.size(*offsets, 0).map_err(&misfit)?, b.i64(1));
                return b.binary(BinaryOp::Sub, size, one).map_err(misfit);
            }
            Val::Built {
                index: Some(index), ..
            } => return self.rows_of(&Val::Ir(*index), span),
            _ => {}
        }
        let mut parts = vec![];
        self.flatten(val, &mut parts);
        let Some(&first) = parts.first() else {
            return Err(self.error(span, "these elements have no arrays"));
        };
        if self.tensor_type(first).is_none_or(|t| t.rank() == Some(0)) {
            let message = format!("{} has no first axis", self.frame.b.ty(first));
            return Err(self.error(span, message));
        }
        let size = self.frame.b.size(first, 0);
        size.map_err(self.misfit(span))
    }

    /// A value with an operation on each of its arrays.
    pub(super) fn each_array(
        &mut self,
        val: &Val<'a>,
        span: Span,
        f: &mut dyn FnMut(
            &mut heddle_ir::FuncBuilder,
            Value,
        ) -> std::result::Result<Value, heddle_ir::TypeError>,
    ) -> Result<Val<'a>> {
        let ty = self.ty(val);
        let mut parts = vec![];
        self.flatten(val, &mut parts);
        for part in &mut parts {
            let made = f(&mut self.frame.b, *part);
            *part = made.map_err(self.misfit(span))?;
        }
        Ok(self.unflatten(&ty, &mut parts.into_iter()))
    }
}

fn wants(op: &Op, i: usize) -> Option<OperandType> {
    let operands = op.props().operands;
    operands.get(i).map(|o| o.ty)
}
