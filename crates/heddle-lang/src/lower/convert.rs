//! Values become values of other types with the same contents.

use heddle_ir::{Dim, Op, Tensor, TensorType, Type, Value};

use super::{Lower, Result};
use crate::lexer::Span;
use crate::value::{Func, FuncTy, List, Ty, Val};

impl<'a> Lower<'a> {
    /// The value without literals, which take the types that they look like.
    pub(super) fn concrete(&mut self, val: Val<'a>, span: Span) -> Result<Val<'a>> {
        let ty = self.ty(&val).concrete();
        self.convert(val, &ty, span)
    }

    /// The value as one of this type, which its own type may be [joined](Ty::join) with. Types of
    /// arrays stay as precise as they are.
    pub(super) fn convert(&mut self, val: Val<'a>, ty: &Ty, span: Span) -> Result<Val<'a>> {
        Ok(match (val, ty) {
            (Val::Literal(l), Ty::Ir(Type::Tensor(t))) => Val::Ir(self.constant_as(&l, t, span)?),
            (Val::Tuple(all), Ty::Tuple(types)) if all.len() == types.len() => {
                let all = all.into_iter().zip(types);
                let all: Result<_> = all.map(|(v, t)| self.convert(v, t, span)).collect();
                Val::Tuple(all?)
            }
            (Val::List(list), Ty::List(columns, offset)) => {
                Val::List(self.convert_list(list, columns.as_deref(), *offset, span)?)
            }
            (Val::Nested { data, offsets }, Ty::Nested(ty, _)) => Val::Nested {
                data: Box::new(self.convert(*data, ty, span)?),
                offsets,
            },
            (val @ (Val::Data { .. } | Val::Built { .. }), Ty::Built(ty, _, own)) => {
                let built = match val {
                    val @ Val::Built { .. } => val,
                    val if self.is_column(&val) => return self.copied(val, span),
                    val => Val::Built {
                        ty: *ty,
                        columns: self.tables_of(val, span)?,
                        index: None,
                    },
                };
                match own {
                    Some(_) => self.with_row_of(built, span)?,
                    None => built,
                }
            }
            (Val::Func(Func::Lambda(lambda, captured)), Ty::Func(FuncTy::Lambda(_, types))) => {
                let all = captured.into_iter().zip(types);
                let all: Result<_> = all
                    .map(|((name, v), t)| Ok((name, self.convert(v, t, span)?)))
                    .collect();
                Val::Func(Func::Lambda(lambda, all?))
            }
            (val, _) => val,
        })
    }

    fn convert_list(
        &mut self,
        list: List<'a>,
        columns: Option<&Ty>,
        offset: bool,
        span: Span,
    ) -> Result<List<'a>> {
        let columns = match (list.columns, columns) {
            (Some(own), Some(ty)) => Some(Box::new(self.convert(*own, ty, span)?)),
            (None, Some(ty)) => Some(Box::new(self.empty(ty, span)?)),
            (own, None) => own,
        };
        let start = match (list.start, offset) {
            (None, true) => Some(self.frame.b.i64(0)),
            (start, _) => start,
        };
        Ok(List { columns, start })
    }

    /// Columns without rows.
    pub(super) fn empty(&mut self, columns: &Ty, span: Span) -> Result<Val<'a>> {
        match columns {
            Ty::Tuple(all) => {
                let all = all.iter().map(|t| self.empty(t, span));
                return Ok(Val::Tuple(all.collect::<Result<_>>()?));
            }
            Ty::Nested(data, _) => {
                let data = Box::new(self.empty(data, span)?);
                let offsets = self.frame.b.i64s(&[0]);
                return Ok(Val::Nested { data, offsets });
            }
            Ty::Built(ty, tables, _) => {
                let tables = tables.iter().map(|t| self.empty(t, span));
                let tables = tables.collect::<Result<Vec<_>>>()?;
                return Ok(Val::Built {
                    ty: *ty,
                    columns: self.keys(*ty).into_iter().zip(tables).collect(),
                    index: Some(self.frame.b.i64s(&[])),
                });
            }
            _ => {}
        }
        let mut types = vec![];
        Self::flat_types(columns, &mut types);
        let mut values = vec![];
        for ty in types {
            let Type::Tensor(mut t) = ty else {
                return Err(self.error(span, format!("a list has no elements of type {ty}")));
            };
            if let Some(first) = t.shape.as_mut().and_then(|s| s.first_mut()) {
                *first = Dim::constant(0);
            }
            let unknown = t.shape.iter().flatten().any(|d| d.as_expr().is_none());
            if unknown {
                let message =
                    format!("the sizes of an empty list's elements are not known here: {t}");
                return Err(self.error(span, message));
            }
            values.push(self.zeros(&t, span)?);
        }
        Ok(self.unflatten(columns, &mut values.into_iter()))
    }

