//! Programs that are saved and opened.

use std::fs;
use std::path::Path;

use heddle::{
    CacheChoice, CompileOptions, Device, Error, ErrorKind, Inputs, Model, OpenOptions, Program,
    RunOptions, SavedError, Tensor, compile,
};

/// A loop with a branch in it, and constants of which one is large.
const LOOP: &str = "\
fn @main(%x: f32[n,9], %k: i64[]) -> (%h: f32[n,9], %i: i64[]) {
  %w = const splat 0.125: f32[9,9]
  %b = const [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, nan]: f32[9]
  %i, %h = loop while lt(%k, 9) carry (%j = %k, %c: f32[n,9] = %x) {
    %even = eq(mod(%j, 2), 0)
    %z = if %even { yield tanh(dot(%c, %w)) } else { yield mul(%c, 0.5) }
    %next = add(%j, 1)
    continue while lt(%next, 9) carry %next, add(%z, gather(%b, 7, axis=0))
  }
  return %h, %i
}
";

/// A recursion, and text, which the interpreter runs around compiled parts.
const PARTS: &str = "\
fn @main(%x: f32[n,9], %k: i64[]) -> (%h: f32[n,9], %s: str[]) {
  %s = cast(%k, to=str)
  %h = call @halve(%x, %k)
  return %h, %s
}

fn @halve(%x: f32[n,9], %k: i64[]) -> (%y: f32[n,9]) {
  %y = if le(%k, 0) {
    yield %x
  } else {
    yield add(call @halve(mul(%x, 0.5), sub(%k, 1)), %x)
  }
  return %y
}
";

fn options(device: Device) -> CompileOptions {
    CompileOptions {
        device,
        threads: Some(2),
        verify: true,
        ..Default::default()
    }
}

fn program(text: &str, device: Device) -> Program {
    compile(&Model::parse("m", text).unwrap(), &options(device)).unwrap()
}

fn inputs(n: usize) -> Inputs {
    let x: Vec<f32> = (0..9 * n).map(|i| i as f32 / 24.0 - 0.4).collect();
    let x = Tensor::from_slice(vec![n, 9], &x);
    Inputs::from_iter([
        ("x".to_string(), x.into()),
        ("k".to_string(), Tensor::scalar(3i64).into()),
    ])
}

fn assert_same(one: &Program, other: &Program) {
    assert_eq!(one.signature(), other.signature());
    assert_eq!(one.device(), other.device());
    for n in [0, 1, 7] {
        let run = |p: &Program| p.run(inputs(n), &RunOptions::default()).unwrap().outputs;
        assert_eq!(run(one), run(other));
    }
}

/// No compiler and no cache.
fn bare(trusted: bool) -> OpenOptions {
    OpenOptions {
        trusted,
        compiler: Some("none-such".into()),
        cache: CacheChoice::Off,
        ..Default::default()
    }
}

#[test]
fn an_opened_program_is_the_one_that_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.hprog");
    for text in [LOOP, PARTS] {
        for device in [Device::Cpu, Device::Interp] {
            let saved = program(text, device);
            saved.save(&path).unwrap();
            for trusted in [false, true] {
                let options = OpenOptions {
                    trusted,
                    ..Default::default()
                };
                let opened = Program::open(&path, &options).unwrap();
                assert_same(&saved, &opened);
                assert_eq!(opened.report().verified, saved.report().verified);
                // And once more: saving what was opened changes nothing.
                let again = folder.path().join("again.hprog");
                opened.save(&again).unwrap();
                assert_eq!(opened.to_bytes().unwrap(), saved.to_bytes().unwrap());
                assert_same(&saved, &Program::open(&again, &options).unwrap());
            }
            let bytes = saved.to_bytes().unwrap();
            let opened = Program::from_bytes("p", bytes, &OpenOptions::default()).unwrap();
            assert_same(&saved, &opened);
        }
    }
    // Nothing is left beside the files.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_trusted_file_needs_no_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.hprog");
    for text in [LOOP, PARTS] {
        let saved = program(text, Device::Cpu);
        saved.save(&path).unwrap();
        assert_same(&saved, &Program::open(&path, &bare(true)).unwrap());
        let error = Program::open(&path, &bare(false)).unwrap_err();
        assert!(error.is_missing_compiler(), "{error}");
        // The interpreter needs neither.
        let options = OpenOptions {
            device: Some(Device::Interp),
            ..bare(false)
        };
        let interpreted = Program::open(&path, &options).unwrap();
        assert_eq!(interpreted.device(), Device::Interp);
        let run = |p: &Program| p.run(inputs(7), &RunOptions::default()).unwrap().outputs;
        assert_eq!(run(&interpreted), run(&saved.on_interpreter()));
        // Bytes hold no library.
        let bytes = saved.to_bytes().unwrap();
        let error = Program::from_bytes("p", bytes, &bare(true)).unwrap_err();
        assert!(error.is_missing_compiler(), "{error}");
    }
}

