//! Runs of many instances, and the instances at which they stop.

use std::ops::Range;
use std::time::Instant;

use super::origin::origin;
use super::parts::joined;
use super::{Batch, BatchError, FaultyRows};
use crate::exec::interpreted_error;
use crate::{Error, ErrorKind, Inputs, Outputs, Program, Run, RunOptions, inputs};

/// Results of the instances that ran to their ends.
#[derive(Debug)]
pub struct Finished {
    /// The outputs of these instances, in their order.
    pub run: Run,
    /// The numbers of these instances.
    pub instances: Vec<usize>,
    /// The other instances.
    pub failed: Vec<Failed>,
}

/// An instance that did not run to its end.
#[derive(Debug)]
pub struct Failed {
    /// Its number.
    pub instance: usize,
    /// Its error, which names it: [`BatchError::Instance`].
    pub error: Error,
}

impl Batch {
    /// Runs all instances with a program compiled from [`Batch::model`]. If one stops the run, the error names it, its node
    /// and the inputs that led there: instances are run in parts until it is found.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::check`] and [`Program::run`]; [`BatchError::Instance`] has that of one instance.
    pub fn run(
        &self,
        program: &Program,
        inputs: Inputs,
        options: &RunOptions,
    ) -> Result<Run, Error> {
        self.check(&inputs)?;
        let runs = Runs {
            batch: self,
            program,
            inputs: &inputs,
            options,
        };
        match runs.all() {
            Err(error) if !error.is_of_memory() && !error.is_of_time() => Err(runs.blamed(error)?),
            Err(error) => Err(runs.named(error)?),
            run => run,
        }
    }

    /// Runs all instances. Those that stop the run are left out, and the others run again in parts, each within the limits of
    /// `options`. A batch that needs too much memory runs in parts, too.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::run`] that are no instance's.
    pub fn run_finishing(
        &self,
        program: &Program,
        inputs: Inputs,
        options: &RunOptions,
    ) -> Result<Finished, Error> {
        let count = self.check_parts(&inputs)?;
        let unsound = self.unsound(&inputs, count);
        let start = Instant::now();
        let runs = Runs {
            batch: self,
            program,
            inputs: &inputs,
            options,
        };
        let error = match unsound.first_key_value() {
            Some((_, error)) => Error::from(error.clone()),
            None => match runs.all() {
                Ok(run) => {
                    return Ok(Finished {
                        run,
                        instances: (0..count).collect(),
                        failed: vec![],
                    });
                }
                Err(error) => error,
            },
        };
        // An error without instances is nobody's.
        let concerned = !unsound.is_empty() || concerns_instances(&error);
        let Some(Ok(mut run)) = runs.part(0..0).filter(|_| concerned) else {
            return Err(runs.named(error)?);
        };
        let mut found = Found::default();
        match unsound.is_empty() {
            true => runs.halves(0..count, error, &mut found)?,
            false => {
                let ends = unsound.keys().copied().chain([count]);
                let between = ends.scan(0, |at, end| Some(std::mem::replace(at, end + 1)..end));
                runs.each(between.filter(|r| !r.is_empty()), error, &mut found)?;
            }
        }
        let unsound = unsound.into_iter().map(|(instance, error)| Failed {
            instance,
            error: error.into(),
        });
        found.failed.extend(unsound);
        found.failed.sort_by_key(|failed| failed.instance);
        let parts = [vec![run.outputs], found.outputs].concat();
        run.outputs = joined(&self.outputs, &parts)?;
        run.report.run = start.elapsed();
        Ok(Finished {
            run,
            instances: found.instances,
            failed: found.failed,
        })
    }
}

/// Instances that ran, and others.
#[derive(Default)]
struct Found {
    outputs: Vec<Outputs>,
    instances: Vec<usize>,
    failed: Vec<Failed>,
}

/// Runs of some of the instances.
struct Runs<'a> {
    batch: &'a Batch,
    program: &'a Program,
    inputs: &'a Inputs,
    options: &'a RunOptions,
}

