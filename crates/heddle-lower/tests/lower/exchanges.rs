//! Carried values that take each other's places are swapped, and not copied.

use crate::schedule_common::lowered;
use heddle_uprogram::program::{Stmt, for_each_stmt};

/// The operators and swaps of an iteration, given the next values of `%a`, `%b`, `%c` and `%d`.
fn iteration(next: &str) -> (usize, usize) {
    let program = lowered(&format!(
        "fn @main(%x: f32[64], %n: i64[]) -> (%p: f32[64], %q: f32[64], %r: f32[64], %s: f32[64]) {{
           %y = neg(%x)
           %p, %q, %r, %s = loop trip %n carry (%a: f32[64] = %x, %b: f32[64] = %y, %c: f32[64] = %x, %d: f32[64] = %y) {{
             {next}
           }}
           return %p, %q, %r, %s
         }}"
    ));
    let (mut operators, mut swaps) = (0, 0);
    for_each_stmt(&program.body, &mut |stmt| {
        if let Stmt::Loop { body, .. } = stmt {
            for_each_stmt(body, &mut |stmt| {
                operators += matches!(stmt, Stmt::Run(_)) as usize;
                swaps += matches!(stmt, Stmt::Swap(..)) as usize;
            });
        }
    });
    (operators, swaps)
}

#[test]
fn places_are_exchanged_without_copies() {
    // Two, and twice two.
    assert_eq!(iteration("continue carry %b, %a, %c, %d"), (0, 1));
    assert_eq!(iteration("continue carry %b, %a, %d, %c"), (0, 2));
    // Around.
    assert_eq!(iteration("continue carry %b, %c, %d, %a"), (0, 3));
    // A delay, whose last value is new.
    assert_eq!(
        iteration("%e = add(%a, %c)\n continue carry %b, %c, %d, %e"),
        (1, 4)
    );
    // Two values of one place: one is copied.
    assert_eq!(iteration("continue carry %b, %b, %c, %d"), (1, 1));
    assert_eq!(iteration("continue carry %b, %a, %a, %d"), (1, 2));
}
