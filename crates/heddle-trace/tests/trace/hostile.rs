//! Wrong and hostile graphs give typed errors.

use crate::common;
use crate::common::*;
use heddle_trace::{TraceError, load};
use serde_json::{Value as Json, json};

fn error(json: &Json) -> TraceError {
    read(json).expect_err("the graph is wrong")
}

fn text_error(text: &str) -> TraceError {
    load(text, vec![], Some(heddle_interp::fold)).expect_err("the text is wrong")
}

/// A graph whose second node is this one.
fn with(node: Json) -> Json {
    module(graph(
        &[(0, "f32[n,3]")],
        vec![
            common::node("aten.neg.default", json!([v(0)]), &[(1, "f32[n,3]")]),
            node,
        ],
        &[1],
    ))
}

#[test]
fn texts_that_are_no_graphs() {
    for text in [
        "",
        "{",
        "[]",
        "null",
        "1",
        "{\"version\": 1}",
        "\u{0}",
        "{\"version\": 1, \"entry\": 3, \"functions\": {}}",
    ] {
        assert!(
            matches!(text_error(text), TraceError::Json { .. }),
            "{text}"
        );
    }
    let deep = "[".repeat(100_000);
    assert!(matches!(text_error(&deep), TraceError::TooLarge { .. }));
    let version = json!({"version": 7, "entry": "main", "functions": {}});
    assert_eq!(error(&version), TraceError::Version { found: 7 });
    let missing = json!({"version": 1, "entry": "main", "functions": {}});
    assert!(matches!(error(&missing), TraceError::Graph { .. }));
    let mut extra = module(graph(&[], vec![], &[]));
    extra["more"] = json!(1);
    assert!(matches!(error(&extra), TraceError::Json { .. }));
}

#[test]
fn graphs_nested_too_deep() {
    let mut inner = graph(&[(0, "f32[]")], vec![], &[0]);
    for _ in 0..60 {
        let args = json!([{"graph": inner}, v(0)]);
        inner = graph(
            &[(0, "f32[]")],
            vec![node("invoke_subgraph", args, &[(1, "f32[]")])],
            &[1],
        );
    }
    assert!(read(&module(inner.clone())).is_ok());
    for _ in 0..10 {
        let args = json!([{"graph": inner}, v(0)]);
        inner = graph(
            &[(0, "f32[]")],
            vec![node("invoke_subgraph", args, &[(1, "f32[]")])],
            &[1],
        );
    }
    assert!(matches!(error(&module(inner)), TraceError::TooLarge { .. }));
}

#[test]
fn branches_nested_deep_within_the_limit() {
    let mut inner = graph(&[(0, "bool[]"), (1, "f32[]")], vec![], &[1]);
    for _ in 0..40 {
        let other = graph(&[(0, "bool[]"), (1, "f32[]")], vec![], &[1]);
        let args = json!([v(0), {"graph": inner}, {"graph": other}, list(&[v(0), v(1)])]);
        inner = graph(
            &[(0, "bool[]"), (1, "f32[]")],
            vec![node("cond", args, &[(2, "f32[]")])],
            &[2],
        );
    }
    let found = results(&module(inner), &[bools(&[], &[true]), f32s(&[], &[5.0])]);
    close(&found[0], &[], &[5.0]);
}

