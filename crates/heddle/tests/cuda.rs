//! Programs on the fake CUDA driver: results, growth, limits from outside, lost contexts.
//!
//! A program of its own: the driver is looked for once in a process, by the environment. Each test runs its work in a child with the
//! settings that it needs, and then reads what the driver wrote down.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use heddle::{
    CacheChoice, CancelToken, CompileOptions, Device, Dim, ErrorKind, Inputs, Limit, Machine,
    Model, OpenOptions, Outputs, Precision, Program, Remedy, RunOptions, Step, Tensor, Tolerance,
    Type, compare, compile,
};

use fake_cuda::in_child;

#[allow(dead_code)] // Tests of this crate use a part of it.
#[path = "../../../tests/fake-cuda/mod.rs"]
mod fake_cuda;

fn options() -> CompileOptions {
    CompileOptions {
        device: Device::Cuda,
        verify: true,
        ..Default::default()
    }
}

fn program(text: &str) -> Program {
    compile(&Model::parse("m", text).unwrap(), &options()).unwrap()
}

/// A program whose blocks wait for each other, rather than give each other numbers.
fn waiting(text: &str) -> Program {
    let options = CompileOptions {
        without: vec![Step::named("gather_state").unwrap()],
        ..options()
    };
    compile(&Model::parse("m", text).unwrap(), &options).unwrap()
}

fn outputs(program: &Program, inputs: &Inputs) -> Outputs {
    let run = program.run(inputs.clone(), &RunOptions::default());
    run.unwrap().outputs
}

fn assert_close(own: &Outputs, wanted: &Outputs) {
    // Sums are in another order.
    let tolerance = Tolerance {
        rtol: 1e-5,
        atol: 1e-5,
        exact_integers: true,
        any_float: false,
    };
    for (name, want) in wanted {
        if let Err(differs) = compare(&own[name], want, &tolerance) {
            panic!("output {name}: {differs}");
        }
    }
}

fn scalar(k: i64) -> Inputs {
    Inputs::from_iter([("k".to_string(), Tensor::scalar(k).into())])
}

/// Each named size of the inputs is this one.
fn sizes(program: &Program, size: u64) -> BTreeMap<String, u64> {
    let dims = program
        .signature()
        .inputs
        .into_iter()
        .flat_map(|port| match port.ty {
            Type::Tensor { dims, .. } => dims.unwrap_or_default(),
            _ => vec![],
        });
    let named = dims.filter_map(|dim| match dim {
        Dim::Named(name) => Some((name, size)),
        _ => None,
    });
    named.collect()
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

/// The first granule holds each array of these programs but one of `appends`, for which its first run takes a launch more.
#[test]
fn arrays_grow_as_the_interpreter_has_them() {
    let Some(log) = in_child("arrays_grow_as_the_interpreter_has_them", "") else {
        for text in [
            include_str!("../../heddle-emit/tests/programs/growth.heddle"),
            include_str!("../../heddle-emit/tests/programs/appends.heddle"),
        ] {
            runs_as_interpreted(text);
        }
        return;
    };
    assert_eq!(log["cuLaunchKernelEx"], 2 + 3, "{log:?}");
}

/// A recurrence whose matrix is read in each of six steps.
const RECURRENCE: &str = "fn @main(%x: f32[1,256], %w: f32[256,256]) -> (%y: f32[1,256]) {
  %y = loop %i trip 6 carry (%h: f32[1,256] = %x) {
    continue carry tanh(mul(dot(%h, %w), 0.1))
  }
  return %y
}
";

fn runs_as_interpreted(text: &str) {
    is_as_interpreted(&program(text));
}

fn is_as_interpreted(program: &Program) {
    assert!(program.is_whole());
    let inputs = program.draw(3, &sizes(program, 5)).unwrap();
    let wanted = outputs(&program.on_interpreter(), &inputs);
    for _ in 0..2 {
        assert_close(&outputs(program, &inputs), &wanted);
    }
}