    /// Zeros of this type; sizes that nothing states are 0.
    pub(super) fn zeros(&mut self, ty: &TensorType, span: Span) -> Result<Value> {
        let misfit = self.misfit(span);
        if !ty.dtype.is_arith() && ty.dtype != heddle_ir::DType::Bool {
            return Err(self.error(span, format!("there is no zero of type {}", ty.dtype)));
        }
        let zero = Tensor::splat(ty.dtype, vec![], 0.0);
        let dims = ty.shape.clone().unwrap_or_default();
        if dims.is_empty() {
            return Ok(self.frame.b.constant(zero));
        }
        let b = &mut self.frame.b;
        let mut sizes = vec![];
        for dim in &dims {
            let size = match dim.as_expr() {
                Some(_) => b.size_of(dim).map_err(&misfit)?,
                None => None,
            };
            sizes.push(match size {
                Some(size) => b.vector_of(size).map_err(&misfit)?,
                None => b.i64s(&[0]),
            });
        }
        let zero = b.constant(zero);
        let sizes = match dims.iter().map(Dim::as_const).collect::<Option<Vec<_>>>() {
            Some(all) => b.i64s(&all),
            None => b.join(&sizes).map_err(&misfit)?,
        };
        b.op1(Op::Broadcast, &[zero, sizes]).map_err(misfit)
    }

    /// A value of this type that is not used.
    pub(super) fn placeholder(&mut self, ty: &Ty, span: Span) -> Result<Val<'a>> {
        match ty {
            Ty::Tuple(all) => {
                let all = all.iter().map(|t| self.placeholder(t, span));
                return Ok(Val::Tuple(all.collect::<Result<_>>()?));
            }
            Ty::List(Some(columns), offset) => {
                let columns = Some(Box::new(self.placeholder(columns, span)?));
                let start = offset.then(|| self.frame.b.i64(0));
                return Ok(Val::List(List { columns, start }));
            }
            Ty::Nested(data, _) => {
                let data = Box::new(self.placeholder(data, span)?);
                let offsets = self.frame.b.i64s(&[0]);
                return Ok(Val::Nested { data, offsets });
            }
            Ty::Built(ty, tables, index) => {
                let tables = tables.iter().map(|t| self.placeholder(t, span));
                let tables = tables.collect::<Result<Vec<_>>>()?;
                let index = match index.as_ref().and_then(Type::as_tensor) {
                    Some(index) => Some(self.zeros(index, span)?),
                    None => None,
                };
                return Ok(Val::Built {
                    ty: *ty,
                    columns: self.keys(*ty).into_iter().zip(tables).collect(),
                    index,
                });
            }
            _ => {}
        }
        let mut types = vec![];
        Self::flat_types(ty, &mut types);
        let mut values = vec![];
        for ty in types {
            values.push(match ty {
                Type::Tensor(t) => self.zeros(&t, span)?,
                ty => self
                    .frame
                    .b
                    .failure("a value that is not used", &ty)
                    .map_err(self.misfit(span))?,
            });
        }
        Ok(self.unflatten(ty, &mut values.into_iter()))
    }
}
