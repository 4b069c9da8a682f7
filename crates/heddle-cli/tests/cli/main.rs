//! Drives the `heddle` command as people do: arguments in; files, text and exit status out.

mod batch;
mod bench;
mod check;
mod cuda;
mod defaults;
mod entries;
mod errors;
mod hostile;
mod inspect;
mod language;
mod narrow;
mod npz;
mod opt;
mod pt2;
mod run;
mod saved;
mod setup;
mod simulated;
mod suite;
mod weights;

#[allow(dead_code)] // Tests of this crate use a part of it.
#[path = "../../../../tests/fake-cuda/mod.rs"]
mod fake_cuda;
