//! Carried arrays that grow: what is appended goes behind what is there, and memory is planned by a
//! limit.

use crate::schedule_common::lowered;
use heddle_uprogram::UProgram;
use heddle_uprogram::expr::Expr;
use heddle_uprogram::program::{BufferKind, Stmt, for_each_stmt};

/// The number of arrays that swap memory after an iteration.
fn exchanges(program: &UProgram) -> usize {
    let mut count = 0;
    for_each_stmt(&program.body, &mut |stmt| {
        count += matches!(stmt, Stmt::Swap(..)) as usize;
    });
    count
}

/// A loop that carries an array with a row of `next`, given the array `%a` and the iteration `%i`.
fn growing(ty: &str, next: &str) -> String {
    format!(
        "fn @main(%x: {ty}, %row: f32[1,4], %n: i64[]) -> (%y: f32[?,4]) {{
           %y = loop %i trip %n carry (%a: f32[?,4] = %x) {{
             {next}
             continue carry %b
           }}
           return %y
         }}"
    )
}

#[test]
fn what_is_appended_goes_behind_what_is_there() {
    let program = lowered(&growing("f32[m,4]", "%b = concat(%a, exp(%row), axis=0)"));
    assert_eq!(exchanges(&program), 0);
    // A value that is not appended at the end moves the array.
    let program = lowered(&growing("f32[m,4]", "%b = concat(exp(%row), %a, axis=0)"));
    assert_eq!(exchanges(&program), 1);
    // Two ends of one array cannot both go behind it.
    let program = lowered(&growing(
        "f32[m,4]",
        "%c = concat(%a, exp(%row), axis=0)
         %d = concat(%a, tanh(%row), axis=0)
         %s = add(%d, reduce(%c, kind=sum, axes=[0], keep=true))
         %b = concat(%a, slice(%s, [-1], [9223372036854775807], [1], axes=[0]), axis=0)",
    ));
    assert_eq!(exchanges(&program), 0);
}

#[test]
fn writes_between_appends_stay_in_the_array() {
    let put = |array: &str| format!("scatter_nd({array}, [[1], [0]]: i64[2,1], %two, reduce=once)");
    let append = |array: &str| format!("concat({array}, exp(%row), axis=0)");
    let copies = |next: &str| {
        let next = format!("%two = concat(%row, tanh(%row), axis=0)\n{next}");
        exchanges(&lowered(&growing("f32[m,4]", &next)))
    };
    let (grown, written) = (append("%a"), put("%a"));
    assert_eq!(copies(&format!("%c = {grown}\n%b = {}", put("%c"))), 0);
    assert_eq!(copies(&format!("%c = {written}\n%b = {}", append("%c"))), 0);
    // An element that is read before, by a value that is computed later.
    let read = "%s = reduce(exp(%a), kind=sum, axes=[0], keep=true)";
    let after = "%d = concat(%c, %s, axis=0)";
    let next = format!("{read}\n%c = {grown}\n{after}\n%b = {}", put("%d"));
    assert_eq!(copies(&next), 0);
    // The old array is read behind the write.
    let next = format!(
        "%c = {grown}\n%d = {}\n{read}\n%b = concat(%d, %s, axis=0)",
        put("%c")
    );
    assert_eq!(copies(&next), 1);
    // An append along an inner axis leaves gaps, or moves elements.
    let program = lowered(
        "fn @main(%x: f32[m,n], %go: bool[]) -> (%y: f32[?,?]) {
           %y = loop %i while %go carry (%a: f32[?,?] = %x) {
             %c = concat(%a, reduce(%a, kind=sum, axes=[1], keep=true), axis=1)
             %b = scatter_nd(%c, [[0]]: i64[1,1], slice(%c, [-1], [9223372036854775807], [1], axes=[0]))
             continue while lt(reduce(%b, kind=max, axes=[0,1], keep=false), 9.0) carry %b
           }
           return %y
         }",
    );
    assert_eq!(exchanges(&program), 1);
}

#[test]
fn caches_are_never_copied() {
    let text = include_str!("../../../heddle-emit/tests/programs/caches.heddle");
    let program = lowered(text);
    // The one is the state of fixed size.
    assert_eq!(exchanges(&program), 1);
}

#[test]
fn sizes_that_stay_are_no_variables() {
    let changes = |next: &str| {
        let program = lowered(&growing("f32[m,4]", next));
        program
            .derived
            .iter()
            .any(|&(limit, _)| program.locals[limit].name == "limit")
    };
    assert!(!changes("%b = exp(%a)"));
    assert!(changes("%b = concat(%a, %row, axis=0)"));
}

