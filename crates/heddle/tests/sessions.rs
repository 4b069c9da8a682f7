//! Sessions: the caller's memory, no allocation in runs after the first, and types that may go to other threads.
//!
//! A program of its own: its allocator counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use heddle::{
    ArrayView, CompileOptions, DType, Device, Error, Model, Program, RunOptions, Session, Tensor,
    Value, compile,
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(data, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A loop over rows whose number is an input's element, so that memory depends on it.
const TEXT: &str = "\
fn @main(%x: f32[n,4], %times: i64[]) -> (%y: f32[n,4], %rows: f32[?,n,4]) {
  %y, %rows = loop trip %times carry (%c: f32[n,4] = %x) {
    %next = mul(%c, 2.0)
    continue carry %next stack %next
  }
  return %y, %rows
}
";

fn program(device: Device) -> Program {
    with_threads(device, 2)
}

fn with_threads(device: Device, threads: usize) -> Program {
    let options = CompileOptions {
        device,
        threads: Some(threads),
        ..Default::default()
    };
    let program = compile(&Model::parse("doubled", TEXT).unwrap(), &options).unwrap();
    assert_eq!(program.device(), device);
    program
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Runs the program for so many rows and times; how often this thread allocated meanwhile.
fn run(session: &mut Session, n: usize, times: i64, memory: &mut [u8]) -> Result<usize, Error> {
    let (x, count) = (bytes(&vec![1.0; 4 * n]), times.to_le_bytes());
    let dims = [n as i64, 4];
    let inputs = [
        ArrayView {
            dtype: DType::F32,
            dims: &dims,
            data: &x,
        },
        ArrayView {
            dtype: DType::I64,
            dims: &[],
            data: &count,
        },
    ];
    let (y, rows) = memory.split_at_mut(16 * n);
    let before = ALLOCATIONS.get();
    session.run_into(&inputs, &mut [&mut *y, &mut *rows])?;
    let allocated = ALLOCATIONS.get() - before;
    assert_eq!(session.dims(0), dims);
    assert_eq!(session.dims(1), [times, n as i64, 4]);
    assert_eq!(y, bytes(&vec![(1 << times) as f32; 4 * n]));
    for (step, row) in rows.chunks_exact(16 * n).take(times as usize).enumerate() {
        assert_eq!(row, bytes(&vec![(2 << step) as f32; 4 * n]));
    }
    Ok(allocated)
}

#[test]
fn outputs_go_to_the_callers_memory() {
    for &device in Device::EVERYWHERE {
        let mut session = program(device).session(&RunOptions::default());
        let mut block = session.memory().alloc(4096).unwrap();
        let memory = block.host_mut().unwrap();
        for (n, times) in [(3, 5), (2, 2), (7, 9), (3, 5)] {
            run(&mut session, n, times, memory).unwrap();
        }
        // Too little memory, and no memory for one of the outputs.
        let error = run(&mut session, 3, 5, &mut memory[..16 * 3 + 8]).unwrap_err();
        assert!(error.to_string().contains("240"), "{error}");
        let error = session.run_into(&[], &mut []).unwrap_err();
        assert!(matches!(error, Error::Run(_)), "{error}");
        run(&mut session, 3, 5, memory).unwrap();
    }
}

#[test]
fn runs_with_the_same_shapes_allocate_nothing() {
    for threads in [1, 2] {
        let program = with_threads(Device::Cpu, threads);
        let mut session = program.session(&RunOptions::default());
        let mut block = session.memory().alloc(4096).unwrap();
        let memory = block.host_mut().unwrap();
        run(&mut session, 7, 9, memory).unwrap();
        // Sizes that are elements may change, too.
        for times in (1..10).chain([9; 91]) {
            let mut allocated = run(&mut session, 7, times, memory).unwrap();
            // After a long wait a team of several looks who lost its core, which allocates.
            for _ in 0..if threads > 1 { 100 } else { 0 } {
                allocated = allocated.min(run(&mut session, 7, times, memory).unwrap());
            }
            assert_eq!(allocated, 0);
        }
    }
}

#[test]
fn outputs_are_known_before_a_run() {
    let (x, count) = (bytes(&[1.0; 12]), 5i64.to_le_bytes());
    let inputs = [
        ArrayView {
            dtype: DType::F32,
            dims: &[3, 4],
            data: &x,
        },
        ArrayView {
            dtype: DType::I64,
            dims: &[],
            data: &count,
        },
    ];
    let mut session = program(Device::Cpu).session(&RunOptions::default());
    let required = session.required(&inputs).unwrap().unwrap();
    assert_eq!((required[0].bytes, required[1].bytes), (48, 240));
    assert_eq!(required[0].dims, [Some(3), Some(4)]);
    assert_eq!(required[1].dims[1..], [Some(3), Some(4)]);
    let mut interpreted = program(Device::Interp).session(&RunOptions::default());
    assert_eq!(interpreted.required(&inputs).unwrap(), None);
    // An array whose bytes do not fit its dims, and one of another type.
    let short = ArrayView {
        data: &x[..40],
        ..inputs[0]
    };
    let error = session.required(&[short, inputs[1]]).unwrap_err();
    assert!(matches!(error, Error::Memory(_)), "{error}");
    let other = ArrayView {
        dtype: DType::I32,
        ..inputs[0]
    };
    let error = session.required(&[other, inputs[1]]).unwrap_err();
    assert!(matches!(error, Error::Run(_)), "{error}");
}

/// Runs on arrays without a session of the caller's; the number of results that were checked.
fn run_on(program: &Program, n: usize, times: i64, options: &RunOptions) -> Option<usize> {
    let (x, count) = (bytes(&vec![0.5; 4 * n]), times.to_le_bytes());
    let dims = [n as i64, 4];
    let found = program
        .run_on(&arrays(&dims, &x, &count), options)
        .unwrap()?;
    let wanted = program.on_interpreter();
    let wanted = wanted.run_in_order(
        vec![
            Tensor::from_slice(vec![n, 4], &vec![0.5f32; 4 * n]).into(),
            Tensor::scalar(times).into(),
        ],
        options,
    );
    let wanted: Vec<Value> = wanted.unwrap().outputs.into_values().collect();
    assert_eq!(found, wanted);
    Some(found.len())
}

fn arrays<'a>(dims: &'a [i64], x: &'a [u8], count: &'a [u8]) -> [ArrayView<'a>; 2] {
    let view = |dtype, dims, data| ArrayView { dtype, dims, data };
    [view(DType::F32, dims, x), view(DType::I64, &[], count)]
}

