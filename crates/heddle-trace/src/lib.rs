//! Traced graphs of tensor programs to graph IR.
//!
//! [`graph`] is the neutral graph that a framework's recorder writes as JSON; `docs/trace.md` describes it.

pub mod graph;