#[test]
fn what_is_no_saved_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.hprog");
    program(LOOP, Device::Cpu).save(&path).unwrap();
    let good = fs::read(&path).unwrap();
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Program::open(&path, &bare(true)).unwrap_err()
    };
    let fault = |error: Error| match error {
        Error::Saved { fault, .. } => fault,
        other => panic!("{other}"),
    };
    for foreign in [
        &b""[..],
        b"PK\x03\x04",
        b"\x80\x04\x95",
        b"fn @main() -> () {}",
    ] {
        let error = open(foreign);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(fault(error), SavedError::Foreign);
    }
    for end in [8, 11, 12, 40, good.len() / 2, good.len() - 1] {
        let fault = fault(open(&good[..end]));
        let is_cut = matches!(fault, SavedError::Truncated | SavedError::Damaged);
        assert!(is_cut, "{end}: {fault}");
    }
    for at in (12..good.len()).step_by(good.len() / 97) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        fault(open(&bytes));
    }
    let mut newer = good.clone();
    newer[8] = 9;
    assert_eq!(fault(open(&newer)), SavedError::Version(9));
    let error = Program::open(Path::new("no/such.hprog"), &bare(true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn a_file_is_written_in_full_or_not_at_all() {
    let saved = program(LOOP, Device::Cpu);
    let error = saved.save(Path::new("no/such/folder/p.hprog")).unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Io);
    let folder = tempfile::tempdir().unwrap();
    let error = saved.save(folder.path()).unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn models_come_back_with_their_entries() {
    let text = format!("entry @main\nentry twice = @halve\n{PARTS}");
    let model = Model::parse("m", &text).unwrap();
    for entry in ["main", "twice"] {
        let model = model.clone().with_entry(entry).unwrap();
        let bytes = model.to_bytes().unwrap();
        let back = Model::from_saved("m", bytes.clone()).unwrap();
        assert_eq!(back.entry(), entry);
        assert_eq!(back.signature(), model.signature());
        assert!(back.entries().eq(model.entries()));
        assert_eq!(back.to_bytes().unwrap(), bytes);
        // A model is no program, and a program no model.
        assert!(Program::from_bytes("m", bytes, &bare(false)).is_err());
    }
    let bytes = program(LOOP, Device::Interp).to_bytes().unwrap();
    assert!(Model::from_saved("m", bytes).is_err());
}

/// Programs of the language that take trees, graphs and lists of lists.
fn of_language(name: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../../tests/models/batching").join(name);
    Model::load(&path, &Default::default()).unwrap()
}

#[test]
fn tables_and_graphs_come_back() {
    for name in [
        "treelstm.hl",
        "childsum_vertex.hl",
        "inner_vertex.hl",
        "treelstm_vertex.hl",
    ] {
        let model = of_language(name);
        let program = compile(&model, &options(Device::Interp)).unwrap();
        let opened = Program::from_bytes(name, program.to_bytes().unwrap(), &bare(false)).unwrap();
        assert_eq!(opened.to_bytes().unwrap(), program.to_bytes().unwrap());
        let back = Model::from_saved(name, model.to_bytes().unwrap()).unwrap();
        assert_eq!(back.to_bytes().unwrap(), model.to_bytes().unwrap());
        // Values are drawn as of sound tables, and give the same.
        let sizes = Default::default();
        let inputs = opened.draw(3, &sizes).unwrap();
        assert_eq!(inputs, program.draw(3, &sizes).unwrap(), "{name}");
        let limits = RunOptions::default();
        // Words that are drawn may be none of the model's: then both say so.
        let results = |p: &Program| {
            let run = p.run(inputs.clone(), &limits);
            run.map(|run| run.outputs).map_err(|error| error.kind())
        };
        assert_eq!(results(&opened), results(&program), "{name}");
        // A wrong table is found as before.
        let mut faults = 0;
        for (input, value) in &inputs {
            let Some(mut numbers) = value.as_tensor().and_then(Tensor::to_vec::<i64>) else {
                continue;
            };
            let Some(last) = numbers.last_mut() else {
                continue;
            };
            *last = 1 << 40;
            let wrong = Tensor::from_slice(vec![numbers.len()], &numbers);
            let mut inputs = inputs.clone();
            inputs.insert(input.clone(), wrong.into());
            let fault = |p: &Program| match p.run(inputs.clone(), &limits) {
                Err(Error::Input(fault)) => Some(fault.to_string()),
                // Lines of nodes are those of the saved graph.
                _ => None,
            };
            let (found, wanted) = (fault(&opened), fault(&program));
            assert_eq!(found, wanted, "{name}: {input}");
            faults += wanted.is_some() as usize;
        }
        assert!(faults > 0, "{name}");
    }
}

#[test]
fn tables_of_a_file_are_not_trusted() {
    let program = compile(&of_language("treelstm.hl"), &options(Device::Interp)).unwrap();
    let bytes = program.to_bytes().unwrap();
    let place = bytes.windows(4).position(|w| w == b"TBLS").unwrap();
    let length = u64::from_le_bytes(bytes[place + 4..place + 12].try_into().unwrap());
    let begin = (place + 12).next_multiple_of(64);
    let text = &bytes[begin..begin + length as usize];
    let text = std::str::from_utf8(text).unwrap();
    // The same file with other tables of the same length.
    let open = |other: &str| {
        assert!(other.len() <= text.len(), "{other}");
        let mut bytes = bytes.clone();
        let padded = format!("{other:length$}", length = text.len());
        bytes[begin..begin + text.len()].copy_from_slice(padded.as_bytes());
        let end = bytes.len() - 32;
        let sum = *heddle_runtime::cache::Key::new(&[&bytes[..end]]).bytes();
        bytes[end..].copy_from_slice(&sum);
        Program::from_bytes("hostile", bytes, &bare(false))
    };
    open(text).unwrap();
    let name = program.signature().inputs[0].name.clone();
    let data = r#"[{"Data":[{"tag":{"Column":"NAME"},"cases":CASES}]}]"#;
    let data = data.replace("NAME", &name);
    let cases = [
        ("[]", "no cases"),
        (
            r#"[{"name":"a","children":[[{"Number":0},7]]}]"#,
            "no table 7",
        ),
        (
            r#"[{"name":"a","children":[[{"Column":"none"},0]]}]"#,
            "no input `none`",
        ),
    ];
    let cases = cases.map(|(cases, part)| (data.replace("CASES", cases), part));
    let others = [
        (r#"[{"Data":[]}]"#.to_owned(), "no tables"),
        (
            r#"[{"Graph":{"children":"x","offsets":"y"}}]"#.into(),
            "no input",
        ),
        (r#"[{"Other":1}]"#.into(), "Other"),
        ("[".into(), "EOF"),
        ("[".repeat(text.len()), ""),
    ];
    for (other, part) in cases.into_iter().chain(others) {
        let error = open(&other).unwrap_err();
        assert!(matches!(error, Error::Saved { .. }), "{error}");
        let said = error.to_string();
        assert!(
            said.contains("tables of inputs") && said.contains(part),
            "{said}"
        );
    }
}
