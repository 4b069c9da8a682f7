//! A program within another one, such as an interpreter of Python: cancelled runs, models in memory, results without copies, chosen
//! compilers and folders.

use std::path::Path;
use std::thread;
use std::time::Duration;

use heddle::{
    CacheChoice, CancelToken, CompileOptions, DType, Device, Error, ErrorKind, Format, InputError,
    Inputs, LoadOptions, Model, Program, RunOptions, Tensor, Value, compile,
};

const DOUBLED: &str = "fn @main(%x: f32[n]) -> (%y: f32[n]) {
  %y = add(%x, %x)
  return %y
}
";

/// Squares `x` once, and for ever if that is 1.
const FOREVER: &str = "fn @main(%x: f32[]) -> (%y: f32[]) {
  %y = loop %i while true carry (%h = %x) {
    %square = mul(%h, %h)
    continue while eq(%square, 1.0) carry %square
  }
  return %y
}
";

fn options(device: Device) -> CompileOptions {
    CompileOptions {
        device,
        threads: Some(2),
        ..Default::default()
    }
}

fn program(device: Device, text: &str) -> Program {
    compile(&Model::parse("m", text).unwrap(), &options(device)).unwrap()
}

fn input(x: Tensor) -> Inputs {
    Inputs::from_iter([("x".to_string(), x.into())])
}

fn array(value: &Value) -> &Tensor {
    value.as_tensor().expect("an array")
}

#[test]
fn another_thread_cancels_a_run_on_each_device() {
    for &device in Device::EVERYWHERE {
        let program = program(device, FOREVER);
        let token = CancelToken::new();
        let limited = RunOptions {
            cancel: Some(token.clone()),
            max_iterations: Some(u64::MAX),
            ..Default::default()
        };
        let stopped = thread::scope(|scope| {
            let run = scope.spawn(|| program.run(input(Tensor::scalar(1f32)), &limited));
            thread::sleep(Duration::from_millis(20));
            token.cancel();
            run.join().unwrap()
        });
        let error = stopped.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        // A token that is cancelled stops later runs, too.
        let again = program.run(input(Tensor::scalar(1f32)), &limited);
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Cancelled);
        token.reset();
        let run = program.run(input(Tensor::scalar(2f32)), &limited).unwrap();
        assert_eq!(array(&run.outputs["y"]).to_vec(), Some(vec![4f32]));
    }
}

#[test]
fn a_run_that_was_cancelled_before_does_not_begin() {
    // Nothing of it is evaluated, so that no instruction would look at the token.
    let text = "fn @main(%x: f32[]) -> (%y: f32[]) {\n  return %x\n}\n";
    for &device in Device::EVERYWHERE {
        for text in [text, DOUBLED] {
            let program = program(device, text);
            let token = CancelToken::new();
            token.cancel();
            let options = RunOptions {
                cancel: Some(token.clone()),
                ..Default::default()
            };
            let x = match text == DOUBLED {
                true => Tensor::vector(&[1f32]),
                false => Tensor::scalar(1f32),
            };
            let error = program.run(input(x.clone()), &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
            token.reset();
            assert!(program.run(input(x), &options).is_ok());
        }
    }
}

#[test]
fn inputs_in_order_are_those_by_name() {
    let text = "fn @main(%a: f32[], %b: f32[]) -> (%y: f32[]) {
  %y = sub(%a, %b)
  return %y
}
";
    for &device in Device::EVERYWHERE {
        let program = program(device, text);
        let scalars = |values: &[f32]| -> Vec<Value> {
            let values = values.iter().map(|v| Tensor::scalar(*v).into());
            values.collect()
        };
        let run = |values: &[f32]| program.run_in_order(scalars(values), &RunOptions::default());
        let y = run(&[5.0, 3.0]).unwrap();
        assert_eq!(array(&y.outputs["y"]).to_vec(), Some(vec![2f32]));
        assert!(matches!(
            run(&[5.0]),
            Err(Error::Input(InputError::Missing(_)))
        ));
        let error = run(&[1.0, 2.0, 3.0]).unwrap_err().to_string();
        assert_eq!(
            error,
            "3 values are given, but the model's inputs are `a`, `b`"
        );
    }
}

