//! Integers outside of arrays.

use heddle_ir::Tensor;
use serde_json::{Value as Json, json};

use super::super::Done;
use super::{count, x23};
use crate::common::*;

pub fn sizes(d: &mut Done) {
    let mut plain =
        |target: &str, args: Json, inputs: &[(&str, Tensor)], ty: &str, expected: f64| {
            d.0.insert(target.to_owned());
            let found = apply(target, args, json!({}), inputs, &[ty]);
            close(&found[0], &[], &[expected]);
        };
    let ab = [("size", i64s(&[], &[-7])), ("size", i64s(&[], &[2]))];
    let args = || json!([v(0), v(1)]);
    for (name, x) in [
        ("add", -5.0),
        ("sub", -9.0),
        ("mul", -14.0),
        ("floordiv", -4.0),
        ("mod", 1.0),
        ("pow", 49.0),
    ] {
        plain(&format!("operator.{name}"), args(), &ab, "size", x);
    }
    for (name, x) in [
        ("eq", 0.0),
        ("ne", 1.0),
        ("lt", 1.0),
        ("le", 1.0),
        ("gt", 0.0),
        ("ge", 0.0),
    ] {
        plain(&format!("operator.{name}"), args(), &ab, "bool", x);
    }
    plain("operator.truediv", args(), &ab, "f64", -3.5);
    plain("operator.neg", json!([v(0)]), &ab, "size", 7.0);
    plain("sym_max", args(), &ab, "size", 2.0);
    plain("sym_min", args(), &ab, "size", -7.0);
    plain("sym_float", json!([v(0)]), &ab, "f64", -7.0);
    plain("sym_int", json!([f(2.75)]), &[], "size", 2.0);
    let bits = [
        ("bool[]", bools(&[], &[true])),
        ("bool[]", bools(&[], &[false])),
    ];
    plain("operator.and_", args(), &bits, "bool", 0.0);
    plain("operator.or_", args(), &bits, "bool", 1.0);
    plain("operator.not_", json!([v(0)]), &bits, "bool", 0.0);
    plain("sym_not", json!([v(0)]), &bits, "bool", 0.0);
    plain("sym_ite", json!([v(0), i(5), i(6)]), &bits, "size", 5.0);
    let item = [("i32[1]", Tensor::vector(&[9i32]))];
    plain("aten.item.default", json!([v(0)]), &item, "size", 9.0);
    plain(
        "aten._local_scalar_dense.default",
        json!([v(0)]),
        &item,
        "size",
        9.0,
    );
    plain(
        "aten.sym_size.int",
        json!([v(0), i(-2)]),
        &[x23()],
        "size",
        2.0,
    );
    plain(
        "aten.sym_numel.default",
        json!([v(0)]),
        &[x23()],
        "size",
        6.0,
    );
    plain(
        "aten.sym_stride.int",
        json!([v(0), i(0)]),
        &[x23()],
        "size",
        3.0,
    );
    plain(
        "aten.sym_storage_offset.default",
        json!([v(0)]),
        &[x23()],
        "size",
        0.0,
    );
    for name in [
        "_assert_tensor_metadata.default",
        "sym_constrain_range.default",
        "sym_constrain_range_for_size.default",
    ] {
        let target = format!("aten.{name}");
        let found = apply(&target, json!([v(0)]), json!({}), &[x23()], &[]);
        assert!(found.is_empty());
        d.0.insert(target);
    }
    let json = module(graph(
        &[],
        vec![node(
            "constant",
            json!([{"constant": "c"}]),
            &[(0, "f32[2]")],
        )],
        &[0],
    ));
    let constants = vec![("c".to_owned(), count(&[2]))];
    let module = heddle_trace::load(&json.to_string(), constants, None).unwrap();
    close(&run_module(&module, &[])[0], &[2], &[1.0, 2.0]);
    d.0.insert("constant".to_owned());
}
