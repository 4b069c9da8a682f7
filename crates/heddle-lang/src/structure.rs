//! Tables of data types and graphs among a program's inputs, and checks of them.

use std::fmt;

/// Inputs that together are one value.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

/// The table of a data type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The input with the cases of all rows.
    pub tag: String,
    /// The cases.
    pub cases: Vec<Case>,
}

/// A case of a data type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The columns that hold rows of tables: each an input, and the number of the table.
    pub children: Vec<(String, usize)>,
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

impl Structure {
    /// The inputs that it consists of, but for fields that are arrays.
    pub fn inputs(&self) -> Vec<&str> {
        match self {
            Structure::Data(tables) => {
                let mut all = vec![];
                for table in tables {
                    all.push(table.tag.as_str());
                    let cases = table.cases.iter().flat_map(|c| &c.children);
                    all.extend(cases.map(|(input, _)| input.as_str()));
                }
                all
            }
            Structure::Graph { children, offsets } => vec![children, offsets],
        }
    }

    /// Checks that tags have cases, children lie in their tables, and no datum holds itself. Inputs
    /// that are not there are not checked.
    pub fn check(&self, read: Read) -> Result<(), Fault> {
        match self {
            Structure::Data(tables) => check_tables(tables, read),
            Structure::Graph { children, offsets } => {
                let (Some(kids), Some(ends)) = (read(children), read(offsets)) else {
                    return Ok(());
                };
                check_graph((children, &kids), (offsets, &ends))
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

fn check_tables(tables: &[Table], read: Read) -> Result<(), Fault> {
    let mut tags = vec![];
    for table in tables {
        let Some(all) = read(&table.tag) else {
            return Ok(());
        };
        tags.push(all);
    }
    if tags.first().is_some_and(Vec::is_empty) {
        return Err(fault(
            &tables[0].tag,
            None,
            "has no rows; the last one is the root".into(),
        ));
    }
    // Rows of all tables behind each other, and the rows that each one holds.
    let begins: Vec<usize> = tags
        .iter()
        .scan(0, |at, t| Some(std::mem::replace(at, *at + t.len())))
        .collect();
    let mut edges: Vec<Vec<(usize, &str)>> = vec![vec![]; tags.iter().map(Vec::len).sum()];
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
            return Err(fault(&table.tag, Some(row), text));
        }
        for (c, case) in table.cases.iter().enumerate() {
            for (column, target) in &case.children {
                let Some(children) = read(column) else {
                    return Ok(());
                };
                let rows = tags[k].iter().zip(&children).enumerate();
                for (row, (_, &child)) in rows.filter(|(_, (tag, _))| **tag == c as i64) {
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

fn check_graph(
    (children, kids): (&str, &[i64]),
    (offsets, ends): (&str, &[i64]),
) -> Result<(), Fault> {
    match ends.first() {
        None => {
            return Err(fault(
                offsets,
                None,
                "has no elements; it needs one more than there are vertices".into(),
            ));
        }
        Some(0) => {}
        Some(first) => return Err(fault(offsets, Some(0), format!("is {first}, not 0"))),
    }
    let count = ends.len() - 1;
    if let Some(v) = (0..count).find(|&v| ends[v + 1] < ends[v]) {
        let text = format!("is {}, less than the {} before", ends[v + 1], ends[v]);
        return Err(fault(offsets, Some(v + 1), text));
    }
    if ends[count] != kids.len() as i64 {
        let text = format!(
            "is {}, but `{children}` has {} elements",
            ends[count],
            kids.len()
        );
        return Err(fault(offsets, Some(count), text));
    }
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
