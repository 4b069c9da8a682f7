//! The text form: [`print`](fn@print) writes it, [`parse`] reads it, and a program that is read
//! back prints as the same text.
//!
//! ```text
//! program   = item*
//! item      = "local" LOCAL ":" dtype ("axis" | "size" | "variable" | "sum") [STRING]
//!           | "size" LOCAL "=" (STRING | ("axis" | "element") INT "of" "input" INT | "run_key")
//!           | "buffer" BUFFER ":" dtype "[" expr "]" memory ["in" PROC] STRING ["=" contents]
//!           | "expect" LOCAL "=" NUMBER                     an estimate for the cost model
//!           | "derive" LOCAL "=" expr
//!           | ("input" | "output") STRING BUFFER "[" [expr {"," expr}] "]"
//!           | SHARED "=" expr                         stands for the expression in all items below
//!           | "operator" OPERATOR STRING axes share [team] ["lanes" lanes] [resident] ["grow" expr] "{" body "}" candidate*
//!           | "procedure" PROC [STRING] ["results" LOCAL {"," LOCAL}] block
//!           | "main" block
//! memory    = "input" | "output" | "constant" | "table" | "packed"
//!           | "scratch" | "segment" | "own" | "row" | "shared" | "param"
//!           | ("resident" | "mirrored" "cluster" cluster | "gathered" [team] "units" INT) "at" INT      words of the units' shared memory before it
//! cluster   = INT "of" INT "units" INT
//! contents  = constant ":" type                       those of heddle_ir::text; `packed`: see contract.rs
//!
//! axes      = "[" [LOCAL "<" expr {"," LOCAL "<" expr}] "]"
//! share     = "unit" INT | "split" split ["x" split "across" INT] ["from" INT]
//! team      = "team" INT "of" INT                                                  numbered from 0
//! split     = LOCAL ["block" expr] ["grain" INT] ["pieces" INT]
//! resident  = "resident" ("first" | "second") "at" INT "units" INT   an operand, words before its copy, units of the launch
//! lanes     = "warp" INT | "unit" INT                lanes of a warp on a point, points of a unit's lanes
//! candidate = "candidate" (share | "parts" INT) "tasks" INT "time" NUMBER         in nanoseconds
//! body      = store "=" expr                                                       map
//!           | store "=" "fold" reduce dtype "over" axes ["columns"] "of" expr
//!           | store "=" "argfold" ("max" | "min") dtype "over" axes ["last"] "of" expr
//!           | store "=" "update" ("set" | binary) dtype "over" axes "of" expr
//!           | store "=" "scan" reduce dtype "over" axes ["exclusive"] "of" expr
//!           | store "=" "routine" WORD dtype "(" expr {"," expr} ")"               its source, its arguments
//!           | store "=" "contract" …                                               see contract.rs
//!           | "chain" "over" axes "{" ("step" STRING "over" axes "{" body "}")* "}"
//! store     = BUFFER "[" expr "]"
//!
//! block     = "{" statement* "}"
//! statement = "run" OPERATOR | "let" LOCAL "=" expr | "swap" BUFFER BUFFER
//!           | "loop" LOCAL ["trip" expr] ["while" LOCAL] STRING block
//!           | "if" expr block ["else" block]
//!           | call | "fork" "{" call* "}" | "check" expr "," expr "," expr STRING
//!           | "sync" ("warp" | "lanes" | "resize" | "near" INT | "cluster" cluster | units "->" units)     units: "all" | INT | team
//! call      = "call" PROC "(" [arg {"," arg}] ")" STRING
//! arg       = LOCAL "=" expr | BUFFER "=" BUFFER
//!
//! expr      = product {("+" | "-") product}           of the type of its left operand
//! product   = primary {"*" primary}
//! primary   = number [":" dtype] | LOCAL | SHARED | BUFFER "[" expr "]" | "(" expr ")"
//!           | op ["." dtype] "(" expr {"," expr} ")"  of the type of its first operand unless it says another;
//!                                                     op: unary, binary, compare, "select", "at"
//!           | ("cast" | "bits") ["." dtype] "." dtype "(" expr ")"                 from, to
//!           | "narrow" "." dtype "(" expr "," ("up" | "down" | "nearest") ["," "saturate"] ")"
//! number    = an element of heddle_ir::text; without a type an i64, a bool, or with a point or exponent an f32
//!
//! LOCAL = %name   PROC = @name   BUFFER = b0, b1, …   OPERATOR = op0, op1, …   SHARED = e0, e1, …
//! ```
//!
//! Ids are assigned in the order of the items. Equal expressions are one, as in a
//! [`Pool`](crate::Pool); none is simplified. An expression that is large and occurs more than once
//! is written once, as `e0 = …`, so that text is as long as the program and not as the trees of its
//! expressions.
//!
//! The reader bounds what it builds: nesting of text by [`MAX_NESTING`](heddle_ir::MAX_NESTING),
//! expressions by [`MAX_DEPTH`], constants as [`heddle_ir::text`] does. A program that it gives has
//! passed [`crate::verify_program`].

mod contract;
mod cursor;
mod parse;
mod parse_body;
mod parse_expr;
mod print;
mod print_body;
mod shared;

use std::collections::{HashMap, HashSet};
use std::io;

use heddle_ir::text::syntax::is_bare;
use heddle_ir::text::{Loader, ParseError, PrintOptions};

use crate::program::UProgram;
use crate::verify::{ProgramError, verify_program};

/// The depth that expressions may have in programs that are read.
pub const MAX_DEPTH: u32 = 1 << 12;

/// The errors of reading a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The text is malformed or uses an undefined name.
    #[error(transparent)]
    Text(Box<ParseError>),
    /// The program breaks a rule.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// Reads a program all of whose constants are in the text.
///
/// # Errors
///
/// [`ReadError::Text`] with line and column, or [`ReadError::Program`] with the item that breaks a
/// rule.
pub fn parse(text: &str) -> Result<UProgram, ReadError> {
    let refuse =
        |file: &str, _: u64, _: u64| Err(format!("constants in files are not read here: {file:?}"));
    parse_with(text, &refuse)
}

/// [`parse`] for a program with constants in files.
///
/// # Errors
///
/// As [`parse`]; errors of the loader are [`ReadError::Text`].
pub fn parse_with(text: &str, load: Loader) -> Result<UProgram, ReadError> {
    let program = parse::program(text, load).map_err(ReadError::Text)?;
    verify_program(&program)?;
    Ok(program)
}

/// Writes a program with all its constants.
pub fn print(program: &UProgram) -> String {
    let mut options = PrintOptions::default();
    print::program(program, &mut options).expect("nothing but the text is written")
}

/// [`print`](fn@print) with options for large constants.
///
/// # Errors
///
/// Errors of writing the sidecar file.
pub fn print_with(program: &UProgram, options: &mut PrintOptions) -> io::Result<String> {
    print::program(program, options)
}

/// A distinct label for each name: the name itself if free, else with a number appended.
fn labels<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let (mut taken, mut next) = (HashSet::new(), HashMap::new());
    let label = |name: &str| {
        let mut free = name.to_string();
        while !taken.insert(free.clone()) {
            let number = next.entry(name.to_string()).or_insert(1);
            let mark = if is_bare(name) { '.' } else { '#' };
            free = format!("{name}{mark}{number}");
            *number += 1;
        }
        free
    };
    names.map(label).collect()
}
