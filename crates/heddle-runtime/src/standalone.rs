//! Emitted programs that run in their own process, under a sanitizer.
//!
//! A sanitizer must be present from the start of its process, so an instrumented library cannot be
//! loaded here. `include/driver.c` turns it into an executable that does what a session does, from
//! file to file. For tests.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use heddle_abi::{Launch, Plan};
use tempfile::TempDir;

use crate::abi::{self, MAX_RANK};
use crate::build::{BuildOptions, Language};
use crate::cache::Cache;
use crate::compiler::Compiler;
use crate::error::{BuildError, Fault, RunError};
use crate::flags::{Flags, Product};
use crate::grid::Grid;
use crate::session::{Input, RunOptions};
use crate::source::{Constant, Source};
use crate::{sanitized, simulation};

/// A program built as an executable. Its files are removed on drop.
#[derive(Debug)]
pub struct Standalone {
    folder: TempDir,
    program: PathBuf,
    constants: Vec<Constant>,
    plan: Plan,
}

/// An output of a [`Standalone`] run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedOutput {
    /// Its dims.
    pub dims: Vec<i64>,
    /// Its elements, followed by the rest of its buffer.
    pub data: Vec<u8>,
}

/// The reasons for which a [`Standalone`] run fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StandaloneError {
    /// The process crashed, or a sanitizer stopped it.
    #[error("the program ended with {status}:\n{report}")]
    Stopped {
        /// Its exit status.
        status: String,
        /// Its messages.
        report: String,
    },
    /// The program reported an error, as it would in a session.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The process could not be started, or its files not written or read.
    #[error(
        "files or process of a program under test: {0}. Is there room in the temporary folder?"
    )]
    Io(#[from] io::Error),
}

impl Standalone {
    /// Builds the program with the options' sanitizer, if any, bypassing the cache. A simulated one takes [`Standalone::run_grid`].
    pub fn build(source: &Source, options: &BuildOptions) -> Result<Standalone, BuildError> {
        let cache = Cache::open(&options.cache, options.cache_limit);
        let compiler = Compiler::find(options, &cache)?;
        let flags = Flags::new(options, Product::Standalone)?;
        let folder = tempfile::tempdir().map_err(|source| BuildError::Io {
            action: "making a folder in",
            path: std::env::temp_dir(),
            source,
        })?;
        let text = match options.language {
            Language::C => source.text.clone(),
            Language::Simulated => format!(
                "{}\n#line 1 \"threads.cc\"\n{}",
                source.text,
                simulation::THREADS_MAIN
            ),
        };
        let program = compiler
            .compile(&text, &flags, folder.path())
            .map_err(|e| compiler.refusal(&source.name, e))?;
        Ok(Standalone {
            folder,
            program,
            constants: source.constants.clone(),
            plan: source.plan.clone(),
        })
    }

