//! Stacks that loops carry are found in little time.

use crate::common::costs;
use heddle_ir::text;
use heddle_opt::Transformation;

/// Each layer concatenates the one before six times: there are 6 to the power of 12 ways to the
/// carried value.
#[test]
fn values_are_looked_at_once() {
    let layers: String = (1..=12)
        .map(|k| {
            let before = vec![format!("%v{}", k - 1); 6].join(", ");
            format!("    %v{k} = concat({before}, axis=1)\n")
        })
        .collect();
    let program = format!(
        "fn @main(%x: f32[2,?], %n: i64[]) -> (%r: f32[2,?]) {{
  %r = loop %i trip %n carry (%v0: f32[2,?] = %x) {{
{layers}    continue carry %v12
  }}
  return %r
}}"
    );
    let mut module = text::parse(&program).expect("parses");
    let pass = Transformation::named("unstack_carried").expect("a pass");
    // It does not end if values are looked at for each of their uses.
    let stats = pass.run(&mut module, &costs());
    assert_eq!(stats.total(), 0);
}
