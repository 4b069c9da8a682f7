//! Traced graphs of tensor programs to graph IR.
//!
//! A framework's recorder writes a program as a neutral graph ([`graph`], JSON; `docs/trace.md` describes it), and [`load`] lowers
//! it. Operators are PyTorch's ATen, by name; nothing here knows Python.
//!
//! - `graph` the form, `read` its bounds, `size` expressions of sizes;
//! - `scope` values in force; `lower` functions, calls and control flow;
//! - `pt2` files of `torch.export.save`, translated to that graph;
//! - `ops` one function per operator, a file for each family, on `ops::cx`;
//! - `error` the errors, which name node, target and line of source.

#![forbid(unsafe_code)]

mod error;
pub mod graph;
mod lower;
mod ops;
pub mod pt2;
mod pt2_error;
mod read;
mod scope;
pub mod size;
mod stop;

use std::collections::HashMap;

use heddle_ir::{Folder, Module, Tensor};

pub use error::{NodePlace, OpError, TraceError, UnsupportedOp};

/// Reads a traced program.
///
/// `constants` are the arrays that the graph names. With a `folder` computations on constants are done while reading, so that
/// computed shapes are known.
///
/// # Errors
///
/// [`TraceError`]; [`TraceError::Unsupported`] lists all operators without a lowering.
pub fn load(
    json: &str,
    constants: Vec<(String, Tensor)>,
    folder: Option<Folder>,
) -> Result<Module, TraceError> {
    let module = read::read(json)?;
    let constants: HashMap<String, Tensor> = constants.into_iter().collect();
    lower::lower(&module, &constants, folder)
}

/// Targets that have a lowering, in order.
pub fn targets() -> Vec<String> {
    let mut all: Vec<String> = ops::targets().into_iter().collect();
    let here = lower::TARGETS.iter().chain(lower::ASSERTIONS);
    all.extend(here.map(|t| (*t).to_owned()));
    all.sort();
    all
}
