//! Stacked recurrent layers that are so small that each is left to one unit work on different chunks of steps; large ones do not.

use heddle::{
    CompileOptions, Device, Emit, Grid, Inputs, Machine, Model, Program, RunOptions, Target,
    Tensor, Value, compile, emit,
};

/// Four layers of `tanh(x W + h U)`.
fn stack(hidden: usize, steps: &str) -> Model {
    let layer = |k: usize| {
        let x = if k == 0 {
            "x".into()
        } else {
            format!("n{}", k - 1)
        };
        format!("%n{k} = tanh(add(dot(%{x}, %w), dot(%h{k}, %u)))\n")
    };
    let list = |form: &dyn Fn(usize) -> String| (0..4).map(form).collect::<Vec<_>>().join(", ");
    let text = format!(
        "fn @main(%xs: f32[{steps},1,{hidden}], %w: f32[{hidden},{hidden}], %u: f32[{hidden},{hidden}], %h: f32[1,{hidden}]) -> (%y: f32[1,{hidden}], %all: f32[{steps},1,{hidden}]) {{
           %k = gather(shape(%xs), 0, axis=0)
           {}, %all = loop %t trip %k carry ({}) {{
             %x = gather(%xs, %t, axis=0)
             {}
             continue carry {} stack %n3
           }}
           return %y3, %all
         }}",
        list(&|k| format!("%y{k}: f32[1,{hidden}]")),
        list(&|k| format!("%h{k}: f32[1,{hidden}] = %h")),
        (0..4).map(layer).collect::<String>(),
        list(&|k| format!("%n{k}")),
    );
    Model::parse("stack", &text).unwrap()
}

fn options(threads: usize) -> CompileOptions {
    CompileOptions {
        device: Device::Cpu,
        threads: Some(threads),
        machine: Some(Machine::named(&format!("reference:{threads}")).unwrap()),
        verify: true,
        ..Default::default()
    }
}

fn schedule(model: &Model, options: &CompileOptions) -> String {
    let dump = emit(model, options, Target::Cpu, Emit::Schedule);
    dump.unwrap().to_string()
}

/// Does leaving the step out change a model's schedule?
fn is_pipelined(model: &Model, threads: usize) -> bool {
    let mut without = options(threads);
    without.without = vec![heddle::Step::named("pipeline_layers").unwrap()];
    let text = |options| schedule(model, options);
    text(&options(threads)) != text(&without)
}

#[test]
fn small_layers_are_pipelined() {
    assert!(is_pipelined(&stack(128, "n"), 2));
    assert!(!is_pipelined(&stack(128, "n"), 1), "one unit");
    assert!(!is_pipelined(&stack(512, "n"), 2), "large layers");
    assert!(!is_pipelined(&stack(128, "3"), 2), "too few steps");
}

#[test]
fn results_are_the_interpreters() {
    const HIDDEN: usize = 128;
    let values = |count: usize, scale: f32| -> Vec<f32> {
        let value = |i: usize| ((i * 7 % 23) as f32 / 11.0 - 1.0) * scale;
        (0..count).map(value).collect()
    };
    let (w, h) = (values(HIDDEN * HIDDEN, 0.05), values(HIDDEN, 1.0));
    let inputs = |steps: usize| -> Inputs {
        let x = values(steps * HIDDEN, 1.0);
        let values = [
            ("xs", Tensor::from_slice(vec![steps, 1, HIDDEN], &x)),
            ("w", Tensor::from_slice(vec![HIDDEN, HIDDEN], &w)),
            ("u", Tensor::from_slice(vec![HIDDEN, HIDDEN], &w)),
            ("h", Tensor::from_slice(vec![1, HIDDEN], &h)),
        ];
        values.map(|(name, t)| (name.to_string(), t.into())).into()
    };
    let outputs = |program: &Program, steps: usize| -> Vec<Vec<f32>> {
        let run = program.run(inputs(steps), &RunOptions::default()).unwrap();
        let values = run.outputs.values().map(|datum| match datum {
            Value::Tensor(t) => t.to_vec().unwrap(),
            _ => panic!("no tensor"),
        });
        values.collect()
    };
    for (text, lengths) in [
        ("n", &[0, 1, 2, 7, 31, 32, 33, 47, 48, 63, 64, 65, 100][..]),
        ("100", &[100]),
    ] {
        let model = stack(HIDDEN, text);
        let oracle = CompileOptions {
            device: Device::Interp,
            ..options(1)
        };
        let oracle = compile(&model, &oracle).unwrap();
        // Eight blocks are four teams of two, and six are none.
        let simulated = [8, 6].map(|blocks| CompileOptions {
            device: Device::Sim,
            grid: Grid {
                blocks,
                threads: 32,
                ..Default::default()
            },
            verify: true,
            ..Default::default()
        });
        let workers = [1, 2, 5].map(options);
        for (k, options) in workers.into_iter().chain(simulated).enumerate() {
            let compiled = compile(&model, &options).unwrap();
            for &steps in lengths {
                let (want, found) = (outputs(&oracle, steps), outputs(&compiled, steps));
                for (want, found) in want.iter().zip(&found) {
                    assert_eq!(want.len(), found.len());
                    let mut both = want.iter().zip(found);
                    let close = both.all(|(a, b)| (a - b).abs() < 1e-5);
                    assert!(close, "{steps} steps, device {k}");
                }
            }
        }
    }
}

/// A GPU's blocks are as many teams as there are layers, or the clusters of a launch. In the loop over steps each waits for its
/// neighbours, and none for all.
#[test]
fn layers_of_a_gpu_are_on_teams() {
    let options = CompileOptions {
        machine: Some(Machine::named("h100").unwrap()),
        ..options(2)
    };
    let depth = |line: &str| line.len() - line.trim_start().len();
    for steps in ["100", "n"] {
        let dump = emit(&stack(256, steps), &options, Target::Cuda, Emit::Schedule);
        let text = dump.unwrap().to_string();
        let is_near = |line: &&str| line.ends_with(" teams for its neighbours");
        let mut loop_on_teams = text.lines().skip_while(|line| !is_near(line));
        let inside = depth(loop_on_teams.next().unwrap_or_else(|| panic!("{text}")));
        let body: Vec<&str> = loop_on_teams
            .take_while(|line| depth(line) >= inside)
            .collect();
        assert!(body.iter().any(|line| line.contains(" 3 of ")), "{text}");
        assert!(
            !body.iter().any(|line| line.contains("all for all")),
            "{text}"
        );
    }
}

/// For a dynamic sequence length, a program has both forms, and takes the shared one for sequences of less than three chunks.
#[test]
fn short_sequences_are_shared() {
    let text = |steps: &str| schedule(&stack(128, steps), &options(2));
    let chooses = |text: &str| text.lines().any(|l| l.starts_with("if ")) && text.contains(">= ");
    assert!(chooses(&text("n")), "{}", text("n"));
    assert!(!chooses(&text("100")), "{}", text("100"));
}
