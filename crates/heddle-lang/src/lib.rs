//! A small functional language, `.hl`, in which a network is written for one instance. It becomes
//! graph IR.
//!
//! ```text
//! program  = {type | table | param | function | vertex}
//! type     = "type" NAME "=" case {"|" case} [";"]            a data type; constructors have capitals
//! case     = NAME ["(" ty {"," ty} ")"]
//! table    = "table" NAME "(" [arg {"," arg}] ")" "->" NAME block   arrays whose rows are data
//! param    = "param" NAME ":" ty ";"                          an input that all functions see
//! function = "fn" NAME "(" [arg {"," arg}] ")" ["->" (ty | "(" NAME ":" ty {"," NAME ":" ty} ")")] block
//! vertex   = "vertex" NAME "(" [arg {"," arg}] ")" "->" ty    the type of the state
//!            "{" {let | "scatter" "(" expr ")" ";" | "push" "(" expr ")" [";"]} "}"
//! arg      = NAME [":" ty]                                    the types of main's are stated
//! block    = "{" {let} expr "}"
//! let      = "let" pattern [":" ty] "=" expr ";"
//!
//! expr     = "if" expr block "else" (block | if)
//!          | "match" expr "{" [pattern "=>" expr {"," pattern "=>" expr}] "}"
//!          | "fn" "(" [arg {"," arg}] ")" expr                a function without a name
//!          | expr ("||" "&&" "==" "!=" "<" ">" "<=" ">=" "+" "-" "*" "/" "%" "@") expr
//!          | ("-" | "!") expr | block
//!          | expr "(" [expr | WORD "=" attribute {"," …}] ")" a call; attributes as in the IR's text
//!          | expr "[" expr "]" | expr "[" [expr] ".." [expr] "]" | expr "." INT
//!          | NAME | NUMBER | "true" | "false" | "(" expr {"," expr} ")" | "[" expr {"," expr} "]"
//! pattern  = "_" | NAME | INT | "true" | "false" | "(" pattern {"," pattern} ")"
//!          | CASE ["(" pattern {"," pattern} ")"]             lists have Nil and Cons(head, tail)
//!
//! ty       = dtype ["[" [dim {"," dim}] "]"] | "(" ty {"," ty} ")" | "list" "<" ty ">"
//!          | NAME ["[" NAME "]"] | "graph"                    a data type, and a name for its rows
//! dim      = term {("+" | "-") term}        term = factor {"*" factor}        factor = INT | NAME
//! ```
//!
//! All operations of the graph IR have their names. Others: `map(f, xs)`, `fold(f, init, xs)`,
//! `zip(xs, ys)`, `reverse(xs)`, `len(x)`, `rows(x)` and `stack(xs)` between arrays and lists,
//! `append(xs, x)`, `Cons(x, xs)`, `relu`, `softmax`, `nn.dense(x, w)` (`x @ transpose(w)`),
//! `pull(vertex, graph, xs)`, and `gather(k)`, `gather()` in vertex functions.
//!
//! # Inputs
//!
//! An input `t` of a data type is its tables: `t.tag: i32[t.n]` numbers the case of each row, and
//! `t.Case.0`, … hold the fields of the rows of that case; a field of a data type is a row of its
//! table. The last row is the value. `table` states other arrays that rows are read from. A list `xs`
//! is an array with an axis `xs.n` in front; a list of lists is the elements of all, `xs.data`, and
//! `xs.offsets: i64[xs.ends]`. A tuple is the arrays `x.0`, …, and a graph
//! `g.children: i64[g.edges]`, `g.offsets: i64[g.ends]`.
//! [`Structure::check`] finds faults in them.
//!
//! # Limits
//!
//! Expressions nest at most 256 levels, and 2^18 of them are evaluated, those of functions anew for
//! each call. Types of functions that no call reaches are not checked.

mod ast;
mod exhaust;
mod lexer;
mod lower;
mod names;
mod parse;
mod recursion;
mod structure;
mod value;

use heddle_ir::Module;
use heddle_ir::text::ParseError;

pub use structure::{Case, Cell, Fault, Read, Rows, Rule, Sign, Structure, Table, Tag};

/// A program in graph IR.
#[derive(Clone, Debug)]
pub struct Program {
    /// The graph, whose entry is `main`.
    pub module: Module,
    /// The inputs that are not plain arrays.
    pub structures: Vec<Structure>,
}

/// Reads a program. It is well-formed; that it also satisfies the [verifier](mod@heddle_ir::verify)
/// is for the caller to ask.
///
/// # Errors
///
/// The first fault, with its place and a remedy.
pub fn compile(text: &str) -> Result<Program, ParseError> {
    let program = parse::parse(text).and_then(|mut ast| {
        names::resolve(&ast, text)?;
        lower::add_copies(&mut ast);
        lower::program(&ast, text)
    });
    program.map_err(|error| *error)
}
