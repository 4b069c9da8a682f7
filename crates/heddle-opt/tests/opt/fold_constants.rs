//! Large constants: which copies of a weight are made.

use heddle_ir::{Module, Op};

/// Bytes of a constant that is no weight.
const INLINE: usize = 16 << 10;

/// A weight larger than the size that is always folded, and a function that reads it.
fn module(body: &str) -> Module {
    let rows: Vec<String> = (0..256)
        .map(|i| format!("[{}]", vec![format!("{i}.5"); 64].join(", ")))
        .collect();
    let text = format!(
        "fn @main(%x: f32[1,64]) -> (%y: f32[1,256]) {{
  %w: f32[256,64] = const [{}]
{body}  return %y
}}",
        rows.join(", ")
    );
    heddle_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn constants(module: &Module) -> Vec<Vec<usize>> {
    let main = module.entry();
    let insts = main.regions[main.body].insts.iter();
    let constants = insts.filter_map(|&inst| match &main.insts[inst].op {
        Op::Const(t) if t.bytes().len() > INLINE => Some(t.shape().to_vec()),
        _ => None,
    });
    constants.collect()
}

#[test]
fn parts_of_a_weight_in_another_order_are_a_weight() {
    let mut module = module(
        "  %a = slice(%w, [0], [128], [1], axes=[0])
  %b = slice(%w, [128], [256], [1], axes=[0])
  %order = concat(%b, %a, axis=0)
  %y = dot(%x, transpose(%order, perm=[1,0]))
",
    );
    heddle_opt::optimize(&mut module);
    assert_eq!(constants(&module), [[64, 256]]);
}

#[test]
fn a_weight_that_is_one_number_is_an_array() {
    let mut module = module(
        "  %fill = broadcast(0.01, [64,256])
  %y = add(dot(%x, %fill), 1.0)
",
    );
    heddle_opt::optimize(&mut module);
    assert_eq!(constants(&module), [[64, 256]]);
}

#[test]
fn copies_of_a_weight_that_stays_are_not_made() {
    let mut module = module(
        "  %a = dot(%x, transpose(%w, perm=[1,0]))
  %b = dot(%x, transpose(exp(%w), perm=[1,0]))
  %y = add(%a, %b)
",
    );
    heddle_opt::optimize(&mut module);
    assert_eq!(constants(&module), [[256, 64]]);
}