#[test]
fn rooms_begin_with_what_is_expected_if_that_is_little() {
    let expected = |trip: i64, other: &str| {
        let text = format!(
            "fn @main(%x: f32[8,1,128], %go: bool[]) -> (%y: f32[8,?,128]) {{
               %y = loop %i trip {trip} while %go carry (%a: f32[8,?,128] = %x) {{
                 %wide = concat(%a, exp(slice(%a, [0], [1], [1], axes=[1])), axis=1)
                 {other}
                 continue while lt(reduce(%b, kind=max, axes=[0,1,2], keep=false), 9.0) carry %b
               }}
               return %y
             }}"
        );
        let program = lowered(&text);
        let mut derived = program.derived.iter();
        let found = derived.find(|(l, _)| program.locals[*l].name == "expected");
        found.and_then(|(_, expr)| program.pool.as_int(*expr))
    };
    let only = "%b = tanh(%wide)";
    let append = "%b = concat(%wide, reshape(%x, [8,1,128]), axis=1)";
    // Planned; within 4 MiB, of which a place takes 4 KiB; more.
    assert_eq!(expected(300, append), None);
    assert_eq!(expected(1 << 15, only), None);
    assert_eq!(expected(1 << 15, append), Some(1024));
}

#[test]
fn limits_say_how_much_memory_there_is() {
    let limit = |next: &str| {
        let program = lowered(&growing("f32[10,4]", next).replace("trip %n", "trip 7"));
        let limits = program.derived.iter();
        let mut limits = limits.filter(|(l, _)| program.locals[*l].name == "limit");
        limits
            .next()
            .and_then(|(_, expr)| program.pool.as_int(*expr))
    };
    let last = "slice(%a, [-1], [9223372036854775807], [1], axes=[0])";
    assert_eq!(limit("%b = concat(%a, %row, axis=0)"), Some(17));
    assert_eq!(limit("%b = concat(%a, %row, %row, axis=0)"), Some(24));
    assert_eq!(limit(&format!("%b = concat({last}, %a, axis=0)")), Some(17));
    assert_eq!(
        limit("%b = slice(%a, [1], [9223372036854775807], [1], axes=[0])"),
        Some(10)
    );
    let far = "slice(%a, [-1], [-9223372036854775807], [-1], axes=[0])";
    assert_eq!(
        limit(&format!("%c = {far}\n %b = concat(%c, %row, axis=0)")),
        Some(17)
    );
    let inner = "%b = loop %j trip %i carry (%c: f32[?,4] = %a) {
        continue carry concat(%c, %row, axis=0)
      }";
    assert_eq!(limit(inner), Some(10 + 7 * 7));
    let window = "%c = concat(%a, %row, axis=0)\n %b = slice(%c, [0], [12], [1], axes=[0])";
    assert_eq!(limit(window), Some(12));
}

/// The segments that a program uses.
fn segments(program: &UProgram) -> usize {
    let kinds = program.buffers.iter().map(|(_, data)| &data.kind);
    kinds.filter(|k| matches!(k, BufferKind::Segment)).count()
}

#[test]
fn what_has_no_limit_grows_while_the_program_runs() {
    let program = lowered(&growing("f32[m,4]", "%b = concat(%a, exp(%row), axis=0)"));
    assert_eq!(segments(&program), 0);
    let program = lowered(&growing("f32[m,4]", "%b = concat(%a, %a, axis=0)"));
    assert_eq!((segments(&program), exchanges(&program)), (1, 0));
    // As much again, and that an end of a slice is far away is no limit.
    let far = "slice(concat(%a, %a, axis=0), [0], [9223372036854775807], [1], axes=[0])";
    for next in [
        format!("%b = {far}"),
        format!("%b = concat({far}, %row, axis=0)"),
    ] {
        assert!(segments(&lowered(&growing("f32[m,4]", &next))) > 0);
    }
    let endless = growing("f32[m,4]", "%b = concat(%a, %row, axis=0)");
    for trip in ["trip 9223372036854775807", ""] {
        let text = endless
            .replace("trip %n", &format!("{trip} while const true"))
            .replace("continue", "continue while lt(%i, %n)");
        let program = lowered(&text);
        // It is the output's place, too.
        assert_eq!((segments(&program), exchanges(&program)), (1, 0));
    }
}

#[test]
fn caches_without_a_limit_are_never_copied() {
    let text = include_str!("../../../heddle-emit/tests/programs/growth.heddle");
    // The state of fixed size, and two caches when they exceed their room.
    assert_eq!(exchanges(&lowered(text)), 3);
}

