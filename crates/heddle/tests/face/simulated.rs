//! The simulated GPU gives what the interpreter gives for each kind of control flow, and stops at the same limits and errors.

use std::collections::BTreeMap;
use std::time::Duration;

use heddle::{
    Baseline, CompileOptions, Device, Dim, Error, ErrorKind, Grid, Inputs, Limit, Model,
    OpenOptions, Program, RunOptions, Tensor, Tolerance, Type, compare, compile,
};

macro_rules! by_hand {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../", $path)))
    };
}

/// Loops by trip count, condition and both, with carried values and scan outputs; branches in loops; recursions; forks of these; stacks.
const KINDS: &[(&str, &str)] = &[
    by_hand!("heddle-emit/tests/programs/loops.heddle"),
    by_hand!("heddle-emit/tests/programs/branches.heddle"),
    by_hand!("heddle-emit/tests/programs/once.heddle"),
    by_hand!("heddle-emit/tests/programs/recursion.heddle"),
    by_hand!("heddle-emit/tests/programs/stacks.heddle"),
    by_hand!("heddle-schedule/tests/programs/forks.heddle"),
];

fn program(text: &str, grid: Grid) -> Program {
    let options = CompileOptions {
        device: Device::Sim,
        grid,
        verify: true,
        ..Default::default()
    };
    compile(&Model::parse("m", text).unwrap(), &options).unwrap()
}

fn scalar(x: i64) -> Inputs {
    Inputs::from_iter([("k".to_string(), Tensor::scalar(x).into())])
}

/// Each named size of the inputs is this one.
fn sizes(program: &Program, size: u64) -> BTreeMap<String, u64> {
    let mut sizes = BTreeMap::new();
    for port in program.signature().inputs {
        let Type::Tensor {
            dims: Some(dims), ..
        } = port.ty
        else {
            continue;
        };
        for dim in dims {
            if let Dim::Named(name) = dim {
                sizes.insert(name, size);
            }
        }
    }
    sizes
}

#[test]
fn each_kind_of_control_flow_gives_what_the_interpreter_gives() {
    // Sums are in another order.
    let tolerance = Tolerance {
        rtol: 1e-5,
        atol: 1e-5,
        exact_integers: true,
        any_float: false,
    };
    for (name, text) in KINDS {
        for grid in ["blocks=3,threads=32", "blocks=4,threads=64,warp=64,seed=2"] {
            let program = program(text, grid.parse().unwrap());
            let what = &format!("{name} on {grid}");
            assert_eq!(program.device(), Device::Sim, "{what}");
            assert!(program.is_whole(), "{what}");
            for size in [1, 5] {
                let inputs = program.draw(1, &sizes(&program, size)).unwrap();
                let run = |program: &Program| {
                    program
                        .run(inputs.clone(), &RunOptions::default())
                        .unwrap()
                        .outputs
                };
                let (own, wanted) = (run(&program), run(&program.on_interpreter()));
                for (name, want) in &wanted {
                    if let Err(differs) = compare(&own[name], want, &tolerance) {
                        panic!("{what}, output {name}: {differs}");
                    }
                }
            }
        }
    }
}

const LOOP: &str = "fn @main(%k: i64[]) -> (%n: i64[], %y: f32[3]) {
  %x = const [1.0, 2.0, 3.0]: f32[3]
  %n, %y = loop %i while lt(%k, 100) carry (%j = %k, %h: f32[3] = %x) {
    %next = add(%j, 1)
    continue while lt(%next, 100) carry %next, add(%h, %h)
  }
  return %n, %y
}
";

#[test]
fn limits_end_runs() {
    let program = program(LOOP, Grid::default());
    let stopped = |options: &RunOptions, k| program.run(scalar(k), options).unwrap_err();
    let few = RunOptions {
        max_iterations: Some(5),
        ..Default::default()
    };
    assert_eq!(stopped(&few, 0).limit(), Some(Limit::Iterations));
    let short = RunOptions {
        timeout: Some(Duration::from_millis(30)),
        ..Default::default()
    };
    assert_eq!(stopped(&short, i64::MIN).limit(), Some(Limit::Timeout));
    let small = RunOptions {
        max_memory: Some(1),
        ..Default::default()
    };
    assert_eq!(stopped(&small, 0).limit(), Some(Limit::Memory));
    // The next run is right.
    let run = program.run(scalar(97), &RunOptions::default()).unwrap();
    let y = run.outputs["y"].as_tensor().unwrap().to_vec::<f32>();
    assert_eq!(y, Some(vec![8.0, 16.0, 24.0]));

    let deep = "fn @main(%k: i64[]) -> (%n: i64[]) {
  %n = call @down(%k)
  return %n
}