#[test]
fn runs_on_arrays_follow_their_dims_and_elements() {
    let options = RunOptions::default();
    for threads in [1, 2] {
        let program = with_threads(Device::Cpu, threads);
        // The same dims again, with other elements that memory depends on, and other dims in between.
        for (n, times) in [
            (3, 5),
            (3, 5),
            (3, 2),
            (0, 2),
            (3, 7),
            (1, 0),
            (1, 1),
            (3, 5),
        ] {
            assert_eq!(run_on(&program, n, times, &options), Some(2));
        }
        let program = &program;
        std::thread::scope(|scope| {
            for n in 1..5 {
                scope.spawn(move || {
                    for times in 0..9 {
                        assert_eq!(run_on(program, n, times, &RunOptions::default()), Some(2));
                    }
                });
            }
        });
    }
    assert_eq!(run_on(&program(Device::Interp), 3, 5, &options), None);
    let double = RunOptions {
        f64: true,
        ..options
    };
    let none = program(Device::Cpu).run_on(&[], &double);
    assert!(none.unwrap().is_none());
}

#[test]
fn each_run_on_arrays_has_its_seed() {
    const DRAWN: &str = "\
fn @main(%x: u64[n]) -> (%y: u64[n]) {
  return philox(run_key(), %x)
}
";
    let options = CompileOptions {
        threads: Some(1),
        ..Default::default()
    };
    let program = compile(&Model::parse("drawn", DRAWN).unwrap(), &options).unwrap();
    let x = bytes(&[0.0; 8]);
    let input = ArrayView {
        dtype: DType::U64,
        dims: &[4],
        data: &x,
    };
    let drawn = |seed| {
        let options = RunOptions {
            seed,
            ..Default::default()
        };
        program.run_on(&[input], &options).unwrap().unwrap()
    };
    let first = drawn(1);
    assert_ne!(first, drawn(2));
    assert_eq!(first, drawn(1));
}

#[test]
fn errors_of_runs_on_arrays_are_those_of_runs() {
    const FAR: &str = "\
fn @main(%x: f32[n,4], %k: i64[]) -> (%y: f32[4]) {
  return gather(%x, %k, axis=0)
}
";
    let options = CompileOptions {
        threads: Some(1),
        ..Default::default()
    };
    let program = compile(&Model::parse("far", FAR).unwrap(), &options).unwrap();
    let limits = RunOptions::default();
    let x = bytes(&[1.0; 12]);
    let run = |dims: &[i64], k: i64| {
        let values = [
            Tensor::from_slice(dims.iter().map(|&n| n as usize).collect(), &[1f32; 12]).into(),
            Tensor::scalar(k).into(),
        ];
        let wanted = program.run_in_order(values.into(), &limits).unwrap_err();
        let found = program
            .run_on(&arrays(dims, &x, &k.to_le_bytes()), &limits)
            .unwrap_err();
        assert_eq!(found.to_string(), wanted.to_string());
        assert_eq!((found.kind(), found.node()), (wanted.kind(), wanted.node()));
        found.to_string()
    };
    assert!(run(&[3, 4], 7).contains("7"));
    assert!(run(&[4, 3], 0).contains("x"));
    assert!(run(&[12], 0).contains("x"));
    let (few, short) = (program.run_on(&[], &limits), &x[..40]);
    assert!(few.unwrap_err().to_string().contains("2"));
    let torn = program.run_on(&arrays(&[3, 4], short, &0i64.to_le_bytes()), &limits);
    assert!(matches!(torn.unwrap_err(), Error::Memory(_)));
}

#[test]
fn sessions_run_side_by_side() {
    let program = program(Device::Cpu);
    std::thread::scope(|scope| {
        for n in 1..4 {
            let mut session = program.session(&RunOptions::default());
            scope.spawn(move || {
                let mut block = session.memory().alloc(4096).unwrap();
                let memory = block.host_mut().unwrap();
                for times in 1..9 {
                    run(&mut session, n, times, memory).unwrap();
                }
            });
        }
    });
}

/// Models and programs may be shared by threads; a session may go to another one.
#[test]
fn types_may_go_to_other_threads() {
    const fn shared<T: Send + Sync>() {}
    const fn sent<T: Send>() {}
    const {
        shared::<Model>();
        shared::<Program>();
        shared::<Value>();
        shared::<Error>();
        shared::<heddle::Block>();
        sent::<Session>();
    }
}
