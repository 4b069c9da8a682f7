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
    use crate::backend::wrong::{Wrong, inputs};
    use crate::{ErrorKind, Program, Remedy, RunOptions};

    fn program(to: &'static str) -> Program {
        let options = CompileOptions {
            device: Device::Sim,
            ..Default::default()
        };
        Wrong::barrier(Box::new(Sim::new(&options)), to).compile(&options)
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
            let run = program(to).run(inputs(), &RunOptions::default());
            let error = run.unwrap_err();
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Internal, "{text}");
            assert_eq!(error.remedy(), Some(Remedy::Report));
            assert!(text.contains(words), "{text}");
            let node = error.node().unwrap();
            assert!(node.contains("first") && text.starts_with(&node), "{text}");
            assert!(text.contains(&format!("reads `{to}`")), "{text}");
        }
    }

    #[test]
    fn the_watchdog_names_node_line_and_blocks() {
        let to = "if (worker != 2 || env->max_iterations != 7) HEDDLE_TRY(heddle_barrier(env, worker, workers));";
        let program = program(to);
        let options = RunOptions {
            max_iterations: Some(7),
            watchdog: Some(Duration::from_micros(200)),
            ..Default::default()
        };
        let error = program.run(inputs(), &options).unwrap_err();
        crate::backend::wrong::assert_stuck(&error, to, "0.0002 s");
        // The next run is right.
        let right = program.run(inputs(), &RunOptions::default());
        let wanted = program
            .on_interpreter()
            .run(inputs(), &RunOptions::default());
        assert_eq!(right.unwrap().outputs, wanted.unwrap().outputs);
    }
}