fn @down(%k: i64[]) -> (%n: i64[]) {
  %n = if gt(%k, 0) {
    yield add(call @down(sub(%k, 1)), 1)
  } else {
    yield 0
  }
  return %n
}
";
    let program = self::program(deep, Grid::default());
    let shallow = RunOptions {
        max_depth: Some(20),
        ..Default::default()
    };
    let run = program.run(scalar(15), &shallow).unwrap();
    assert_eq!(run.outputs["n"], Tensor::scalar(15i64).into());
    let error = program.run(scalar(25), &shallow).unwrap_err();
    assert_eq!(error.limit(), Some(Limit::Depth), "{error}");
}

#[test]
fn errors_of_the_model_name_its_node() {
    let text = "fn @main(%k: i64[]) -> (%y: f32[]) {
  %x = const [1.0, 2.0, 3.0]: f32[3]
  %y = gather(%x, %k, axis=0) at Gather \"pick\"
  return %y
}
";
    let program = program(text, Grid::default());
    let error = program.run(scalar(7), &RunOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.to_string();
    assert!(text.contains("pick") && text.contains("index 7"), "{text}");
    let run = program.run(scalar(1), &RunOptions::default()).unwrap();
    assert_eq!(run.outputs["y"], Tensor::scalar(2f32).into());
}

/// The kernel ends when an array needs memory, and runs again when it has it.
#[test]
fn arrays_grow_between_launches() {
    let text = "fn @main(%k: i64[]) -> (%y: f32[?]) {
  %x = const splat 0.0: f32[0]
  %many = const splat 1.0: f32[20000]
  %n, %y = loop while lt(%k, 9) carry (%j = %k, %h: f32[?] = %x) {
    %next = add(%j, mul(%j, %j))
    continue while lt(%next, 9) carry %next, concat(%h, mul(%many, cast(%j, to=f32)), axis=0)
  }
  return %y
}
";
    let simulated = program(text, Grid::default());
    assert!(simulated.is_whole());
    let model = Model::parse("m", text).unwrap();
    let interpreted = CompileOptions {
        device: Device::Interp,
        ..Default::default()
    };
    let interpreted = compile(&model, &interpreted).unwrap();
    let run = |program: &Program, limit: Option<u64>| {
        let options = RunOptions {
            max_memory: limit,
            ..Default::default()
        };
        program.run(scalar(1), &options)
    };
    // 1, 2, 6 and 42.
    let expected = run(&interpreted, None).unwrap().outputs;
    assert_eq!(expected["y"].as_tensor().unwrap().shape(), [3 * 20_000]);
    // Launches of the first run, and none more in the next.
    for _ in 0..2 {
        assert_eq!(run(&simulated, None).unwrap().outputs, expected);
    }
    let error = run(&simulated, Some(200_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("growing arrays need"), "{error}");
    assert_eq!(run(&simulated, None).unwrap().outputs, expected);
}

#[test]
fn grids_are_checked_and_saved() {
    let none = Grid {
        warp: 48,
        ..Default::default()
    };
    let options = CompileOptions {
        device: Device::Sim,
        grid: none,
        ..Default::default()
    };
    let error = compile(&Model::parse("m", LOOP).unwrap(), &options).unwrap_err();
    assert!(matches!(error, Error::Grid(_)), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.hprog");
    let saved = program(LOOP, "blocks=2,seed=9".parse().unwrap());
    saved.save(&path).unwrap();
    let opened = Program::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(opened.device(), Device::Sim);
    assert_eq!(opened.to_bytes().unwrap(), saved.to_bytes().unwrap());
    let options = OpenOptions {
        device: Some(Device::Sim),
        grid: Some(none),
        ..Default::default()
    };
    assert!(matches!(
        Program::open(&path, &options),
        Err(Error::Grid(_))
    ));
}

#[test]
fn the_trace_of_a_run_is_simulated_and_a_host_has_no_part() {
    let program = program(LOOP, Grid::default());
    let options = RunOptions::default();
    let trace = program
        .baseline(Baseline::Trace, scalar(96), &options)
        .unwrap();
    assert_eq!(trace.device(), Device::Sim);
    let run = |program: &Program| program.run(scalar(96), &options).unwrap().outputs;
    assert_eq!(run(&trace), run(&program));
    let host = program.baseline(Baseline::Host, scalar(96), &options);
    assert!(matches!(host, Err(Error::NotCompiled(_))));
}
