//! Fusions that happen, and that must not. The compiled programs' tests check results.

use crate::common::{lowered, shape};
use heddle_ir::op::BinaryOp;
use heddle_uprogram::Expr;
use heddle_uprogram::program::Body;

fn kinds(text: &str) -> Vec<&'static str> {
    let program = lowered(text);
    let running = program.running().into_iter();
    let kinds = running.map(|id| match program.operators[id].body {
        Body::Map { .. } => "map",
        Body::Fold { .. } => "fold",
        Body::ArgFold { .. } => "arg_fold",
        Body::Contract(_) => "contract",
        Body::Chain(_) => "chain",
        _ => "other",
    });
    kinds.collect()
}

#[test]
fn bias_and_activation_end_the_contraction() {
    let text = "fn @main(%x: f32[n,64], %w: f32[64,48], %b: f32[48]) -> (%y: f32[n,48]) {
        %y = tanh(add(dot(%x, %w), %b))
        return %y
    }";
    assert_eq!(kinds(text), ["contract"]);
}

#[test]
fn a_contraction_moves_behind_a_check() {
    let text =
        "fn @main(%x: f32[n,64], %w: f32[64,48], %e: f32[v,48], %i: i64[n]) -> (%y: f32[n,48]) {
        %d = dot(%x, %w)
        %y = add(%d, gather(%e, %i, axis=0))
        return %y
    }";
    assert_eq!(kinds(text), ["contract"]);
}

#[test]
fn products_write_rows_by_index() {
    let text = |reduce: &str| {
        format!(
            "fn @main(%s: f32[n,64], %at: i64[m,1], %x: f32[m,64], %w: f32[64,64]) -> (%y: f32[n,64]) {{
               %y = scatter_nd(%s, %at, tanh(dot(%x, %w)), reduce={reduce})
               return %y
             }}"
        )
    };
    let program = lowered(&text("once"));
    let running = program.running().into_iter();
    let stores = running.filter_map(|id| match &program.operators[id].body {
        Body::Contract(c) => Some(c.store),
        _ => None,
    });
    let is_indexed = |e| matches!(e, Expr::Index(..));
    let stores: Vec<bool> = stores
        .map(|s| program.pool.any(s.offset, &is_indexed))
        .collect();
    assert_eq!(stores, [true]);
    assert!(!kinds(&text("once")).contains(&"other"));
    // Another row may be written later.
    assert!(kinds(&text("set")).contains(&"other"));
}

#[test]
fn products_do_not_write_to_what_they_read() {
    let text = "fn @main(%s: f32[n,64], %w: f32[64,64]) -> (%y: f32[n,64]) {
        %n = squeeze(gather(shape(%s), [0], axis=0), axes=[0])
        %back = unsqueeze(sub(sub(%n, 1), range(0, %n, 1)), axes=[1])
        %y = loop %t trip 5 carry (%c = %s) {
          continue carry scatter_nd(%c, %back, dot(%c, %w), reduce=once)
        }
        return %y
    }";
    let program = lowered(text);
    let mut contractions = 0;
    for id in program.running() {
        let body = &program.operators[id].body;
        if let Body::Contract(c) = body {
            contractions += 1;
            let target = c.store.buffer;
            let reads = |e| matches!(e, Expr::Load(b, _) if b == target);
            let exprs = body.exprs();
            assert!(exprs.iter().all(|e| !program.pool.any(*e, &reads)));
        }
    }
    assert_eq!(contractions, 1);
}

#[test]
fn a_sum_of_contractions_is_one_that_reads_the_other() {
    let text = "fn @main(%x: f32[1,64], %h: f32[1,32], %w: f32[64,48], %u: f32[32,48]) -> (%y: f32[1,48]) {
        %y = sigmoid(add(dot(%x, %w), dot(%h, %u)))
        return %y
    }";
    assert_eq!(kinds(text), ["contract", "contract"]);
    assert_eq!(shape(&lowered(text).body), "rr");
}

#[test]
fn a_result_with_another_reader_is_stored() {
    let text = "fn @main(%x: f32[n,64], %w: f32[64,48]) -> (%y: f32[n,48], %z: f32[n]) {
        %d = dot(%x, %w)
        %y = tanh(%d)
        %z = reduce(%d, kind=sum, axes=[1])
        return %y, %z
    }";
    assert_eq!(kinds(text), ["contract", "fold", "map", "map"]);
}

