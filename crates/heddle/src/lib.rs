//! The library face of Heddle: load a model, compile it for a device, run it.
//!
//! ```no_run
//! use heddle::{CompileOptions, Inputs, LoadOptions, Model, RunOptions};
//!
//! let model = Model::load("model.onnx".as_ref(), &LoadOptions::default())?;
//! let program = heddle::compile(&model, &CompileOptions::default())?;
//! let mut inputs = Inputs::new();
//! inputs.insert("x".into(), heddle::ir::Tensor::vector(&[1f32, 2.0]).into());
//! let run = program.run(inputs, &RunOptions::default())?;
//! println!("{:?} in {:?}", run.outputs, run.report.run);
//! # Ok::<(), heddle::Error>(())
//! ```

mod backend;
mod baseline;
pub mod compare;
mod compile;
pub mod draw;
mod error;
mod exec;
mod inputs;
mod model;
mod options;
mod profile;
mod remedy;
mod repeat;
mod report;
mod results;
mod scheduled;
mod session;
mod specialise;
mod stack;
mod steps;
mod uprogram;

pub use backend::{ArrayView, Block, HostMemory, Memory, Required, Space};
pub use compare::{Closeness, Mismatch, Tolerance, compare};
pub use compile::{compile, schedule, source};
pub use error::{Error, ErrorKind};
pub use exec::{Executable, Outputs, Run};
pub use inputs::{InputError, Inputs};
pub use model::{Fold, Format, LoadOptions, Model};
pub use options::{Baseline, CompileOptions, Device, RunOptions, Target, Tune};
pub use remedy::{Limit, Remedy};
pub use repeat::Repeat;
pub use report::{Interpreted, PassTimes, Report, Uncompiled};
pub use session::Session;
pub use specialise::{Specialisation, Specialised, specialise};
pub use stack::on_large_stack;
pub use steps::{STEPS, Step};
pub use uprogram::{Stage, transform_uprogram, uprogram, uprogram_passes};

pub use heddle_machine::{Machine, NameError};

pub use heddle_interp as interp;
pub use heddle_ir as ir;
pub use heddle_onnx as onnx;
pub use heddle_opt as opt;