/// The driver refuses a launch that gives blocks other bytes than the program has an array of.
#[test]
fn launches_have_shared_memory_for_resident_operands() {
    let name = "launches_have_shared_memory_for_resident_operands";
    let Some(log) = in_child(name, "") else {
        return runs_as_interpreted(RECURRENCE);
    };
    assert_eq!(log["cuFuncSetAttribute"], 1, "{log:?}");
}

#[test]
fn blocks_with_little_shared_memory_have_no_resident_operands() {
    let name = "blocks_with_little_shared_memory_have_no_resident_operands";
    let Some(log) = in_child(name, "shared=49152") else {
        return runs_as_interpreted(RECURRENCE);
    };
    assert!(!log.contains_key("cuFuncSetAttribute"), "{log:?}");
}

/// Appends of 80,000 bytes, whose number nothing bounds; 42 of them take 3.4 MB.
const LARGE: &str = "fn @main(%k: i64[], %steps: i64[2]) -> (%y: f32[?]) {
  %x = const splat 0.0: f32[0]
  %many = const splat 1.0: f32[20000]
  %n, %y = loop while lt(%k, 42) carry (%j = %k, %h: f32[?] = %x) {
    %next = add(%j, gather(%steps, mod(%j, 2), axis=0))
    continue while lt(%next, 42) carry %next, concat(%h, mul(%many, cast(%j, to=f32)), axis=0)
  }
  return %y
}
";

/// Inputs of `LARGE`, which counts from here on.
fn from(k: i64) -> Inputs {
    let mut inputs = scalar(k);
    let steps = Tensor::from_slice(vec![2], &[1i64, 1]);
    inputs.insert("steps".into(), steps.into());
    inputs
}

#[test]
fn a_kernel_is_launched_again_with_more_memory() {
    let name = "a_kernel_is_launched_again_with_more_memory";
    if in_child(name, "memory=64M").is_some() {
        return;
    }
    let program = program(LARGE);
    assert!(program.is_whole());
    let wanted = outputs(&program.on_interpreter(), &from(0));
    for _ in 0..3 {
        assert_eq!(outputs(&program, &from(0)), wanted);
    }
    let held = program.held_bytes();
    assert!(held >= 42 * 80_000, "{held}");
    let limited = |bytes| RunOptions {
        max_memory: Some(bytes),
        ..Default::default()
    };
    let error = program.run(from(0), &limited(3 << 20)).unwrap_err();
    assert_eq!(error.limit(), Some(Limit::Memory), "{error}");
    assert!(error.to_string().contains("growing arrays need"), "{error}");
    let error = program.run(from(0), &limited(200_000)).unwrap_err();
    assert_eq!(error.limit(), Some(Limit::Memory), "{error}");
    // Memory that the device does not have ends the run likewise.
    let error = program.run(from(-2000), &RunOptions::default());
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("does not give"), "{error}");
    assert_eq!(outputs(&program, &from(0)), wanted);
}

#[test]
fn growth_takes_one_launch_more() {
    let Some(log) = in_child("growth_takes_one_launch_more", "") else {
        let program = program(LARGE);
        for _ in 0..3 {
            outputs(&program, &from(0));
        }
        return;
    };
    assert_eq!(log["cuLaunchKernelEx"], 2 + 1 + 1, "{log:?}");
    assert_eq!(log["cuMemCreate"], 2, "{log:?}");
}

#[test]
fn programs_are_scheduled_for_the_blocks_that_fit() {
    let name = "programs_are_scheduled_for_the_blocks_that_fit";
    if in_child(name, "sms=3,blocks=2,threads=32").is_some() {
        return;
    }
    let options = CompileOptions {
        machine: Some(Machine::named("h100").unwrap()),
        ..options()
    };
    let text = "fn @main(%x: f32[64,64]) -> (%y: f32[64,64]) {
  %y = dot(tanh(dot(%x, %x)), %x)
  return %y
}
";
    let program = compile(&Model::parse("m", text).unwrap(), &options).unwrap();
    let [note] = &*program.report().notes else {
        panic!("{:?}", program.report().notes);
    };
    assert!(note.contains("132 blocks of 32 threads"), "{note}");
    assert!(note.contains("6 of them can be on Fake GPU"), "{note}");
    let inputs = program.draw(1, &BTreeMap::new()).unwrap();
    let wanted = outputs(&program.on_interpreter(), &inputs);
    assert_close(&outputs(&program, &inputs), &wanted);
}

