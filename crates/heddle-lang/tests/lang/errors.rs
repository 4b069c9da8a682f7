//! Messages of errors: the place, the marker and the remedy.

/// The error of a program.
fn error(text: &str) -> String {
    match heddle_lang::compile(text) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("this is a program:\n{text}"),
    }
}

#[track_caller]
fn says(text: &str, expected: &str) {
    let found = error(text);
    assert_eq!(found, expected.trim_start_matches('\n'), "\n{found}\n");
}

const TREE: &str = "type Tree = Leaf(i64) | Node(Tree, Tree)\n";

#[test]
fn a_missed_case_is_named() {
    let text =
        format!("{TREE}fn main(t: Tree) {{ match t {{ Leaf(x) => x, Node(Leaf(_), _) => 1 }} }}");
    says(
        &text,
        "
line 2, column 20: this match misses the case Node(Node(_, _), _)
  |
2 | fn main(t: Tree) { match t { Leaf(x) => x, Node(Leaf(_), _) => 1 } }
  |                    ^^^^^
  = hint: add an arm: Node(Node(_, _), _) => …",
    );
    says(
        "fn main(x: list<f32>) { match x { Cons(a, _) => a } }",
        "
line 1, column 25: this match misses the case Nil
  |
1 | fn main(x: list<f32>) { match x { Cons(a, _) => a } }
  |                         ^^^^^
  = hint: add an arm: Nil => …",
    );
    let numbers = error("fn main(n: i64) { match (n, n > 0) { (0, _) => 1, (_, true) => 2 } }");
    assert!(numbers.contains("misses the case (_, false)"), "{numbers}");
}

#[test]
fn an_arm_that_is_never_taken_is_an_error() {
    let text =
        format!("{TREE}fn main(t: Tree) {{ match t {{ Leaf(x) => x, _ => 1, Node(_, _) => 2 }} }}");
    assert!(
        error(&text).contains("no value comes to this arm"),
        "{}",
        error(&text)
    );
}

#[test]
fn types_that_differ_are_shown() {
    says(
        "fn f(x: f32[4]) { x }\nfn main(x: f32[3]) { f(x) }",
        "
line 2, column 22: `x` of `f` is f32[4], but this is f32[3]
  |
2 | fn main(x: f32[3]) { f(x) }
  |                      ^",
    );
    let arms = error("fn main(x: f32[3], n: i64) { if n > 0 { x } else { n } }");
    assert!(arms.contains("one case is f32[3], another i64[]"), "{arms}");
    let sizes =
        error("fn f(x: f32[k], y: f32[k]) { x }\nfn main(x: f32[3], y: f32[4]) { f(x, y) }");
    assert!(
        sizes.contains("`y` of `f` is f32[k], but this is f32[4]"),
        "{sizes}"
    );
    let condition = error("fn main(x: f32[3]) { if x { 1 } else { 2 } }");
    assert!(
        condition.contains("a condition is bool[], not f32[3]"),
        "{condition}"
    );
    let op = error("fn main(x: f32[3], y: f32[4]) { x + y }");
    assert!(op.contains("column 35: add: "), "{op}");
}

#[test]
fn names_are_checked_where_nothing_calls_them() {
    says(
        "fn main(x: f32[3]) { x }\nfn unused(y) { sigmod(y) }",
        "
line 2, column 16: `sigmod` is not defined here
  |
2 | fn unused(y) { sigmod(y) }
  |                ^^^^^^
  = hint: did you mean `sigmoid`?",
    );
    let twice = error("fn main(x: f32, x: f32) { x }");
    assert!(twice.contains("two parameters are named `x`"), "{twice}");
    let hidden = error("fn f(x) { x }\nfn main(x: f32) { let f = x; f }");
    assert!(
        hidden.contains("`f` is already the name of a function"),
        "{hidden}"
    );
}

#[test]
fn recursion_without_an_end_is_an_error() {
    let text = "fn f(n: i64) { f(n - 1) + f(n - 2) }\nfn main(n: i64) { f(n) }";
    assert!(
        error(text).contains("`f` calls itself in every case"),
        "{}",
        error(text)
    );
    let loops = "fn f(n: i64) { f(n - 1) }\nfn main(n: i64) { f(n) }";
    assert!(
        error(loops).contains("does not follow from anything"),
        "{}",
        error(loops)
    );
    let types = "fn f(n) { 1 + f((n, n)) }\nfn main(n: i64) { f(n) }";
    assert!(
        error(types).contains("a value of more than 4096 parts"),
        "{}",
        error(types)
    );
    let nested = "fn f(n) { 1 + f((n, 1)) }\nfn main(n: i64) { f(n) }";
    let found = error(nested);
    assert!(
        found.contains("nested deeper") || found.contains("ever new types"),
        "{found}"
    );
}

#[test]
fn limits_are_errors() {
    let deep = format!(
        "fn main(x: f32) {{ {}x{} }}",
        "(".repeat(300),
        ")".repeat(300)
    );
    assert!(error(&deep).contains("nested deeper than 256 levels"));
    let chain = format!("fn main(x: f32) {{ x{} }}", " + x".repeat(300));
    assert!(error(&chain).contains("nested deeper than 256 levels"));
    let mut wide = String::from("fn f0(x) { x + x }\n");
    for k in 1..30 {
        let before = k - 1;
        wide += &format!("fn f{k}(x) {{ f{before}(x) + f{before}(x) }}\n");
    }
    wide += "fn main(x: f32) { f29(x) }";
    assert!(error(&wide).contains("too large when functions are put in place"));
}

