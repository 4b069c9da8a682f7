//! ONNX models, imported and interpreted. One program, which is linked once.

mod classical;
mod common;
mod draws;
mod exporters;
mod files;
mod functions;
mod graphs;
mod neural;
mod searches;
mod types;