#[test]
fn results_are_handed_over_and_their_memory_comes_back() {
    let program = program(Device::Cpu, DOUBLED);
    let count = 1 << 16;
    let run = |value: f32| {
        let x = Tensor::from_slice(vec![count], &vec![value; count]);
        let outputs = program.run(input(x), &RunOptions::default()).unwrap();
        outputs.outputs["y"].clone()
    };
    let holds = |y: &Value, value: f32| {
        let all = array(y).to_vec::<f32>().unwrap();
        assert!(all.len() == count && all.iter().all(|v| *v == value));
    };
    let address = |y: &Value| array(y).bytes().as_ptr();
    // Results that are kept have memory of their own each.
    let kept: Vec<Value> = (0..6).map(|k| run(k as f32)).collect();
    for (k, y) in kept.iter().enumerate() {
        holds(y, 2.0 * k as f32);
    }
    let mut addresses: Vec<_> = kept.iter().map(address).collect();
    assert!(addresses.iter().all(|a| (*a as usize).is_multiple_of(64)));
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), kept.len());
    // Results that were dropped give their memory to later runs.
    drop(kept);
    let held = program.held_bytes();
    for k in 0..20 {
        let y = run(k as f32);
        holds(&y, 2.0 * k as f32);
        assert!(addresses.contains(&address(&y)));
    }
    assert_eq!(program.held_bytes(), held);
    assert!(
        held <= 6 * 4 * count,
        "not all buffers are kept: {held} bytes"
    );
    // A result outlives its program.
    let y = run(3.0);
    drop(program);
    holds(&y, 6.0);
}

#[test]
fn a_small_result_does_not_keep_the_memory_of_a_large_one() {
    let program = program(Device::Cpu, DOUBLED);
    let run = |count: usize| {
        let x = Tensor::from_slice(vec![count], &vec![1f32; count]);
        let run = program.run(input(x), &RunOptions::default()).unwrap();
        run.outputs["y"].clone()
    };
    drop(run(1 << 18));
    let held = program.held_bytes();
    let small = [run(0), run(1), run(5000)];
    assert_eq!(program.held_bytes(), held, "the large buffer stays");
    for (y, count) in small.iter().zip([0, 1, 5000]) {
        assert_eq!(array(y).to_vec(), Some(vec![2f32; count]));
    }
}

#[test]
fn a_limit_of_memory_holds_for_its_run_alone() {
    let program = program(Device::Cpu, DOUBLED);
    let run = |max_memory: Option<u64>| {
        let x = Tensor::from_slice(vec![1 << 16], &vec![1f32; 1 << 16]);
        let options = RunOptions {
            max_memory,
            ..Default::default()
        };
        program.run(input(x), &options).map(drop)
    };
    run(None).unwrap();
    assert_eq!(run(Some(1000)).unwrap_err().kind(), ErrorKind::Limit);
    run(Some(1 << 20)).unwrap();
    run(None).unwrap();
}

#[test]
fn memory_that_comes_back_counts_for_the_limit() {
    let program = program(Device::Cpu, DOUBLED);
    let run = |count: usize, max_memory: Option<u64>| {
        let x = Tensor::from_slice(vec![count], &vec![1f32; count]);
        let options = RunOptions {
            max_memory,
            ..Default::default()
        };
        let run = program.run(input(x), &options).unwrap();
        run.outputs["y"].clone()
    };
    let limit = 1 << 20;
    let large = [run(1 << 20, None), run(1 << 20, None)];
    drop(large);
    // Each of these takes a buffer that came back, and gives none.
    let small: Vec<_> = (0..4).map(|_| run(2000, Some(limit))).collect();
    assert!(
        program.held_bytes() as u64 <= limit,
        "{}",
        program.held_bytes()
    );
    drop(small);
}

