//! Tables of data types and graphs among a program's inputs, and checks of them.

mod cell;
mod draw;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};

pub use cell::{Cell, Rule, Sign};

/// Inputs that together are one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Structure {
    /// A datum: its type's tables and those of the types that it holds. The last row of the first
    /// table is the datum.
    Data(Vec<Table>),
    /// A graph.
    Graph {
        /// The input with the children of all vertices.
        children: String,
        /// The input with the begin of each vertex's children, and the end.
        offsets: String,
    },
    /// Lists of lists.
    Lists {
        /// The input with the elements of all lists.
        data: String,
        /// The input with the begin of each list, and the end.
        offsets: String,
        /// An input with an element for each list, if there is one.
        rows: Option<String>,
    },
}

/// The table of a data type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The cases of all rows.
    pub tag: Tag,
    /// The cases.
    pub cases: Vec<Case>,
}

/// The cases of a table's rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tag {
    /// An input holds them.
    Column(String),
    /// They follow from columns, of which this is one.
    Rule(String, Rule),
}

/// A case of a data type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The rows that it holds, each with the number of their table.
    pub children: Vec<(Cell, usize)>,
}

/// A fault of inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The input.
    pub input: String,
    /// The row or vertex.
    pub node: Option<usize>,
    /// The fault.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "`{}[{node}]` {}", self.input, self.text),
            None => write!(f, "`{}` {}", self.input, self.text),
        }
    }
}

/// Gives the integers of an input, or of one instance's part of it; `None` if it is not there.
pub type Read<'r> = &'r dyn Fn(&str) -> Option<Vec<i64>>;

/// Gives the size of the first axis of an input, or of one instance's part of it.
pub type Rows<'r> = &'r dyn Fn(&str) -> Option<usize>;

impl Structure {
    /// The inputs that it consists of, but for fields that are arrays.
    pub fn inputs(&self) -> Vec<&str> {
        match self {
            Structure::Data(tables) => inputs_of(tables),
            Structure::Graph { children, offsets } => vec![children, offsets],
            Structure::Lists {
                data,
                offsets,
                rows,
            } => {
                let rows = rows.iter().map(String::as_str);
                [data.as_str(), offsets].into_iter().chain(rows).collect()
            }
        }
    }

    /// Checks one that comes from a file: that it consists of inputs that `is_input` knows, and that tables and their cases are there.
    ///
    /// # Errors
    ///
    /// A sentence on what is missing.
    pub fn verify(&self, is_input: &dyn Fn(&str) -> bool) -> Result<(), String> {
        if let Some(name) = self.inputs().into_iter().find(|name| !is_input(name)) {
            return Err(format!(
                "there is no input `{name}`, of which a table or graph consists"
            ));
        }
        let Structure::Data(tables) = self else {
            return Ok(());
        };
        if tables.is_empty() {
            return Err("a datum has no tables".into());
        }
        for table in tables {
            if table.cases.is_empty() {
                return Err("a table has no cases".into());
            }
            let mut targets = table.cases.iter().flat_map(|case| &case.children);
            if let Some((_, target)) = targets.find(|(_, target)| *target >= tables.len()) {
                return Err(format!(
                    "there is no table {target}, whose rows another holds"
                ));
            }
        }
        Ok(())
    }

