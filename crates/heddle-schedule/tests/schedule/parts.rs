//! Large reductions of one point are done in parts by all units, small ones and those of many
//! points are not.

use crate::common::{lowered, shape};
use heddle_machine::Machine;
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Body, Share};

fn unfused(text: &str) -> UProgram {
    let module = heddle_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    heddle_lower::lower(&module).unwrap_or_else(|e| panic!("{e}"))
}

/// For each reduction, true if it is split.
fn reductions(text: &str) -> Vec<bool> {
    let program = unfused(text);
    let operators = program.operators.iter().map(|(_, op)| op);
    let folds = operators.filter(|op| matches!(op.body, Body::Fold { .. } | Body::ArgFold { .. }));
    folds
        .map(|op| matches!(op.share, Share::Split(_)))
        .collect()
}

#[test]
fn a_search_through_many_is_split() {
    let text = "fn @main(%x: f32[1,3797]) -> (%y: i64[1]) {
        %y = arg_reduce(%x, kind=max, axis=1)
        return %y
    }";
    assert_eq!(reductions(text), [true]);
    let mut program = lowered(text);
    heddle_schedule::place_syncs(&mut program, &Machine::reference_host(2));
    // After the one synchronisation all units know the result.
    assert_eq!(shape(&program.body), "rsr");
}

#[test]
fn a_sum_of_many_is_split() {
    let text = "fn @main(%x: f32[50,3797]) -> (%y: f32[]) {
        %y = reduce(%x, kind=sum, axes=[0,1])
        return %y
    }";
    assert_eq!(reductions(text), [true]);
}

#[test]
fn few_elements_are_not_worth_it() {
    let text = "fn @main(%x: f32[1,300]) -> (%y: i64[1]) {
        %y = arg_reduce(%x, kind=max, axis=1)
        return %y
    }";
    assert_eq!(reductions(text), [false]);
}

#[test]
fn many_points_are_split_themselves() {
    let text = "fn @main(%x: f32[64,3797]) -> (%y: i64[64]) {
        %y = arg_reduce(%x, kind=max, axis=1)
        return %y
    }";
    let program = unfused(text);
    assert_eq!(
        program.operators.len(),
        2,
        "the search and the copy to the output"
    );
}

/// Sizes that are only declared may be any: what comes of them is a program or an error.
#[test]
fn declared_sizes_at_the_end_of_64_bits() {
    for text in [
        "fn @main(%x: f32[1,9223372036854775807]) -> (%y: i64[1]) {
            %y = arg_reduce(%x, kind=max, axis=1)
            return %y
        }",
        "fn @main(%x: bool[4294967296,4294967296], %z: f32[6]) -> (%y: f32[..]) {
            %places = nonzero(%x)
            %y = reshape(%z, reshape(%places, [-1]))
            return %y
        }",
    ] {
        let module = heddle_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let _ = heddle_lower::lower(&module);
    }
}
