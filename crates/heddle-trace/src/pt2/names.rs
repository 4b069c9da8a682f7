//! Names of outputs, out of the structure that the program gives: dictionaries, tuples and lists within each other.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value as Json;

use super::schema::NamedTuple;
use crate::read::nesting;

/// Nesting of a structure.
const MAX_DEPTH: usize = 64;
/// Characters of a key that are part of a name.
const MAX_KEY: usize = 200;
/// Bytes of a name: an output whose keys are longer is named by its number.
const MAX_NAME: usize = 1000;

/// Names of `count` outputs. One in a dictionary is named by its keys, `y0.scores`; others by their number, `y0`.
pub fn of_outputs(
    spec: Option<&str>,
    fields: &HashMap<String, NamedTuple>,
    count: usize,
) -> Vec<String> {
    let named = spec.and_then(|spec| {
        let tree = parse(spec)?;
        let mut names = vec![];
        let walk = Walk { fields, count };
        walk.visit(&tree, "", false, &mut names);
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

struct Walk<'f> {
    fields: &'f HashMap<String, NamedTuple>,
    count: usize,
}

impl Walk<'_> {
    /// Adds the names of a structure's outputs. It ends once there are more than the program has.
    fn visit(&self, tree: &Tree, path: &str, has_key: bool, names: &mut Vec<String>) {
        if names.len() > self.count {
            return;
        }
        let Some(ty) = &tree.ty else {
            let digit = path.starts_with(|c: char| c.is_ascii_digit());
            names.push(match (has_key && path.len() <= MAX_NAME, digit) {
                (false, _) => format!("y{}", names.len()),
                (true, true) => format!("y{path}"),
                (true, false) => path.to_owned(),
            });
            return;
        };
        let keys = self.keys(ty, tree);
        for (i, child) in tree.children.iter().enumerate() {
            let key = keys.get(i).filter(|key| !key.is_empty());
            let part = key.cloned().unwrap_or_else(|| i.to_string());
            let dot = if path.is_empty() { "" } else { "." };
            let has_key = has_key || key.is_some();
            self.visit(child, &format!("{path}{dot}{part}"), has_key, names);
        }
    }

    /// The names of a node's children, as far as they have any.
    fn keys(&self, ty: &str, tree: &Tree) -> Vec<String> {
        let Some(context) = tree.context.as_deref() else {
            return vec![];
        };
        let short = |key: &str| key.chars().take(MAX_KEY).collect();
        match ty {
            "builtins.dict" | "collections.OrderedDict" => {
                let text = |key: &Json| match key {
                    Json::String(key) => short(key),
                    Json::Number(key) => key.to_string(),
                    _ => String::new(),
                };
                let keys = serde_json::from_str::<Vec<Json>>(context);
                keys.unwrap_or_default().iter().map(text).collect()
            }
            "collections.namedtuple" => {
                let names = self.fields.get(context).map(|t| &t.field_names[..]);
                let names = names.unwrap_or_default().iter();
                // The same tuple may have fewer children elsewhere.
                names
                    .take(tree.children.len())
                    .map(|name| short(name))
                    .collect()
            }
            _ => vec![],
        }
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
        // Keys and names are bounded, and so are the names of a structure of more outputs.
        let dict = pair(
            "builtins.dict",
            &format!(r#"[\"{}\", \"b\"]"#, "k".repeat(5000)),
        );
        let names = of_outputs(Some(&format!("[1, {dict}]")), &none, 2);
        assert_eq!(names, [&"k".repeat(200), "b"]);
        let mut deep = leaf.to_owned();
        for _ in 0..6 {
            let key = "k".repeat(200);
            deep = format!(
                r#"{{"type": "builtins.dict", "context": "[\"{key}\"]", "children_spec": [{deep}]}}"#
            );
        }
        assert_eq!(of_outputs(Some(&format!("[1, {deep}]")), &none, 1), ["y0"]);
        for spec in [None, Some("["), Some(both.as_str())] {
            assert_eq!(of_outputs(spec, &none, 2), ["y0", "y1"]);
        }
    }
}