#[test]
fn other_elements_of_the_result_are_read_from_memory() {
    let text = "fn @main(%x: f32[1,64], %w: f32[64,48]) -> (%y: f32[1,24]) {
        %d = dot(%x, %w)
        %a = slice(%d, [0], [24], [1], axes=[1])
        %b = slice(%d, [24], [48], [1], axes=[1])
        %y = mul(%a, %b)
        return %y
    }";
    assert_eq!(kinds(text), ["contract", "map"]);
}

#[test]
fn what_one_operator_reads_twice_is_computed_there() {
    let text = "fn @main(%x: f32[n,64]) -> (%y: f32[n,64]) {
        %e = exp(%x)
        %y = div(%e, add(%e, 1.0))
        return %y
    }";
    assert_eq!(kinds(text), ["map"]);
}

#[test]
fn little_arithmetic_is_repeated_and_much_is_not() {
    let text = |op: &str| {
        format!(
            "fn @main(%x: f32[n,64]) -> (%y: f32[n], %z: f32[n]) {{
                %e = {op}
                %y = reduce(%e, kind=sum, axes=[1])
                %z = reduce(%e, kind=max, axes=[1])
                return %y, %z
            }}"
        )
    };
    let folds = |text: &str| kinds(text).into_iter().filter(|k| *k == "map").count();
    // The two other maps copy the results.
    assert_eq!(folds(&text("mul(%x, 2.0)")), 2);
    assert_eq!(folds(&text("exp(%x)")), 3);
}

fn softmax(shape: &str, axis: usize) -> String {
    format!(
        "fn @main(%x: f32[{shape}]) -> (%y: f32[{shape}]) {{
            %s = exp(sub(%x, reduce(%x, kind=max, axes=[{axis}], keep=true)))
            %y = div(%s, reduce(%s, kind=sum, axes=[{axis}], keep=true))
            return %y
        }}"
    )
}

#[test]
fn a_softmax_is_done_row_by_row() {
    assert_eq!(kinds(&softmax("12,64", 1)), ["chain"]);
    assert_eq!(kinds(&softmax("n,64", 1)), ["chain"]);
    assert_eq!(kinds(&softmax("1,64", 1)), ["chain"]);
}

#[test]
fn a_normalisation_is_done_row_by_row() {
    let text = "fn @main(%x: f32[n,256], %g: f32[256]) -> (%y: f32[n,256]) {
        %m = div(reduce(%x, kind=sum, axes=[1], keep=true), 256.0)
        %d = sub(%x, %m)
        %v = div(reduce(mul(%d, %d), kind=sum, axes=[1], keep=true), 256.0)
        %y = mul(div(%d, sqrt(add(%v, 0.00001))), %g)
        return %y
    }";
    assert_eq!(kinds(text), ["chain"]);
}

#[test]
fn rows_that_no_vector_fills_or_that_units_share_stay_apart() {
    for (shape, axis) in [("n,5", 1), ("64,n", 0), ("64,64", 0), ("1,100000", 1)] {
        assert!(!kinds(&softmax(shape, axis)).contains(&"chain"), "{shape}");
    }
}

/// The quotients and rests in a program's expressions.
fn divisions(text: &str) -> usize {
    let program = lowered(text);
    let mut found = std::collections::BTreeSet::new();
    for id in program.running() {
        for root in program.operators[id].body.exprs() {
            program.pool.walk(root, &mut |e, expr| {
                if let Expr::Binary(BinaryOp::Div | BinaryOp::Mod, ..) = expr {
                    found.insert(e);
                }
            });
        }
    }
    found.len()
}

#[test]
fn a_reshape_undoes_another() {
    for (from, to, back) in [
        ("8,4,256", "32,256", "8,4,256"),
        ("6,5", "30", "6,5"),
        ("2,3,1,4", "6,4", "2,1,3,4"),
        ("12,5", "3,4,5", "12,5"),
    ] {
        let count = divisions(&format!(
            "fn @main(%x: f32[{from}], %y: f32[{back}]) -> (%z: f32[{back}]) {{
               %z = add(reshape(exp(reshape(%x, [{to}])), [{back}]), %y)
               return %z
             }}"
        ));
        assert_eq!(count, 0, "{from} as {to} as {back}");
    }
}

#[test]
fn a_reshape_divides_no_more_than_it_has_to() {
    // The last axis is the same in both: only the first is split.
    let count = divisions(
        "fn @main(%x: f32[4,8,5], %y: f32[32,5]) -> (%z: f32[32,5]) {
           %z = add(reshape(transpose(%x, perm=[1,0,2]), [32,5]), %y)
           return %z
         }",
    );
    assert_eq!(count, 2);
}
