//! NVIDIA GPUs: one persistent kernel, built by NVRTC and run by the driver. [`Writer`] only writes the text, for which no GPU is needed.

use std::sync::Arc;

use heddle_emit::Emitted;
use heddle_runtime::cuda::Gpu;
use heddle_runtime::{BuildError, Libraries, PoolOptions, SessionOptions};
use heddle_uprogram::UProgram;

use super::compiled::{Compiled, Setup};
use super::interface::{Artifact, Backend, Layout, Machine, Scheduled};
use crate::{CompileOptions, Device, Error, Grid, Interpreted, Target};

/// Threads of a block: those that the kernel's registers are bounded for.
const THREADS: usize = 256;

/// Threads of a warp.
const WARP: u32 = 32;

/// Builds programs for a GPU.
#[derive(Clone, Debug)]
pub(super) struct Cuda {
    setup: Setup,
    gpu: Gpu,
}

impl Cuda {
    /// For the process's device: a block for each of its multiprocessors, unless options name a machine.
    ///
    /// # Errors
    /// [`Error::Build`] if there is no device.
    pub(super) fn new(options: &CompileOptions) -> Result<Self, Error> {
        let gpu = Gpu::open(options.arch.as_deref()).map_err(BuildError::from)?;
        let facts = gpu.device.facts();
        let threads = THREADS.min(facts.threads_per_block);
        let machine = match &options.machine {
            Some(machine) => machine.0.clone(),
            None => like(&facts.name).with_grid(facts.multiprocessors, threads),
        };
        let units = machine.units();
        let machine = machine.with_grid(units, threads).with_warp(WARP as usize);
        let mut machine = machine;
        let on_chip = &mut machine.limits.on_chip_bytes;
        *on_chip = facts.shared_bytes.min(*on_chip);
        let machine = of_arch(machine, &gpu.arch);
        let setup = Setup {
            device: Device::Cuda,
            dialect: &heddle_emit::CUDA,
            // The driver runs them; one run at a time takes turns with the others.
            pool: PoolOptions {
                pin: false,
                adapt: false,
                ..PoolOptions::new(1)
            },
            session: session(&machine),
            machine,
            build: options.build(),
            gpu: Some(gpu.clone()),
            verify: options.verify,
        };
        Ok(Self { setup, gpu })
    }

    /// That programs can be built for the device.
    pub(super) fn check_compiler(&self) -> Result<(), Error> {
        Ok(self.gpu.check_compiler().map_err(BuildError::from)?)
    }

    pub(super) fn with_libraries(mut self, libraries: Arc<Libraries>) -> Self {
        self.setup.build.libraries = Some(libraries);
        self
    }
}

/// The first architecture with the instructions of tensor cores that are emitted.
const CORES: u32 = 80;

/// The first architecture with clusters.
const CLUSTERS: u32 = 90;

/// The only architecture with instructions of a warpgroup, which those after it do not have.
const WARPGROUPS: &str = "sm_90a";

/// A machine as programs for an architecture use it.
fn of_arch(machine: Machine, arch: &str) -> Machine {
    match arch_number(arch) >= Some(CORES) {
        true if arch == WARPGROUPS => machine,
        true => machine.without_warpgroups(),
        false => machine.without_cores(),
    }
}

/// The number of an architecture such as `sm_90a`.
fn arch_number(arch: &str) -> Option<u32> {
    let digits = arch.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

/// A machine with launches in clusters: as many as it has units for, and a single one, whose barriers are all the cluster's.
fn in_clusters(machine: &Machine) -> impl Iterator<Item = Machine> {
    let units = machine.group_units();
    let one = machine.clone().with_grid(units, machine.lanes());
    let all = (machine.units() > units).then(|| machine.clone());
    let both = all.into_iter().chain([one]);
    both.filter_map(move |machine| machine.in_clusters(units))
}

/// The known machine of a device's kind.
fn like(name: &str) -> Machine {
    match name.contains("H200") {
        true => Machine::h200(),
        false => Machine::h100(),
    }
}

/// Sessions with a block for each unit.
fn session(machine: &Machine) -> SessionOptions {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    SessionOptions {
        grid: Some(Grid {
            blocks: number(machine.units()),
            threads: number(machine.lanes()),
            warp: WARP,
            cluster: machine.clusters().map_or(1, |(_, units)| number(units)),
            seed: 0,
        }),
        ..Default::default()
    }
}

impl Backend for Cuda {
    fn device(&self) -> Device {
        Device::Cuda
    }

    fn machine(&self) -> Machine {
        self.setup.machine.clone()
    }

    fn lowers(&self) -> bool {
        true
    }

    fn with_units(&self, units: usize) -> Option<Box<dyn Backend>> {
        let mut fewer = self.clone();
        let machine = &self.setup.machine;
        let lanes = machine.lanes();
        // Several blocks of a multiprocessor would share its memory.
        let machine = machine.clone().without_residents();
        fewer.setup.machine = machine.with_grid(units, lanes);
        fewer.setup.session = session(&fewer.setup.machine);
        Some(Box::new(fewer))
    }

    fn in_clusters(&self) -> Vec<Box<dyn Backend>> {
        if arch_number(&self.gpu.arch) < Some(CLUSTERS) {
            return vec![];
        }
        let clustered = in_clusters(&self.setup.machine).map(|machine| {
            let mut clustered = self.clone();
            clustered.setup.session = session(&machine);
            clustered.setup.machine = machine;
            Box::new(clustered) as Box<dyn Backend>
        });
        clustered.collect()
    }

    fn emit(&self, program: &UProgram, layout: &Layout) -> Result<Emitted, Error> {
        Ok(heddle_emit::write(program, layout, self.setup.dialect))
    }

    fn build(&self, program: Scheduled) -> Result<Arc<dyn Artifact>, Error> {
        Ok(Arc::new(Compiled::of(program, &self.setup)?))
    }
}

/// Writes programs for NVIDIA GPUs.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    machine: Machine,
}

