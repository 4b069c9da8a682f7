//! A sample of the random programs under ThreadSanitizer and AddressSanitizer: no race, no access
//! beyond the end of an array, and the interpreter's results. And that the sanitizers would say so.
//!
//! `HEDDLE_SANITIZED` says how many; `HEDDLE_SEED` runs one alone.

use crate::harness::{Case, drawn, random, sanitized};
use heddle_ir::Tensor;
use heddle_runtime::{Sanitizer, StandaloneError};

/// The text of a barrier.
const SYNC: &str = "HEDDLE_TRY(heddle_barrier(env, worker, workers));";

#[test]
fn no_random_program_is_objected_to() {
    let seeds = random::seeds("HEDDLE_SANITIZED", 16);
    random::check_all(seeds, random::case, |seed, case| {
        let name = format!("seed {seed}");
        sanitized::check(
            &name,
            &case,
            Sanitizer::Thread,
            &[(2, 2), (3, 5), (5, 5)],
            5,
        );
        sanitized::check(
            &name,
            &case,
            Sanitizer::Address,
            &[(2, 2), (3, 5), (5, 5)],
            2,
        );
    });
}

/// Instead of the first wait for all there is a delay, so that no unit is ahead of the others when
/// it comes to the next one, where they would be brought into order by luck.
#[test]
fn a_missing_synchronisation_is_found() {
    let delay = "{ usleep(2000); }";
    finds(Sanitizer::Thread, "data race", |text| {
        text.contains(SYNC).then(|| text.replacen(SYNC, delay, 1))
    });
}

#[test]
fn a_store_beyond_the_end_is_found() {
    let place = "env->outputs[0].data;";
    finds(Sanitizer::Address, "heap-buffer-overflow", |text| {
        let beyond = "env->outputs[0].data + 64;";
        text.contains(place)
            .then(|| text.replacen(place, beyond, 1))
    });
}

/// The sanitizer, if there is one, finds this fault in one of the random programs that were broken. Some touch nothing in the
/// broken place, and some crash first: a store beyond an array may hit anything.
fn finds(sanitizer: Sanitizer, fault: &str, change: impl Fn(&str) -> Option<String>) {
    const TRIED: usize = 12;
    let cases = (0..).filter_map(|seed| {
        let mut case = random::case(seed).ok()?;
        case.source.text = change(&case.source.text)?;
        Some(case)
    });
    for case in cases.take(TRIED) {
        let Some(program) = sanitized::build(&case.source, sanitizer) else {
            return;
        };
        if let Err(StandaloneError::Stopped { report, .. }) =
            sanitized::run(&program, &case, (3, 3), 10)
            && report.contains(fault)
        {
            return;
        }
    }
    panic!("no {fault} was found in {TRIED} broken programs")
}

/// A slice without elements that starts at the end of its axis, of an array and of an empty one.
#[test]
fn what_a_mask_leaves_out_is_no_access() {
    let text = "fn @main(%x: f32[n], %k: i64[1]) -> (%y: f32[3]) {
         %e = slice(%x, %k, [100], [1], axes=[0])
         %p = pad(%e, [0, 1], 7, mode=constant)
         %first = reshape(slice(%p, [0], [1], [1], axes=[0]), [1])
         %y = pad(%first, [1, 1], 7, mode=constant)
         return %y
       }";
    for n in [0, 4] {
        let (module, mut inputs) = drawn("an empty slice", text, n, 1);
        inputs[1] = Tensor::from_slice(vec![1], &[n]).into();
        let case = Case::new("an empty slice", module, &inputs).unwrap_or_else(|e| panic!("{e}"));
        let name = format!("{n} rows");
        sanitized::check(&name, &case, Sanitizer::Address, &[(2, 2)], 2);
    }
}