/// The driver says that threads of the built kernel keep something in memory.
#[test]
fn threads_with_too_few_registers_are_remarked_on() {
    let name = "threads_with_too_few_registers_are_remarked_on";
    let Some(log) = in_child(name, "local=1104") else {
        let notes = program(RECURRENCE).report().notes.clone();
        let [note] = &*notes else {
            panic!("{notes:?}");
        };
        assert!(note.contains("keeps 1104 bytes"), "{note}");
        return runs_as_interpreted(RECURRENCE);
    };
    assert!(log["cuFuncGetAttribute"] > 0, "{log:?}");
}

#[test]
fn a_kernel_with_enough_registers_has_no_remark() {
    let name = "a_kernel_with_enough_registers_has_no_remark";
    if in_child(name, "local=16").is_some() {
        return;
    }
    let notes = program(RECURRENCE).report().notes.clone();
    assert!(notes.is_empty(), "{notes:?}");
}

/// So little work that waits of fewer blocks, which are a cluster, take less time than they gain.
const SMALL: &str = "fn @main(%x: f32[1,128], %w: f32[128,128]) -> (%y: f32[1,128]) {
  %y = loop %i trip 40 carry (%h: f32[1,128] = %x) {
    continue carry tanh(mul(dot(%h, %w), 0.1))
  }
  return %y
}
";

#[test]
fn a_small_recurrence_runs_in_a_cluster() {
    let name = "a_small_recurrence_runs_in_a_cluster";
    let Some(log) = in_child(name, "sms=16,threads=64") else {
        is_as_interpreted(&waiting(SMALL));
        return;
    };
    assert!(log["cuOccupancyMaxActiveClusters"] > 0, "{log:?}");
}

#[test]
fn clusters_that_do_not_fit_are_left_out() {
    let name = "clusters_that_do_not_fit_are_left_out";
    if in_child(name, "sms=16,threads=64,clusters=0").is_some() {
        return;
    }
    let notes = waiting(SMALL).report().notes.clone();
    let [note] = &*notes else {
        panic!("{notes:?}");
    };
    assert!(note.contains("8 blocks of 64 threads"), "{note}");
    assert!(note.contains("0 of them can be on Fake GPU"), "{note}");
    assert!(note.ends_with("it is launched without clusters"), "{note}");
    is_as_interpreted(&waiting(SMALL));
}

/// Devices before sm_90 have no clusters.
#[test]
fn older_devices_are_asked_for_no_clusters() {
    let name = "older_devices_are_asked_for_no_clusters";
    let Some(log) = in_child(name, "sms=16,threads=64,arch=80") else {
        runs_as_interpreted(SMALL);
        return;
    };
    assert_eq!(log.get("cuOccupancyMaxActiveClusters"), None, "{log:?}");
}

/// Products of whole numbers, which all types of tensor cores have.
const PRODUCT: &str = "fn @main(%x: f32[130,70], %w: f32[70,90]) -> (%y: f32[130,90]) {
  return dot(floor(mul(%x, 4.0)), floor(mul(%w, 4.0)))
}
";

/// Hopper's own architecture, which is the default, has products of warpgroups.
#[test]
fn products_are_right_on_both_architectures_of_hopper() {
    let name = "products_are_right_on_both_architectures_of_hopper";
    if in_child(name, "sms=1,threads=128").is_some() {
        return;
    }
    for arch in [None, Some("sm_90a"), Some("sm_90")] {
        let options = CompileOptions {
            precision: Precision::Tf32,
            arch: arch.map(str::to_owned),
            ..options()
        };
        let program = compile(&Model::parse("m", PRODUCT).unwrap(), &options).unwrap();
        let inputs = program.draw(1, &BTreeMap::new()).unwrap();
        let wanted = outputs(&program.on_interpreter(), &inputs);
        assert_close(&outputs(&program, &inputs), &wanted);
    }
}

