//! The text form: [`print`](fn@print) writes it, [`parse`] reads it, and what is written reads back
//! as the same program.
//!
//! ```text
//! module    = entry* function*                        without an entry: `entry @main`
//! entry     = "entry" [(WORD | STRING) "="] FUNC      named as its function unless it says otherwise
//! function  = "fn" FUNC "(" params ")" "->" "(" params ")"         the second: the results
//!             ["of" FUNC] ["where" bound {"," bound}]           of: the function that it is a specialisation of
//!             "{" statement* "return" operands "}"
//! params    = [VALUE ":" type {"," VALUE ":" type}]
//! bound     = size "in" INT ".." | size "in" INT "..=" INT
//!
//! statement = [def {"," def} "="] expr ["at" (WORD | STRING) STRING ["in" STRING "line" NUMBER]]
//!                                                     at: operator and name of a model's node,
//!                                                     in: the line of source that made it
//! def       = VALUE [":" type]                        the type is inferred when it is left out
//! expr      = "const" constant
//!           | op "(" [arg {"," arg}] ")"              op: the names of heddle_ir::op
//!           | "call" FUNC "(" operands ")"
//!           | "if" operand "{" statement* "yield" operands "}"
//!             "else" "{" statement* "yield" operands "}"
//!           | "loop" [VALUE] ["trip" operand] ["while" operand]
//!             ["carry" "(" carried {"," carried} ")"] "{" statement*
//!             "continue" ["while" operand] ["carry" operands] ["stack" operands] "}"
//! carried   = VALUE [":" type] "=" operand            its name in the body, and its first value
//! arg       = operand | WORD "=" attribute
//! operands  = [operand {"," operand}]
//! operand   = VALUE | expr | literal [":" type]       an expr of one result
//!
//! constant  = body [":" type]
//! body      = literal | "splat" element | "file" "(" STRING "," INT "," INT ")"
//!                                                     file, offset and length in bytes
//! literal   = element | "[" [literal {"," literal}] "]"      flat in row-major order, or nested
//! element   = ["-"] (NUMBER | "inf") | "nan" | HEX | "true" | "false" | STRING
//!           | "(" element "," element ")"             complex; HEX in a float: its bits
//! attribute = ["-"] NUMBER | WORD | STRING | type
//!           | "[" [INT {"," INT} | STRING {"," STRING}] "]"
//!
//! type      = dtype "[" [dim {"," dim}] "]" | dtype "[..]"         the latter: of unknown rank
//!           | "seq" "<" type ">" | "opt" "<" type ">"        after literals also just dtype
//! dim       = "?" | "?<=" INT | ["-"] term {("+" | "-") term}
//! term      = factor {"*" factor}
//! factor    = INT | size | ("floordiv" | "max" | "min") "(" dim "," dim ")"
//! size      = WORD | STRING
//!
//! VALUE     = "%" name
//! FUNC      = "@" name
//! name      = WORD | STRING | digits                  digits: a value that has no name
//! WORD      = letters, digits, "_", inner "."         comments run from // to the end of the line
//! ```
//!
//! A run begins with the first entry, unless another one is named. A `loop` names its iteration, then what bounds it, then what it carries. A literal operand takes
//! the element type that its op wants: that of the other operands, or `i64` for shapes, indices and
//! counts. A name may not be defined twice where both could be seen. All is read in one pass over
//! the text after one over its signatures, so functions may be called before they are defined.
//!
//! The reader bounds what it builds: nesting by [`MAX_NESTING`](crate::MAX_NESTING), axes by
//! [`MAX_RANK`](crate::types::MAX_RANK), `splat` constants by [`MAX_SPLAT`] bytes in all, types by
//! the length of the text.

mod attrs;
mod element;
mod error;
mod lexer;
pub(crate) mod names;
mod parse;
mod print;

use bytes::Bytes;

use crate::Module;

pub use crate::one_line::is_invisible;
pub use error::ParseError;
pub use print::{Large, PrintOptions};

/// Parts of the text form that texts of other IRs share.
pub mod syntax {
    pub use super::attrs::{Attr, named_op};
    pub use super::element::{Written, parse as parse_element, write as write_element};
    pub use super::lexer::{Lexer, Name, Pos, Spanned, Token};
    pub use super::names::{is_bare, unescape, write_name, write_quoted};
    pub use super::parse::ConstantReader;
    pub use super::print::ConstantWriter;
}

/// The bytes that all `splat` constants of a program may take.
pub const MAX_SPLAT: usize = 1 << 28;

/// Reads a program all of whose constants are in the text. It is well-formed; that it also
/// satisfies the [verifier](mod@crate::verify) is for the caller to ask.
pub fn parse(text: &str) -> Result<Module, ParseError> {
    let refuse =
        |file: &str, _: u64, _: u64| Err(format!("constants in files are not read here: {file:?}"));
    parse_with(text, &refuse)
}

/// Gives the bytes of `file` from an offset and of a length; an error is a message. Which files may
/// be read is for the one who implements it to say.
pub type Loader<'a> = &'a dyn Fn(&str, u64, u64) -> Result<Bytes, String>;

/// [`parse`] for a program with constants that lie in files.
pub fn parse_with(text: &str, load: Loader) -> Result<Module, ParseError> {
    parse::module(text, load).map_err(|e| *e)
}

/// Writes a program with all its constants. Printing what the text reads back as gives the same
/// text.
pub fn print(module: &Module) -> String {
    let mut options = PrintOptions::default();
    print::module(module, &mut options).expect("nothing but the text is written")
}

/// [`print`](fn@print) with a choice of what becomes of large constants. An error is one of writing
/// to the sidecar file.
pub fn print_with(module: &Module, options: &mut PrintOptions) -> std::io::Result<String> {
    print::module(module, options)
}
