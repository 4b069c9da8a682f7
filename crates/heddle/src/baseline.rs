//! Other ways to run the same operators, for a program to be compared with.

use std::time::Instant;

use crate::stack::on_large_stack;
use crate::{Baseline, Device, Error, Inputs, Interpreted, Program, RunOptions, inputs};

impl Program {
    /// Builds a baseline; a [`Baseline::Trace`] runs the program on the inputs once.
    ///
    /// # Errors
    ///
    /// [`Error::NotCompiled`] if the interpreter runs the program.
    pub fn baseline(
        &self,
        kind: Baseline,
        inputs: Inputs,
        options: &RunOptions,
    ) -> Result<Program, Error> {
        let start = Instant::now();
        let args = match kind {
            Baseline::Host => vec![],
            Baseline::Trace => inputs::in_order(self.sig(), inputs)?,
        };
        match on_large_stack(|| self.artifact.variant(kind, &args, options))? {
            Some(other) => Ok(self.with(other?, start.elapsed())),
            None => {
                let reason = self.report().interpreted.clone();
                let reason = reason.unwrap_or_else(|| {
                    let why = match self.device() {
                        Device::Cpu | Device::Sim | Device::Cuda => {
                            "it is compiled in parts, which the interpreter calls"
                        }
                        Device::Interp => "the device is the interpreter",
                    };
                    Interpreted::whole(None, why.into())
                });
                Err(Error::NotCompiled(reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Baseline, CompileOptions, Device, Error, Inputs, Model, Program, RunOptions, Tensor,
        compile,
    };

    const TEXT: &str = "\
fn @main(%x: f32[n,8], %w: f32[8,8], %k: i64[]) -> (%h: f32[n,8], %i: i64[]) {
  %i, %h = loop while lt(%k, 9) carry (%j = %k, %c: f32[n,8] = %x) {
    %even = eq(mod(%j, 2), 0)
    %z = if %even { yield tanh(dot(%c, %w)) } else { yield mul(%c, 0.5) }
    %p = loop trip %j carry (%q: f32[n,8] = %z) {
      continue carry add(%q, 1.0)
    }
    %next = add(%j, 1)
    continue while lt(%next, 9) carry %next, %p
  }
  return %h, %i
}
";

    fn compiled(device: Device, threads: usize) -> Program {
        let options = CompileOptions {
            device,
            threads: Some(threads),
            verify: true,
            ..Default::default()
        };
        compile(&Model::parse("m", TEXT).unwrap(), &options).unwrap()
    }

    fn inputs(k: i64) -> Inputs {
        let x: Vec<f32> = (0..24).map(|i| i as f32 / 24.0 - 0.4).collect();
        let w: Vec<f32> = (0..64).map(|i| (i % 7) as f32 / 7.0 - 0.5).collect();
        let values = [
            ("x", Tensor::from_slice(vec![3, 8], &x)),
            ("w", Tensor::from_slice(vec![8, 8], &w)),
            ("k", Tensor::scalar(k)),
        ];
        values.map(|(name, t)| (name.to_string(), t.into())).into()
    }

    #[test]
    fn baselines_give_the_same() {
        let options = RunOptions::default();
        for threads in [1, 3] {
            let program = compiled(Device::Cpu, threads);
            for k in [4, 9] {
                let want = program.run(inputs(k), &options).unwrap().outputs;
                for kind in [Baseline::Host, Baseline::Trace] {
                    let other = program.baseline(kind, inputs(k), &options).unwrap();
                    for _ in 0..3 {
                        let got = other.run(inputs(k), &options).unwrap().outputs;
                        assert_eq!(got, want, "{kind:?}, {threads} threads, from {k}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_worker_has_memory_of_its_own() {
        const TEXT: &str = "\
fn @main(%x: f32[1,6,n,31], %k: f32[8,6,3,3]) -> (%y: f32[1,8,n,31]) {
  %y = conv(%x, %k, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
  return %y
}
";
        let x: Vec<f32> = (0..6 * 29 * 31).map(|i| (i % 13) as f32 / 13.0).collect();
        let k: Vec<f32> = (0..432).map(|i| (i % 7) as f32 / 7.0 - 0.5).collect();
        let inputs = || -> Inputs {
            let values = [
                ("x", Tensor::from_slice(vec![1, 6, 29, 31], &x)),
                ("k", Tensor::from_slice(vec![8, 6, 3, 3], &k)),
            ];
            values.map(|(name, t)| (name.to_string(), t.into())).into()
        };
        let run = RunOptions::default();
        let options = CompileOptions {
            device: Device::Cpu,
            threads: Some(3),
            ..Default::default()
        };
        let program = compile(&Model::parse("windows", TEXT).unwrap(), &options).unwrap();
        let want = program.run(inputs(), &run).unwrap().outputs;
        let host = program.baseline(Baseline::Host, inputs(), &run).unwrap();
        for _ in 0..50 {
            assert_eq!(host.run(inputs(), &run).unwrap().outputs, want);
        }
    }

    /// A tree in order, with arrays and a number kept over calls.
    const TREE: &str = "\
fn @main(%x: f32[7,n], %w: f32[2*n,n], %root: i64[]) -> (%y: f32[n], %count: i64[]) {
  %left = const [1, 3, 5, -1, -1, -1, -1]
  %right = const [2, 4, 6, -1, -1, -1, -1]
  %y, %count = call @tree(%left, %right, %x, %w, %root)
  return %y, %count
}

fn @tree(%l: i64[7], %r: i64[7], %v: f32[7,n], %w: f32[2*n,n], %node: i64[]) -> (%y: f32[n], %count: i64[]) {
  %a = gather(%l, %node, axis=0)
  %y, %count = if lt(%a, 0) {
    yield gather(%v, %node, axis=0), 1
  } else {
    %before = exp(gather(%v, %node, axis=0))
    %p, %m = call @tree(%l, %r, %v, %w, %a)
    %q, %k = call @tree(%l, %r, %v, %w, gather(%r, %node, axis=0))
    %h = loop trip 2 carry (%c = concat(%p, %q, axis=0)) {
      continue carry tanh(%c)
    }
    %d = squeeze(dot(unsqueeze(%h, axes=[0]), %w), axes=[0])
    yield tanh(add(%d, %before)), add(add(%m, %k), %node)
  }
  return %y, %count
}
";

    #[test]
    fn recursion_has_baselines() {
        let x: Vec<f32> = (0..35).map(|i| (i % 9) as f32 / 9.0 - 0.4).collect();
        let w: Vec<f32> = (0..50).map(|i| (i % 7) as f32 / 7.0 - 0.5).collect();
        let inputs = |root: i64| -> Inputs {
            let values = [
                ("x", Tensor::from_slice(vec![7, 5], &x)),
                ("w", Tensor::from_slice(vec![10, 5], &w)),
                ("root", Tensor::scalar(root)),
            ];
            values.map(|(name, t)| (name.to_string(), t.into())).into()
        };
        let run = RunOptions::default();
        for threads in [1, 3] {
            let mut options = CompileOptions {
                device: Device::Cpu,
                threads: Some(threads),
                verify: true,
                ..Default::default()
            };
            options.without = crate::Step::named("level_recursion").into_iter().collect();
            let program = compile(&Model::parse("tree", TREE).unwrap(), &options).unwrap();
            for root in [0, 1, 6] {
                let want = program.run(inputs(root), &run).unwrap().outputs;
                for kind in [Baseline::Host, Baseline::Trace] {
                    let other = program.baseline(kind, inputs(root), &run).unwrap();
                    let got = other.run(inputs(root), &run).unwrap().outputs;
                    assert_eq!(got, want, "{kind:?}, {threads} threads, from {root}");
                }
            }
        }
    }

    #[test]
    fn the_interpreter_has_none() {
        let program = compiled(Device::Interp, 1);
        let error = program.baseline(Baseline::Host, inputs(1), &RunOptions::default());
        assert!(matches!(error, Err(Error::NotCompiled(_))));
    }
}
