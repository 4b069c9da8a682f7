//! Ranks that an operator fixes for its inputs, over all versions. An input of another rank is an
//! error of the node, so an unknown rank is this one; the program checks it when it runs.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A rule for the rank of an input.
#[derive(Clone, Copy)]
enum Rule {
    /// This number of axes.
    Is(usize),
    /// The rank of another input.
    Of(usize),
    /// One axis for each entry of a list attribute, and so many more.
    Listed(&'static str, usize),
    /// One axis for each so many elements of another input, a list.
    Elements(usize, usize),
}

use Rule::{Elements, Is, Listed, Of};

/// Rules for inputs; the first that applies to an input counts.
type Rules = &'static [(usize, Rule)];

const RECURRENT: Rules = &[
    (0, Is(3)),
    (1, Is(3)),
    (2, Is(3)),
    (3, Is(2)),
    (4, Is(1)),
    (5, Is(3)),
    (6, Is(3)),
    (7, Is(2)),
];

const CONV: Rules = &[
    (0, Of(1)),
    (1, Of(0)),
    (0, Listed("kernel_shape", 2)),
    (1, Listed("kernel_shape", 2)),
    (2, Is(1)),
];

const POOL: Rules = &[(0, Listed("kernel_shape", 2))];

const MATRICES: Rules = &[(0, Is(2)), (1, Is(2))];

const IMAGE: Rules = &[(0, Is(4))];

const ALIGNED: Rules = &[
    (0, Of(1)),
    (1, Of(0)),
    (0, Of(2)),
    (1, Of(2)),
    (2, Of(0)),
    (2, Of(1)),
];

const CHANNELS: Rules = &[(1, Is(1)), (2, Is(1)), (3, Is(1)), (4, Is(1))];

/// Domain, operators separated by spaces, and the rules.
const RANKS: &[(&str, &str, Rules)] = &[
    ("", "LSTM GRU RNN", RECURRENT),
    ("", "Conv ConvTranspose ConvInteger", CONV),
    ("", "QLinearConv", &[(0, Of(3)), (3, Of(0)), (8, Is(1))]),
    ("", "AveragePool MaxPool LpPool", POOL),
    (
        "",
        "MaxUnpool",
        &[(0, Listed("kernel_shape", 2)), (1, Of(0))],
    ),
    ("", "Gemm", MATRICES),
    ("", "DepthToSpace SpaceToDepth", IMAGE),
    (
        "",
        "DeformConv",
        &[(0, Of(1)), (1, Of(0)), (2, Of(1)), (3, Is(1)), (4, Of(1))],
    ),
    ("", "RoiAlign", &[(0, Is(4)), (1, Is(2)), (2, Is(1))]),
    ("", "MaxRoiPool", &[(0, Is(4)), (1, Is(2))]),
    ("", "NonMaxSuppression", &[(0, Is(3)), (1, Is(3))]),
    ("", "GridSample", &[(0, Of(1)), (1, Of(0))]),
    ("", "AffineGrid", &[(0, Is(3)), (1, Is(1))]),
    ("", "Col2Im", &[(0, Is(3)), (1, Is(1)), (2, Is(1))]),
    ("", "EyeLike", &[(0, Is(2))]),
    ("", "GatherElements", &[(0, Of(1)), (1, Of(0))]),
    ("", "ScatterElements Scatter", ALIGNED),
    ("", "InstanceNormalization BatchNormalization", CHANNELS),
    ("", "Transpose", &[(0, Listed("perm", 0))]),
    ("", "Tile", &[(0, Elements(1, 1)), (1, Is(1))]),
    (
        "",
        "Upsample",
        &[(0, Elements(1, 1)), (0, Listed("scales", 0)), (1, Is(1))],
    ),
    ("com.microsoft", "FusedConv", CONV),
    ("com.microsoft", "FusedGemm", MATRICES),
    (
        "com.microsoft",
        "EmbedLayerNormalization",
        &[(0, Is(2)), (1, Is(2)), (2, Is(2)), (3, Is(2))],
    ),
];

/// The node that ranks are asked for.
pub struct Known<'a> {
    /// The rank of an input, if it is known.
    pub rank: &'a dyn Fn(usize) -> Option<usize>,
    /// The number of elements of an input that is a list, if it is known.
    pub count: &'a dyn Fn(usize) -> Option<usize>,
    /// The length of a list attribute.
    pub listed: &'a dyn Fn(&str) -> Option<usize>,
}

/// The rank of an input, if the operator fixes it.
pub fn fixed_rank(domain: &str, op: &str, input: usize, known: &Known) -> Option<usize> {
    static ALL: LazyLock<HashMap<(&str, &str), Rules>> = LazyLock::new(|| {
        let rows = RANKS.iter();
        rows.flat_map(|(domain, ops, rules)| ops.split(' ').map(|op| ((*domain, op), *rules)))
            .collect()
    });
    let rules = ALL.get(&(domain, op))?.iter();
    let mut found = rules
        .filter(|(of, _)| *of == input)
        .map(|(_, rule)| match *rule {
            Is(rank) => Some(rank),
            Of(other) => (known.rank)(other),
            Listed(attribute, more) => Some((known.listed)(attribute)? + more),
            Elements(list, each) => Some((known.count)(list)? / each),
        });
    found.find_map(|rank| rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_the_table_are_known() {
        for (domain, ops, _) in RANKS {
            for op in ops.split(' ') {
                assert!(super::super::lookup(domain, op).is_some(), "{domain}::{op}");
            }
        }
    }

    #[test]
    fn the_first_rule_that_applies_counts() {
        let rank_of = |ranks: &[Option<usize>], kernel: Option<usize>| {
            let known = Known {
                rank: &|k| ranks.get(k).copied().flatten(),
                count: &|_| None,
                listed: &|name| kernel.filter(|_| name == "kernel_shape"),
            };
            fixed_rank("", "Conv", 0, &known)
        };
        assert_eq!(rank_of(&[None, Some(3)], Some(2)), Some(3));
        assert_eq!(rank_of(&[None, None], Some(2)), Some(4));
        assert_eq!(rank_of(&[None, None], None), None);
    }
}
