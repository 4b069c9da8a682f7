//! Stated types.

use std::collections::HashMap;

use heddle_ir::{Dim, TensorType, Type};

use super::{Lower, Result};
use crate::ast::{TypeExpr, TypeKind};
use crate::lexer::Span;
use crate::value::{List, Ty, Val};

/// Named sizes of a function, as far as its arguments give them.
pub type Sizes = HashMap<String, Dim>;

impl<'a> Lower<'a> {
    /// The value, which must be of a stated type; `what` says which value it is.
    pub(super) fn declared(
        &mut self,
        val: Val<'a>,
        ty: &TypeExpr,
        sizes: &mut Sizes,
        what: &dyn Fn() -> String,
        span: Span,
    ) -> Result<Val<'a>> {
        match (val, &ty.kind) {
            (Val::Literal(l), TypeKind::Tensor(dtype, dims)) => {
                let ty = TensorType::new(*dtype, known(dims, sizes));
                let value = self.constant_as(&l, &ty, span)?;
                Ok(Val::Ir(value))
            }
            (Val::Ir(v), TypeKind::Tensor(dtype, dims)) => {
                let found = self.frame.b.ty(v).clone();
                let stated = Type::tensor(*dtype, known(dims, sizes));
                if !stated.compatible(&found) {
                    return Err(self.misdeclared(&Ty::Ir(found), ty, what, span));
                }
                if let Some(shape) = found.as_tensor().and_then(|t| t.shape.as_ref()) {
                    learn(dims, shape, sizes);
                }
                if let Some(met) = found
                    .meet(&stated)
                    .filter(|_| found.as_tensor().is_some_and(|t| t.shape.is_none()))
                {
                    self.frame
                        .b
                        .refine_type(v, met)
                        .map_err(self.misfit(span))?;
                }
                Ok(Val::Ir(v))
            }
            (Val::Tuple(all), TypeKind::Tuple(types)) if all.len() == types.len() => {
                let all = all.into_iter().zip(types);
                let all: Result<_> = all
                    .map(|(v, t)| self.declared(v, t, sizes, what, span))
                    .collect();
                Ok(Val::Tuple(all?))
            }
            (val @ (Val::List(_) | Val::Literal(_)), TypeKind::List(elem)) => {
                let list = self.as_list(val, span)?;
                self.declared_list(list, elem, sizes, what, span)
            }
            (
                val @ (Val::Data { ty: found, .. } | Val::Built { ty: found, .. }),
                TypeKind::Data(name, _),
            ) => match self.ast.types[found].name.text == *name {
                true => Ok(val),
                false => Err(self.misdeclared(&self.ty(&val), ty, what, span)),
            },
            (val @ Val::Graph { .. }, TypeKind::Graph) => Ok(val),
            (val, _) => Err(self.misdeclared(&self.ty(&val), ty, what, span)),
        }
    }

    fn declared_list(
        &mut self,
        list: List<'a>,
        elem: &TypeExpr,
        sizes: &mut Sizes,
        what: &dyn Fn() -> String,
        span: Span,
    ) -> Result<Val<'a>> {
        let Some(columns) = &list.columns else {
            let Some(ty) = self.expected_list(elem, sizes) else {
                return Ok(Val::List(list));
            };
            return self.convert(Val::List(list), &ty, span);
        };
        let found = self.ty(columns).element();
        match self.element_fits(&found, elem, sizes) {
            true => Ok(Val::List(list)),
            false => {
                let (found, name) = (self.show(&found), what());
                let message = format!("{name} is a list of other elements, not of {found}");
                Err(self.error(span, message))
            }
        }
    }

    /// May elements be of a stated type? Learns its sizes.
    fn element_fits(&self, found: &Ty, stated: &TypeExpr, sizes: &mut Sizes) -> bool {
        match (found, &stated.kind) {
            (Ty::Ir(ty), TypeKind::Tensor(dtype, dims)) => {
                let fits = Type::tensor(*dtype, known(dims, sizes)).compatible(ty);
                if let Some(shape) = ty.as_tensor().and_then(|t| t.shape.as_ref()) {
                    learn(dims, shape, sizes);
                }
                fits
            }
            (Ty::Tuple(all), TypeKind::Tuple(types)) if all.len() == types.len() => {
                let mut all = all.iter().zip(types);
                all.all(|(t, stated)| self.element_fits(t, stated, sizes))
            }
            (Ty::List(Some(columns), _), TypeKind::List(elem)) => {
                self.element_fits(&columns.element(), elem, sizes)
            }
            (Ty::List(None, _), TypeKind::List(_)) => true,
            (Ty::Data(k, ..) | Ty::Built(k, ..), TypeKind::Data(name, _)) => {
                self.ast.types[*k].name.text == *name
            }
            _ => false,
        }
    }

    /// The type that a stated one is, if it says all; unknown sizes stay so.
    pub(super) fn expected(&self, ty: &TypeExpr, sizes: &Sizes) -> Option<Ty> {
        Some(match &ty.kind {
            TypeKind::Tensor(dtype, dims) => Ty::Ir(Type::tensor(*dtype, known(dims, sizes))),
            TypeKind::Tuple(all) => {
                let all: Option<_> = all.iter().map(|t| self.expected(t, sizes)).collect();
                Ty::Tuple(all?)
            }
            TypeKind::List(elem) => self.expected_list(elem, sizes)?,
            TypeKind::Data(..) | TypeKind::Graph => return None,
        })
    }

    fn expected_list(&self, elem: &TypeExpr, sizes: &Sizes) -> Option<Ty> {
        let columns = self.expected(elem, sizes)?.columns(&Dim::UNKNOWN);
        Some(Ty::List(Some(Box::new(columns)), false))
    }

    fn misdeclared(
        &self,
        found: &Ty,
        stated: &TypeExpr,
        what: &dyn Fn() -> String,
        span: Span,
    ) -> super::Stop {
        let (found, stated) = (self.show(found), show(stated));
        self.error(span, format!("{} is {stated}, but this is {found}", what()))
    }
}

/// Dims with the sizes that are known in place of their names; other names are unknown sizes.
fn known(dims: &[Dim], sizes: &Sizes) -> Vec<Dim> {
    let lookup = |name: &str| Some(sizes.get(name).cloned().unwrap_or(Dim::UNKNOWN));
    dims.iter().map(|d| d.substitute(&lookup)).collect()
}

/// Learns the sizes that are named alone.
fn learn(dims: &[Dim], found: &[Dim], sizes: &mut Sizes) {
    for (dim, found) in dims.iter().zip(found) {
        if let Some(name) = dim.as_expr().and_then(|e| e.as_sym()) {
            sizes
                .entry(name.to_string())
                .or_insert_with(|| found.clone());
        }
    }
}

/// A stated type as it is written.
pub fn show(ty: &TypeExpr) -> String {
    match &ty.kind {
        TypeKind::Tensor(dtype, dims) => TensorType::new(*dtype, dims.clone()).to_string(),
        TypeKind::Tuple(all) => {
            let all: Vec<_> = all.iter().map(show).collect();
            format!("({})", all.join(", "))
        }
        TypeKind::List(elem) => format!("list<{}>", show(elem)),
        TypeKind::Data(name, _) => name.clone(),
        TypeKind::Graph => "graph".into(),
    }
}
