//! Devices: builds emitted programs, allocates their memory and runs them.

pub mod abi;
