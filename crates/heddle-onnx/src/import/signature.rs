//! Parameter types of recursive functions: as precise as all their calls allow.
//!
//! A dim of a parameter is a constant that it has in every call, or a name. Dims that are equal in
//! every call share their name.

use std::collections::{HashMap, HashSet};

use heddle_ir::{Dim, TensorType, Type};

/// Types of a function's parameters; `None` for an optional one that is left out.
pub type Params = Vec<Option<Type>>;

/// Parameter types for a first call with these types.
pub fn initial(args: &[Option<Type>]) -> Params {
    Merge::default().all(args, args)
}

/// Parameter types that also take a call with these types, of the same kinds and element types.
/// Equal to `params` if those take it already.
pub fn refine(params: &[Option<Type>], args: &[Option<Type>]) -> Params {
    Merge::default().all(params, args)
}

/// Kinds and element types, as text.
pub fn skeleton(args: &[Option<Type>]) -> String {
    fn one(ty: &Type) -> String {
        match ty {
            Type::Tensor(t) => t.dtype.to_string(),
            Type::Seq(t) => format!("seq<{}>", one(t)),
            Type::Opt(t) => format!("opt<{}>", one(t)),
        }
    }
    let texts: Vec<_> = args
        .iter()
        .map(|t| t.as_ref().map_or("-".into(), one))
        .collect();
    texts.join(",")
}

#[derive(Default)]
struct Merge {
    /// The name for a dim of the parameter where the call has this dim.
    groups: HashMap<(Dim, Dim), Dim>,
    used: HashSet<String>,
    count: usize,
}

impl Merge {
    fn all(mut self, params: &[Option<Type>], args: &[Option<Type>]) -> Params {
        // Names that are there are not given to others.
        let mut reserved = HashSet::new();
        for ty in params.iter().flatten() {
            ty.map_dims(&mut |d| {
                if let Some(name) = d.as_expr().and_then(|e| e.as_sym()) {
                    reserved.insert(name.to_string());
                }
                d.clone()
            });
        }
        let pairs = params.iter().zip(args);
        pairs
            .map(|(p, a)| Some(self.ty(p.as_ref()?, a.as_ref()?, &reserved)))
            .collect()
    }

    fn ty(&mut self, param: &Type, arg: &Type, reserved: &HashSet<String>) -> Type {
        match (param, arg) {
            (Type::Tensor(p), Type::Tensor(a)) => {
                let shape = match (&p.shape, &a.shape) {
                    (Some(x), Some(y)) if x.len() == y.len() => Some(
                        x.iter()
                            .zip(y)
                            .map(|(d, e)| self.dim(d, e, reserved))
                            .collect(),
                    ),
                    _ => None,
                };
                Type::Tensor(TensorType {
                    dtype: p.dtype,
                    shape,
                })
            }
            // Elements of a sequence differ in size, so a name cannot stand for one.
            _ => param
                .join(arg)
                .unwrap_or_else(|| param.clone())
                .map_dims(&mut |d| match d {
                    Dim::Expr(e) if e.as_const().is_some() => d.clone(),
                    _ => Dim::UNKNOWN,
                }),
        }
    }

    fn dim(&mut self, param: &Dim, arg: &Dim, reserved: &HashSet<String>) -> Dim {
        if param.as_const().is_some() && param == arg {
            return param.clone();
        }
        let key = (param.clone(), arg.clone());
        let comparable = arg.as_expr().is_some();
        if let Some(found) = self.groups.get(&key).filter(|_| comparable) {
            return found.clone();
        }
        let own = param
            .as_expr()
            .and_then(|e| e.as_sym())
            .map(|s| s.to_string());
        let name = match own {
            Some(name) if !self.used.contains(&name) => name,
            _ => loop {
                let name = format!("d{}", self.count);
                self.count += 1;
                if !reserved.contains(&name) && !self.used.contains(&name) {
                    break name;
                }
            },
        };
        self.used.insert(name.clone());
        let dim = Dim::sym(&name);
        if comparable {
            self.groups.insert(key, dim.clone());
        }
        dim
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddle_ir::DType;

    fn shapes(list: &[&[Dim]]) -> Params {
        list.iter()
            .map(|s| Some(Type::tensor(DType::F32, s.to_vec())))
            .collect()
    }

    fn text(params: &Params) -> String {
        params
            .iter()
            .flatten()
            .map(|t| t.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn dims_are_as_general_as_the_calls() {
        let n = Dim::sym("n");
        let two_n = n.mul(&Dim::from(2));
        let first = initial(&shapes(&[
            &[n.clone(), 3.into()],
            std::slice::from_ref(&n),
            &[two_n],
            &[Dim::UNKNOWN],
        ]));
        assert_eq!(text(&first), "f32[n,3] f32[n] f32[d0] f32[d1]");
        let same = refine(
            &first,
            &shapes(&[&[7.into(), 3.into()], &[7.into()], &[1.into()], &[2.into()]]),
        );
        assert_eq!(same, first);
        let split = refine(
            &first,
            &shapes(&[&[7.into(), 3.into()], &[8.into()], &[1.into()], &[2.into()]]),
        );
        assert_eq!(text(&split), "f32[n,3] f32[d2] f32[d0] f32[d1]");
        let wider = refine(
            &first,
            &shapes(&[
                &[7.into(), 4.into()],
                &[7.into()],
                &[1.into(), 1.into()],
                &[2.into()],
            ]),
        );
        assert_eq!(text(&wider), "f32[n,d2] f32[n] f32[..] f32[d1]");
    }
}