#[test]
fn runs_are_stopped_from_outside() {
    let Some(log) = in_child("runs_are_stopped_from_outside", "") else {
        let program = program(LOOP);
        let short = RunOptions {
            timeout: Some(Duration::from_millis(50)),
            ..Default::default()
        };
        let error = program.run(scalar(i64::MIN), &short).unwrap_err();
        assert_eq!(error.limit(), Some(Limit::Timeout), "{error}");
        let token = CancelToken::new();
        let options = RunOptions {
            cancel: Some(token.clone()),
            ..Default::default()
        };
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                token.cancel();
            });
            program.run(scalar(i64::MIN), &options).unwrap_err()
        });
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        // The next run is right.
        let y = outputs(&program, &scalar(97));
        let y = y["y"].as_tensor().unwrap().to_vec::<f32>();
        assert_eq!(y, Some(vec![8.0, 16.0, 24.0]));
        return;
    };
    assert_eq!(log["cuLaunchKernelEx"], 3, "{log:?}");
}

/// A program, its constants and its session are in the context that is lost.
#[test]
fn a_run_after_a_fault_begins_with_a_new_context() {
    let name = "a_run_after_a_fault_begins_with_a_new_context";
    let Some(log) = in_child(name, "fail=cuLaunchKernelEx:2:700") else {
        let [first, second] = [LOOP, LARGE].map(program);
        let wanted = outputs(&first, &scalar(90));
        let error = second.run(from(0), &RunOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
        assert_eq!(error.remedy(), Some(Remedy::Report));
        let text = error.to_string();
        for words in ["4 blocks of 64 threads", "Fake GPU", "ILLEGAL_ADDRESS"] {
            assert!(text.contains(words), "{text}");
        }
        assert_eq!(outputs(&first, &scalar(90)), wanted);
        let wanted = outputs(&second.on_interpreter(), &from(0));
        assert_eq!(outputs(&second, &from(0)), wanted);
        return;
    };
    assert_eq!(log["cuDevicePrimaryCtxReset_v2"], 1, "{log:?}");
}

#[test]
fn sessions_of_a_program_share_its_constants() {
    let Some(log) = in_child("sessions_of_a_program_share_its_constants", "") else {
        let text = "fn @main(%x: f32[2]) -> (%y: f32[2]) {
  %w = const [3.0, 5.0]: f32[2]
  return mul(%x, %w)
}
";
        let program = program(text);
        let x = Tensor::from_slice(vec![2], &[2f32, 4.0]);
        let inputs = Inputs::from_iter([("x".to_string(), x.into())]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let y = outputs(&program, &inputs);
                        let y = y["y"].as_tensor().unwrap().to_vec::<f32>();
                        assert_eq!(y, Some(vec![6.0, 20.0]));
                    }
                });
            }
        });
        return;
    };
    assert_eq!(log["cuModuleLoadData"], 1, "{log:?}");
}

/// Its cubin is in the file, so that a computer without the compiler runs it.
#[test]
fn saved_programs_need_no_compiler() {
    const SAVED: &str = "HEDDLE_TEST_SAVED";
    let name = "saved_programs_need_no_compiler";
    let y = |program: &Program| {
        let y = outputs(program, &scalar(97));
        y["y"].as_tensor().unwrap().to_vec::<f32>()
    };
    if let Some(path) = std::env::var_os(SAVED) {
        let options = OpenOptions {
            trusted: true,
            cache: CacheChoice::Off,
            ..Default::default()
        };
        let program = Program::open(path.as_ref(), &options).unwrap();
        assert_eq!(program.device(), Device::Cuda);
        assert_eq!(y(&program), Some(vec![8.0, 16.0, 24.0]));
        let untrusted = OpenOptions {
            trusted: false,
            ..options
        };
        let error = Program::open(path.as_ref(), &untrusted).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device, "{error}");
        assert!(error.to_string().contains("no NVRTC"), "{error}");
        return;
    }
    if in_child(name, "").is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.hprog");
    program(LOOP).save(&path).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(SAVED, &path)
        .env("HEDDLE_NVRTC", "/bogus/library.so")
        .status();
    assert!(child.unwrap().success());
}