impl Runs<'_> {
    fn all(&self) -> Result<Run, Error> {
        match &self.batch.groups(self.inputs, 0..self.count())[..] {
            [_] => self.run(self.inputs.clone()),
            groups => match self.in_turn(groups) {
                Some(run) => run,
                None => self.run(self.inputs.clone()),
            },
        }
    }

    fn count(&self) -> usize {
        self.batch.count(self.inputs).unwrap_or(0)
    }

    fn run(&self, inputs: Inputs) -> Result<Run, Error> {
        let args = inputs::in_order(self.program.sig(), inputs)?;
        self.program.run_args(&args, self.options)
    }

    /// A run of some; `None` if the inputs cannot be parted.
    fn part(&self, range: Range<usize>) -> Option<Result<Run, Error>> {
        self.in_turn(&self.batch.groups(self.inputs, range))
    }

    /// Runs of some, one after the other.
    fn in_turn(&self, groups: &[Range<usize>]) -> Option<Result<Run, Error>> {
        let start = Instant::now();
        let mut outputs = vec![];
        let mut last = None;
        for group in groups {
            let run = match self.run(self.batch.part(self.inputs, group.clone())?) {
                Ok(run) => run,
                error => return Some(error),
            };
            outputs.push(run.outputs);
            last = Some(run.report);
        }
        let mut report = last?;
        report.run = start.elapsed();
        let outputs = match outputs.len() {
            1 => outputs.swap_remove(0),
            _ => match joined(&self.batch.outputs, &outputs) {
                Ok(outputs) => outputs,
                Err(error) => return Some(Err(error)),
            },
        };
        Some(Ok(Run { outputs, report }))
    }

    /// Runs instances, whose run together stopped with this error, by halves.
    fn halves(&self, range: Range<usize>, error: Error, found: &mut Found) -> Result<(), Error> {
        if range.len() < 2 {
            let instance = range.start;
            found.failed.push(Failed {
                instance,
                error: self.of_instance(instance, error),
            });
            return Ok(());
        }
        let middle = range.start + range.len() / 2;
        let halves = [range.start..middle, middle..range.end];
        self.each(halves.into_iter(), error, found)
    }

    /// Runs instances in these parts; this is the error if the inputs cannot be parted.
    fn each(
        &self,
        parts: impl Iterator<Item = Range<usize>>,
        error: Error,
        found: &mut Found,
    ) -> Result<(), Error> {
        for part in parts {
            match self.part(part.clone()) {
                None => return Err(error),
                Some(Ok(run)) => {
                    found.instances.extend(part);
                    found.outputs.push(run.outputs);
                }
                Some(Err(other)) if concerns_instances(&other) => {
                    self.halves(part, other, found)?
                }
                Some(Err(other)) => return Err(other),
            }
        }
        Ok(())
    }

    /// The error of the first instance that stops a run; that of all if none does alone.
    fn blamed(&self, error: Error) -> Result<Error, Error> {
        let is_shared = || !matches!(self.part(0..0), Some(Ok(_)));
        if !concerns_instances(&error) || is_shared() {
            return self.named(error);
        }
        let mut range = 0..self.count();
        while range.len() > 1 {
            let middle = range.start + range.len() / 2;
            range = match self.part(range.start..middle) {
                Some(Err(_)) => range.start..middle,
                _ => middle..range.end,
            };
        }
        match self.part(range.clone()) {
            Some(Err(own)) => Ok(self.of_instance(range.start, own)),
            _ => self.named(error),
        }
    }

    /// An error of all instances.
    fn named(&self, error: Error) -> Result<Error, Error> {
        let args = inputs::in_order(self.program.sig(), self.inputs.clone())?;
        Ok(self.program.named(error, &args, self.options))
    }

    /// The error of one instance: that of the program for one, in the interpreter, which knows the nodes of the model.
    fn of_instance(&self, instance: usize, error: Error) -> Error {
        let module = &self.batch.alone;
        let inputs = self.batch.alone(self.inputs, instance);
        let args = inputs.and_then(|own| inputs::in_order(&module.entry().sig, own).ok());
        let args = args.unwrap_or_default();
        let alone = match args.is_empty() {
            true => None,
            false => interpreted_error(module, &args, self.options),
        };
        let error = alone.unwrap_or(error);
        let inputs = origin(module, &error);
        BatchError::Instance {
            instance,
            rows: FaultyRows::of(module, &args, &inputs, &error),
            inputs,
            error: Box::new(error),
        }
        .into()
    }
}

/// Could it be the error of some of the instances?
fn concerns_instances(error: &Error) -> bool {
    matches!(
        error,
        Error::Run(_) | Error::Compiled { .. } | Error::Frames(_)
    ) && matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Limit)
}
