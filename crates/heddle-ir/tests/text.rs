//! Round trips of the text form.
use heddle_ir::text::{parse, print};

#[test]
fn basic() {
    let text = r#"
fn @main(%x: f32[n,4], %"odd name/0": i64[]) -> (%y: f32[n,4]) where n in 1..=64 {
  %c: f32[4] = const [1.0, 2.5, nan, -inf]
  %s = add(%x, %c)
  %t: f32[n,4] = reshape(tanh(%s), shape(%x)) at Conv "node name"
  %b = lt(%"odd name/0", 3)
  %a, %a2 = if %b { yield %x, %c } else { %q = mul(%x, 2.0) yield %q, %c }
  %z, %ys = loop %i trip %"odd name/0" while %b carry (%h = %t) {
    %h2 = add(%h, %a)
    continue while %b carry %h2 stack %i
  }
  %r = call @rae(%z, [[1,2],[3,4]])
  return %r
}
fn @rae(%l: f32[n,4], %i: i64[2,2]) -> (%y: f32[n,4]) { return %l }
"#;
    let m = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let p = print(&m);
    heddle_ir::verify(&m).unwrap();
    let m2 = parse(&p).unwrap_or_else(|e| panic!("{e}\n{p}"));
    assert_eq!(p, print(&m2));
}
