//! Names of outputs, out of the structure that the program gives: dictionaries, tuples and lists within each other.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value as Json;

use super::schema::NamedTuple;
use crate::read::nesting;

/// Nesting of a structure.
const MAX_DEPTH: usize = 64;

/// Names of `count` outputs. One in a dictionary is named by its keys, `y0.scores`; others by their number, `y0`.
pub fn of_outputs(
    spec: Option<&str>,
    fields: &HashMap<String, NamedTuple>,
    count: usize,
) -> Vec<String> {
    let named = spec.and_then(|spec| {
        let tree = parse(spec)?;
        let mut names = vec![];
        walk(&tree, "", false, fields, &mut names);
        Some(names)
    });
    let numbered = || (0..count).map(|i| format!("y{i}")).collect();
    match named {
        Some(names) if names.len() == count => names,
        _ => numbered(),
    }
}

/// A node of a structure.
#[derive(Deserialize)]
struct Tree {
    #[serde(rename = "type")]
    ty: Option<String>,
    context: Option<String>,
    #[serde(rename = "children_spec")]
    children: Vec<Tree>,
}

/// `[1, {...}]`: a version and the tree.
fn parse(spec: &str) -> Option<Tree> {
    if nesting(spec) > 2 * MAX_DEPTH {
        return None;
    }
    let (version, tree): (i64, Tree) = serde_json::from_str(spec).ok()?;
    (version == 1).then_some(tree)
}

fn walk(
    tree: &Tree,
    path: &str,
    has_key: bool,
    fields: &HashMap<String, NamedTuple>,
    names: &mut Vec<String>,
) {
    let Some(ty) = &tree.ty else {
        let digit = path.starts_with(|c: char| c.is_ascii_digit());
        names.push(match (has_key, digit) {
            (false, _) => format!("y{}", names.len()),
            (true, true) => format!("y{path}"),
            (true, false) => path.to_owned(),
        });
        return;
    };
    let keys = keys(ty, tree.context.as_deref(), fields);
    for (i, child) in tree.children.iter().enumerate() {
        let key = keys.get(i).filter(|key| !key.is_empty());
        let part = key.cloned().unwrap_or_else(|| i.to_string());
        let dot = if path.is_empty() { "" } else { "." };
        let has_key = has_key || key.is_some();
        walk(child, &format!("{path}{dot}{part}"), has_key, fields, names);
    }
}

/// The names of a node's children, as far as they have any.
fn keys(ty: &str, context: Option<&str>, fields: &HashMap<String, NamedTuple>) -> Vec<String> {
    let Some(context) = context else {
        return vec![];
    };
    match ty {
        "builtins.dict" | "collections.OrderedDict" => {
            let text = |key: &Json| match key {
                Json::String(key) => key.clone(),
                Json::Number(key) => key.to_string(),
                _ => String::new(),
            };
            let keys = serde_json::from_str::<Vec<Json>>(context);
            keys.unwrap_or_default().iter().map(text).collect()
        }
        "collections.namedtuple" => {
            let tuple = fields.get(context);
            tuple.map(|t| t.field_names.clone()).unwrap_or_default()
        }
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_what_they_hold() {
        let leaf = r#"{"type": null, "context": null, "children_spec": []}"#;
        let pair = |ty: &str, context: &str| {
            format!(
                r#"{{"type": "{ty}", "context": "{context}", "children_spec": [{leaf}, {leaf}]}}"#
            )
        };
        let dict = pair("builtins.dict", r#"[\"a\", \"b\"]"#);
        let list = pair("builtins.list", "null");
        let both = format!(
            r#"[1, {{"type": "builtins.tuple", "context": "null", "children_spec": [{dict}, {list}]}}]"#
        );
        let none = HashMap::new();
        assert_eq!(
            of_outputs(Some(&both), &none, 4),
            ["y0.a", "y0.b", "y2", "y3"]
        );
        assert_eq!(
            of_outputs(Some(&format!("[1, {dict}]")), &none, 2),
            ["a", "b"]
        );
        for spec in [None, Some("["), Some(both.as_str())] {
            assert_eq!(of_outputs(spec, &none, 2), ["y0", "y1"]);
        }
    }
}
