//! The limit of nested calls: the same on all devices, and cheap where it is not reached.
//!
//! A program of its own: a test measures the memory of the whole process.

use heddle::{
    CompileOptions, Device, Error, ErrorKind, Inputs, Model, Outputs, Program, RunOptions, Tensor,
    Value, compile,
};

/// Calls nest `n + 2` deep: the entry, and the chain's calls with `n` to 0.
const CHAIN: &str = "\
fn @main(%x: f32[k], %n: i64[]) -> (%y: f32[k]) {
  return call @chain(%x, %n)
}

fn @chain(%x: f32[k], %n: i64[]) -> (%y: f32[k]) {
  %y = if le(%n, 0) {
    yield %x
  } else {
    %part = mul(%x, 0.5)
    yield add(call @chain(%part, sub(%n, 1)), %part)
  }
  return %y
}
";

fn program(device: Device) -> Program {
    let options = CompileOptions {
        device,
        threads: Some(2),
        ..Default::default()
    };
    let program = compile(&Model::parse("chain", CHAIN).unwrap(), &options).unwrap();
    assert_eq!(program.device(), device);
    assert_eq!(program.key().is_some(), device == Device::Cpu);
    program
}

fn run(
    program: &Program,
    k: usize,
    n: i64,
    max_depth: Option<usize>,
    max_memory: Option<u64>,
) -> Result<Outputs, Error> {
    let x = Tensor::from_slice(vec![k], &vec![1f32; k]);
    let n = Tensor::from_slice(vec![], &[n]);
    let inputs = [("x", x), ("n", n)].map(|(name, t)| (name.to_string(), Value::from(t)));
    let options = RunOptions {
        max_depth,
        max_memory,
        ..Default::default()
    };
    let run = program.run(Inputs::from(inputs), &options)?;
    Ok(run.outputs)
}

#[test]
fn a_chain_of_5000_runs_by_default() {
    for device in [Device::Interp, Device::Cpu] {
        let outputs = run(&program(device), 3, 5000, None, None).unwrap();
        let Value::Tensor(y) = &outputs["y"] else {
            panic!("an array")
        };
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.0; 3]);
    }
}

#[test]
fn the_same_limit_stops_every_device_at_the_same_depth() {
    let programs = [Device::Interp, Device::Cpu].map(program);
    // The default, and one that is just enough for 50.
    for (n, limit) in [(9_998, None), (50, Some(52))] {
        let told = programs.each_ref().map(|program| {
            run(program, 1, n, limit, None).unwrap();
            let error = run(program, 1, n + 1, limit, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit);
            let (text, limit) = (error.to_string(), n + 2);
            let depth = limit + 1;
            let what = format!("would nest {depth} deep, over the limit of {limit}");
            assert!(text.contains(&what), "{text}");
            error.hint().unwrap()
        });
        assert_eq!(told[0], told[1]);
        assert!(told[0].contains("RunOptions::max_depth"), "{}", told[0]);
    }
}

/// Frames of megabytes, for 10,000 calls or for any number, are address space until they are used.
#[test]
fn frames_that_are_not_used_take_no_memory() {
    let before = peak_memory();
    let program = program(Device::Cpu);
    for max_depth in [None, Some(usize::MAX)] {
        run(&program, 1 << 19, 3, max_depth, None).unwrap();
    }
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after - before < 512 << 20, "{before} {after}");
    }
}

#[test]
fn recursion_that_memory_ends_says_so() {
    let program = program(Device::Cpu);
    let limit = Some(64 << 20);
    run(&program, 1 << 16, 20, None, limit).unwrap();
    let error = run(&program, 1 << 16, 5000, None, limit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    let (text, hint) = (error.to_string(), error.hint().unwrap());
    assert!(text.contains("memory has no frames"), "{text}");
    assert!(hint.contains("RunOptions::max_memory"), "{hint}");
}

/// Most bytes of memory that this process has used at a time.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}
