//! Which products become logical contractions.

use heddle_uprogram::UProgram;
use heddle_uprogram::contract::{Access, Contract};
use heddle_uprogram::program::{Body, BufferKind};

/// A program in text form, lowered.
fn lowered(text: &str) -> UProgram {
    let module = heddle_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    heddle_lower::lower(&module).unwrap_or_else(|e| panic!("{e}"))
}

/// Its contractions, with the number of their parallel axes.
fn contractions(program: &UProgram) -> Vec<(usize, &Contract)> {
    let running = program.running().into_iter();
    let ops = running.map(|id| &program.operators[id]);
    let contractions = ops.filter_map(|op| match &op.body {
        Body::Contract(c) => Some((op.axes.len(), c)),
        _ => None,
    });
    contractions.collect()
}

#[test]
fn contractions_are_logical() {
    let program = lowered(
        "fn @main(%x: f32[3,n,8], %v: f32[1,4,9,9]) -> (%y: f32[3,n,5], %z: f32[1,4,9,9]) {
           %w = const splat 2.0: f32[8,5]
           %f = const splat 1.0: f32[4,4,3,3]
           %y = dot(%x, %w)
           %z = conv(%v, %f, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
           return %y, %z
         }",
    );
    for (_, buffer) in program.buffers.iter() {
        let kind = &buffer.kind;
        assert!(!matches!(kind, BufferKind::Packed(_) | BufferKind::Own));
    }
    let all = contractions(&program);
    // Matrices, rows and columns; channels and places.
    let axes: Vec<_> = all.iter().map(|c| c.0).collect();
    assert_eq!(axes, [3, 2]);
    for (_, c) in all {
        assert_eq!((c.tile, c.own), (1, None));
        for operand in [c.a, c.b] {
            assert!(matches!(operand.access, Access::Computed));
        }
    }
}

#[test]
fn one_column_is_computed_as_a_row() {
    for shape in ["100,8", "5,20,8", "5,1,8"] {
        let result = shape.replace(",8", ",1");
        let program = lowered(&format!(
            "fn @main(%x: f32[{shape}], %w: f32[8,1]) -> (%y: f32[{result}]) {{
               %y = dot(%x, %w)
               return %y
             }}"
        ));
        let contractions = contractions(&program);
        assert_eq!(contractions.len(), 1, "{shape}");
        assert!(contractions[0].1.rows.is_none(), "{shape}");
    }
}

#[test]
fn convolutions_of_several_channels_are_products() {
    let count = |channels: usize, groups: usize| {
        let inputs = 8 / groups;
        let program = lowered(&format!(
            "fn @main(%x: f32[1,8,9,9], %w: f32[{channels},{inputs},3,3]) -> (%y: f32[1,{channels},9,9]) {{
               %y = conv(%x, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups={groups})
               return %y
             }}"
        ));
        contractions(&program).len()
    };
    assert_eq!(count(16, 1), 1);
    assert_eq!(count(16, 2), 1);
    // One channel for each group: no two use the same window.
    assert_eq!(count(8, 8), 0);
}