#[test]
fn more_threads_than_there_are_processors_for_are_refused() {
    let model = Model::parse("m", DOUBLED).unwrap();
    let options = CompileOptions {
        threads: Some(heddle::MAX_THREADS + 1),
        ..Default::default()
    };
    let error = heddle::compile(&model, &options).unwrap_err();
    assert!(
        error.is_of_inputs() && error.to_string().contains("1024"),
        "{error}"
    );
}

#[test]
fn memory_of_the_caller_is_read_in_place() {
    struct Owner(Vec<u8>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let bytes: Vec<u8> = [1f32, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let address = bytes.as_ptr();
    let x = Tensor::borrowed(DType::F32, vec![2], Owner(bytes)).unwrap();
    assert_eq!(x.bytes().as_ptr(), address);
    assert_eq!(x.to_vec(), Some(vec![1f32, 2.0]));
    assert!(Tensor::borrowed(DType::F32, vec![3], Owner(vec![0; 8])).is_err());
}

#[test]
fn models_in_memory_are_those_of_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("w.bin"),
        [0, 0, 128, 63, 0, 0, 0, 64].as_slice(),
    )
    .unwrap();
    let text = "fn @main(%x: f32[2]) -> (%y: f32[2]) {
  %w = const file(\"w.bin\", 0, 8): f32[2]
  %y = mul(%x, %w)
  return %y
}
";
    let load = |folder| {
        let bytes = text.as_bytes().to_vec();
        Model::from_bytes(
            "shown",
            bytes,
            Format::Text,
            folder,
            &LoadOptions::default(),
        )
    };
    let error = load(None).unwrap_err().to_string();
    assert!(error.contains("there is no folder"), "{error}");
    let model = load(Some(folder.path())).unwrap();
    assert_eq!(model.path().to_str(), Some("shown"));
    let program = compile(&model, &options(Device::Interp)).unwrap();
    let x = Tensor::vector(&[3f32, 4.0]);
    let run = program.run(input(x), &RunOptions::default()).unwrap();
    assert_eq!(array(&run.outputs["y"]).to_vec(), Some(vec![3f32, 8.0]));

    let load = |bytes: &[u8], format| {
        let options = &LoadOptions::default();
        Model::from_bytes("shown", bytes.to_vec(), format, None, options)
    };
    let language = "fn main(x: f32[2]) { x + x }";
    assert!(load(language.as_bytes(), Format::Language).is_ok());
    for format in [Format::Onnx, Format::Text, Format::Language] {
        let error = load(&[0xff, 0xfe, 0, 1], format).unwrap_err().to_string();
        assert!(error.contains("shown"), "{format:?}: {error}");
    }
}

#[test]
fn compiler_and_cache_are_those_of_the_options() {
    let model = Model::parse("m", DOUBLED).unwrap();
    let missing = CompileOptions {
        compiler: Some("no-such-compiler".into()),
        ..options(Device::Cpu)
    };
    let error = compile(&model, &missing).unwrap_err().to_string();
    assert!(error.contains("no-such-compiler"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let cached = CompileOptions {
        cache: CacheChoice::At(folder.path().join("kept")),
        ..options(Device::Cpu)
    };
    let built = compile(&model, &cached).unwrap();
    let key = built.key().unwrap();
    assert!(has_file(&folder.path().join("kept"), &key));
    let off = CompileOptions {
        cache: CacheChoice::Off,
        ..options(Device::Cpu)
    };
    assert_eq!(compile(&model, &off).unwrap().device(), Device::Cpu);
}

/// Has a folder a file, at any depth, whose name holds this?
fn has_file(folder: &Path, part: &str) -> bool {
    let mut entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.any(|entry| match entry.path() {
        path if path.is_dir() => has_file(&path, part),
        path => path.to_string_lossy().contains(part),
    })
}
