//! Programs that are compiled for a run: its counts reach the choices, and results stay.

use heddle::batch::offsets_name as offsets_of;
use heddle::batch::{Form, Forms};
use heddle::emit;
use heddle::{CompileOptions, Emit, Inputs, Machine, Model, RunOptions, Target, Tensor, compile};

/// A recurrent network over a sentence. Its numbers are small integers, whose sums are exact: results are the same to the
/// bit in whatever order kernels add.
const SENTENCE: &str = "
fn @main(%words: i64[n], %table: f32[v,32], %w: f32[64,32]) -> (%h: f32[32]) {
  %n = squeeze(shape(%words), axes=[0])
  %zero = const splat 0.0: f32[32]
  %h: f32[32] = loop %t trip %n carry (%h1: f32[32] = %zero) {
    %x = gather(%table, gather(%words, %t, axis=0), axis=0)
    %y = dot(unsqueeze(concat(%x, %h1, axis=0), axes=[0]), %w)
    continue carry squeeze(max(min(%y, 8.0), -8.0), axes=[0])
  }
  return %h
}
";

fn model() -> Model {
    let model = Model::parse("sentence", SENTENCE).expect("parses");
    let forms = Forms::from_iter([("words".to_string(), Form::Ragged)]);
    model.batched(&forms).expect("batches").model
}

/// So many sentences of so many words.
fn sentences(count: usize, words: usize) -> Inputs {
    let all = (0..count * words).map(|k| (k * 7 % 5) as i64);
    let ends = (0..=count).map(|k| (k * words) as i64);
    let floats = |shape: [usize; 2]| {
        let small = (0..shape[0] * shape[1]).map(|k| (k * 5 % 11) as f32 - 5.0);
        Tensor::from_slice(shape.to_vec(), &small.collect::<Vec<f32>>())
    };
    Inputs::from_iter([
        (
            "words".into(),
            Tensor::vector(&all.collect::<Vec<i64>>()).into(),
        ),
        (
            offsets_of("words"),
            Tensor::vector(&ends.collect::<Vec<i64>>()).into(),
        ),
        ("table".into(), floats([5, 32]).into()),
        ("w".into(), floats([64, 32]).into()),
    ])
}

fn options(profile: Option<Inputs>) -> CompileOptions {
    CompileOptions {
        machine: Some(Machine::named("reference:2").expect("a machine")),
        profile,
        ..Default::default()
    }
}

fn text(profile: Option<Inputs>, stage: Emit) -> String {
    let dump = emit(&model(), &options(profile), Target::Cpu, stage);
    dump.expect("compiles").to_string()
}

#[test]
fn counts_reach_the_choices() {
    let lowered = text(Some(sentences(3, 11)), Emit::Lowered);
    let expects = |number: &str| {
        let mut lines = lowered.lines().filter(|line| line.starts_with("expect "));
        lines.any(|line| line.ends_with(&format!("= {number}")))
    };
    assert!(expects("3.0") && expects("11.0"), "{lowered}");
    assert!(!text(None, Emit::Lowered).contains("expect "));
    // Few instances are left to one worker, many are shared out.
    let schedule = |count| text(Some(sentences(count, 3)), Emit::Schedule);
    let shares = |schedule: &str| {
        let lines = schedule.lines().filter(|line| line.starts_with("op"));
        let split = lines.filter(|line| line.contains(" split along "));
        split.count()
    };
    let [few, many] = [schedule(2), schedule(2000)];
    assert!(shares(&few) < shares(&many), "{few}\n{many}");
}

#[test]
fn results_do_not_depend_on_counts() {
    let run = |profile, inputs: &Inputs| {
        let program = compile(&model(), &options(profile)).expect("compiles");
        let run = program.run(inputs.clone(), &RunOptions::default());
        let outputs = run.expect("runs").outputs;
        outputs["h"].as_tensor().and_then(Tensor::to_vec::<f32>)
    };
    for inputs in [sentences(1, 1), sentences(7, 5), sentences(3, 0)] {
        let plain = run(None, &inputs);
        assert!(plain.is_some());
        for profile in [sentences(0, 0), sentences(2, 3), sentences(500, 2)] {
            // The first run counts, the second finds the counts in the cache.
            for _ in 0..2 {
                assert_eq!(run(Some(profile.clone()), &inputs), plain);
            }
        }
    }
}

#[test]
fn a_profile_that_lacks_an_input_is_an_error() {
    let mut profile = sentences(2, 3);
    profile.swap_remove("w");
    let error = compile(&model(), &options(Some(profile))).expect_err("it is refused");
    assert!(error.to_string().contains('w'), "{error}");
}