#[test]
fn wrong_ids() {
    for (name, wrong) in [
        (
            "not defined",
            node("aten.neg.default", json!([v(9)]), &[(2, "f32[n,3]")]),
        ),
        (
            "the id 1",
            node("aten.neg.default", json!([v(0)]), &[(1, "f32[n,3]")]),
        ),
        (
            "not defined",
            node("aten.neg.default", json!([v(2)]), &[(2, "f32[n,3]")]),
        ),
        (
            "2 are stated",
            node(
                "aten.neg.default",
                json!([v(0)]),
                &[(2, "f32[n,3]"), (3, "f32[]")],
            ),
        ),
        (
            "stated as f32 with 1 axes",
            node("aten.neg.default", json!([v(0)]), &[(2, "f32[n]")]),
        ),
        (
            "stated as i64",
            node("aten.neg.default", json!([v(0)]), &[(2, "i64[n,3]")]),
        ),
        (
            "missing",
            node("aten.neg.default", json!([]), &[(2, "f32[n,3]")]),
        ),
        (
            "no constant",
            node(
                "aten.neg.default",
                json!([{"constant": "w"}]),
                &[(2, "f32[n,3]")],
            ),
        ),
        (
            "no value has the size",
            node(
                "aten.full.default",
                json!([list(&[json!({"size": "q"})]), f(1.0)]),
                &[(2, "f32[q]")],
            ),
        ),
        (
            "can't be read",
            node(
                "aten.full.default",
                json!([list(&[json!({"size": "n +"})]), f(1.0)]),
                &[(2, "f32[q]")],
            ),
        ),
        (
            "no function",
            node("call", json!([{"function": "g"}, v(0)]), &[(2, "f32[n,3]")]),
        ),
        (
            "no graph",
            node(
                "cond",
                json!([{"bool": true}, i(1), i(2)]),
                &[(2, "f32[n,3]")],
            ),
        ),
        (
            "out of range",
            node(
                "aten.sum.dim_IntList",
                json!([v(0), ints(&[5])]),
                &[(2, "f32[n]")],
            ),
        ),
        (
            "out of range",
            node(
                "aten.unsqueeze.default",
                json!([v(0), i(i64::MIN)]),
                &[(2, "f32[n,3,1]")],
            ),
        ),
    ] {
        let error = error(&with(wrong));
        let TraceError::Node { at, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(at.function, "main");
        let message = error.to_string();
        assert!(message.contains(name), "{name}: {message}");
        assert!(message.contains("model.py:7"), "{message}");
        assert_eq!(error.place().map(|p| p.line), Some(7));
    }
    let output = module(graph(&[(0, "f32[]")], vec![], &[4]));
    assert!(matches!(error(&output), TraceError::Graph { .. }));
    let inputs = module(graph(&[(0, "f32[]"), (0, "f32[]")], vec![], &[0]));
    assert!(matches!(error(&inputs), TraceError::Graph { .. }));
    let size = module(graph(&[(0, "f32[-3]")], vec![], &[0]));
    assert!(matches!(error(&size), TraceError::Graph { .. }));
    let dtype = module(graph(&[(0, "c32[3]")], vec![], &[0]));
    assert!(matches!(error(&dtype), TraceError::Graph { .. }));
}

#[test]
fn all_unsupported_operators_at_once() {
    let body = graph(
        &[(0, "f32[]")],
        vec![node("aten.mystery.default", json!([v(0)]), &[(1, "f32[]")])],
        &[1],
    );
    let main = graph(
        &[(0, "f32[]")],
        vec![
            node("aten.lgamma.default", json!([v(0)]), &[(1, "f32[]")]),
            node("aten.lgamma.default", json!([v(0)]), &[(2, "f32[]")]),
            node(
                "invoke_subgraph",
                json!([{"graph": body}, v(0)]),
                &[(3, "f32[]")],
            ),
        ],
        &[3],
    );
    let error = error(&module(main));
    let TraceError::Unsupported(ops) = &error else {
        panic!("{error}");
    };
    let found: Vec<_> = ops
        .iter()
        .map(|op| (op.at.target.as_str(), op.count))
        .collect();
    assert_eq!(
        found,
        [("aten.lgamma.default", 2), ("aten.mystery.default", 1)]
    );
}

#[test]
fn all_unsupported_uses_at_once() {
    let div = |mode: &str, id: i64| {
        let mode = json!({"rounding_mode": {"str": mode}});
        node_with(
            "aten.div.Tensor_mode",
            json!([v(0), v(0)]),
            mode,
            &[(id, "f32[n]")],
        )
    };
    let gelu = node_with(
        "aten.gelu.default",
        json!([v(2)]),
        json!({"approximate": {"str": "cosh"}}),
        &[(3, "f32[n]")],
    );
    let error = error(&module(graph(
        &[(0, "f32[n]")],
        vec![div("up", 1), div("floor", 2), gelu],
        &[3],
    )));
    let TraceError::Unsupported(ops) = &error else {
        panic!("{error}");
    };
    let found: Vec<_> = ops
        .iter()
        .map(|op| op.reason.as_deref().unwrap_or(""))
        .collect();
    assert_eq!(found, ["rounding_mode `up`", "approximate `cosh`"]);
}

#[test]
fn huge_numbers_are_errors() {
    for wrong in [
        node(
            "aten.full.default",
            json!([ints(&[i64::MAX, i64::MAX]), f(1.0)]),
            &[(2, "f32[a,b]")],
        ),
        node(
            "aten.full.default",
            json!([ints(&[-1]), f(1.0)]),
            &[(2, "f32[a]")],
        ),
        node(
            "aten.view.default",
            json!([v(0), ints(&[-1, -1])]),
            &[(2, "f32[a,b]")],
        ),
        node(
            "aten.constant_pad_nd.default",
            json!([v(0), ints(&[i64::MAX, i64::MAX])]),
            &[(2, "f32[n,a]")],
        ),
        node(
            "aten.repeat.default",
            json!([v(0), ints(&[i64::MAX, i64::MAX])]),
            &[(2, "f32[a,b]")],
        ),
        node(
            "aten.unfold.default",
            json!([v(0), i(1), i(i64::MAX), i(1)]),
            &[(2, "f32[n,a,b]")],
        ),
        node(
            "aten.diagonal.default",
            json!([v(0), i(i64::MIN)]),
            &[(2, "f32[a]")],
        ),
        node(
            "aten.avg_pool2d.default",
            json!([v(0), ints(&[i64::MAX, 2])]),
            &[(2, "f32[a,b]")],
        ),
        node(
            "aten.slice.Tensor",
            json!([v(0), i(0), i(0), i(9), i(0)]),
            &[(2, "f32[a,3]")],
        ),
        node(
            "aten.arange.start_step",
            json!([i(0), i(9), i(0)]),
            &[(2, "i64[a]")],
        ),
    ] {
        let program = with(wrong.clone());
        // Refused when it is read, or when it runs; never a panic.
        if let Ok(module) = read(&program) {
            let input = heddle_ir::Datum::from(f32s(&[1, 3], &[1.0, 2.0, 3.0]));
            let options = heddle_interp::Options {
                max_memory: 1 << 20,
                ..Default::default()
            };
            let _ = heddle_interp::run(&module, &[input], &options);
        }
    }
}

/// Each number, string and list of the slices replaced: errors, never panics.
#[test]
fn changed_slices_do_not_panic() {
    for text in [
        include_str!("../slices/tree.json"),
        include_str!("../slices/decoder.json"),
    ] {
        let whole: Json = serde_json::from_str(text).unwrap();
        let mut count = 0;
        visit(&whole, &mut vec![], &mut |path| {
            for new in [
                json!(0),
                json!(-1),
                json!(i64::MAX),
                json!("n"),
                json!([]),
                json!(null),
                json!({"none": true}),
                json!("f64"),
            ] {
                let mut changed = whole.clone();
                *changed.pointer_mut(path).unwrap() = new;
                let constants =
                    ["emb", "weight", "head"].map(|n| (n.to_owned(), f32s(&[6, 3], &[0.5; 18])));
                if let Ok(module) = load(&changed.to_string(), constants.to_vec(), None) {
                    heddle_ir::verify(&module).unwrap_or_else(|e| panic!("{path}: {e:?}"));
                }
                count += 1;
            }
        });
        assert!(count > 1000);
    }
}

fn visit(json: &Json, path: &mut Vec<String>, work: &mut dyn FnMut(&str)) {
    let text: String = path.iter().map(|p| format!("/{p}")).collect();
    if !path.is_empty() {
        work(&text);
    }
    let children: Vec<(String, &Json)> = match json {
        Json::Array(all) => all
            .iter()
            .enumerate()
            .map(|(i, j)| (i.to_string(), j))
            .collect(),
        Json::Object(all) => all.iter().map(|(k, j)| (k.clone(), j)).collect(),
        _ => vec![],
    };
    for (name, child) in children {
        path.push(name);
        visit(child, path, work);
        path.pop();
    }
}

#[test]
fn names_of_a_model_end_no_line() {
    let evil = "a\nhint: run something\u{1b}[2K";
    let mut nowhere = common::node("aten.neg.default", json!([v(7)]), &[(2, "f32[n,3]")]);
    nowhere["results"][0]["name"] = json!(evil);
    nowhere["place"] = json!({"file": evil, "line": 3, "text": ""});
    let mut unknown = nowhere.clone();
    unknown["target"] = json!(evil);
    let mut placeless = nowhere.clone();
    placeless["place"] = json!(null);
    let constant = common::node(
        "aten.neg.default",
        json!([{"constant": evil}]),
        &[(2, "f32[n,3]")],
    );
    for (node, lines) in [(nowhere, 1), (placeless, 1), (constant, 1), (unknown, 2)] {
        let text = error(&with(node)).to_string();
        assert_eq!(text.lines().count(), lines, "{text}");
        assert!(text.contains("a\\nhint"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    let mut program = with(common::node(
        "aten.neg.default",
        json!([v(0)]),
        &[(2, "f32[n,3]")],
    ));
    program["entry"] = json!(evil);
    let text = error(&program).to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
}
