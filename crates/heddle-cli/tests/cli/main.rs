//! Drives the `heddle` command as people do: arguments in; files, text and exit status out.

mod batch;
mod bench;
mod check;
mod defaults;
mod entries;
mod errors;
mod hostile;
mod inspect;
mod language;
mod npz;
mod opt;
mod pt2;
mod run;
mod saved;
mod setup;
mod simulated;
mod suite;
mod weights;

#[path = "../../../../tests/fake-cuda/mod.rs"]
mod fake_cuda;
