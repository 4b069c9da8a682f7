//! Shares in pieces, which workers take from each other: the same results for any number of
//! workers, no race, and a worker that is held up keeps no others waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::harness::{Case, PROGRAMS, drawn, sanitized};
use heddle_ir::{Datum, Module};
use heddle_machine::{Machine, Pieces};
use heddle_runtime::{
    BuildOptions, Fault, Input, Pool, PoolOptions, Program, RunError, RunOptions, Sanitizer,
    Session, SessionOptions,
};
use heddle_uprogram::contract;

/// Operators of all kinds with shares that do not divide evenly.
const LARGE: &str = "
fn @main(%x: f32[n,130], %w: f32[130,1003], %v: f32[1,300], %u: f32[300,1500], %k: f32[13,2,3], %s: f32[1,2,1201]) -> (%a: f32[n,1003], %b: f32[1,1500], %c: f32[1,13,1199], %d: f32[n], %e: f32[1,1500]) {
  %p = dot(%x, %w)
  %a = tanh(%p)
  %b = dot(%v, %u)
  %c = conv(%s, %k, [0, 0], strides=[1], dilations=[1], input_dilations=[1], groups=1)
  %d = reduce(%a, kind=max, axes=[1], keep=false)
  %e = loop %i trip 7 carry (%h: f32[1,1500] = %b) {
    %f = dot(slice(%h, [0], [300], [1], axes=[1]), %u)
    continue carry tanh(mul(%f, 0.05))
  }
  return %a, %b, %c, %d, %e
}
";

/// A sum for each row, and rows that an index chooses.
const ROWS: &str = "
fn @main(%x: f32[64,100], %i: i64[64]) -> (%y: f32[64,100], %z: f32[64]) {
  %y = exp(gather(%x, %i, axis=0))
  %z = reduce(%y, kind=sum, axes=[1], keep=false)
  return %y, %z
}
";

/// Every share is in pieces that can be.
fn machine() -> Machine {
    let mut machine = Machine::reference_host(2).with_barrier_ns(0.0);
    machine.start_ns = 0.0;
    machine.pieces = Some(Pieces {
        share_ns: 0.0,
        piece_ns: 0.0,
        most: 16,
    });
    machine
}

