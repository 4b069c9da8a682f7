//! The library face of Heddle: load, compile, run.
