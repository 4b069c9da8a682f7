//! The cpu device: lowers, writes, builds and runs.

use std::sync::Arc;

use heddle_ir::{Datum, Module, Signature, Tensor};
use heddle_runtime::{
    BuildOptions, Constant, Executable, Input, Pool, Program, RunError, Session, SessionOptions,
    Source,
};
use heddle_task::LowerError;

use crate::{Error, RunOptions};

/// A program that worker threads run.
#[derive(Debug)]
pub(crate) struct Compiled {
    executable: Executable,
    source: String,
    /// Named sizes in the order that the program takes them.
    sizes: Vec<String>,
    /// The model's nodes by the numbers that errors carry.
    sites: Vec<String>,
}

impl Compiled {
    /// Compiles a module. The inner error says what has no compiled form; the outer one that building failed.
    pub(crate) fn new(
        module: &Module,
        threads: Option<usize>,
    ) -> Result<Result<Self, LowerError>, Error> {
        let mut program = match heddle_task::lower(module) {
            Ok(program) => program,
            Err(reason) => return Ok(Err(reason)),
        };
        heddle_task::place_syncs(&mut program);
        let emitted = heddle_emit::write(&program, &heddle_emit::C);
        let source = Source {
            name: module.entry().sig.name.clone(),
            text: emitted.source.clone(),
            constants: emitted.constants.into_iter().map(Constant::from).collect(),
        };
        let built = Arc::new(Program::build(&source, &BuildOptions::default())?);
        let threads = threads.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        });
        let pool =
            Pool::shared(threads).map_err(|e| Error::Internal(format!("no threads: {e}")))?;
        Ok(Ok(Self {
            executable: Executable::new(
                built,
                pool,
                memory(heddle_interp::Options::default().max_memory),
            ),
            source: emitted.source,
            sizes: program.sizes.into_iter().map(|(name, _)| name).collect(),
            sites: emitted.sites,
        }))
    }

    /// The emitted text.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Runs it on inputs in order.
    pub(crate) fn run(
        &self,
        sig: &Signature,
        args: &[Datum],
        options: &RunOptions,
    ) -> Result<Vec<Datum>, Error> {
        let names = heddle_interp::check_inputs(sig, args, false)
            .map_err(|e| Error::Run(heddle_interp::RunError::Input(e)))?;
        let sizes: Vec<i64> = self
            .sizes
            .iter()
            .map(|s| names.get(s.as_str()).copied().unwrap_or(0))
            .collect();
        let tensors = args.iter().filter_map(|d| match d {
            Datum::Tensor(t) => Some(t),
            _ => None,
        });
        let tensors: Vec<&Tensor> = tensors.collect();
        let dims: Vec<Vec<i64>> = tensors
            .iter()
            .map(|t| t.shape().iter().map(|&d| d as i64).collect())
            .collect();
        let inputs = tensors.iter().zip(&dims);
        let inputs: Vec<_> = inputs
            .map(|(t, dims)| Input {
                data: data(t),
                dims,
            })
            .collect();
        let defaults = heddle_runtime::RunOptions::default();
        let limits = heddle_runtime::RunOptions {
            timeout: options.timeout,
            max_depth: options.max_depth.map_or(defaults.max_depth, |d| d as i64),
            max_iterations: options
                .max_iterations
                .map_or(defaults.max_iterations, |n| n.min(i64::MAX as u64) as i64),
            ..defaults
        };
        let (mut own, mut lent);
        let session: &mut Session = match options.max_memory {
            Some(max_memory) => {
                own = self.session(max_memory);
                &mut own
            }
            None => {
                lent = self.executable.lend();
                &mut lent
            }
        };
        let outputs = session
            .run(&inputs, &sizes, &limits)
            .map_err(|e| self.stopped(e))?;
        let results = sig.results.iter().enumerate().map(|(i, (name, ty))| {
            let dims = outputs
                .dims(i)
                .iter()
                .map(|&d| d as usize)
                .collect::<Vec<_>>();
            let dtype = ty.as_tensor().map(|t| t.dtype).ok_or("is no tensor")?;
            let count: usize = dims.iter().product();
            let bytes = &outputs.data(i)[..count * dtype.bits() / 8];
            let tensor = Tensor::new(dtype, dims, bytes.to_vec().into());
            tensor.map(Datum::from).map_err(|_| name.as_str())
        });
        let results: Result<Vec<_>, &str> = results.collect();
        results.map_err(|name| Error::Internal(format!("output `{name}` came out wrong")))
    }

    /// A session for one run that has a limit of its own.
    fn session(&self, max_memory: u64) -> Session {
        let (program, pool) = (self.executable.program(), self.executable.pool());
        Session::new(program.clone(), pool.clone(), memory(max_memory))
    }

    fn stopped(&self, error: RunError) -> Error {
        let site = match error {
            RunError::Program { site, .. } => self.sites.get(site as usize).cloned(),
            _ => None,
        };
        Error::Compiled {
            site,
            error: Box::new(error),
        }
    }
}

/// The limit on scratch memory and outputs.
fn memory(max_memory: u64) -> SessionOptions {
    SessionOptions {
        max_memory,
        ..Default::default()
    }
}

/// An array's bytes; at an address that may be loaded from even if there are none.
fn data(tensor: &Tensor) -> &[u8] {
    static NOTHING: [u64; 8] = [0; 8];
    match tensor.is_empty() {
        true => &bytemuck::cast_slice(&NOTHING)[..0],
        false => tensor.bytes(),
    }
}