    /// Checks that tags have cases, children lie in their tables, no datum holds itself, and offsets
    /// part their arrays. Inputs that are not there are not checked.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn check(&self, read: Read, rows: Rows) -> Result<(), Fault> {
        match self {
            Structure::Data(tables) => check_tables(tables, read, rows),
            Structure::Graph { children, offsets } => {
                let (Some(kids), Some(ends)) = (read(children), read(offsets)) else {
                    return Ok(());
                };
                check_graph((children, &kids), (offsets, &ends))
            }
            Structure::Lists {
                data,
                offsets,
                rows: of,
            } => {
                let (Some(ends), Some(count)) = (read(offsets), rows(data)) else {
                    return Ok(());
                };
                parted(offsets, &ends, (data, count), "lists")?;
                match of.as_ref().and_then(|of| Some((of, rows(of)?))) {
                    Some((of, wanted)) if wanted + 1 != ends.len() => {
                        let text = format!(
                            "has {} elements, but `{of}` has {wanted}: one more is needed",
                            ends.len()
                        );
                        Err(fault(offsets, None, text))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

fn fault(input: &str, node: Option<usize>, text: String) -> Fault {
    Fault {
        input: input.into(),
        node,
        text,
    }
}

/// The inputs that tables consist of, each once.
fn inputs_of(tables: &[Table]) -> Vec<&str> {
    let mut all = vec![];
    for table in tables {
        match &table.tag {
            Tag::Column(tag) => all.push(tag.as_str()),
            Tag::Rule(of, rule) => {
                all.push(of);
                rule.for_each_column(&mut |name| all.push(name));
            }
        }
        for (cell, _) in table.cases.iter().flat_map(|c| &c.children) {
            cell.for_each_column(&mut |name| all.push(name));
        }
    }
    let mut seen = HashSet::new();
    all.retain(|name| seen.insert(*name));
    all
}

/// The tags of a table; `None` if inputs are not there.
fn tags<'c>(table: &Table, columns: &'c Columns, rows: Rows) -> Option<Cow<'c, [i64]>> {
    match &table.tag {
        Tag::Column(tag) => columns.get(tag.as_str()).map(|tags| tags.as_slice().into()),
        Tag::Rule(of, rule) => {
            let case = |row: usize| {
                let element = |name: &str| columns.get(name)?.get(row).copied();
                Some(rule.case(&element)? as i64)
            };
            (0..rows(of)?).map(case).collect()
        }
    }
}

/// Integers by input.
type Columns<'c> = HashMap<&'c str, Vec<i64>>;

fn check_tables(tables: &[Table], read: Read, rows: Rows) -> Result<(), Fault> {
    let names = inputs_of(tables);
    let columns: Columns = names
        .iter()
        .filter_map(|name| Some((*name, read(name)?)))
        .collect();
    let found: Option<Vec<_>> = tables.iter().map(|t| tags(t, &columns, rows)).collect();
    let Some(tags) = found else {
        return Ok(());
    };
    let tag_name = |table: &Table| match &table.tag {
        Tag::Column(name) | Tag::Rule(name, _) => name.clone(),
    };
    if tags.first().is_some_and(|tags| tags.is_empty()) {
        return Err(fault(
            &tag_name(&tables[0]),
            None,
            "has no rows; the last one is the root".into(),
        ));
    }
    // Rows of all tables behind each other, and the rows that each one holds.
    let begins: Vec<usize> = tags
        .iter()
        .scan(0, |at, t| Some(std::mem::replace(at, *at + t.len())))
        .collect();
    let mut edges: Vec<Vec<(usize, &str)>> = vec![vec![]; tags.iter().map(|tags| tags.len()).sum()];
    for (k, table) in tables.iter().enumerate() {
        for (row, &tag) in tags[k].iter().enumerate() {
            if usize::try_from(tag).is_ok_and(|t| t < table.cases.len()) {
                continue;
            }
            let names: Vec<_> = table.cases.iter().map(|c| c.name.as_str()).collect();
            let text = format!(
                "is {tag}, which is no case: 0 to {} are {}",
                names.len() - 1,
                names.join(", ")
            );
            return Err(fault(&tag_name(table), Some(row), text));
        }
        for (c, case) in table.cases.iter().enumerate() {
            for (cell, target) in &case.children {
                let column = cell.column().unwrap_or_default();
                let held = tags[k].iter().enumerate().filter(|t| *t.1 == c as i64);
                for (row, _) in held {
                    let element = |name: &str| columns.get(name)?.get(row).copied();
                    let Some(child) = cell.value(&element) else {
                        return Ok(());
                    };
                    let count = tags[*target].len();
                    let Some(place) = usize::try_from(child).ok().filter(|c| *c < count) else {
                        let text = format!("is {child}, but there are {count} rows");
                        return Err(fault(column, Some(row), text));
                    };
                    edges[begins[k] + row].push((begins[*target] + place, column));
                }
            }
        }
    }
    match cycle(&edges) {
        None => Ok(()),
        Some((at, column)) => {
            let table = begins.iter().rposition(|b| *b <= at).unwrap_or(0);
            let text = "is a row that holds this one: the data has a cycle".to_string();
            Err(fault(column, Some(at - begins[table]), text))
        }
    }
}

/// A node of a cycle, and the name of the edge by which it goes on.
fn cycle<'e>(edges: &[Vec<(usize, &'e str)>]) -> Option<(usize, &'e str)> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; edges.len()];
    for root in 0..edges.len() {
        if states[root] != State::New {
            continue;
        }
        states[root] = State::Open;
        let mut stack = vec![(root, 0)];
        while let Some((node, next)) = stack.last_mut() {
            let node = *node;
            let Some(&(child, name)) = edges[node].get(*next) else {
                states[node] = State::Done;
                stack.pop();
                continue;
            };
            *next += 1;
            match states[child] {
                State::Open => return Some((node, name)),
                State::New => {
                    states[child] = State::Open;
                    stack.push((child, 0));
                }
                State::Done => {}
            }
        }
    }
    None
}

/// Checks that offsets part an array of so many elements.
fn parted(
    offsets: &str,
    ends: &[i64],
    (data, size): (&str, usize),
    what: &str,
) -> Result<(), Fault> {
    match ends.first() {
        None => {
            let text = format!("has no elements; it needs one more than there are {what}");
            return Err(fault(offsets, None, text));
        }
        Some(0) => {}
        Some(first) => return Err(fault(offsets, Some(0), format!("is {first}, not 0"))),
    }
    let count = ends.len() - 1;
    if let Some(v) = (0..count).find(|&v| ends[v + 1] < ends[v]) {
        let text = format!("is {}, less than the {} before", ends[v + 1], ends[v]);
        return Err(fault(offsets, Some(v + 1), text));
    }
    if ends[count] != size as i64 {
        let text = format!("is {}, but `{data}` has {size} elements", ends[count]);
        return Err(fault(offsets, Some(count), text));
    }
    Ok(())
}

fn check_graph(
    (children, kids): (&str, &[i64]),
    (offsets, ends): (&str, &[i64]),
) -> Result<(), Fault> {
    parted(offsets, ends, (children, kids.len()), "vertices")?;
    let count = ends.len() - 1;
    for v in 0..count {
        let (begin, end) = (ends[v] as usize, ends[v + 1] as usize);
        for (edge, &child) in kids.iter().enumerate().take(end).skip(begin) {
            if !(0..count as i64).contains(&child) {
                let text =
                    format!("is {child}, a child of vertex {v}, but there are {count} vertices");
                return Err(fault(children, Some(edge), text));
            }
            if child >= v as i64 {
                let text = format!(
                    "is {child}, a child of vertex {v} that does not come before it: \
                     the graph has a cycle, or its order is not children first"
                );
                return Err(fault(children, Some(edge), text));
            }
        }
    }
    Ok(())
}
