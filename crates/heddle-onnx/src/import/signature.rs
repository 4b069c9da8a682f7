//! Parameter types of functions.
//!
//! Those of recursive functions are as precise as all their calls allow. A dim of a parameter is a constant that it
//! has in every call, or a name. Dims that are equal in every call share their name.
//!
//! Other functions have parameters of exactly the types in their calls, which are equal but for names of sizes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

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

/// Parameter types that say of a call's arguments all that their types say. `None` if a sequence has elements of a
/// size that no argument's axis names.
///
/// An expression whose names are not all sizes of axes themselves becomes a name.
pub fn exact(args: &[Option<Type>]) -> Option<Params> {
    let mut bound = HashSet::new();
    let mut used = HashSet::new();
    each_dim(args, &mut |d| {
        bound.extend(d.as_expr().and_then(|e| e.as_sym()).cloned());
        let mut note = |name: &Arc<str>| used.extend([name.clone()]);
        d.as_expr()
            .into_iter()
            .for_each(|e| e.for_each_sym(&mut note));
    });
    let is_bound = |d: &Dim| {
        let mut all = true;
        let mut check = |name: &Arc<str>| all &= bound.contains(name);
        d.as_expr()
            .into_iter()
            .for_each(|e| e.for_each_sym(&mut check));
        all
    };
    let mut named: HashMap<Dim, Dim> = HashMap::new();
    let mut names = (0..)
        .map(|i| format!("d{i}"))
        .filter(|n| !used.contains(&**n));
    let mut param = |ty: &Type| {
        let mut ok = true;
        let ty = ty.map_dims(&mut |d| match (is_bound(d), ty) {
            (true, _) => d.clone(),
            (false, Type::Tensor(_)) => {
                let name = || Dim::sym(&names.next().expect("endless"));
                named.entry(d.clone()).or_insert_with(name).clone()
            }
            (false, _) => {
                ok = false;
                Dim::UNKNOWN
            }
        });
        ok.then_some(ty)
    };
    let params = args.iter().map(|t| match t {
        Some(ty) => param(ty).map(Some),
        None => Some(None),
    });
    params.collect()
}

/// The types of [`exact`] with other names: equal for calls that differ in names only.
pub fn renamed(params: &[Option<Type>]) -> Params {
    let mut names: HashMap<Arc<str>, Dim> = HashMap::new();
    each_dim(params, &mut |d| {
        if let Some(name) = d.as_expr().and_then(|e| e.as_sym()) {
            let new = Dim::sym(&format!("s{}", names.len()));
            names.entry(name.clone()).or_insert(new);
        }
    });
    let rename = |t: &Type| t.map_dims(&mut |d| d.substitute(&|name| names.get(name).cloned()));
    let params = params.iter().map(|t| t.as_ref().map(rename));
    params.collect()
}

/// Visits the dims of tensors.
fn each_dim(types: &[Option<Type>], visit: &mut dyn FnMut(&Dim)) {
    let tensors = types.iter().flatten().filter_map(|t| t.as_tensor());
    tensors.for_each(|t| t.shape.iter().flatten().for_each(&mut *visit));
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
    fn exact_types_keep_expressions_of_named_sizes() {
        let of = |n: &str, m: &str| {
            let (n, m) = (Dim::sym(n), Dim::sym(m));
            let sum = n.add(&m);
            let args = shapes(&[
                &[sum.clone(), n.mul(&Dim::from(2)), 3.into()],
                &[n, Dim::UNKNOWN],
                &[sum],
            ]);
            exact(&args).unwrap()
        };
        let params = of("d0", "m");
        assert_eq!(text(&params), "f32[d1,2*d0,3] f32[d0,?] f32[d1]");
        assert_eq!(renamed(&params), renamed(&of("x", "a")));
        let square = exact(&shapes(&[&[Dim::sym("n"), Dim::sym("n")]])).unwrap();
        let other = exact(&shapes(&[&[Dim::sym("n"), Dim::sym("m")]])).unwrap();
        assert_ne!(renamed(&square), renamed(&other));
        let list = |n: &str| {
            Some(Type::Seq(Box::new(Type::tensor(
                DType::F32,
                vec![Dim::sym(n)],
            ))))
        };
        let with = |n: &str| [&shapes(&[&[Dim::sym("n")]])[..], &[list(n)]].concat();
        assert_eq!(exact(&with("n")), Some(with("n")));
        assert_eq!(exact(&with("m")), None);
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
