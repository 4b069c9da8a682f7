//! Random inputs that are sound: tags of cases, children before parents, offsets that rise.

use std::collections::HashMap;

use super::{Rows, Rule, Structure, Table, Tag};

/// Attempts to find a row whose columns follow a rule.
const ATTEMPTS: usize = 64;

/// A number below another, which is not 0.
pub type Below<'r> = &'r mut dyn FnMut(usize) -> usize;

impl Structure {
    /// Integers of inputs of these sizes that are sound; empty if there are none.
    pub fn draw(&self, rows: Rows, below: Below) -> Vec<(String, Vec<i64>)> {
        let drawn = match self {
            Structure::Data(tables) => match &tables[..] {
                [
                    Table {
                        tag: Tag::Rule(of, rule),
                        ..
                    },
                ] => ruled(&tables[0], (of, rule), rows, below),
                _ => plain(tables, rows, below),
            },
            Structure::Graph { children, offsets } => graph(children, offsets, rows, below),
            Structure::Lists { data, offsets, .. } => {
                let ends = rows(offsets).zip(rows(data));
                let ends = ends.and_then(|(ends, size)| parts(ends, 0, size, below));
                ends.map(|ends| vec![(offsets.clone(), ends)])
            }
        };
        drawn.unwrap_or_default()
    }

    /// Sizes of inputs of this kind, if the caller states none, from those that are stated.
    pub fn usual_sizes(&self, stated: Rows) -> Vec<(String, usize)> {
        match self {
            Structure::Data(tables) => {
                let size = |table: &'_ Table| match &table.tag {
                    Tag::Column(name) | Tag::Rule(name, _) => (name.clone(), 3),
                };
                tables.iter().map(size).collect()
            }
            Structure::Graph { children, offsets } => {
                let edges = match (stated(children), stated(offsets)) {
                    (Some(edges), _) => edges,
                    (None, Some(ends)) => ends.saturating_sub(2),
                    (None, None) => 2,
                };
                vec![
                    (children.clone(), edges),
                    (offsets.clone(), edges.saturating_add(2)),
                ]
            }
            Structure::Lists { offsets, rows, .. } => {
                let lists = rows.as_ref().and_then(|name| stated(name));
                vec![(offsets.clone(), lists.map_or(3, |n| n.saturating_add(1)))]
            }
        }
    }
}

/// Offsets: so many numbers that rise from 0 to `size`, of which the part before `first` is empty.
fn parts(ends: usize, first: usize, size: usize, below: Below) -> Option<Vec<i64>> {
    let mut all: Vec<i64> = (0..ends).map(|_| below(size + 1) as i64).collect();
    all.sort_unstable();
    all.iter_mut().take(first + 1).for_each(|end| *end = 0);
    *all.last_mut()? = size as i64;
    (*all.first()? == 0 && (size == 0 || ends > first + 1)).then_some(all)
}

fn graph(
    children: &str,
    offsets: &str,
    rows: Rows,
    below: Below,
) -> Option<Vec<(String, Vec<i64>)>> {
    let (edges, ends) = (rows(children)?, rows(offsets)?);
    let offset = parts(ends, 1.min(ends.checked_sub(1)?), edges, below)?;
    let mut kids = vec![];
    for (v, range) in offset.windows(2).enumerate() {
        kids.extend((range[0]..range[1]).map(|_| below(v.max(1)) as i64));
    }
    Some(vec![(children.into(), kids), (offsets.into(), offset)])
}

/// Rows of tables, each of which may hold rows that come before it in any table.
fn plain(tables: &[Table], rows: Rows, below: Below) -> Option<Vec<(String, Vec<i64>)>> {
    let mut sizes = vec![];
    let mut columns: HashMap<&str, Vec<i64>> = HashMap::new();
    for table in tables {
        let Tag::Column(tag) = &table.tag else {
            return None;
        };
        let count = rows(tag)?;
        sizes.push(count);
        columns.insert(tag, vec![0; count]);
        for (cell, _) in table.cases.iter().flat_map(|c| &c.children) {
            columns.insert(cell.column()?, vec![0; count]);
        }
    }
    // The rows so far, and those of them that none holds.
    let (mut made, mut open) = (vec![0; tables.len()], vec![vec![]; tables.len()]);
    while made != sizes {
        let mut progress = false;
        for (k, table) in tables.iter().enumerate() {
            if made[k] == sizes[k] {
                continue;
            }
            let can = |c: &usize| table.cases[*c].children.iter().all(|(_, t)| made[*t] > 0);
            let cases: Vec<usize> = (0..table.cases.len()).filter(can).collect();
            if cases.is_empty() {
                continue;
            }
            progress = true;
            // Rows are held rather than left over, so that the last one holds most.
            let held = |c: &&usize| {
                let children = &table.cases[**c].children;
                let own = children.iter().filter(|(_, t)| *t == k).count();
                own > 0 && own <= open[k].len()
            };
            let holding: Vec<usize> = cases.iter().filter(held).copied().collect();
            let case =
                match holding.is_empty() || sizes[k] - made[k] > open[k].len() && below(2) == 0 {
                    true => cases[below(cases.len())],
                    false => holding[below(holding.len())],
                };
            let Tag::Column(tag) = &table.tag else {
                return None;
            };
            columns.get_mut(tag.as_str())?[made[k]] = case as i64;
            for (cell, target) in &table.cases[case].children {
                let rest: &mut Vec<i64> = &mut open[*target];
                let child = match rest.is_empty() {
                    true => below(made[*target]) as i64,
                    false => rest.swap_remove(below(rest.len())),
                };
                columns.get_mut(cell.column()?)?[made[k]] = child;
            }
            open[k].push(made[k] as i64);
            made[k] += 1;
        }
        if !progress {
            return None;
        }
    }
    let columns = columns.into_iter();
    Some(columns.map(|(name, all)| (name.to_string(), all)).collect())
}

/// Rows of a table whose cases follow from its columns, by trial.
fn ruled(
    table: &Table,
    (of, rule): (&str, &Rule),
    rows: Rows,
    below: Below,
) -> Option<Vec<(String, Vec<i64>)>> {
    let mut names = vec![];
    rule.for_each_column(&mut |name| names.push(name));
    for (cell, _) in table.cases.iter().flat_map(|c| &c.children) {
        cell.for_each_column(&mut |name| names.push(name));
    }
    names.sort_unstable();
    names.dedup();
    let mut made: Vec<Vec<i64>> = vec![];
    for row in 0..rows(of)? {
        let mut found = None;
        for attempt in 0..ATTEMPTS {
            let one = |_: &&str| match (attempt + below(2)) % 2 {
                0 => below(row + 2) as i64,
                _ => -1,
            };
            let values: Vec<i64> = names.iter().map(one).collect();
            let element = |name: &str| Some(values[names.iter().position(|n| *n == name)?]);
            let case = rule.case(&element)?;
            let held = table.cases.get(case)?.children.iter();
            let sound = held.map(|(cell, _)| cell.value(&element));
            if sound
                .into_iter()
                .all(|c| c.is_some_and(|c| (0..row as i64).contains(&c)))
            {
                found = Some(values);
                break;
            }
        }
        made.push(found?);
    }
    let columns = names.iter().enumerate();
    let columns = columns.map(|(i, name)| {
        let all = made.iter().map(|row| row[i]).collect();
        (name.to_string(), all)
    });
    Some(columns.collect())
}
