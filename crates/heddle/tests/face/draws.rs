//! Random numbers are compiled like any arithmetic, and the same on every device.

use heddle::{
    CompileOptions, Device, Inputs, Model, Program, RunOptions, Tensor, Tolerance, compare, compile,
};

/// Bits, and uniform numbers made of them, in each iteration of a loop and in each call of a recursion.
const PROGRAM: &str = "\
fn @main(%x: f32[n], %k: i64[]) -> (%bits: u64[n], %sum: f32[n], %calls: f32[]) {
  %count = gather(shape(%x), 0, axis=0)
  %places = cast(range(0, %count, 1), to=u64)
  %bits = philox(run_key(), %places)
  %sum = loop %i trip 10 carry (%s: f32[n] = %x) {
    %random = philox(philox(run_key(), cast(%i, to=u64)), %places)
    continue carry add(%s, mul(cast(cast(shr(%random, 40), to=i32), to=f32), 5.9604645e-8))
  }
  return %bits, %sum, call @tree(%k, philox(7: u64, 3: u64))
}

fn @tree(%k: i64[], %key: u64[]) -> (%r: f32[]) {
  %r = if lt(%k, 1) {
    yield cast(cast(shr(philox(%key, run_key()), 40), to=i32), to=f32)
  } else {
    %a: f32[] = call @tree(sub(%k, 1), philox(%key, 0))
    %b: f32[] = call @tree(sub(%k, 1), philox(%key, 1))
    yield sub(%a, %b)
  }
  return %r
}
";

const TOLERANCE: Tolerance = Tolerance {
    rtol: 1e-6,
    atol: 1e-6,
    exact_integers: true,
    any_float: false,
};

fn program(device: Device) -> Program {
    let model = Model::parse("m", PROGRAM).unwrap_or_else(|e| panic!("{e}"));
    let options = CompileOptions {
        device,
        threads: Some(2),
        ..Default::default()
    };
    compile(&model, &options).unwrap()
}

#[test]
fn devices_draw_the_same_numbers() {
    let (cpu, interp) = (program(Device::Cpu), program(Device::Interp));
    assert!(
        cpu.report().interpreted.is_none(),
        "{:?}",
        cpu.report().interpreted
    );
    let x = Tensor::from_slice(vec![1000], &[0.5f32; 1000]);
    let inputs: Inputs = [("x", x), ("k", Tensor::scalar(5i64))]
        .into_iter()
        .map(|(name, t)| (name.to_string(), t.into()))
        .collect();
    let mut seen = vec![];
    for seed in [0, 1, u64::MAX] {
        let options = RunOptions {
            seed,
            ..Default::default()
        };
        let want = interp.run(inputs.clone(), &options).unwrap().outputs;
        for _ in 0..2 {
            let got = cpu.run(inputs.clone(), &options).unwrap().outputs;
            for ((name, got), (_, want)) in got.iter().zip(&want) {
                compare(got, want, &TOLERANCE).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
        assert!(
            !seen.contains(&want),
            "seed {seed} draws what another draws"
        );
        seen.push(want);
    }
}
