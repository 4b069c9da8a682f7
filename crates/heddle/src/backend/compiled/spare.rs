//! Memory of results that are handed to the caller without a copy. It comes back when the last reader has dropped it, and later runs
//! write to it again, so that runs in a row neither copy their results nor have the system clear pages for them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use heddle_runtime::{Buffer, Session};

/// Smaller results are copied: that takes less time than to keep track of them.
const LEAST: usize = 4096;

/// Buffers that are kept for an output. A caller that drops many results at once has the others freed.
const KEPT: usize = 4;

/// Buffers of a program's outputs that nobody reads any more.
#[derive(Debug)]
pub(super) struct Spares(Arc<Mutex<Vec<Vec<Buffer>>>>);

impl Spares {
    /// None yet, of so many outputs.
    pub(super) fn new(outputs: usize) -> Self {
        let none = std::iter::repeat_with(Vec::new).take(outputs);
        Self(Arc::new(Mutex::new(none.collect())))
    }

    /// Gives a session the memory that earlier runs took from it.
    pub(super) fn supply(&self, session: &mut Session) {
        let mut all = lock(&self.0);
        for (output, spares) in all.iter_mut().enumerate() {
            if !session.has_buffer(output)
                && let Some(buffer) = spares.pop()
            {
                session.recycle(output, buffer);
            }
        }
    }

    /// The first bytes of an output of the session's last run.
    pub(super) fn hand_over(&self, session: &mut Session, output: usize, bytes: usize) -> Bytes {
        let mut outputs = session.last();
        let whole = outputs.data(output);
        // A buffer that was planned for much more would stay with a small result.
        if bytes < LEAST || bytes < whole.len() / 2 || !outputs.is_own(output) {
            return Bytes::copy_from_slice(&whole[..bytes]);
        }
        let lent = LentBuffer {
            buffer: outputs.take(output),
            output,
            home: Arc::downgrade(&self.0),
        };
        Bytes::from_owner(lent).slice(..bytes)
    }

    /// Bytes that wait for the next run.
    pub(super) fn held_bytes(&self) -> usize {
        lock(&self.0).iter().flatten().map(|b| b.len()).sum()
    }
}

/// A result's memory, which returns when it is dropped.
struct LentBuffer {
    buffer: Buffer,
    output: usize,
    home: Weak<Mutex<Vec<Vec<Buffer>>>>,
}

impl AsRef<[u8]> for LentBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        // A program that is gone needs it no more.
        let Some(home) = self.home.upgrade() else {
            return;
        };
        let spares = &mut lock(&home)[self.output];
        if spares.len() < KEPT {
            spares.push(std::mem::take(&mut self.buffer));
        }
    }
}

fn lock(spares: &Mutex<Vec<Vec<Buffer>>>) -> MutexGuard<'_, Vec<Vec<Buffer>>> {
    spares.lock().unwrap_or_else(PoisonError::into_inner)
}