fn case(name: &str, module: Module, inputs: &[Datum]) -> Case {
    let case = Case::scheduled(name, module, inputs, &machine());
    case.unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn in_pieces(case: &Case) -> usize {
    case.source.text.matches("while (heddle_take(").count()
}

#[test]
fn kernels_have_blocks_of_the_size_that_pieces_assume() {
    let text = heddle_emit::C.contract.expect("kernels in C");
    for (name, value) in [
        ("HEDDLE_PANELS", contract::BLOCK_PANELS),
        ("HEDDLE_BLOCK_ROWS", contract::BLOCK_ROWS),
    ] {
        let line = format!("#define {name} {value}\n");
        assert!(text.contains(&line), "{line}");
    }
}

#[test]
fn results_are_the_same() {
    let options = BuildOptions::default();
    let mut all = 0;
    for (name, text) in PROGRAMS {
        for (size, seed) in [(3, 1), (70, 2)] {
            let (module, inputs) = drawn(name, text, size, seed);
            let case = case(name, module, &inputs);
            all += in_pieces(&case);
            case.check(name, &options, &[1, 2, 5]);
        }
    }
    assert!(all > 100, "{all}");
    for size in [1, 7, 205] {
        let (module, inputs) = drawn("large", LARGE, size, 3);
        let case = case("large", module, &inputs);
        let found = in_pieces(&case);
        assert!(found >= 3, "{found} of {size}");
        case.check("large", &options, &[1, 2, 3, 4, 5]);
    }
}

#[test]
fn a_host_that_runs_the_control_flow_takes_whole_shares() {
    let (module, inputs) = drawn("large", LARGE, 9, 4);
    let case = case("large", module, &inputs).hosted();
    assert_eq!(in_pieces(&case), 0);
    case.check("large", &BuildOptions::default(), &[2]);
}

/// Half of the workers leave and join at each head of a loop.
#[test]
fn there_is_no_race() {
    let named = |wanted: &str| PROGRAMS.iter().find(|p| p.0 == wanted).expect("a program");
    let some = ["loops", "reductions", "kernels", "caches"].map(|name| *named(name));
    for (name, text) in some.into_iter().chain([("large", LARGE), ("rows", ROWS)]) {
        let (module, inputs) = drawn(name, text, 70, 1);
        let case = case(name, module, &inputs);
        assert!(in_pieces(&case) > 0);
        let teams = [(2, 2), (3, 5), (5, 5)];
        if !sanitized::check(name, &case, Sanitizer::Thread, &teams, 4) {
            return;
        }
    }
}

/// A program with changed text, on a pool of so many workers. Its pool is its own: time limits count
/// the wait for runs of other tests.
fn session(case: &Case, workers: usize) -> Session {
    let built = Program::build(&case.source, &BuildOptions::default());
    let built = Arc::new(built.unwrap_or_else(|e| panic!("{e}\n{}", case.source.text)));
    let pool = Pool::new(&PoolOptions::new(workers)).expect("threads");
    Session::new(built, Arc::new(pool), SessionOptions::default())
}

/// Changes the text behind the only place of this.
fn behind(case: &mut Case, place: &str, what: &str) {
    assert_eq!(case.source.text.matches(place).count(), 1, "{place}");
    let with = format!("{place}\n{what}");
    case.source.text = case.source.text.replace(place, &with);
}

/// A worker sleeps in its first piece. Each element says who computed it.
#[test]
fn others_take_the_pieces_of_a_worker_that_is_held_up() {
    const TEXT: &str = "fn @main(%x: f32[960]) -> (%y: f32[960]) {
        %y = exp(%x)
        return %y
    }";
    for (workers, late) in [(2, 0), (2, 1), (3, 1), (4, 3)] {
        let (module, inputs) = drawn("late", TEXT, 1, 1);
        let mut case = case("late", module, &inputs);
        let taken = "while (heddle_take(env, &pieces)) {";
        behind(
            &mut case,
            taken,
            &format!(
                "if (worker == {late}) {{ struct timespec t = {{0, 300000000}}; nanosleep(&t, NULL); }}"
            ),
        );
        let value = "heddle_exp_f32(b0[v0])";
        assert_eq!(case.source.text.matches(value).count(), 1);
        case.source.text = case.source.text.replace(value, "b1[v0] * 8 + worker");
        // Each is written once: an element begins as 1.
        let place = "while (heddle_take(env, &pieces)) {";
        let once = "for (int64_t k = pieces.from; k < pieces.to; k++) b1[k] = 1;";
        behind(&mut case, place, once);
        let mut session = session(&case, workers);
        let limits = RunOptions {
            team: workers,
            ..Default::default()
        };
        let outputs = session.run(&case.inputs(), &case.sizes, &limits);
        let outputs = outputs.unwrap_or_else(|e| panic!("{e}"));
        let elements = outputs.data(0)[..4 * 960].chunks(4);
        let mut counts = vec![0; workers];
        for element in elements {
            let value = f32::from_le_bytes(element.try_into().expect("four bytes"));
            counts[value as usize - 8] += 1;
        }
        // A share of 480 places is cut into 16 pieces.
        assert_eq!(counts.iter().sum::<usize>(), 960);
        assert!(counts[late] <= 30, "{workers} workers: {counts:?}");
    }
}

#[test]
fn errors_and_limits_end_it() {
    let rows: Vec<i64> = (0..64).collect();
    let x = heddle_ir::Tensor::from_slice(vec![64, 100], &vec![0.5f32; 6400]);
    let good = heddle_ir::Tensor::from_slice(vec![64], &rows);
    let module = heddle_ir::text::parse(ROWS).expect("a program");
    let mut case = case("rows", module, &[x.into(), good.into()]);
    assert!(in_pieces(&case) > 0);
    let mut session = session(&case, 3);
    let run = |session: &mut Session, case: &Case, rows: &[i64], limits: &RunOptions| {
        let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
        let mut inputs = case.inputs();
        let dims = inputs[1].dims;
        inputs[1] = Input { data: &bytes, dims };
        session.run(&inputs, &case.sizes, limits).map(|_| ())
    };
    let mut bad = rows.clone();
    for at in [0, 31, 63] {
        bad.copy_from_slice(&rows);
        bad[at] = 64;
        let failed = run(&mut session, &case, &bad, &RunOptions::default());
        let index = matches!(
            failed,
            Err(RunError::Program {
                fault: Fault::Index { .. },
                ..
            })
        );
        assert!(index, "{failed:?}");
        // The next run counts anew.
        run(&mut session, &case, &rows, &RunOptions::default()).expect("a run");
    }
    let all = case.source.text.replace(
        "while (heddle_take(env, &pieces)) {",
        "while (heddle_take(env, &pieces)) { struct timespec t = {0, 50000000}; nanosleep(&t, NULL);",
    );
    case.source.text = all;
    let mut slow = self::session(&case, 2);
    let limits = RunOptions {
        timeout: Some(Duration::from_millis(100)),
        ..Default::default()
    };
    let start = Instant::now();
    let stopped = run(&mut slow, &case, &rows, &limits);
    assert!(matches!(stopped, Err(RunError::Timeout(_))), "{stopped:?}");
    // Thirty-two pieces of two operators would take 1.6 s.
    assert!(start.elapsed() < Duration::from_millis(1200));
}
