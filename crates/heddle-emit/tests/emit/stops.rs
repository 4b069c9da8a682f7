//! Limits are noticed soon, also within one long operator, and recursion stops at its own with the
//! depth that it reached.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::harness::Case;
use heddle_ir::{Datum, Tensor};
use heddle_runtime::plan::PlanFault;
use heddle_runtime::{
    BuildOptions, Fault, Pool, PoolOptions, Program, RunError, RunOptions, Session, SessionOptions,
};

/// Emits a program from inputs on which the interpreter ends at once; what runs it gets others. Its pool is its own: time
/// limits count the wait for runs of other tests.
fn session(name: &str, text: &str, inputs: &[Datum]) -> (Session, Case) {
    let module = heddle_ir::text::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let case = Case::new(name, module, inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
    let built = Program::build(&case.source, &BuildOptions::default());
    let built = built.unwrap_or_else(|e| panic!("{name}: {e}"));
    let pool = Pool::new(&PoolOptions::new(2)).expect("threads");
    let session = Session::new(Arc::new(built), Arc::new(pool), SessionOptions::default());
    (session, case)
}

#[test]
fn a_timeout_ends_a_long_operator() {
    let programs = [
        (
            "reduction",
            "fn @main(%x: f32[n], %y: f32[m]) -> (%z: f32[n]) {
               %rows = unsqueeze(%x, axes=[1])
               %columns = unsqueeze(%y, axes=[0])
               %z = reduce(sin(mul(%rows, %columns)), kind=sum, axes=[1], keep=false)
               return %z
             }",
        ),
        (
            "contraction",
            "fn @main(%x: f32[n], %y: f32[m]) -> (%z: f32[n,n]) {
               %rows = unsqueeze(%x, axes=[1])
               %columns = unsqueeze(%y, axes=[0])
               %a = mul(%rows, %columns)
               %z = dot(%a, transpose(%a, perm=[1,0]))
               return %z
             }",
        ),
    ];
    for (name, text) in programs {
        let few = Datum::from(Tensor::from_slice(vec![1], &[0.5f32]));
        let (mut session, _) = session(name, text, &[few.clone(), few]);
        let data = Tensor::from_slice(vec![200_000], &vec![1.0f32; 200_000]);
        let bytes: &[u8] = data.bytes();
        let (n, m) = match name {
            "reduction" => (100_000, 200_000),
            _ => (8_000, 8_000),
        };
        let inputs = [
            heddle_runtime::Input {
                data: &bytes[..4 * n as usize],
                dims: &[n],
            },
            heddle_runtime::Input {
                data: &bytes[..4 * m as usize],
                dims: &[m],
            },
        ];
        let limits = RunOptions {
            timeout: Some(Duration::from_millis(300)),
            ..Default::default()
        };
        let start = Instant::now();
        let result = session.run(&inputs, &[n, m], &limits);
        assert!(matches!(result, Err(RunError::Timeout(_))), "{name}");
        drop(result);
        let late = start.elapsed();
        assert!(late < Duration::from_secs(3), "{name}: {late:?}");
    }
}

