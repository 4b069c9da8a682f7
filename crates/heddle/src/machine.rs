//! Machines that schedules are made for.

use heddle_machine::NameError;

/// A machine that schedules are made for: its units, memories, and costs of synchronisation.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine(pub(crate) heddle_machine::Machine);

impl Machine {
    /// This computer with that many worker threads.
    pub fn host(threads: usize) -> Self {
        Self(heddle_machine::Machine::host(threads))
    }

    /// A machine by its name: `host`, `host:N` (this computer with N threads), `reference:N` (a fixed description of a
    /// processor, the same on every computer), `h100`, `h200`, `mi300x`, `bsp-tiles`.
    ///
    /// # Errors
    ///
    /// No machine has this name; the error lists those that there are.
    pub fn named(name: &str) -> Result<Self, NameError> {
        heddle_machine::Machine::named(name).map(Self)
    }
}
