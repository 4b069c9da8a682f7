//! Which products become contractions, and how their operands are read.

#[path = "../../heddle-schedule/tests/common/mod.rs"]
mod common;

use common::lowered;
use heddle_uprogram::UProgram;
use heddle_uprogram::contract::{Access, Contract};
use heddle_uprogram::program::{Body, BufferKind};

fn contractions(program: &UProgram) -> Vec<&Contract> {
    let running = program.running().into_iter();
    let bodies = running.map(|id| &program.operators[id].body);
    let contractions = bodies.filter_map(|body| match body {
        Body::Contract(c) => Some(c),
        _ => None,
    });
    contractions.collect()
}

/// How the second operand of each contraction is read: packed when compiled, where it lies with columns or with places of the
/// depth axis side by side, packed by the kernel, or computed by it element by element.
fn reads(text: &str) -> String {
    let program = lowered(text);
    let one = |e| program.pool.as_int(e) == Some(1);
    let read = |c: &&Contract| match c.b.access {
        Access::Strided { .. } if c.own.is_some() => "packed ",
        Access::Panels { buffer, .. } => {
            let kind = &program.buffers[buffer].kind;
            assert!(matches!(kind, BufferKind::Packed(_)), "panels are packed");
            "constant "
        }
        Access::Strided { outer, .. } if one(outer) => "rows ",
        Access::Strided { depth, .. } if one(depth) => "columns ",
        Access::Strided { .. } => "scattered ",
        Access::Computed => "put together ",
    };
    contractions(&program).iter().map(read).collect()
}

#[test]
fn weights_are_packed_once() {
    let program = lowered(
        "fn @main(%x: f32[1,6], %y: f32[n,6]) -> (%a: f32[1,4], %b: f32[n,4]) {
           %w = const [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]]: f32[4,6]
           %t = transpose(%w, perm=[1,0])
           %a = dot(%x, %t)
           %b = dot(%y, %t)
           return %a, %b
         }",
    );
    assert_eq!(contractions(&program).len(), 2);
    let packed = program.buffers.iter().filter_map(|(_, b)| match &b.kind {
        BufferKind::Packed(panels) => Some(panels.pack()),
        _ => None,
    });
    let packed: Vec<_> = packed.collect();
    assert_eq!(packed.len(), 1, "both read the same panels");
    // Six rows of one panel of 16 columns.
    assert_eq!(packed[0].len(), 6 * 16 * 4);
}

#[test]
fn a_single_row_reads_the_other_operand_where_it_lies() {
    let both =
        "fn @main(%x: f32[12,1,64], %k: f32[12,64,64]) -> (%a: f32[12,1,64], %b: f32[12,1,64]) {
           %a = dot(%x, %k)
           %b = dot(%x, transpose(%k, perm=[0,2,1]))
           return %a, %b
         }";
    assert_eq!(reads(both), "rows columns ");
}

#[test]
fn many_rows_are_worth_packing() {
    let both =
        "fn @main(%x: f32[12,64,64], %k: f32[12,64,64]) -> (%a: f32[12,64,64], %b: f32[12,64,64]) {
           %a = dot(%x, %k)
           %b = dot(%x, transpose(%k, perm=[0,2,1]))
           return %a, %b
         }";
    assert_eq!(reads(both), "packed packed ");
}

#[test]
fn axes_that_weights_lack_are_rows() {
    let program = lowered(
        "fn @main(%x: f32[3,n,8], %w: f32[8,5]) -> (%y: f32[3,n,5]) {
           %y = dot(%x, %w)
           return %y
         }",
    );
    let running = program.running().into_iter();
    let mut products = running.filter_map(|id| {
        let op = &program.operators[id];
        matches!(op.body, Body::Contract(_)).then_some(op.axes.len())
    });
    assert_eq!(products.next(), Some(2), "rows and columns");
    assert_eq!(products.next(), None);
}

#[test]
fn one_column_is_computed_as_a_row() {
    let program = lowered(
        "fn @main(%x: f32[100,8], %w: f32[8,1]) -> (%y: f32[100,1]) {
           %y = dot(%x, %w)
           return %y
         }",
    );
    let contractions = contractions(&program);
    assert_eq!(contractions.len(), 1);
    assert!(contractions[0].rows.is_none());
}

#[test]
fn convolutions_of_several_channels_are_products() {
    let conv = |channels: usize, groups: usize| {
        let inputs = 8 / groups;
        reads(&format!(
            "fn @main(%x: f32[1,8,9,9], %w: f32[{channels},{inputs},3,3]) -> (%y: f32[1,{channels},9,9]) {{
               %y = conv(%x, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups={groups})
               return %y
             }}"
        ))
    };
    assert_eq!(conv(16, 1), "put together ");
    assert_eq!(conv(16, 2), "put together ");
    // One channel for each group: nothing to share a window with.
    assert_eq!(conv(8, 8), "");
}
