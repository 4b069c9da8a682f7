//! The syntax tree.

use heddle_ir::text::syntax::Attr;
use heddle_ir::{DType, Dim};

use crate::lexer::Span;

/// A program.
#[derive(Debug, Default)]
pub struct Ast {
    /// Data types.
    pub types: Vec<DataType>,
    /// Tables in other forms.
    pub tables: Vec<Table>,
    /// Inputs that all functions see.
    pub params: Vec<Param>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Vertex functions.
    pub vertices: Vec<Vertex>,
}

/// `type Tree = Leaf(i64) | Node(Tree, Tree)`.
#[derive(Debug)]
pub struct DataType {
    /// Its name.
    pub name: Name,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// A case of a data type.
#[derive(Debug)]
pub struct Case {
    /// The constructor's name.
    pub name: Name,
    /// Types of its fields.
    pub fields: Vec<TypeExpr>,
}

/// `table Rows(left: i64, word: i64) -> Tree { … }`: arrays whose rows are data.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: Name,
    /// The arrays, with the types of their rows.
    pub columns: Vec<Param>,
    /// The data type.
    pub ty: Name,
    /// The datum that a row is.
    pub body: Expr,
}

/// A name and its place.
#[derive(Clone, Debug)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Its place.
    pub span: Span,
}

/// A parameter.
#[derive(Debug)]
pub struct Param {
    /// The name.
    pub name: Name,
    /// The stated type.
    pub ty: Option<TypeExpr>,
}

/// A function that has a name.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: Name,
    /// Its parameters.
    pub params: Vec<Param>,
    /// The stated type of the result.
    pub result: Option<TypeExpr>,
    /// Names of the results, where all have one.
    pub result_names: Vec<String>,
    /// Its body.
    pub body: Expr,
}

/// A vertex function of a graph.
#[derive(Debug)]
pub struct Vertex {
    /// Its name.
    pub name: Name,
    /// The values that a vertex pulls.
    pub params: Vec<Param>,
    /// The type of the state that it scatters.
    pub state: TypeExpr,
    /// Its bindings.
    pub lets: Vec<Let>,
    /// The state.
    pub scatter: Expr,
    /// The result.
    pub push: Expr,
}

/// A stated type.
#[derive(Clone, Debug)]
pub struct TypeExpr {
    /// Its place.
    pub span: Span,
    /// Its kind.
    pub kind: TypeKind,
}

/// Kinds of stated types.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `f32[n,2]`.
    Tensor(DType, Vec<Dim>),
    /// `(f32[2], i64[])`.
    Tuple(Vec<TypeExpr>),
    /// `list<f32[2]>`.
    List(Box<TypeExpr>),
    /// `Tree`, with a name for the number of its nodes.
    Data(String, Option<String>),
    /// `graph`.
    Graph,
}

/// `let pattern: type = value;`.
#[derive(Debug)]
pub struct Let {
    /// The names that are bound.
    pub pattern: Pattern,
    /// The stated type.
    pub ty: Option<TypeExpr>,
    /// The value.
    pub value: Expr,
}

/// A pattern.
#[derive(Debug)]
pub struct Pattern {
    /// Its place.
    pub span: Span,
    /// Its kind.
    pub kind: PatternKind,
}

/// Kinds of patterns.
#[derive(Debug)]
pub enum PatternKind {
    /// `_`.
    Any,
    /// A name, which is bound.
    Bind(String),
    /// `(a, b)`.
    Tuple(Vec<Pattern>),
    /// `Node(a, b)`; lists have `Nil` and `Cons(head, tail)`.
    Case(String, Vec<Pattern>),
    /// `3`.
    Number(i64),
    /// `true`.
    Bool(bool),
}

/// An arm of a `match`.
#[derive(Debug)]
pub struct Arm {
    /// The pattern.
    pub pattern: Pattern,
    /// The value.
    pub value: Expr,
}

/// `fn(x) x + 1`.
#[derive(Debug)]
pub struct Lambda {
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its body.
    pub body: Expr,
}

/// An expression.
#[derive(Debug)]
pub struct Expr {
    /// Its place.
    pub span: Span,
    /// Its kind.
    pub kind: ExprKind,
    /// Levels of expressions in it.
    pub depth: usize,
}

/// Binary operators that are not operations of the graph IR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Infix {
    /// An operation of the graph IR.
    Op(&'static str),
    /// `@`: the product of matrices and vectors.
    Product,
    /// `&&`: the right side only if the left is true.
    And,
    /// `||`: the right side only if the left is false.
    Or,
}

/// Kinds of expressions.
#[derive(Debug)]
pub enum ExprKind {
    /// A variable, function or case.
    Name(String),
    /// A literal.
    Number(String),
    /// `true` or `false`.
    Bool(bool),
    /// `[a, b]`.
    Array(Vec<Expr>),
    /// `(a, b)`.
    Tuple(Vec<Expr>),
    /// `x.0`.
    Field(Box<Expr>, usize),
    /// `x[i]`.
    Index(Box<Expr>, Box<Expr>),
    /// `x[a..b]`.
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    /// `-x`, `!x`, by the name of the operation.
    Unary(&'static str, Box<Expr>),
    /// `a + b`.
    Binary(Infix, Box<Expr>, Box<Expr>),
    /// `f(a, axis=0)`.
    Call(Box<Expr>, Vec<Expr>, Vec<(String, Attr)>),
    /// A function without a name.
    Lambda(Box<Lambda>),
    /// `if c { a } else { b }`.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `match x { p => a }`.
    Match(Box<Expr>, Vec<Arm>),
    /// `{ let a = b; c }`.
    Block(Vec<Let>, Box<Expr>),
}

impl Expr {
    /// Visits the expressions directly within.
    pub fn for_each_child<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            ExprKind::Name(_) | ExprKind::Number(_) | ExprKind::Bool(_) => {}
            ExprKind::Array(all) | ExprKind::Tuple(all) => all.iter().for_each(visit),
            ExprKind::Field(x, _) | ExprKind::Unary(_, x) => visit(x),
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => {
                [a, b].into_iter().for_each(|e| visit(e))
            }
            ExprKind::Slice(x, a, b) => {
                visit(x);
                [a, b].into_iter().flatten().for_each(|e| visit(e));
            }
            ExprKind::Call(f, args, _) => {
                visit(f);
                args.iter().for_each(visit);
            }
            ExprKind::Lambda(lambda) => visit(&lambda.body),
            ExprKind::If(c, a, b) => [c, a, b].into_iter().for_each(|e| visit(e)),
            ExprKind::Match(x, arms) => {
                visit(x);
                arms.iter().for_each(|arm| visit(&arm.value));
            }
            ExprKind::Block(lets, value) => {
                lets.iter().for_each(|l| visit(&l.value));
                visit(value);
            }
        }
    }
}

impl Pattern {
    /// Calls `visit` with the names that the pattern binds.
    pub fn for_each_name<'a>(&'a self, visit: &mut dyn FnMut(&'a str, Span)) {
        match &self.kind {
            PatternKind::Bind(name) => visit(name, self.span),
            PatternKind::Tuple(all) | PatternKind::Case(_, all) => {
                all.iter().for_each(|p| p.for_each_name(visit));
            }
            PatternKind::Any | PatternKind::Number(_) | PatternKind::Bool(_) => {}
        }
    }
}
