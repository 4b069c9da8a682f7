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
        let machine = options.machine(Target::Cuda);
        let blocks = match options.machine {
            Some(_) => machine.units(),
            None => grid.blocks as usize,
        };
        // Groups of lanes must divide the block and the warp that run.
        let machine = machine
            .with_grid(blocks, grid.threads as usize)
            .with_warp(grid.warp as usize);
        // Clusters, and copies of operands, are planned for the grid that runs.
        let machine = match blocks == grid.blocks as usize {
            true => {
                let clustered = machine.clone().in_clusters(grid.cluster as usize);
                clustered.unwrap_or(machine)
            }
            false => machine.without_residents(),
        };
        // Simulated tensor cores are of warps of 32 lanes, and no sanitizer knows them.
        let machine = match grid.warp == 32 && options.sanitize.is_none() {
            true => machine,
            false => machine.without_cores(),
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
                    sanitize: options.sanitize,
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
    use crate::{ErrorKind, Program, Remedy, RunOptions, Sanitizer};

    /// On few threads: what waits for ever does so for a number of rounds of all of them.
    fn program(to: &'static str) -> Program {
        let options = CompileOptions {
            device: Device::Sim,
            grid: "blocks=4,threads=32".parse().unwrap(),
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

    /// Two blocks of eight threads, which a sanitizer watches.
    fn watched(sanitizer: Sanitizer) -> CompileOptions {
        CompileOptions {
            device: Device::Sim,
            grid: "blocks=2,threads=8,warp=8".parse().unwrap(),
            sanitize: Some(sanitizer),
            ..Default::default()
        }
    }

    /// An error that begins with a node and quotes a line.
    fn assert_found(error: &Error, node: &str, words: &[&str]) {
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Internal, "{text}");
        assert_eq!(error.remedy(), Some(Remedy::Report));
        assert_eq!(error.node().as_deref(), Some(node), "{text}");
        assert!(text.starts_with(node), "{text}");
        for words in words {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn sanitizers_find_nothing_in_right_programs() {
        for sanitizer in [Sanitizer::Thread, Sanitizer::Address] {
            let options = watched(sanitizer);
            let same = "HEDDLE_TRY(heddle_barrier(env, worker, workers));";
            let right = Wrong::barrier(Box::new(Sim::new(&options)), same).compile(&options);
            let run = right.run(inputs(), &RunOptions::default());
            let wanted = right.on_interpreter().run(inputs(), &RunOptions::default());
            assert_eq!(run.unwrap().outputs, wanted.unwrap().outputs);
        }
    }

    #[test]
    fn a_missing_barrier_is_a_race_of_two_nodes() {
        // Lanes of a tile are so many steps behind a store that the sanitizer has forgotten where it was.
        let options = CompileOptions {
            without: crate::Step::named("join_lanes").into_iter().collect(),
            ..watched(Sanitizer::Thread)
        };
        let wrong = Wrong::barrier(Box::new(Sim::new(&options)), ";").compile(&options);
        let error = wrong.run(inputs(), &RunOptions::default()).unwrap_err();
        let node = error.node().unwrap_or_default();
        // The thread that came last is named first.
        let other = match &*node {
            "MatMul node `first`" => "of MatMul node `second`, reads `",
            _ => "of MatMul node `first`, reads `",
        };
        let words = [
            "data race: lane ",
            " of block ",
            " writes 4 bytes at line ",
            other,
        ];
        assert_found(&error, &node, &words);
        assert!(
            ["MatMul node `first`", "MatMul node `second`"].contains(&&*node),
            "{error}"
        );
    }

    #[test]
    fn an_access_out_of_bounds_names_its_node() {
        let options = watched(Sanitizer::Address);
        let to = "HEDDLE_RUN(if (worker == 1 && heddle_lane == 3) ((float *)env->outputs[0].data)[1 << 16] = 0; op0(";
        let wrong = Wrong::call(Box::new(Sim::new(&options)), to).compile(&options);
        let error = wrong.run(inputs(), &RunOptions::default()).unwrap_err();
        let words = [
            "heap-buffer-overflow: lane 3 of block 1 writes 4 bytes at line ",
            "reads `HEDDLE_RUN(if (worker == 1",
        ];
        assert_found(&error, "MatMul node `second`", &words);
    }
}