impl Writer {
    pub(super) fn new(options: &CompileOptions) -> Self {
        let machine = options.machine(Target::Cuda);
        let arch = options.arch.as_deref().unwrap_or(WARPGROUPS);
        Self {
            machine: of_arch(machine, arch),
        }
    }
}

impl Backend for Writer {
    fn device(&self) -> Device {
        Device::Cuda
    }

    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    fn lowers(&self) -> bool {
        true
    }

    fn in_clusters(&self) -> Vec<Box<dyn Backend>> {
        let clustered = in_clusters(&self.machine);
        clustered
            .map(|machine| Box::new(Self { machine }) as Box<dyn Backend>)
            .collect()
    }

    fn emit(&self, program: &UProgram, layout: &Layout) -> Result<Emitted, Error> {
        Ok(heddle_emit::write(program, layout, &heddle_emit::CUDA))
    }

    fn build(&self, _: Scheduled) -> Result<Arc<dyn Artifact>, Error> {
        let why = "the text is written and not built";
        Err(Error::NotCompiled(Interpreted::whole(None, why.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fake_cuda::in_child;
    use crate::backend::wrong::{Wrong, assert_stuck, inputs};
    use crate::{ErrorKind, RunOptions};

    fn test(name: &str) -> String {
        let module = module_path!().split_once("::").expect("the crate's name");
        format!("{}::{name}", module.1)
    }

    /// Hopper is built for by its own architecture, which alone has instructions of a warpgroup.
    #[test]
    fn machines_have_the_tensor_cores_of_the_architecture() {
        let name = test("machines_have_the_tensor_cores_of_the_architecture");
        if in_child(&name, "sms=4,threads=128").is_some() {
            return;
        }
        for (arch, cores) in [
            (None, [true, true]),
            (Some("sm_90a"), [true, true]),
            (Some("sm_90"), [true, false]),
            (Some("sm_100a"), [true, false]),
            (Some("sm_75"), [false, false]),
        ] {
            let options = CompileOptions {
                device: Device::Cuda,
                arch: arch.map(str::to_owned),
                ..Default::default()
            };
            let cuda = Cuda::new(&options).unwrap();
            assert_eq!(cuda.gpu.arch, arch.unwrap_or("sm_90a"));
            for machine in [cuda.machine(), Writer::new(&options).machine()] {
                let found = [&machine.cores, &machine.warpgroups].map(|rates| !rates.is_empty());
                assert_eq!(found, cores, "{arch:?}");
            }
        }
    }

    /// The driver's clock runs ahead where nothing moves.
    #[test]
    fn a_kernel_that_waits_for_ever_is_ended_and_the_next_run_is_right() {
        let name = test("a_kernel_that_waits_for_ever_is_ended_and_the_next_run_is_right");
        let Some(log) = in_child(&name, "sms=4,blocks=1,threads=32") else {
            let options = CompileOptions {
                device: Device::Cuda,
                ..Default::default()
            };
            let to = "if (worker != 2 || env->max_iterations != 7) HEDDLE_TRY(heddle_barrier(env, worker, workers));";
            let cuda = Cuda::new(&options).unwrap();
            let program = Wrong::barrier(Box::new(cuda), to).compile(&options);
            let stuck = RunOptions {
                max_iterations: Some(7),
                ..Default::default()
            };
            let error = program.run(inputs(), &stuck).unwrap_err();
            assert_stuck(&error, to, "10 s");
            let right = program.run(inputs(), &RunOptions::default());
            let wanted = program
                .on_interpreter()
                .run(inputs(), &RunOptions::default());
            assert_eq!(right.unwrap().outputs, wanted.unwrap().outputs);
            return;
        };
        assert_eq!(log["cuLaunchKernelEx"], 2, "{log:?}");
        assert_eq!(log.get("cuDevicePrimaryCtxReset_v2"), None, "{log:?}");
    }

    /// Block 1 writes where no memory is.
    #[test]
    fn a_fault_names_the_operator_and_the_next_run_is_right() {
        let name = test("a_fault_names_the_operator_and_the_next_run_is_right");
        let Some(log) = in_child(&name, "sms=4,blocks=1,threads=32") else {
            let options = CompileOptions {
                device: Device::Cuda,
                ..Default::default()
            };
            let to = "HEDDLE_RUN(if (worker == 1 && env->max_iterations == 7) *(volatile float *)8 = 0; op0(";
            let cuda = Cuda::new(&options).unwrap();
            let program = Wrong::call(Box::new(cuda), to).compile(&options);
            let faulty = RunOptions {
                max_iterations: Some(7),
                ..Default::default()
            };
            for _ in 0..2 {
                let error = program.run(inputs(), &faulty).unwrap_err();
                let text = error.to_string();
                assert_eq!(error.kind(), ErrorKind::Internal, "{text}");
                let node = error.node().expect("a node");
                assert_eq!(node, "MatMul node `second`");
                assert!(text.starts_with(&node), "{text}");
                assert!(text.contains("ILLEGAL_ADDRESS"), "{text}");
            }
            let right = program.run(inputs(), &RunOptions::default());
            let wanted = program
                .on_interpreter()
                .run(inputs(), &RunOptions::default());
            assert_eq!(right.unwrap().outputs, wanted.unwrap().outputs);
            return;
        };
        // Each fault has a second run.
        assert_eq!(log["cuLaunchKernelEx"], 5, "{log:?}");
        assert_eq!(log["cuDevicePrimaryCtxReset_v2"], 4, "{log:?}");
    }
}
