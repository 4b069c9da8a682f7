//! Operators, a file for each family. A table's entry is an operator of ATen with its overload, which is left out where it is
//! `default`; those of [`sizes`] are full targets.

mod activation;
mod args;
mod attention;
mod bag;
mod cast;
mod complex;
mod conv;
mod create;
mod cx;
mod elementwise;
mod fold;
mod fourier;
mod indexing;
mod linear;
mod norm;
mod order;
mod pad;
mod pool;
pub mod promote;
mod random;
mod recurrent;
mod reduce;
mod resize;
mod scatter;
mod shape;
mod sizes;
mod slicing;

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use heddle_ir::Value;

use crate::error::{Result, refuse};
use crate::graph::{Arg, Node};
use crate::scope;

pub use cx::NodeCx;

/// The lowering of an operator: its results.
pub type OpFn = fn(&mut NodeCx) -> Result<Vec<Value>>;

/// Operators of a family.
type Table = &'static [(&'static str, OpFn)];

const ATEN: &[Table] = &[
    activation::OPS,
    attention::OPS,
    bag::OPS,
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

/// Operators with dropout inside, and the place and name of its probability.
const DROPOUT: &[(&str, usize, &str)] = &[
    ("gru.input", 5, "dropout"),
    ("lstm.input", 5, "dropout"),
    ("rnn_relu.input", 5, "dropout"),
    ("rnn_tanh.input", 5, "dropout"),
    ("scaled_dot_product_attention", 4, "dropout_p"),
];

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

/// Applies a node's operator, on complex numbers if there are any among its arrays and results.
pub fn apply(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let target = cx.node.target.as_str();
    let real = all().get(target).copied();
    let is_complex = cx.node.args.iter().any(|arg| cx.is_complex(arg))
        || cx.node.results.iter().any(|r| scope::part(&r.ty).is_some());
    if !is_complex {
        return match real {
            Some(op) => op(cx),
            None => refuse("it is for complex numbers"),
        };
    }
    if let Some((_, op)) = complex::OPS.iter().find(|(name, _)| full(name) == target) {
        return op(cx);
    }
    match real.filter(|_| complex::goes_by_parts(target)) {
        Some(op) => complex::by_parts(cx, op),
        None => refuse("complex numbers"),
    }
}

/// Is there a lowering of a target?
pub fn is_target(target: &str) -> bool {
    let is_complex = || complex::OPS.iter().any(|(name, _)| full(name) == target);
    all().contains_key(target) || is_complex()
}

/// All targets.
pub fn targets() -> BTreeSet<String> {
    let complex = complex::OPS.iter().map(|(name, _)| full(name));
    all().keys().cloned().chain(complex).collect()
}

/// Does a node draw random numbers?
pub fn is_random(node: &Node) -> bool {
    let target = node.target.as_str();
    if random::OPS.iter().any(|(name, _)| full(name) == target) {
        return true;
    }
    let dropout = DROPOUT.iter().find(|(name, ..)| full(name) == target);
    dropout.is_some_and(|&(_, i, name)| {
        let arg = node.args.get(i).or_else(|| node.kwargs.get(name));
        match arg {
            None | Some(Arg::None(_)) => false,
            Some(Arg::Float(p)) => p.0 != 0.0,
            Some(_) => true,
        }
    })
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
