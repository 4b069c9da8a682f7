//! Values that the lanes of a unit exchange.

/// Lanes that work on a point together: what the exchange of their partial results takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// Lanes of a warp, which exchange values without memory; a power of two.
    pub warp: usize,
    /// An exchange within a warp, with the operation on what it gives. Nanoseconds.
    pub shuffle_ns: f64,
    /// A store or load of memory that all lanes of a unit share. Nanoseconds.
    pub shared_ns: f64,
    /// Bytes of that memory for results of an operator that its own lanes read.
    pub shared_bytes: usize,
    /// Bytes that an access to other memory moves at least: lanes that read fewer next to each other read the rest in vain.
    pub sector_bytes: f64,
}
