//! Heddle compiles and runs neural networks with control flow: load a model, compile it for a device, run it.
//!
//! ```
//! use heddle::{CompileOptions, Inputs, Model, RunOptions, Tensor};
//!
//! let model = Model::parse(
//!     "doubled",
//!     "fn @main(%x: f32[n], %times: i64[]) -> (%y: f32[n]) {
//!        %y = loop trip %times carry (%h: f32[n] = %x) {
//!          continue carry add(%h, %h)
//!        }
//!        return %y
//!      }",
//! )?;
//! let program = heddle::compile(&model, &CompileOptions::default())?;
//! let inputs = Inputs::from_iter([
//!     ("x".to_string(), Tensor::vector(&[1f32, 2.0]).into()),
//!     ("times".to_string(), Tensor::scalar(3i64).into()),
//! ]);
//! let run = program.run(inputs, &RunOptions::default())?;
//! let y = run.outputs["y"].as_tensor().expect("an array");
//! assert_eq!(y.to_vec::<f32>(), Some(vec![8.0, 16.0]));
//! # Ok::<(), heddle::Error>(())
//! ```
//!
//! [`Model::load`] reads ONNX files. The default device is the processor: [`compile`] needs a C compiler there, and says what
//! to install if there is none; [`Device::Interp`] needs none. [`Program::session`] keeps memory between runs and works on
//! the caller's arrays without copies.

mod backend;
mod baseline;
pub mod batch;
mod batch_error;
pub mod compare;
mod description;
mod draw;
mod dump;
mod error;
mod exec;
mod graph;
mod inputs;
mod log;
mod machine;
mod model;
mod options;
mod pipeline;
mod ports;
mod profile;
mod remedy;
mod repeat;
mod report;
mod round_trip;
mod saved;
mod saved_error;
mod sequence;
mod session;
mod signature;
mod specialise;
mod stack;
mod stages;
mod steps;
mod structures;
mod uprogram;
mod value;
mod weights;
mod weights_error;

pub use backend::{ArrayView, Block, HostMemory, Memory, Required, Space};
pub use compare::{Closeness, Mismatch, Tolerance, compare};
pub use description::{Declaration, Description};
pub use draw::DrawError;
pub use dump::{Dump, Emit, Printed, emit};
pub use error::{Error, ErrorKind};
pub use exec::{Outputs, Program, Run};
pub use graph::{Graph, graph_passes};
pub use inputs::{InputError, Inputs};
pub use machine::Machine;
pub use model::{Fold, Format, LoadOptions, Model, trace_targets};
pub use options::{
    Baseline, CompileOptions, Device, MAX_THREADS, Packed, Pin, Precision, RunOptions, Target,
    Tune, Weights, add_compiler,
};
pub use pipeline::{check_device, compile};
pub use remedy::{Limit, Remedy};
pub use repeat::Repeat;
pub use report::{Interpreted, Report, StageTimes, Uncompiled};
pub use saved::OpenOptions;
pub use saved_error::SavedError;
pub use session::Session;
pub use signature::{Dim, Port, Signature, Type};
pub use specialise::{Specialisation, Specialised, specialise};
pub use stack::on_large_stack;
pub use steps::{STEPS, Step};
pub use uprogram::{transform_uprogram, uprogram_passes};
pub use value::{Tensor, Value};

// Single types of inner crates whose interfaces are small and refer to nothing else.
pub use heddle_ir::tensor::Scalar;
pub use heddle_ir::{DType, TensorError};
pub use heddle_machine::NameError;
pub use heddle_runtime::cache::CacheChoice;
pub use heddle_runtime::{CancelToken, Grid, GridError, Sanitizer};
