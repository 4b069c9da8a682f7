//! Names of sizes.

use std::collections::HashSet;
use std::sync::Arc;

use heddle_ir::{Function, Type};

/// Names of sizes.
pub type Names = HashSet<Arc<str>>;

/// Collects the names in a type.
pub fn collect_names(ty: &Type, names: &mut Names) {
    ty.map_dims(&mut |dim| {
        if let Some(expr) = dim.as_expr() {
            expr.for_each_sym(&mut |name| {
                names.insert(name.clone());
            });
        }
        dim.clone()
    });
}

/// The names in a function, those of its signature included.
pub fn names_of(func: &Function) -> Names {
    let mut names = HashSet::new();
    let ports = func.sig.params.iter().chain(&func.sig.results);
    let values = func.values.iter().map(|(_, value)| &value.ty);
    for ty in values.chain(ports.map(|(_, ty)| ty)) {
        collect_names(ty, &mut names);
    }
    names
}

/// A name like this that is not among the names, to which it is added.
pub fn unused(names: &mut Names, mut name: String) -> String {
    while !names.insert(name.as_str().into()) {
        name.push('_');
    }
    name
}
