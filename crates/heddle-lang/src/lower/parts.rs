//! The IR values that a value consists of.

use heddle_ir::{Type, Value};

use super::{Lower, Result};
use crate::lexer::Span;
use crate::value::{Func, FuncTy, List, Ty, Val};

/// Limit of the parts of a value.
const MAX_PARTS: usize = 4096;

impl<'a> Lower<'a> {
    /// The type of a value.
    pub(super) fn ty(&self, val: &Val<'a>) -> Ty {
        let ir = |v: Value| self.frame.b.ty(v).clone();
        match val {
            Val::Ir(v) => Ty::Ir(ir(*v)),
            Val::Literal(l) => Ty::Literal(l.shape.clone(), l.dtype()),
            Val::Tuple(all) => Ty::Tuple(all.iter().map(|v| self.ty(v)).collect()),
            Val::List(List { columns, start }) => {
                let columns = columns.as_ref().map(|c| Box::new(self.ty(c)));
                Ty::List(columns, start.is_some())
            }
            Val::Data { ty, store, index } => {
                let index = ir(*index);
                let index = index.as_tensor().expect("places are arrays").clone();
                Ty::Data(*ty, *store, index)
            }
            Val::Built { ty, columns, index } => {
                let columns = columns.values().map(|v| self.ty(v)).collect();
                Ty::Built(*ty, columns, index.map(ir))
            }
            Val::Nested { data, offsets } => Ty::Nested(Box::new(self.ty(data)), ir(*offsets)),
            Val::Graph { children, offsets } => Ty::Graph(ir(*children), ir(*offsets)),
            Val::Func(func) => Ty::Func(match func {
                Func::Named(k) => FuncTy::Named(*k),
                Func::Vertex(k) => FuncTy::Vertex(*k),
                Func::Case(ty, case) => FuncTy::Case(*ty, *case),
                Func::Op(name) => FuncTy::Op(name),
                Func::Lambda(lambda, captured) => {
                    let known = self.lambdas.iter().position(|l| std::ptr::eq(l.0, *lambda));
                    let types = captured.iter().map(|(_, v)| self.ty(v)).collect();
                    FuncTy::Lambda(known.expect("lambdas are listed"), types)
                }
            }),
        }
    }

    /// Refuses a value of too many parts: one in a pair of its own twice as many times.
    pub(super) fn bounded(&self, val: Val<'a>, span: Span) -> Result<Val<'a>> {
        match weight(&val) > MAX_PARTS {
            true => Err(self.error(span, format!("a value of more than {MAX_PARTS} parts"))),
            false => Ok(val),
        }
    }

    /// The IR values of a value without literals.
    pub(super) fn flatten(&self, val: &Val<'a>, out: &mut Vec<Value>) {
        match val {
            Val::Ir(v) => out.push(*v),
            Val::Literal(_) => unreachable!("literals are made arrays before"),
            Val::Tuple(all) => all.iter().for_each(|v| self.flatten(v, out)),
            Val::List(List { columns, start }) => {
                if let Some(columns) = columns {
                    self.flatten(columns, out);
                }
                out.extend(start);
            }
            Val::Data { index, .. } => out.push(*index),
            Val::Built { columns, index, .. } => {
                columns.values().for_each(|v| self.flatten(v, out));
                out.extend(index);
            }
            Val::Nested { data, offsets } => {
                self.flatten(data, out);
                out.push(*offsets);
            }
            Val::Graph { children, offsets } => out.extend([children, offsets]),
            Val::Func(Func::Lambda(_, captured)) => {
                captured.iter().for_each(|(_, v)| self.flatten(v, out));
            }
            Val::Func(_) => {}
        }
    }

    /// The IR types of the values that [`flatten`](Self::flatten) gives.
    pub(super) fn flat_types(ty: &Ty, out: &mut Vec<Type>) {
        match ty {
            Ty::Ir(ty) => out.push(ty.clone()),
            Ty::Literal(..) => unreachable!("literals are made arrays before"),
            Ty::Tuple(all) | Ty::Func(FuncTy::Lambda(_, all)) => {
                all.iter().for_each(|t| Self::flat_types(t, out));
            }
            Ty::List(columns, offset) => {
                if let Some(columns) = columns {
                    Self::flat_types(columns, out);
                }
                out.extend(offset.then(|| Type::scalar(heddle_ir::DType::I64)));
            }
            Ty::Data(_, _, index) => out.push(index.clone().into()),
            Ty::Built(_, columns, own) => {
                columns.iter().for_each(|t| Self::flat_types(t, out));
                out.extend(own.clone());
            }
            Ty::Nested(data, offsets) => {
                Self::flat_types(data, out);
                out.push(offsets.clone());
            }
            Ty::Graph(a, b) => out.extend([a.clone(), b.clone()]),
            Ty::Func(_) => {}
        }
    }

    /// The value of this type that consists of the next of these IR values.
    pub(super) fn unflatten(&self, ty: &Ty, parts: &mut dyn Iterator<Item = Value>) -> Val<'a> {
        let mut next = || parts.next().expect("as many values as the type has parts");
        match ty {
            Ty::Ir(_) => Val::Ir(next()),
            Ty::Literal(..) => unreachable!("literals are made arrays before"),
            Ty::Tuple(all) => Val::Tuple(all.iter().map(|t| self.unflatten(t, parts)).collect()),
            Ty::List(columns, offset) => {
                let columns = columns.as_ref().map(|c| Box::new(self.unflatten(c, parts)));
                let start = offset.then(|| parts.next().expect("a list's start"));
                Val::List(List { columns, start })
            }
            Ty::Data(ty, store, _) => Val::Data {
                ty: *ty,
                store: *store,
                index: next(),
            },
            Ty::Built(ty, types, own) => {
                let columns = types.iter().map(|t| self.unflatten(t, parts));
                let columns = self.keys(*ty).into_iter().zip(columns).collect();
                let index = own.as_ref().map(|_| parts.next().expect("a row"));
                Val::Built {
                    ty: *ty,
                    columns,
                    index,
                }
            }
            Ty::Nested(data, _) => Val::Nested {
                data: Box::new(self.unflatten(data, parts)),
                offsets: parts.next().expect("offsets"),
            },
            Ty::Graph(..) => Val::Graph {
                children: next(),
                offsets: next(),
            },
            Ty::Func(FuncTy::Named(k)) => Val::Func(Func::Named(*k)),
            Ty::Func(FuncTy::Vertex(k)) => Val::Func(Func::Vertex(*k)),
            Ty::Func(FuncTy::Case(ty, case)) => Val::Func(Func::Case(*ty, *case)),
            Ty::Func(FuncTy::Op(name)) => Val::Func(Func::Op(name)),
            Ty::Func(FuncTy::Lambda(k, types)) => {
                let (lambda, names) = &self.lambdas[*k];
                let values = types.iter().map(|t| self.unflatten(t, parts));
                Val::Func(Func::Lambda(
                    lambda,
                    names.iter().copied().zip(values).collect(),
                ))
            }
        }
    }
}

/// The number of parts of a value.
fn weight(val: &Val) -> usize {
    let inner: usize = match val {
        Val::Tuple(all) => all.iter().map(weight).sum(),
        Val::List(List {
            columns: Some(columns),
            ..
        }) => weight(columns),
        Val::Func(Func::Lambda(_, captured)) => captured.iter().map(|(_, v)| weight(v)).sum(),
        Val::Built { columns, .. } => columns.values().map(weight).sum(),
        Val::Nested { data, .. } => weight(data),
        _ => 0,
    };
    inner + 1
}
