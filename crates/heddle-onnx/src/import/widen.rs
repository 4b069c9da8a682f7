//! Widening of types until a fixpoint is reached.

use heddle_ir::{Dim, Type};

/// Attempts after which dims that still change become unknown.
const PRECISE_ATTEMPTS: usize = 3;

/// Attempts after which shapes that still change become unknown.
const RANKED_ATTEMPTS: usize = 6;

/// A type that accepts both. After some attempts it gives up differing dims, then shapes, so that
/// widening ends.
pub fn widen(ty: &Type, next: &Type, attempt: usize) -> Option<Type> {
    let joined = ty.join(next)?;
    if joined == *ty || attempt < PRECISE_ATTEMPTS {
        return Some(joined);
    }
    match attempt < RANKED_ATTEMPTS {
        true => Some(joined.map_dims(&mut |d| match d {
            Dim::Unknown(_) => Dim::UNKNOWN,
            known => known.clone(),
        })),
        false => Some(without_shapes(&joined)),
    }
}

/// The type with all sizes unknown.
pub fn without_sizes(ty: &Type) -> Type {
    ty.map_dims(&mut |_| Dim::UNKNOWN)
}

fn without_shapes(ty: &Type) -> Type {
    match ty {
        Type::Tensor(t) => Type::unranked(t.dtype),
        Type::Seq(t) => Type::Seq(Box::new(without_shapes(t))),
        Type::Opt(t) => Type::Opt(Box::new(without_shapes(t))),
    }
}