#[test]
fn a_limit_of_many_iterations_is_none() {
    let trips = |n: i64| {
        let text = growing("f32[m,4]", "%b = concat(%a, exp(%row), axis=0)");
        let counted = text.replace("trip %n", &format!("trip {n}"));
        segments(&lowered(&counted))
    };
    assert_eq!(trips(1 << 12), 0);
    assert!(trips(i64::from(i32::MAX)) > 0);
}

/// A loop that data ends before its trip count `%n`, an input.
fn early(next: &str) -> String {
    let text = growing("f32[m,4]", next).replace("trip %n", "trip %n while const true");
    let go = "%go = gt(reduce(%b, kind=sum, axes=[0,1], keep=false), 0.0)\n continue while %go";
    text.replace("continue", go)
}

#[test]
fn a_limit_that_a_loop_may_end_before_is_not_planned() {
    let append = "%b = concat(%a, exp(%row), axis=0)";
    let program = lowered(&early(append));
    assert_eq!((segments(&program), exchanges(&program)), (1, 0));
    // Bounds by constants and by sizes of inputs are planned, where memory for them is small.
    let planned = |trip: &str| {
        let text = early(append);
        segments(&lowered(&text.replace("trip %n", &format!("trip {trip}")))) == 0
    };
    assert!(planned("4096"));
    assert!(planned("min(%n, 4096)"));
    assert!(planned("add(max(min(%n, 4096), 5), 1)"));
    assert!(planned("gather(shape(%x), 0, axis=0)"));
    assert!(!planned("16000000"));
    assert!(!planned("min(%n, 16000000)"));
    assert!(!planned("sub(max(min(%n, 16000000), 5), -1)"));
    assert!(!planned("sub(max(min(%n, 2305843009213693952), -9), -1)"));
    assert!(!planned("add(gather(shape(%x), 0, axis=0), %n)"));
}

#[test]
fn arrays_grow_in_functions_that_recurse() {
    let text = include_str!("../../../heddle-emit/tests/programs/deep.heddle");
    let program = lowered(text);
    let count = |name: &str| {
        let of = program.procedures.iter().filter(|(_, p)| p.name == name);
        let segments = of.map(|(id, _)| program.segments(id).count());
        segments.sum::<usize>()
    };
    assert!(["f", "g", "p", "q"].iter().all(|name| count(name) > 0));
}

#[test]
fn arrays_that_grow_along_two_axes_double_their_room() {
    let text = "fn @main(%x: f32[m,n], %n: i64[]) -> (%y: f32[?,?]) {
           %y, %k = loop %i while const true carry (%a: f32[?,?] = %x, %k: f32[] = 1.0) {
             %b = concat(%a, reduce(%a, kind=sum, axes=[1], keep=true), axis=1)
             %c = concat(%b, slice(%b, [0], [1], [1], axes=[0]), axis=0)
             continue while lt(%k, cast(%n, to=f32)) carry NEXT, mul(%k, 2.0)
           }
           return %y
         }";
    let rooms = |next: &str| {
        let program = lowered(&text.replace("NEXT", next));
        let rooms = program.locals.iter().filter(|(_, l)| l.name == "room");
        (rooms.count(), exchanges(&program))
    };
    // The room and its double; the swap is in the branch that moves the array.
    assert_eq!(rooms("%c"), (2, 1));
    // An array that is no append is written anew.
    assert_eq!(rooms("mul(%c, 0.5)"), (0, 1));
}

