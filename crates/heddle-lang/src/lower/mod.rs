//! From the syntax tree to graph IR.
//!
//! A function is evaluated with the builder's values in place of numbers. Functions that do not
//! recurse are put in place where they are called, so each call has types of its own. A type that
//! depends on itself (the result of a recursive function, what a loop carries) begins with what is
//! known and widens until it accepts what it gives.

mod apart;
mod branch;
mod built;
mod builtin;
mod call;
mod convert;
mod declared;
mod expr;
mod inputs;
mod list;
mod list_data;
mod literal;
mod matching;
mod nested;
mod op;
mod parts;
mod program;
mod repeat;
mod spec;
mod table;
mod tail;
mod testing;
mod vertex;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use heddle_ir::builder::Checkpoint;
use heddle_ir::text::ParseError;
use heddle_ir::{FuncBuilder, Loc, MAX_NESTING, Module, TypeError, Value};
use indexmap::IndexMap;

use crate::ast::{Ast, Lambda};
use crate::lexer::Span;
use crate::recursion::Facts;
use crate::structure::Structure;
use crate::value::{Key, Ty, Val};

pub use built::add_copies;
pub use program::program;

/// Limit of expressions that are evaluated, those of functions anew for each call.
const MAX_STEPS: usize = 1 << 18;

/// Limit of calls that are put in place within each other.
const MAX_CALLS: usize = 128;

/// The end of an evaluation.
enum Stop {
    /// The program is wrong.
    Error(Box<ParseError>),
    /// The value is that of a call whose type is not known yet.
    Open,
}

type Result<T> = std::result::Result<T, Stop>;

impl From<Box<ParseError>> for Stop {
    fn from(error: Box<ParseError>) -> Self {
        Stop::Error(error)
    }
}

/// Columns of a data type's tables.
type Columns<'a> = BTreeMap<Key, Val<'a>>;

/// The function that is built.
struct Frame<'a> {
    b: FuncBuilder,
    /// Variables in the order of their definitions.
    env: Vec<(&'a str, Val<'a>)>,
    /// Program inputs.
    inputs: HashMap<usize, Val<'a>>,
    /// Tables by store.
    stores: HashMap<usize, Rc<Columns<'a>>>,
    /// Open regions.
    nesting: usize,
}

/// A state of a function that is built, to return to.
struct Mark {
    builder: Checkpoint,
    env: usize,
    nesting: usize,
    calls: usize,
}

/// A recursive function for arguments of certain types.
struct Spec {
    id: heddle_ir::FuncId,
    /// The type of the result, as far as it is known.
    result: Option<Ty>,
}

struct Lower<'a> {
    ast: &'a Ast,
    text: &'a str,
    facts: Vec<Facts>,
    module: Module,
    frame: Frame<'a>,
    specs: IndexMap<(usize, Vec<Ty>), Spec>,
    /// Recursive functions that are being built.
    building: usize,
    /// Types of recursive functions were found to be others since the last look.
    changed: bool,
    /// Functions without a name, with the names of what they capture.
    lambdas: Vec<(&'a Lambda, Vec<&'a str>)>,
    structures: Vec<Structure>,
    /// Inputs that are tables so far.
    stores: usize,
    steps: usize,
    calls: usize,
    /// The vertex function that is evaluated.
    vertex: Option<vertex::Messages<'a>>,
}

impl<'a> Lower<'a> {
    fn error(&self, span: Span, message: impl Into<String>) -> Stop {
        span.error(self.text, message).into()
    }

    fn error_with(&self, span: Span, message: impl Into<String>, hint: impl Into<String>) -> Stop {
        span.error(self.text, message).hint(hint).into()
    }

    /// The error that an instruction's operands do not fit.
    fn misfit(&self, span: Span) -> impl Fn(TypeError) -> Stop + use<'a> {
        let text = self.text;
        move |error| Stop::Error(span.error(text, error.to_string()))
    }

    /// Sets the location of the instructions that follow.
    fn locate(&mut self, span: Span) {
        let loc = Loc::Text {
            line: span.pos.line + 1,
            column: span.pos.column + 1,
        };
        self.frame.b.set_loc(Some(Arc::new(loc)));
    }

    /// Counts an expression.
    fn step(&mut self, span: Span) -> Result<()> {
        self.steps += 1;
        match self.steps > MAX_STEPS {
            true => Err(self.error_with(
                span,
                "the program is too large when functions are put in place of their calls",
                format!("at most {MAX_STEPS} expressions are evaluated"),
            )),
            false => Ok(()),
        }
    }

    fn mark(&self) -> Mark {
        Mark {
            builder: self.frame.b.checkpoint(),
            env: self.frame.env.len(),
            nesting: self.frame.nesting,
            calls: self.calls,
        }
    }

    fn rollback(&mut self, mark: &Mark) {
        self.frame.b.rollback(&mark.builder);
        self.frame.env.truncate(mark.env);
        self.frame.nesting = mark.nesting;
        self.calls = mark.calls;
    }

    /// Opens a region.
    fn open(&mut self, params: &[heddle_ir::Type], span: Span) -> Result<Vec<Value>> {
        self.frame.nesting += 1;
        if self.frame.nesting >= MAX_NESTING {
            let message = format!("control flow is nested deeper than {MAX_NESTING} levels");
            return Err(self.error(span, message));
        }
        Ok(self.frame.b.begin_region(params).1)
    }

    /// Closes the innermost region.
    fn close(&mut self, yields: &[Value]) -> heddle_ir::Region {
        self.frame.nesting -= 1;
        self.frame.b.end_region(yields)
    }
}
