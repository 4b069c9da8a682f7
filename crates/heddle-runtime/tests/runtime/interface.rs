//! `include/heddle.h` holds the launch interface as the schema says it, and compilers lay it out
//! alike. `HEDDLE_BLESS=1` rewrites it.

use std::mem::{offset_of, size_of};
use std::path::Path;

use crate::common::{ADD, add_plan, build};
use heddle_runtime::abi::{self, ABI, HEADER, Host, MAX_RANK, STRUCTS};

#[test]
fn the_header_has_the_schema() {
    let expected = abi::with_declarations(HEADER).expect("a place for it");
    if std::env::var_os("HEDDLE_BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/heddle.h");
        std::fs::write(path, &expected).unwrap();
        return;
    }
    assert_eq!(HEADER, expected, "HEDDLE_BLESS=1 rewrites it");
}

#[test]
fn header_and_rust_agree() {
    let mut text = ADD.to_owned();
    let mut equal = |c: String, rust: usize| {
        text.push_str(&format!("_Static_assert({c} == {rust}, \"{c}\");\n"));
    };
    for structure in STRUCTS {
        let name = structure.name;
        equal(format!("sizeof({name})"), structure.size);
        for field in structure.fields {
            equal(format!("offsetof({name}, {})", field.name), field.offset);
        }
    }
    equal("sizeof(heddle_host)".to_owned(), size_of::<Host>());
    for (field, offset) in [
        ("dispatch", offset_of!(Host, dispatch)),
        ("self", offset_of!(Host, state)),
    ] {
        equal(format!("offsetof(heddle_host, {field})"), offset);
    }
    equal("HEDDLE_ABI".to_owned(), ABI as usize);
    equal("HEDDLE_MAX_RANK".to_owned(), MAX_RANK);
    for (name, code, _) in abi::CODES {
        equal(format!("HEDDLE_{name}"), *code as usize);
    }
    build("layout", &text, add_plan());
    // Who includes the header, or holds its text, gets the same program.
    build(
        "included",
        &format!("#include \"heddle.h\"\n{HEADER}\n{text}"),
        add_plan(),
    );
}
