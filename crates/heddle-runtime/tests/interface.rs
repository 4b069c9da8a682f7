//! `include/heddle.h` and `abi.rs` say the same.

mod common;

use std::mem::{offset_of, size_of};

use common::{ADD, build};
use heddle_runtime::abi::{
    ABI, About, Env, ErrorCell, HEADER, Host, Lane, LanePrivate, MAX_RANK, Meeting, RawTensor,
    Sync, code,
};

#[test]
fn header_and_rust_agree() {
    let mut text = ADD.to_owned();
    let mut equal = |c: String, rust: usize| {
        text.push_str(&format!("_Static_assert({c} == {rust}, \"{c}\");\n"));
    };
    macro_rules! fields {
        ($rust:ident, $c:literal, $($field:ident),+) => {
            equal(format!("sizeof({})", $c), size_of::<$rust>());
            $(equal(format!("offsetof({}, {})", $c, stringify!($field)), offset_of!($rust, $field));)+
        };
    }
    fields!(RawTensor, "heddle_tensor", data, dims, rank, reserved);
    fields!(ErrorCell, "heddle_error", code, site, values);
    fields!(Lane, "heddle_lane", signalled, sleepers);
    fields!(Sync, "heddle_sync", arrived, sleepers);
    fields!(
        About,
        "heddle_about",
        abi,
        inputs,
        outputs,
        constants,
        sizes,
        table_len
    );
    fields!(
        Env,
        "heddle_env",
        inputs,
        outputs,
        constants,
        sizes,
        table,
        scratch,
        sync,
        lanes,
        error,
        cancel,
        max_depth,
        max_iterations,
        spins,
        yields,
        arguments
    );
    fields!(Host, "heddle_host", dispatch);
    let round = offset_of!(Lane, private) + offset_of!(LanePrivate, round);
    equal("offsetof(heddle_lane, round)".to_owned(), round);
    let meeting = [
        ("met", offset_of!(Meeting, met)),
        ("come", offset_of!(Meeting, come)),
        ("asleep", offset_of!(Meeting, asleep)),
    ];
    for (field, offset) in meeting {
        let offset = offset_of!(Lane, meeting) + offset;
        equal(format!("offsetof(heddle_lane, {field})"), offset);
    }
    equal(
        "offsetof(heddle_host, self)".to_owned(),
        offset_of!(Host, state),
    );
    equal("HEDDLE_ABI".to_owned(), ABI as usize);
    equal("HEDDLE_MAX_RANK".to_owned(), MAX_RANK);
    let codes = [
        ("CANCELLED", code::CANCELLED),
        ("TIMEOUT", code::TIMEOUT),
        ("INDEX", code::INDEX),
        ("SHAPE", code::SHAPE),
        ("DEPTH", code::DEPTH),
        ("ITERATIONS", code::ITERATIONS),
        ("BOUND", code::BOUND),
    ];
    for (name, value) in codes {
        equal(format!("HEDDLE_{name}"), value as usize);
    }
    build("layout", &text);
    // Who includes the header, or holds its text, gets the same program.
    build(
        "included",
        &format!("#include \"heddle.h\"\n{HEADER}\n{text}"),
    );
}
