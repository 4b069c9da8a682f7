//! Lowering to uPrograms. One program, which is linked once.

mod calls;
mod contract;
mod exchanges;
mod fits;
mod grow;

#[allow(dead_code)] // Tests of this crate use a part of it.
#[path = "../../../heddle-schedule/tests/schedule/common/mod.rs"]
mod schedule_common;