#[test]
fn an_append_to_the_first_elements_leaves_them_in_their_place() {
    let first = "%f = slice(%a, [0], reshape(sub(%n, %i), [1]), [1], axes=[0])";
    let next = |more: &str| {
        let append = format!("{first}\n{more}\n%b = concat(%f, exp(%row), axis=0)");
        exchanges(&lowered(&growing("f32[m,4]", &append)))
    };
    assert_eq!(next(""), 0);
    assert_eq!(next("%l = shape(%a)"), 0);
    assert_eq!(next("%f2 = exp(%f)"), 0);
    // The append itself reads what is written over, before it writes.
    let append = |text: &str| exchanges(&lowered(&growing("f32[m,4]", text)));
    let last = "slice(%a, [-1], [9223372036854775807], [1], axes=[0])";
    assert_eq!(
        append(&format!("{first}\n%b = concat(%f, {last}, axis=0)")),
        0
    );
    assert_eq!(append(&format!("{first}\n%b = concat(%f, %a, axis=0)")), 0);
    // The rest does not lie at the array's place.
    let gaps = "slice(%a, [0], reshape(%n, [1]), [2], axes=[0])";
    assert_eq!(append(&format!("%b = concat({gaps}, %row, axis=0)")), 1);
    let end = "slice(%a, [1], reshape(%n, [1]), [1], axes=[0])";
    assert_eq!(append(&format!("%b = concat({end}, %row, axis=0)")), 1);
    // A window has a limit that the array exceeds before it is cut.
    let window = "slice(concat(%a, exp(%row), axis=0), [0], [12], [1], axes=[0])";
    assert_eq!(append(&format!("%b = {window}")), 0);
    let text = growing("f32[10,4]", &format!("%b = {window}"));
    let program = lowered(&text);
    let rooms = program.derived.iter();
    let mut rooms = rooms.filter(|(l, _)| program.locals[*l].name == "room");
    let (room, _) = rooms.next().expect("a room");
    let array = |len| program.pool.as_int(len).is_none() && program.locals_of(len).contains(room);
    assert!(
        program.buffers.iter().any(|(_, b)| array(b.len)),
        "{room:?}"
    );
    // Somebody reads what is written over, but before that; the last one reads it by way of `exp`.
    let sum = |of: &str| format!("%s = reduce({of}, kind=sum, axes=[0], keep=true)");
    let (before, after) = (sum("%a"), sum("exp(%a)"));
    let rows = |first_row: &str| format!("{first}\n%b = concat(%f, {first_row}, axis=0)");
    assert_eq!(append(&format!("{before}\n{}", rows("%s"))), 0);
    assert_eq!(append(&format!("{after}\n{}", rows("%s"))), 0);
    let late = "%t = slice(%e, [-1], [9223372036854775807], [1], axes=[0])";
    let kept = |more: &str| format!("%e = exp(%a)\n{first}\n%c = concat(%f, %row, axis=0)\n{more}");
    assert_eq!(
        append(&kept(&format!("{late}\n%b = concat(%c, %t, axis=0)"))),
        1
    );
    let whole = sum("%a");
    assert_eq!(
        append(&kept(&format!("{whole}\n%b = concat(%c, %s, axis=0)"))),
        1
    );
    // Going back twice.
    let twice = format!(
        "{first}\n%c = concat(%f, %row, %row, axis=0)
         %d = slice(%c, [0], [-1], [1], axes=[0])\n%b = concat(%d, exp(%row), axis=0)"
    );
    assert_eq!(append(&twice), 0);
    assert_eq!(exchanges(&lowered(&early(&twice))), 0);
}

/// A set of rows that shrinks, reshaped for a product and back: no row is added, so the first number of
/// rows is the limit.
#[test]
fn rows_that_leave_have_a_limit_through_reshapes() {
    let program = lowered(
        "fn @main(%x: f32[n,4,6], %w: f32[6,6]) -> (%y: f32[?,4,6]) {
           %y: f32[?,4,6] = loop %i while const true carry (%a: f32[?,4,6] = %x) {
             %m = gather(shape(%a), [0,1], axis=0)
             %rows = reduce(%m, kind=prod, axes=[0], keep=true)
             %b = dot(reshape(%a, concat(%rows, [6], axis=0)), %w)
             %c = reshape(tanh(%b), concat(%m, [6], axis=0))
             %stay = squeeze(nonzero(lt(reduce(%c, kind=sum, axes=[1, 2]), 1.0)), axes=[0])
             %count = gather(shape(%stay), 0, axis=0)
             continue while lt(0, %count) carry gather(%c, %stay, axis=0)
           }
           return %y
         }",
    );
    let mut buffers = program.buffers.iter();
    assert!(buffers.all(|(_, b)| !matches!(b.kind, BufferKind::Segment)));
}

/// A slice that may be to the end, and then has the largest number as its limit.
#[test]
fn the_end_of_a_slice_is_no_size() {
    let program = lowered(
        "fn @main(%x: f32[n], %k: i64[]) -> (%y: i64[?<=5]) {
           %v, %first, %back, %count = unique(%x)
           %some = slice(%count, [0], [5], [1], axes=[0])
           %len = gather(shape(%some), 0, axis=0)
           %one = min(%len, 1)
           %limit = select(lt(%one, 0), 9223372036854775807, %one)
           %all = add(%limit, sub(%len, %one))
           %y = slice(%some, unsqueeze(%k, axes=[0]), unsqueeze(%all, axes=[0]), [1], axes=[0])
           return %y
         }",
    );
    for (_, buffer) in program.buffers.iter() {
        program.pool.walk(buffer.len, &mut |_, expr| {
            assert!(
                !matches!(expr, Expr::Num(_, bits) if bits as i64 > 1 << 47),
                "the length of `{}` has the end of a slice in it",
                buffer.name
            );
        });
    }
}
