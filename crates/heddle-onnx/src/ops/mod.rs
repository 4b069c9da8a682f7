//! Operators: each is a function that expands a node into IR ops, with the semantics of the node's
//! opset version.
//!
//! The importer handles operators that own graphs itself.

mod activation;
mod arity;
mod attention;
mod beam;
mod cast;
mod constant;
mod contract;
mod contrib;
mod conv;
mod cx;
mod deform;
mod detection;
mod einsum;
mod elem;
mod elementwise;
mod experimental;
mod fused;
mod generation;
mod gqa;
mod grid;
mod indexing;
mod kernels;
mod linear;
mod linear_attention;
mod logic;
mod logits;
mod loss;
mod ml;
mod multihead;
mod norm;
mod num;
mod order;
mod pool;
mod position;
mod qlinear;
mod quant;
mod random;
mod ranks;
mod recurrent;
mod reduce;
mod resize;
mod roi;
mod sample;
mod scores;
mod sequence;
mod shape;
mod short;
mod signal;
mod sizes;
mod slicing;
mod spatial;
mod strings;
mod svm;
mod tfidf;
mod training;
mod tree;

pub use arity::max_inputs;
pub(crate) use attention::{flex_probabilities, flex_scores, flex_values};
pub use cx::{Expand, NodeCx};
pub use elem::dtype_of;
pub(crate) use generation::{Generation, Search, Step};
pub use position::{Position, next};
pub use random::is_random;
pub use ranks::{Known, fixed_rank};

use cx::Table;

use std::collections::HashMap;
use std::sync::LazyLock;

/// All tables, by domain. The default domain is "".
const TABLES: &[(&str, Table)] = &[
    ("", activation::OPS),
    ("", cast::OPS),
    ("", constant::OPS),
    ("", elementwise::OPS),
    ("", logic::OPS),
    ("", shape::OPS),
    ("", slicing::OPS),
    ("", indexing::OPS),
    ("", reduce::OPS),
    ("", order::OPS),
    ("", recurrent::OPS),
    ("", sequence::OPS),
    ("", contract::OPS),
    ("", einsum::OPS),
    ("", random::OPS),
    ("", strings::OPS),
    ("", loss::OPS),
    ("ai.onnx.preview.training", training::OPS),
    ("ai.onnx.ml", linear::OPS),
    ("ai.onnx.ml", ml::OPS),
    ("ai.onnx.ml", svm::OPS),
    ("ai.onnx.ml", tree::OPS),
    ("", tfidf::OPS),
    ("", attention::OPS),
    ("", conv::OPS),
    ("", deform::OPS),
    ("", detection::OPS),
    ("", grid::OPS),
    ("", linear_attention::OPS),
    ("", norm::OPS),
    ("", pool::OPS),
    ("", quant::OPS),
    ("", resize::OPS),
    ("", roi::OPS),
    ("", signal::OPS),
    ("", experimental::OPS),
    ("", contrib::DEFAULT_DOMAIN),
    ("com.microsoft", contrib::OPS),
    ("com.microsoft", fused::OPS),
    ("com.microsoft", gqa::OPS),
    ("com.microsoft", multihead::OPS),
    ("com.microsoft", qlinear::OPS),
    ("com.microsoft", quant::MICROSOFT),
    ("com.microsoft", recurrent::MICROSOFT),
];

/// The expansion of an operator, if there is one.
pub fn lookup(domain: &str, op_type: &str) -> Option<Expand> {
    static ALL: LazyLock<HashMap<(&str, &str), Expand>> = LazyLock::new(|| {
        let entries = TABLES
            .iter()
            .flat_map(|(d, t)| t.iter().map(|(name, e)| ((*d, *name), *e)));
        entries.collect()
    });
    ALL.get(&(domain, op_type)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_stands_in_one_table() {
        let mut seen = std::collections::HashSet::new();
        for (domain, table) in TABLES {
            for (name, _) in *table {
                assert!(seen.insert((domain, name)), "{domain}::{name}");
            }
        }
    }
}