    /// Runs the program, planned for `workers`, `runs` times in one process with that many threads,
    /// or with fewer by [`RunOptions::team`]; returns the results of the last run. A timeout is rounded to whole seconds and appears as
    /// [`StandaloneError::Stopped`].
    pub fn run(
        &self,
        inputs: &[Input<'_>],
        sizes: &[i64],
        workers: usize,
        runs: usize,
        options: &RunOptions<'_>,
    ) -> Result<Vec<OwnedOutput>, StandaloneError> {
        let job = tempfile::tempdir_in(self.folder.path())?;
        let (request, answer) = (job.path().join("request"), job.path().join("answer"));
        let text = self.request(inputs, sizes, workers, runs, options)?;
        std::fs::write(&request, text.0)?;
        let output = self.command().args([&request, &answer]).output()?;
        if !output.status.success() {
            return Err(StandaloneError::Stopped {
                status: output.status.to_string(),
                report: String::from_utf8_lossy(&output.stderr).into_owned(),
            });
        }
        read_answer(&answer, options)
    }

    /// Runs a simulated program once, with a thread of the system for each of the grid's; its seed says nothing.
    ///
    /// # Errors
    /// [`RunError::Sanitized`] if the sanitizer finds a fault, [`RunError::Separate`] if the process ends otherwise.
    pub fn run_grid<'i>(
        &self,
        inputs: impl ExactSizeIterator<Item = Input<'i>>,
        sizes: &[i64],
        grid: Grid,
        options: &RunOptions<'_>,
    ) -> Result<Vec<OwnedOutput>, RunError> {
        let inputs: Vec<_> = inputs.collect();
        let mut text = self.request(&inputs, sizes, grid.blocks as usize, 1, options)?;
        text.put(grid.threads.into());
        text.put(grid.warp.into());
        text.put(grid.cluster.into());
        let separate = |e: io::Error| RunError::Separate(e.to_string());
        let job = tempfile::tempdir_in(self.folder.path()).map_err(separate)?;
        let (request, answer) = (job.path().join("request"), job.path().join("answer"));
        std::fs::write(&request, text.0).map_err(separate)?;
        let mut command = self.command();
        let output = command.args([&request, &answer]).output();
        let output = output.map_err(separate)?;
        if output.status.success() {
            return read_answer(&answer, options).map_err(|e| match e {
                StandaloneError::Run(error) => error,
                error => RunError::Separate(error.to_string()),
            });
        }
        const ALARM: i32 = 14;
        if output.status.signal() == Some(ALARM) {
            return Err(RunError::Timeout(options.timeout.unwrap_or_default()));
        }
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(match sanitized::found(&report, grid) {
            Some(error) => error,
            None => RunError::Separate(format!("{}: {}", output.status, report.trim())),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("TSAN_OPTIONS", "halt_on_error=1:exitcode=66")
            .env("ASAN_OPTIONS", "exitcode=67:detect_leaks=0")
            .env(
                "UBSAN_OPTIONS",
                "halt_on_error=1:exitcode=68:print_stacktrace=1",
            )
            .stdin(Stdio::null());
        command
    }

    fn request(
        &self,
        inputs: &[Input<'_>],
        sizes: &[i64],
        workers: usize,
        runs: usize,
        options: &RunOptions<'_>,
    ) -> Result<Words, RunError> {
        let mut launch = Launch::new(&self.plan);
        launch.evaluate(&self.plan, sizes, [workers as i64, options.max_depth])?;
        let mut out = Words(Vec::new());
        let seconds = options.timeout.map_or(0, |t| t.as_secs().saturating_add(1));
        out.put(seconds as i64);
        out.put(runs as i64);
        out.put(workers.min(options.team) as i64);
        out.put(options.max_depth);
        out.put(options.max_iterations);
        // A few nanoseconds before a yield: sanitized threads share cores, and more interleavings occur.
        out.put(10);
        out.put(10);
        out.put(options.resize.into());
        out.put_all(launch.sizes());
        self.put_inputs(&mut out, inputs, &launch)?;
        out.put(self.constants.len() as i64);
        self.constants.iter().for_each(|c| out.put_data(c.bytes()));
        out.put_all(launch.table());
        out.put(launch.scratch() as i64);
        let outputs = self.plan.outputs.iter();
        out.put_all(&outputs.map(|a| launch.bytes(a) as i64).collect::<Vec<_>>());
        let outputs = self.plan.outputs.iter();
        out.put_all(&outputs.map(|a| a.grows.unwrap_or(0)).collect::<Vec<_>>());
        out.put(self.plan.segments as i64);
        Ok(out)
    }

    fn put_inputs(
        &self,
        out: &mut Words,
        inputs: &[Input<'_>],
        launch: &Launch,
    ) -> Result<(), RunError> {
        out.put(inputs.len() as i64);
        for (position, (input, array)) in inputs.iter().zip(&self.plan.inputs).enumerate() {
            if input.dims.len() > MAX_RANK {
                return Err(RunError::InputDims {
                    input: position,
                    dims: input.dims.to_vec(),
                });
            }
            let (needed, given) = (launch.bytes(array), input.data.len());
            if (given as u64) < needed {
                return Err(RunError::InputData {
                    input: position,
                    needed,
                    given,
                });
            }
            out.put(input.dims.len() as i64);
            (0..MAX_RANK).for_each(|axis| out.put(input.dims.get(axis).copied().unwrap_or(0)));
            out.put_data(input.data);
        }
        Ok(())
    }
}

struct Words(Vec<u8>);

impl Words {
    fn put(&mut self, word: i64) {
        self.0.extend(word.to_ne_bytes());
    }

    fn put_all(&mut self, words: &[i64]) {
        self.put(words.len() as i64);
        words.iter().for_each(|word| self.put(*word));
    }

    fn put_data(&mut self, data: &[u8]) {
        self.put(data.len() as i64);
        self.0.extend(data);
    }
}

fn read_answer(path: &Path, options: &RunOptions<'_>) -> Result<Vec<OwnedOutput>, StandaloneError> {
    let bytes = std::fs::read(path)?;
    let mut answer = Answer(&bytes);
    match answer.word()? {
        0 => (0..answer.word()?).map(|_| answer.output()).collect(),
        _ => {
            let [code, site, a, b] = [
                answer.word()?,
                answer.word()?,
                answer.word()?,
                answer.word()?,
            ];
            let error = match code as u32 {
                abi::code::CANCELLED => RunError::Cancelled,
                abi::code::TIMEOUT => RunError::Timeout(options.timeout.unwrap_or_default()),
                code => RunError::Program {
                    fault: Fault::new(code, [a, b]),
                    site: site as u32,
                },
            };
            Err(error.into())
        }
    }
}

struct Answer<'a>(&'a [u8]);

impl Answer<'_> {
    fn word(&mut self) -> io::Result<i64> {
        let bytes = self.bytes(8)?;
        Ok(i64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn bytes(&mut self, count: usize) -> io::Result<&[u8]> {
        let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is too short");
        let (head, rest) = self.0.split_at_checked(count).ok_or_else(short)?;
        self.0 = rest;
        Ok(head)
    }

    fn output(&mut self) -> Result<OwnedOutput, StandaloneError> {
        let rank = self.word()?;
        let mut dims = Vec::new();
        for _ in 0..MAX_RANK {
            dims.push(self.word()?);
        }
        if !(0..=MAX_RANK as i64).contains(&rank) {
            return Err(RunError::OutputDims {
                output: 0,
                rank: rank as i32,
                dims,
            }
            .into());
        }
        dims.truncate(rank as usize);
        let count = self.word()? as usize;
        let data = self.bytes(count)?.to_vec();
        Ok(OwnedOutput { dims, data })
    }
}
