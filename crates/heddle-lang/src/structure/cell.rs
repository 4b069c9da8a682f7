//! Rows of tables whose cases follow from their columns.

use serde::{Deserialize, Serialize};

/// A whole number or truth of a row, from the columns of its table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cell {
    /// An element of this input.
    Column(String),
    /// A number; truths are 0 and 1.
    Number(i64),
    /// An operation with one operand.
    Unary(Sign, Box<Cell>),
    /// An operation with two operands.
    Binary(Sign, Box<Cell>, Box<Cell>),
}

/// An operation on cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Sign {
    Not,
    Neg,
    Add,
    Sub,
    Mul,
    And,
    Or,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The case of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// Always this one.
    Case(usize),
    /// The first one where the condition is true, else the second.
    If(Cell, Box<Rule>, Box<Rule>),
}

/// An element of an input in the row that is looked at; `None` if it is not known.
pub type Element<'r> = &'r dyn Fn(&str) -> Option<i64>;

impl Sign {
    /// The operation with this name in the graph IR.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "not" => Sign::Not,
            "neg" => Sign::Neg,
            "add" => Sign::Add,
            "sub" => Sign::Sub,
            "mul" => Sign::Mul,
            "and" => Sign::And,
            "or" => Sign::Or,
            "eq" => Sign::Eq,
            "ne" => Sign::Ne,
            "lt" => Sign::Lt,
            "le" => Sign::Le,
            "gt" => Sign::Gt,
            "ge" => Sign::Ge,
            _ => return None,
        })
    }
}

impl Sign {
    /// Is its result a number that may exceed its operands' type?
    pub fn is_arithmetic(self) -> bool {
        matches!(self, Sign::Add | Sign::Sub | Sign::Mul | Sign::Neg)
    }
}

impl Cell {
    /// The value in a row.
    pub fn value(&self, element: Element) -> Option<i64> {
        Some(match self {
            Cell::Column(name) => element(name)?,
            Cell::Number(n) => *n,
            Cell::Unary(sign, x) => {
                let x = x.value(element)?;
                match sign {
                    Sign::Not => (x == 0) as i64,
                    Sign::Neg => x.wrapping_neg(),
                    _ => return None,
                }
            }
            Cell::Binary(sign, a, b) => {
                let (a, b) = (a.value(element)?, b.value(element)?);
                match sign {
                    Sign::Add => a.wrapping_add(b),
                    Sign::Sub => a.wrapping_sub(b),
                    Sign::Mul => a.wrapping_mul(b),
                    Sign::And => a & b,
                    Sign::Or => a | b,
                    Sign::Eq => (a == b) as i64,
                    Sign::Ne => (a != b) as i64,
                    Sign::Lt => (a < b) as i64,
                    Sign::Le => (a <= b) as i64,
                    Sign::Gt => (a > b) as i64,
                    Sign::Ge => (a >= b) as i64,
                    Sign::Not | Sign::Neg => return None,
                }
            }
        })
    }

    /// Calls `visit` with each input that it reads.
    pub fn for_each_column<'c>(&'c self, visit: &mut dyn FnMut(&'c str)) {
        match self {
            Cell::Column(name) => visit(name),
            Cell::Number(_) => {}
            Cell::Unary(_, x) => x.for_each_column(visit),
            Cell::Binary(_, a, b) => [a, b].into_iter().for_each(|x| x.for_each_column(visit)),
        }
    }

    /// The first input that it reads.
    pub fn column(&self) -> Option<&str> {
        let mut first = None;
        self.for_each_column(&mut |name| {
            first.get_or_insert(name);
        });
        first
    }
}

impl Rule {
    /// The case of a row.
    pub fn case(&self, element: Element) -> Option<usize> {
        match self {
            Rule::Case(case) => Some(*case),
            Rule::If(cond, then, otherwise) => match cond.value(element)? {
                0 => otherwise.case(element),
                _ => then.case(element),
            },
        }
    }

    /// Calls `visit` with each input that it reads.
    pub fn for_each_column<'c>(&'c self, visit: &mut dyn FnMut(&'c str)) {
        if let Rule::If(cond, then, otherwise) = self {
            cond.for_each_column(visit);
            then.for_each_column(visit);
            otherwise.for_each_column(visit);
        }
    }
}