#[test]
fn syntax_errors_say_what_is_expected() {
    says(
        "fn main(x: f32[3]) { let y = x }",
        "
line 1, column 32: expected `;`, found `}`
  |
1 | fn main(x: f32[3]) { let y = x }
  |                                ^",
    );
    let other = error("fn main(x: f32) { if x > 0 { x } }");
    assert!(
        other.contains("an `if` is a value in both cases"),
        "{other}"
    );
    let ty = error("fn main(x: Tree) { x }");
    assert!(ty.contains("there is no type `Tree`"), "{ty}");
    let fields = error(&format!("{TREE}fn main(t: Tree) {{ Leaf(1, 2) }}"));
    assert!(
        fields.contains("`Leaf` has 1 fields, but 2 are given"),
        "{fields}"
    );
    let field = error(&format!("{TREE}fn main(x: f32[2]) {{ Leaf(x) }}"));
    assert!(
        field.contains("field 0 of `Leaf` is i64[], but this is f32[2]"),
        "{field}"
    );
    let list = error(&format!("{TREE}fn main(x: i64) {{ [Leaf(x), x] }}"));
    assert!(list.contains("a list holds Tree and i64[]"), "{list}");
    let list = error(&format!("{TREE}fn main(x: i64) {{ stack([Leaf(x)]) }}"));
    assert!(
        list.contains("data that the program makes are no array"),
        "{list}"
    );
    let number = error("fn main(x: i64) { len((1, x)) }");
    assert!(number.contains("has no first axis"), "{number}");
    let list = error("fn main(x: i64) { len([fn(y) y + x]) }");
    assert!(list.contains("a list cannot hold a function"), "{list}");
    let deep = error(&format!(
        "fn main(x: f32) {{ let a = x; {} a }}",
        "let a = [a, a]; ".repeat(20)
    ));
    assert!(deep.contains("lists nest deeper than 16 levels"), "{deep}");
    assert!(error("").contains("there is no function `main`"));
}

#[test]
fn vertex_functions_say_what_they_lack() {
    let text = "vertex cell(x: f32[2]) -> f32[2] { scatter(x); }\nfn main(g: graph, x: list<f32[2]>) { pull(cell, g, x) }";
    assert!(
        error(text).contains("vertex `cell` does not push a result"),
        "{}",
        error(text)
    );
    let outside = "fn main(x: f32) { gather(0) }";
    assert!(
        error(outside).contains("only a vertex function gathers"),
        "{}",
        error(outside)
    );
}

#[test]
fn tables_say_what_their_rows_may_be() {
    let table = |body: &str| {
        error(&format!(
            "{TREE}table Rows(left: i64, x: f32[2]) -> Tree {{ {body} }}\nfn main(t: Rows) {{ match t {{ Leaf(_) => 1, _ => 2 }} }}"
        ))
    };
    for (body, message) in [
        ("left", "a row of `Rows` is a case of Tree"),
        (
            "if left { Leaf(left) } else { Leaf(0) }",
            "a condition is true or false",
        ),
        (
            "Leaf(len(x))",
            "rows of a table are made of its columns and numbers",
        ),
        (
            "if x > 0 { Leaf(left) } else { Leaf(0) }",
            "not from arrays",
        ),
        (
            "Leaf(x)",
            "field 0 of `Leaf` is i64[t.n] here, not f32[t.n,2]",
        ),
        ("Node(left)", "`Node` has 2 fields, but 1 are given"),
        ("Node(left, 0.5)", "0.5 is no i64"),
    ] {
        let found = table(body);
        assert!(found.contains(message), "{body}: {found}");
    }
    let column = error(&format!(
        "{TREE}table Rows(left: Tree) -> Tree {{ Leaf(1) }}\nfn main(t: Rows) {{ 1 }}"
    ));
    assert!(column.contains("the column `left` is no array"), "{column}");
    let ty = error(&format!(
        "{TREE}table Rows(left: i64) -> Three {{ Leaf(1) }}\nfn main(t: Rows) {{ 1 }}"
    ));
    assert!(ty.contains("there is no type `Three`"), "{ty}");
    let twice = error(&format!(
        "{TREE}table Rows(left: i64) -> Tree {{ Leaf(left) }}\nfn main(a: Rows, b: Rows) {{ 1 }}"
    ));
    assert!(twice.contains("two inputs are named `left`"), "{twice}");
}

#[test]
fn a_list_does_not_go_on_with_other_elements() {
    let program = |types: &str, each: &str, last: &str| {
        format!(
            "fn f(xs, y) {{ match xs {{ Nil => {last}, Cons(x, t) => Cons({each}, f(t, y)) }} }}
            fn main(xs: list<f32[2]>, y: {types}) {{ f(xs, y) }}"
        )
    };
    let pairs = "map(fn(v) (v, v), y)";
    for (types, each, last) in [
        ("list<f32[2]>", "(x, x, x)", pairs),
        ("list<f32[2]>", "(x, x, x)", "y"),
        ("list<f32[2]>", "(x, x)", "map(fn(v) (v, v, v), y)"),
        ("list<list<f32[2]>>", "x", "y"),
        ("list<f32[3, 2]>", "x", "y"),
    ] {
        let found = error(&program(types, each, last));
        assert!(found.contains("cannot go on with"), "{found}");
    }
    assert!(heddle_lang::compile(&program("list<f32[2]>", "(x, x)", pairs)).is_ok());
}

#[test]
fn a_list_holds_data_of_one_input() {
    for list in [
        "[t, u]",
        "append([t], u)",
        "Cons((t, 1), [(u, 2)])",
        "[[t], [u]]",
    ] {
        let text = format!("{TREE}fn main(t: Tree, u: Tree) {{ len({list}) }}");
        let found = error(&text);
        assert!(found.contains("a list holds data of two inputs"), "{found}");
        assert!(found.contains("make those of one anew"), "{found}");
    }
}
