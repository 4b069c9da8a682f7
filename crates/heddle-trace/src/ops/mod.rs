//! Operators, a file for each family. A table's entry is an operator of ATen with its overload, which is left out where it is
//! `default`; those of [`sizes`] are full targets.

mod activation;
mod args;
mod attention;
mod cast;
mod conv;
mod create;
mod cx;
mod elementwise;
mod fold;
mod indexing;
mod linear;
mod norm;
mod order;
mod pad;
mod pool;
mod promote;
mod random;
mod recurrent;
mod reduce;
mod resize;
mod scatter;
mod shape;
mod sizes;
mod slicing;

use std::collections::HashMap;
use std::sync::OnceLock;

use heddle_ir::Value;

use crate::error::Result;

pub use cx::NodeCx;

/// The lowering of an operator: its results.
pub type OpFn = fn(&mut NodeCx) -> Result<Vec<Value>>;

/// Operators of a family.
type Table = &'static [(&'static str, OpFn)];

const ATEN: &[Table] = &[
    activation::OPS,
    attention::OPS,
    cast::OPS,
    conv::OPS,
    create::OPS,
    elementwise::OPS,
    fold::OPS,
    indexing::OPS,
    linear::OPS,
    norm::OPS,
    order::OPS,
    pad::OPS,
    pool::OPS,
    random::OPS,
    recurrent::OPS,
    reduce::OPS,
    resize::OPS,
    scatter::OPS,
    shape::OPS,
    sizes::ATEN,
    slicing::OPS,
];

/// Views. In graphs of regions PyTorch has a form of each that copies: `permute_copy`.
const VIEWS: &[&str] = &[
    "alias",
    "detach",
    "diagonal",
    "expand",
    "permute",
    "select.int",
    "slice.Tensor",
    "split.Tensor",
    "split_with_sizes",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "t",
    "transpose.int",
    "unbind.int",
    "unfold",
    "unsqueeze",
    "view",
];

/// The copying form of a view.
fn copying(view: &str) -> String {
    match view.split_once('.') {
        Some((name, overload)) => format!("{name}_copy.{overload}"),
        None => format!("{view}_copy"),
    }
}

fn full(name: &str) -> String {
    match name.contains('.') {
        true => format!("aten.{name}"),
        false => format!("aten.{name}.default"),
    }
}

fn all() -> &'static HashMap<String, OpFn> {
    static ALL: OnceLock<HashMap<String, OpFn>> = OnceLock::new();
    ALL.get_or_init(|| {
        let aten = ATEN.iter().copied().flatten();
        let aten: HashMap<&str, OpFn> = aten.copied().collect();
        let copies = VIEWS.iter().filter_map(|view| {
            let op = aten.get(view)?;
            Some((full(&copying(view)), *op))
        });
        let copies: Vec<_> = copies.collect();
        let aten = aten.into_iter().map(|(name, op)| (full(name), op));
        let plain = sizes::OPS
            .iter()
            .map(|(name, op)| ((*name).to_owned(), *op));
        aten.chain(copies).chain(plain).collect()
    })
}

/// The lowering of a target.
pub fn find(target: &str) -> Option<OpFn> {
    all().get(target).copied()
}

/// All targets.
pub fn targets() -> impl Iterator<Item = String> {
    all().keys().cloned()
}

/// Does a target draw random numbers?
pub fn is_random(target: &str) -> bool {
    random::OPS.iter().any(|(name, _)| full(name) == target)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_operator_stands_twice() {
        let rows: usize = super::ATEN.iter().map(|t| t.len()).sum();
        let rows = rows + super::VIEWS.len() + super::sizes::OPS.len();
        assert_eq!(super::all().len(), rows);
    }
}
