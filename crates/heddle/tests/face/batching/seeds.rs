//! A seed for each instance.

use heddle::batch::{Form, Forms, SEEDS};
use heddle::{CompileOptions, Device, Inputs, Model, RunOptions, Tensor, compile};

/// Draws in a loop that the numbers end, in a branch, and in a recursion that they end.
const PROGRAM: &str = "\
fn @main(%x: f32[2]) -> (%y: f32[2], %steps: i64[], %calls: i64[]) {
  %y, %steps = loop %i while true carry (%h: f32[2] = %x, %n: i64[] = 0) {
    %bits = philox(run_key(), cast(%i, to=u64))
    %odd = eq(and(%bits, 1), 1)
    %next = if %odd {
      yield add(%h, cast(cast(shr(philox(run_key(), 99), 40), to=i32), to=f32))
    } else {
      yield mul(%h, 0.5)
    }
    continue while lt(and(shr(%bits, 8), 15), 14) carry %next, add(%n, 1)
  }
  return %y, %steps, call @down(0)
}

fn @down(%n: i64[]) -> (%r: i64[]) {
  %r = if lt(and(philox(philox(run_key(), 7), cast(%n, to=u64)), 7), 6) {
    yield call @down(add(%n, 1))
  } else {
    yield %n
  }
  return %r
}
";

fn inputs<const N: usize>(given: [(&str, Tensor); N]) -> Inputs {
    let given = given.into_iter();
    given
        .map(|(name, t)| (name.to_string(), t.into()))
        .collect()
}

#[test]
fn instances_draw_as_alone_with_their_seeds() {
    let model = Model::parse("m", PROGRAM).unwrap_or_else(|e| panic!("{e}"));
    let forms: Forms = [("x", Form::Stacked), (SEEDS, Form::Stacked)]
        .map(|(name, form)| (name.to_string(), form))
        .into();
    let batch = model.clone().batched(&forms).expect("batches");
    let seeds = [3i64, -1, 0, 1 << 40, 3, 17, 4];
    for device in [Device::Interp, Device::Cpu] {
        let options = CompileOptions {
            device,
            threads: Some(2),
            ..Default::default()
        };
        let program = compile(&batch.model, &options).expect("compiles");
        let alone = compile(&model, &options).expect("compiles");
        for count in [0, 1, 7] {
            let x: Vec<f32> = (0..2 * count).map(|i| i as f32).collect();
            let given = inputs([
                ("x", Tensor::from_slice(vec![count, 2], &x)),
                (SEEDS, Tensor::vector(&seeds[..count])),
            ]);
            let run = batch.run(&program, given, &RunOptions::default());
            let outputs = run.expect("runs").outputs;
            let all = |name: &str| outputs[name].as_tensor().expect("an array").clone();
            let mut different = std::collections::BTreeSet::new();
            for (k, &seed) in seeds[..count].iter().enumerate() {
                let options = RunOptions {
                    seed: seed as u64,
                    ..Default::default()
                };
                let own = inputs([("x", Tensor::vector(&x[2 * k..2 * k + 2]))]);
                let own = alone.run(own, &options).expect("runs").outputs;
                let one = |name: &str| own[name].as_tensor().expect("an array").clone();
                for name in ["steps", "calls"] {
                    let found = all(name).to_vec::<i64>().expect("integers")[k];
                    assert_eq!(one(name).to_vec(), Some(vec![found]), "{name} of {k}");
                }
                let y = all("y").to_vec::<f32>().expect("floats")[2 * k..2 * k + 2].to_vec();
                assert_eq!(one("y").to_vec(), Some(y), "instance {k}");
                different.insert(all("steps").to_vec::<i64>().expect("integers")[k]);
            }
            assert!(count < 7 || different.len() > 3, "{different:?}");
        }
    }
}
