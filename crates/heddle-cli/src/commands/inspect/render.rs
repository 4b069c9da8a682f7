//! The outline as text.

use super::outline::{Node, Outline};
use crate::out::{BOLD, DIM, RED, YELLOW, printable, styled};
use crate::show;

/// Further operators are summed up.
const MAX_OPS: usize = 24;
/// Further optional inputs are summed up.
const MAX_OPTIONAL: usize = 16;
/// Facts are cut to this many characters.
const MAX_FACT: usize = 160;

/// The outline for people.
pub fn text(outline: &Outline) -> String {
    let mut text = String::new();
    ports(&mut text, "inputs", &outline.inputs);
    optional(&mut text, &outline.optional);
    ports(&mut text, "outputs", &outline.outputs);
    ports(&mut text, "sizes", &outline.sizes);
    let p = &outline.parameters;
    let parameters = format!(
        "{} tensors, {} elements, {}",
        show::count(p.tensors),
        show::count(p.elements),
        show::bytes(p.bytes)
    );
    let facts = outline
        .facts
        .iter()
        .map(|(label, fact)| (label.to_string(), fact.clone()));
    let facts: Vec<_> = std::iter::once(("parameters".into(), parameters))
        .chain(facts)
        .collect();
    ports(&mut text, "model", &facts);
    ops(&mut text, outline);
    if let Some(compiled) = &outline.compiled {
        ports(&mut text, "compiled form", &compiled.lines());
    }
    control_flow(&mut text, outline);
    unsupported(&mut text, outline);
    text
}

fn heading(text: &mut String, title: &str) {
    *text += &format!("{}\n", styled(BOLD, title));
}

fn ports(text: &mut String, title: &str, list: &[(String, String)]) {
    if list.is_empty() {
        return;
    }
    heading(text, title);
    let rows: Vec<_> = list
        .iter()
        .map(|(n, t)| vec![format!("  {n}"), t.clone()])
        .collect();
    *text += &show::table(&rows);
}

/// Inputs with default values. Old models list all their weights so.
fn optional(text: &mut String, list: &[(String, String)]) {
    let shown = &list[..list.len().min(MAX_OPTIONAL)];
    ports(text, "optional inputs", shown);
    if list.len() > shown.len() {
        *text += &format!("  … and {} more\n", list.len() - shown.len());
    }
}

fn ops(text: &mut String, outline: &Outline) {
    let total: usize = outline.ops.iter().map(|(_, n)| n).sum();
    let ir: usize = outline.ir_ops.iter().map(|(_, n)| n).sum();
    heading(text, "operators");
    let note = if ir > 0 && outline.ops != outline.ir_ops {
        format!(", {} instructions of the graph IR", show::count(ir as u64))
    } else {
        String::new()
    };
    *text += &format!("  {} in all{note}\n", show::count(total as u64));
    let cell = |(op, n): &(String, usize)| format!("{op} {n}");
    let cells: Vec<_> = outline.ops.iter().take(MAX_OPS).map(cell).collect();
    for line in cells.chunks(6) {
        *text += &format!("  {}\n", printable(&line.join("   ")));
    }
    if outline.ops.len() > MAX_OPS {
        *text += &format!("  … and {} other operators\n", outline.ops.len() - MAX_OPS);
    }
}

fn control_flow(text: &mut String, outline: &Outline) {
    heading(text, "control flow");
    let only = outline.functions.len() == 1;
    if only && outline.functions.iter().all(|f| f.nodes.is_empty()) {
        *text += "  none\n";
        return;
    }
    for f in &outline.functions {
        if !only {
            *text += &format!(
                "  @{}{}\n",
                printable(&f.name),
                styled(DIM, printable(&f.signature))
            );
        }
        let indent = if only { "  " } else { "    " };
        for node in &f.nodes {
            tree(text, node, indent);
        }
    }
    for group in &outline.recursion {
        let cycle: Vec<_> = group
            .iter()
            .chain(&group[..1])
            .map(|n| format!("@{n}"))
            .collect();
        *text += &format!("  {} {}\n", styled(YELLOW, "recursion"), cycle.join(" → "));
    }
}

fn tree(text: &mut String, node: &Node, indent: &str) {
    let name = printable(&node.name);
    let size = match node.size {
        Some(1) => " 1 op".to_string(),
        Some(n) => format!(" {n} ops"),
        None => String::new(),
    };
    let head = if node.name.is_empty() {
        String::new()
    } else {
        format!(" {name}")
    };
    let style = if node.size.is_some() { DIM } else { BOLD };
    *text += &format!(
        "{indent}{}{head}{}\n",
        styled(style, &node.kind),
        styled(DIM, size)
    );
    let inner = format!("{indent}  ");
    let mut line = |label: &str, fact: &str| {
        let label = styled(DIM, format!("{label:<8}"));
        *text += &format!("{inner}{label} {}\n", printable(&cut(fact)));
    };
    for (label, fact) in &node.facts {
        line(label, fact);
    }
    for (label, items) in &node.lists {
        line(label, &items[0]);
        items[1..].iter().for_each(|item| line("", item));
    }
    for child in &node.children {
        tree(text, child, &inner);
    }
}

fn unsupported(text: &mut String, outline: &Outline) {
    if outline.unsupported.is_empty() {
        return;
    }
    *text += &format!("{}\n", styled(RED, "not supported"));
    for op in &outline.unsupported {
        *text += &format!("  {}\n", printable(&op.to_string()));
    }
}

fn cut(fact: &str) -> String {
    match fact.char_indices().nth(MAX_FACT) {
        Some((end, _)) => format!("{}…", &fact[..end]),
        None => fact.to_string(),
    }
}
