//! A program that any number of threads call.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::RunError;
use crate::pool::Pool;
use crate::program::Program;
use crate::session::{Input, Outputs, RunOptions, Session, SessionOptions};

/// A program, a pool to run it on, and one session for each run that goes on at the same time.
#[derive(Debug)]
pub struct Executable {
    program: Arc<Program>,
    pool: Arc<Pool>,
    options: SessionOptions,
    idle: Mutex<Vec<Session>>,
}

impl Executable {
    /// Runs of `program` on `pool`.
    pub fn new(program: Arc<Program>, pool: Arc<Pool>, options: SessionOptions) -> Executable {
        Executable {
            program,
            pool,
            options,
            idle: Mutex::default(),
        }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Runs the program, in a session that no other thread uses.
    pub fn run(
        &self,
        inputs: &[Input<'_>],
        sizes: &[i64],
        options: &RunOptions<'_>,
    ) -> Result<Finished<'_>, RunError> {
        let mut lent = self.lend();
        let elapsed = lent.run(inputs, sizes, options)?.elapsed();
        Ok(Finished { lent, elapsed })
    }

    /// A session, which goes back on drop.
    pub fn lend(&self) -> Lent<'_> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let session = idle.unwrap_or_else(|| {
            Session::new(
                self.program.clone(),
                self.pool.clone(),
                self.options.clone(),
            )
        });
        Lent {
            session: Some(session),
            home: self,
        }
    }

    /// Gives the memory of idle sessions back to the system.
    pub fn release(&self) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// A session on loan from an [`Executable`].
#[derive(Debug)]
pub struct Lent<'a> {
    session: Option<Session>,
    home: &'a Executable,
}

impl Deref for Lent<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let mut idle = self
                .home
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            idle.push(session);
        }
    }
}

/// A run that succeeded, with its session.
#[derive(Debug)]
pub struct Finished<'a> {
    lent: Lent<'a>,
    elapsed: Duration,
}

impl Finished<'_> {
    /// The run's outputs.
    pub fn outputs(&mut self) -> Outputs<'_> {
        let elapsed = self.elapsed;
        self.lent.outputs(elapsed)
    }

    /// How long the program ran, without waiting for the pool.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }
}
