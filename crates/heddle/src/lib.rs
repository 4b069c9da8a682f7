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
pub mod draw;
mod dump;
mod error;
mod exec;
mod inputs;
mod log;
mod model;
mod options;
mod pipeline;
mod repeat;
mod report;
mod results;
mod session;
mod specialise;
mod stack;
mod stages;
mod steps;
mod uprogram;

pub use backend::{ArrayView, Block, HostMemory, Memory, Required, Space};
pub use compare::{Closeness, Mismatch, Tolerance, compare};
pub use dump::{Dump, Emit, Printed, emit};
pub use error::{Error, ErrorKind};
pub use exec::{Executable, Outputs, Run};
pub use inputs::{InputError, Inputs};
pub use model::{Fold, Format, LoadOptions, Model};
pub use options::{Baseline, CompileOptions, Device, RunOptions, Target, Tune};
pub use pipeline::compile;
pub use repeat::Repeat;
pub use report::{Interpreted, Report, StageTimes, Uncompiled};
pub use session::Session;
pub use specialise::{Specialisation, Specialised, specialise};
pub use stack::on_large_stack;
pub use steps::{STEPS, Step};
pub use uprogram::{transform_uprogram, uprogram_passes};

pub use heddle_machine::{Machine, NameError};

pub use heddle_interp as interp;
pub use heddle_ir as ir;
pub use heddle_onnx as onnx;
pub use heddle_opt as opt;
