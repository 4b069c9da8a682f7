//! The graph IR: its text form, inference and the verifier. One program, which is linked once.

mod filetests;
mod infer;
mod ops;
mod text;
mod verify;
