//! A program that several threads can call.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::RunError;
use crate::pool::Pool;
use crate::program::Program;
use crate::session::{Input, Outputs, RunOptions, Session, SessionOptions};

/// A program, a pool to run it on, and one session per concurrent run.
#[derive(Debug)]
pub struct Executable {
    program: Arc<Program>,
    pool: Arc<Pool>,
    options: SessionOptions,
    idle: Idle,
}

/// Idle sessions.
type Idle = Arc<Mutex<Vec<Session>>>;

impl Executable {
    /// Runs of `program` on `pool`.
    pub fn new(program: Arc<Program>, pool: Arc<Pool>, options: SessionOptions) -> Executable {
        Executable {
            program,
            pool,
            options,
            idle: Idle::default(),
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

    /// Runs the program in a session of its own.
    pub fn run(
        &self,
        inputs: &[Input<'_>],
        sizes: &[i64],
        options: &RunOptions<'_>,
    ) -> Result<Finished, RunError> {
        let mut lent = self.lend();
        lent.run(inputs, sizes, options)?;
        Ok(Finished { lent })
    }

    /// A session, returned on drop.
    pub fn lend(&self) -> Lent {
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
            home: self.idle.clone(),
        }
    }

    /// Bytes of scratch and outputs that idle sessions hold.
    pub fn held_bytes(&self) -> usize {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter().map(Session::held_bytes).sum()
    }

    /// Returns the memory of idle sessions to the system.
    pub fn release(&self) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// A session on loan from an [`Executable`].
#[derive(Debug)]
pub struct Lent {
    session: Option<Session>,
    home: Idle,
}

impl Deref for Lent {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let mut idle = self.home.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(session);
        }
    }
}

/// A successful run, with its session.
#[derive(Debug)]
pub struct Finished {
    lent: Lent,
}

impl Finished {
    /// The run's outputs.
    pub fn outputs(&mut self) -> Outputs<'_> {
        self.lent.last()
    }
}
