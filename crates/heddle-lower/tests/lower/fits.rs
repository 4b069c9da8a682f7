//! Checks of sizes: compiled code finds a mismatch before it reads out of bounds, as the interpreter
//! does at run time.

use heddle_uprogram::program::{Stmt, for_each_stmt};

/// True if sizes are known to match, so that nothing is checked.
fn fits(signature: &str, result: &str, body: &str) -> bool {
    let text = format!("fn @main({signature}) -> (%y: {result}) {{\n %y = {body}\n return %y\n }}");
    let module = heddle_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let program = heddle_lower::lower(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut checks = 0;
    for_each_stmt(&program.body, &mut |stmt| {
        checks += matches!(stmt, Stmt::Check { .. }) as usize;
    });
    checks == 0
}

#[test]
fn contractions_of_different_depth() {
    let two = |depth: &str| format!("%a: f32[m,k], %b: f32[{depth},n]");
    assert!(fits(&two("k"), "f32[m,n]", "dot(%a, %b)"));
    assert!(!fits(&two("j"), "f32[m,n]", "dot(%a, %b)"));
}

#[test]
fn reshapes_that_change_the_count() {
    let x = "%x: f32[n]";
    assert!(fits(
        "%x: f32[n,6]",
        "f32[n,2,3]",
        "reshape(%x, concat(slice(shape(%x), [0], [1], [1], axes=[0]), [2, 3], axis=0))"
    ));
    assert!(!fits(x, "f32[2,2]", "reshape(%x, [2, 2])"));
    assert!(!fits(x, "f32[]", "reshape(%x, [])"));
}

#[test]
fn views_of_other_sizes() {
    assert!(!fits("%x: f32[n]", "f32[3]", "broadcast(%x, [3])"));
    assert!(!fits("%x: f32[n]", "f32[]", "squeeze(%x, axes=[0])"));
    let parts = "%a: f32[m,k], %b: f32[n,j]";
    assert!(!fits(parts, "f32[m+n,k]", "concat(%a, %b, axis=0)"));
}

#[test]
fn elementwise_operands_of_other_sizes() {
    assert!(!fits("%a: f32[n], %b: f32[3]", "f32[3]", "add(%a, %b)"));
    assert!(fits("%a: f32[n,1], %b: f32[3]", "f32[n,3]", "add(%a, %b)"));
}

#[test]
fn indices_into_an_axis_that_was_broadcast() {
    for (indices, body) in [
        ("i64[m]", "gather(unsqueeze(%x, axes=[0]), %i, axis=0)"),
        ("i64[2]", "gather(broadcast(%x, [5, 3]), %i, axis=0)"),
        ("i64[m,1]", "gather_nd(broadcast(%x, [5, 3]), %i)"),
        (
            "i64[m,3]",
            "gather_elements(unsqueeze(%x, axes=[0]), %i, axis=0)",
        ),
    ] {
        let text = format!(
            "fn @main(%x: f32[3], %i: {indices}) -> (%y: f32[?,3]) {{\n %y = {body}\n return %y\n }}"
        );
        let module = heddle_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let program = heddle_lower::lower(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let text = heddle_uprogram::text::print(&program);
        assert!(text.contains("at("), "the index is not checked:\n{text}");
    }
}
