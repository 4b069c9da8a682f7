//! The simulated GPU: programs in CUDA, built by the system's C++ compiler and run by the simulator on the calling thread.

use std::sync::Arc;

use heddle_emit::Emitted;
use heddle_runtime::{BuildOptions, Language, Libraries, PoolOptions, SessionOptions};
use heddle_uprogram::UProgram;

use super::compiled::{Compiled, Setup};
use super::interface::{Artifact, Backend, Layout, Machine, Scheduled};
use crate::{CompileOptions, Device, Error, Target};

/// Builds programs for a simulated grid.
#[derive(Clone, Debug)]
pub(super) struct Sim {
    machine: Machine,
    setup: Setup,
}

impl Sim {
    pub(super) fn new(options: &CompileOptions) -> Self {
        let grid = options.grid;
        let machine = match options.machine {
            Some(_) => options.machine(Target::Cuda),
            None => options
                .machine(Target::Cuda)
                .with_grid(grid.blocks as usize, grid.threads as usize),
        };
        Self {
            setup: Setup {
                device: Device::Sim,
                dialect: &heddle_emit::CUDA,
                machine: machine.clone(),
                pool: PoolOptions {
                    pin: false,
                    adapt: false,
                    ..PoolOptions::new(1)
                },
                session: SessionOptions {
                    grid: Some(grid),
                    ..Default::default()
                },
                build: BuildOptions {
                    language: Language::Simulated,
                    ..options.build()
                },
                gpu: None,
                verify: options.verify,
            },
            machine,
        }
    }

    pub(super) fn with_libraries(mut self, libraries: Arc<Libraries>) -> Self {
        self.setup.build.libraries = Some(libraries);
        self
    }
}

impl Backend for Sim {
    fn device(&self) -> Device {
        Device::Sim
    }

    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    fn lowers(&self) -> bool {
        true
    }

    fn emit(&self, program: &UProgram, layout: &Layout) -> Result<Emitted, Error> {
        Ok(heddle_emit::write(program, layout, self.setup.dialect))
    }

    fn build(&self, program: Scheduled) -> Result<Arc<dyn Artifact>, Error> {
        Ok(Arc::new(Compiled::of(program, &self.setup)?))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pipeline::{Origin, compile_for};
    use crate::{ErrorKind, Inputs, Model, Remedy, RunOptions, Tensor};

    /// A back end whose emitter is wrong.
    #[derive(Debug)]
    struct Wrong {
        sim: Sim,
        from: &'static str,
        to: &'static str,
    }

    impl Backend for Wrong {
        fn device(&self) -> Device {
            self.sim.device()
        }

        fn machine(&self) -> Machine {
            self.sim.machine()
        }

        fn lowers(&self) -> bool {
            true
        }

        fn emit(&self, program: &UProgram, layout: &Layout) -> Result<Emitted, Error> {
            let mut emitted = self.sim.emit(program, layout)?;
            let (before, after) = emitted.source.rsplit_once(self.from).unwrap();
            for (place, _) in &mut emitted.operators {
                if *place > before.len() {
                    *place = *place + self.to.len() - self.from.len();
                }
            }
            Ok(Emitted {
                source: format!("{before}{}{after}", self.to),
                ..emitted
            })
        }

        fn build(&self, program: Scheduled) -> Result<Arc<dyn Artifact>, Error> {
            self.sim.build(program)
        }
    }

    /// Both products are calls of one function.
    const TEXT: &str = "fn @main(%x: f32[256,256]) -> (%z: f32[256,256]) {
  %y = tanh(dot(%x, %x)) at MatMul \"first\"
  %z = tanh(dot(%y, %y)) at MatMul \"second\"
  return %z
}
";

    const BARRIER: &str = "HEDDLE_TRY(heddle_barrier(env, worker, workers));";

    fn stopped(to: &'static str) -> Error {
        let options = CompileOptions {
            device: Device::Sim,
            ..Default::default()
        };
        let wrong = Wrong {
            sim: Sim::new(&options),
            from: BARRIER,
            to,
        };
        let module = Model::parse("m", TEXT).unwrap().module;
        let program = compile_for(&wrong, Origin::Read(module), Duration::ZERO, &options).unwrap();
        let x = Tensor::from_slice(vec![256, 256], &vec![0f32; 256 * 256]);
        let inputs = Inputs::from_iter([("x".to_string(), x.into())]);
        program.run(inputs, &RunOptions::default()).unwrap_err()
    }

    #[test]
    fn findings_name_node_and_line() {
        for (to, words) in [
            ("if (heddle_lane < 3) HEDDLE_UNIT_SYNC;", "divergence"),
            (
                "if (worker == 1) heddle_named_sync(1, heddle_lanes + 32);",
                "deadlock",
            ),
            (
                "HEDDLE_TRY(heddle_wait(env, (worker + 1) % workers, 99));",
                "livelock",
            ),
            (
                "HEDDLE_SHARED(float, tile, 8); tile[heddle_lane] = 0;",
                "out of bounds",
            ),
        ] {
            let error = stopped(to);
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Internal, "{text}");
            assert_eq!(error.remedy(), Some(Remedy::Report));
            assert!(text.contains(words), "{text}");
            let node = error.node().unwrap();
            assert!(node.contains("first") && text.starts_with(&node), "{text}");
            assert!(text.contains(&format!("reads `{to}`")), "{text}");
        }
    }
}
