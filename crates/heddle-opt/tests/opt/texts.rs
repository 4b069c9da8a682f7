//! Text as bytes, offsets and numbers: programs that stay as they are, since a text in them has no
//! such form. Those that change are in the filetests `flatten_text*`.

use heddle_ir::text;
use heddle_opt::{Transformation, flatten_text_ports};

use crate::common::costs;

/// Instructions on `%x: str[2]`, each of which keeps text as it is.
const NOT_ON_BYTES: &[&str] = &[
    "%z = str_full_match(%x, pattern=\"a.*\")",
    "%z = str_normalize(%x)",
    "%z = cast(%x, to=i64)",
    "%z = cast([1, 2], to=str)",
    "%z, %first, %inverse, %counts = unique(%x)",
    "%z = nonzero(%x)",
    "%z = seq_new(%x)",
    "%z = opt_some(%x)",
    "%z = reshape(%x, %sizes)",
    "%z = loop %i trip 2 { continue stack %x }",
];

/// A program in which `%x` is text, with an instruction.
fn program(inst: &str) -> heddle_ir::Module {
    let program = format!(
        "fn @main(%sizes: i64[?]) -> (%y: str[2]) {{
  %x = const [\"a\", \"b\"]: str[2]
  {inst}
  return str_concat(%x, \"!\")
}}
"
    );
    text::parse(&program).unwrap_or_else(|e| panic!("{e}\n{program}"))
}

#[test]
fn text_without_a_form_on_bytes_stays() {
    assert!(flatten_text_ports(&mut program("%z = shape(%x)")).is_some());
    for inst in NOT_ON_BYTES {
        let before = program(inst);
        let mut after = before.clone();
        assert!(flatten_text_ports(&mut after).is_none(), "{inst}");
        assert_eq!(text::print(&after), text::print(&before), "{inst}");
    }
}

#[test]
fn text_at_the_edge_is_left_to_the_caller() {
    // Only a caller that gives and takes other arrays may change the signature.
    let mut module = program("");
    let stats = Transformation::FlattenText.run(&mut module, &costs());
    assert_eq!(stats.total(), 0);
    let ports = flatten_text_ports(&mut module).expect("text leaves the program");
    assert_eq!((ports.params, ports.results), (vec![false], vec![true]));
    let sig = &module.entry().sig;
    let types: Vec<String> = sig.results.iter().map(|(_, ty)| ty.to_string()).collect();
    assert_eq!(types, ["u8[?]", "i64[3]", "i64[2]"]);
}
