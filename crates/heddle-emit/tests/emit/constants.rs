//! Constants may be packed while their program is scheduled.

use heddle_emit::Constants;
use heddle_machine::Machine;

#[test]
fn scheduling_leaves_constants_as_they_are() {
    let row = |n: usize| vec!["0.5"; n].join(", ");
    let text = format!(
        "fn @main(%x: f32[1,3], %b: bool[]) -> (%y: f32[1,3]) {{
  %w = const [{}]: f32[3,3]
  %v = const [{}]: f32[3]
  %i = if %b {{
    yield dot(%x, %w)
  }} else {{
    yield add(%x, %v)
  }}
  %y = dot(tanh(%i), %w)
  return %y
}}",
        row(9),
        row(3)
    );
    let module = heddle_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut program = heddle_lower::lower(&module).unwrap();
    heddle_schedule::fuse(&mut program);
    heddle_schedule::select_kernels(&mut program, &Machine::reference_host(2));
    let before: Vec<_> = Constants::of(&program).iter().map(|c| c.bytes()).collect();
    heddle_schedule::schedule(&mut program, &Machine::reference_host(2));
    let after: Vec<_> = Constants::of(&program).iter().map(|c| c.bytes()).collect();
    assert!(
        before.iter().any(|c| c.len() == 3 * 64),
        "nothing is packed"
    );
    assert_eq!(before, after);
    let stated = format!(", {}, {}, ", before.len(), program.sizes.len());
    let layout = heddle_uprogram::layout(&program).unwrap();
    let source = heddle_emit::write(&program, &layout, &heddle_emit::C).source;
    let line = source
        .lines()
        .find(|l| l.starts_with("HEDDLE_PROGRAM("))
        .unwrap();
    assert!(line.contains(&stated), "{line}");
}