#[test]
fn recursion_stops_at_its_limit() {
    let text = "fn @main(%n: i64[]) -> (%y: i64[]) {
           %y = call @down(%n)
           return %y
         }
         fn @down(%n: i64[]) -> (%y: i64[]) {
           %stop = le(%n, 0)
           %y = if %stop { yield %n } else {
             %z = call @down(sub(%n, 1))
             yield add(%z, 1)
           }
           return %y
         }";
    let few = Datum::from(Tensor::from_slice(vec![], &[3i64]));
    let (mut session, _) = session("down", text, &[few]);
    for (n, limit) in [
        (98i64, 100),
        (99, 100),
        (100, 100),
        (100, 102),
        (1 << 40, 5000),
    ] {
        let limits = RunOptions {
            max_depth: limit,
            ..Default::default()
        };
        let data = n.to_le_bytes();
        let inputs = [heddle_runtime::Input {
            data: &data,
            dims: &[],
        }];
        // The entry function and the call with 0 count, too.
        let enough = n + 2 <= limit;
        match session.run(&inputs, &[], &limits) {
            Ok(outputs) => {
                assert!(enough, "{n} {limit}");
                assert_eq!(outputs.data(0)[..8], n.to_le_bytes());
            }
            Err(RunError::Program { fault, .. }) => {
                assert!(!enough, "{n} {limit}");
                let depth = limit + 1;
                assert_eq!(fault, Fault::Depth { depth, limit });
            }
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn products_of_sizes_do_not_wrap() {
    let text = "fn @main(%x: f32[16], %n: i64[]) -> (%steps: f32[?,16]) {
       %s, %steps = loop %i trip %n carry (%s: f32[16] = %x) {
         continue carry exp(%s) stack %s
       }
       return %steps
     }";
    let few = Datum::from(Tensor::from_slice(vec![16], &[0.5f32; 16]));
    let count = Datum::from(Tensor::from_slice(vec![], &[2i64]));
    let (mut session, _) = session("product", text, &[few, count]);
    let x = [0u8; 64];
    for n in [1i64 << 60, 1 << 58, i64::MAX] {
        let data = n.to_le_bytes();
        let inputs = [
            heddle_runtime::Input {
                data: &x,
                dims: &[16],
            },
            heddle_runtime::Input {
                data: &data,
                dims: &[],
            },
        ];
        let limits = RunOptions {
            timeout: Some(Duration::from_secs(2)),
            ..Default::default()
        };
        let error = session.run(&inputs, &[n], &limits).expect_err("too large");
        assert!(matches!(error, RunError::Plan { .. }), "{n}: {error}");
    }
}

/// Offsets that do not part their array stop the run, and nothing outside of it is read.
#[test]
fn segments_stop_at_wrong_offsets() {
    let text = "fn @main(%x: f32[n,3], %o: i64[m]) -> (%sum: f32[?,3], %most: f32[?,3]) {
         %sum = segment_reduce(%x, %o, kind=sum)
         %most = segment_reduce(mul(%x, 2.0), %o, kind=max)
         return %sum, %most
       }";
    let few = Tensor::from_slice(vec![4, 3], &[0.5f32; 12]).into();
    let ends = Datum::from(Tensor::vector(&[0i64, 3, 3, 4]));
    let (mut session, _) = session("segments", text, &[few, ends]);
    let data = [0u8; 48];
    let wrong: [&[i64]; 12] = [
        &[],
        &[0],
        &[4],
        &[0, 5],
        &[0, 3],
        &[1, 4],
        &[-1, 4],
        &[0, 3, 2, 4],
        &[0, 5, 4],
        &[0, -1, 4],
        &[0, i64::MIN, 4],
        &[0, i64::MAX, i64::MAX, 4],
    ];
    let mut run = |ends: &[i64]| {
        let bytes: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        let inputs = [
            heddle_runtime::Input {
                data: &data,
                dims: &[4, 3],
            },
            heddle_runtime::Input {
                data: &bytes,
                dims: &[ends.len() as i64],
            },
        ];
        let sizes = [4, ends.len() as i64];
        session
            .run(&inputs, &sizes, &RunOptions::default())
            .map(drop)
    };
    for ends in wrong {
        let stopped = run(ends);
        let is_named = match &stopped {
            Err(RunError::Program { fault, .. }) => {
                matches!(fault, Fault::Index { .. } | Fault::Shape { .. })
            }
            // Without an offset there would be -1 rows.
            Err(RunError::Plan(error)) => ends.is_empty() && error.fault == PlanFault::Negative(-1),
            _ => false,
        };
        assert!(is_named, "{ends:?}: {stopped:?}");
    }
    for ends in [&[0, 4][..], &[0, 0, 4, 4], &[0, 1, 2, 3, 4]] {
        run(ends).unwrap_or_else(|e| panic!("{ends:?}: {e}"));
    }
}
