//! Architecture invariant: no import circle joins files of different folders.
//!
//! The test reads the paths that begin with `crate`, `super`, `self` or a child module, in `use` items and in code.
//! A re-exported name counts as an import of the file that defines it. A module's file `foo.rs` or `foo/mod.rs`
//! belongs to the folder `foo`; unit tests at a file's end do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// Crates that still have such circles. Entries may only be removed: the layers of a crate without an entry
/// stay in order.
const CIRCULAR: &[&str] = &[];

#[test]
fn no_circle_joins_folders() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut wrong = String::new();
    let mut circular = BTreeSet::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let sources = Sources::read(&folder.join("src"));
        for circle in sources.circles() {
            println!("{name}: {}", sources.show(&circle));
            if !CIRCULAR.contains(&name.as_str()) {
                writeln!(wrong, "{name}: {}", sources.show(&circle)).unwrap();
            }
            circular.insert(name.clone());
        }
    }
    for name in CIRCULAR.iter().filter(|name| !circular.contains(**name)) {
        writeln!(
            wrong,
            "{name} has no circle any more: remove it from the list"
        )
        .unwrap();
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn circles_are_found_through_re_exports_and_nested_imports() {
    let files = [
        ("", "mod a;\nmod b;\npub use a::{inner::Deep, Top};\n"),
        ("a", "mod inner;\npub struct Top;\n"),
        ("a::inner", "pub struct Deep;\nfn f() { crate::b::g(); }\n"),
        (
            "b",
            "// use crate::b;\nuse crate::{\n    Top as Other,\n    a::{self},\n    Deep,\n};\n",
        ),
    ];
    let text = |f: &(&str, &str)| (f.0.to_owned(), f.1.to_owned());
    let sources = Sources {
        texts: files.iter().map(text).collect(),
        folders: [("a", "a"), ("a::inner", "a"), ("b", ""), ("", "")]
            .map(|(module, folder)| (module.to_owned(), folder.to_owned()))
            .into(),
    };
    let circles = sources.circles();
    assert_eq!(circles.len(), 1);
    assert_eq!(sources.show(&circles[0]), "a::inner -> b; b -> a::inner");
}

/// A crate's source files by module path; the root's is empty.
struct Sources {
    texts: BTreeMap<String, String>,
    /// The folder that each module belongs to.
    folders: BTreeMap<String, String>,
}

/// Modules that reach each other by imports.
type Circle = BTreeSet<String>;

impl Sources {
    fn read(root: &Path) -> Self {
        let mut sources = Self {
            texts: BTreeMap::new(),
            folders: BTreeMap::new(),
        };
        sources.add(root, "");
        sources
    }

    fn add(&mut self, folder: &Path, module: &str) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let child = match stem {
                "mod" | "lib" | "main" => module.to_owned(),
                stem => join(module, stem),
            };
            if path.is_dir() {
                self.add(&path, &child);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let own_folder = child != module && folder.join(stem).is_dir();
                let folder = if own_folder { &child } else { module };
                self.folders.insert(child.clone(), folder.to_owned());
                // A crate may have both a library and a program.
                *self.texts.entry(child).or_default() += &code(&text);
            }
        }
    }

    /// Sets of modules of different folders that import each other.
    fn circles(&self) -> Vec<Circle> {
        let imports: BTreeMap<&str, Circle> = self
            .texts
            .keys()
            .map(|m| (m.as_str(), self.imports(m)))
            .collect();
        let reached: BTreeMap<&str, Circle> = imports
            .keys()
            .map(|m| (*m, reachable(m, &imports)))
            .collect();
        let mut circles = BTreeSet::new();
        for (module, others) in &reached {
            let back = |other: &&String| reached[other.as_str()].contains(*module);
            circles.insert(others.iter().filter(back).cloned().collect::<Circle>());
        }
        let folders = |c: &Circle| c.iter().map(|m| &self.folders[m]).collect::<BTreeSet<_>>();
        circles
            .into_iter()
            .filter(|c| folders(c).len() > 1)
            .collect()
    }

    /// The imports inside a circle.
    fn show(&self, circle: &Circle) -> String {
        let mut imports = vec![];
        for module in circle {
            let inside = self.imports(module);
            let targets: Vec<_> = inside.intersection(circle).map(String::as_str).collect();
            imports.push(format!("{module} -> {}", targets.join(", ")));
        }
        imports.join("; ")
    }

    /// The modules whose items a module names.
    fn imports(&self, module: &str) -> Circle {
        let paths = paths(&self.texts[module]);
        let files = paths
            .iter()
            .filter_map(|p| self.resolve(module, &p.segments, 0));
        files.filter(|file| file != module).collect()
    }

    /// The module that defines what a path names, if it is one of the crate.
    fn resolve(&self, from: &str, segments: &[String], depth: usize) -> Option<String> {
        let (first, mut rest) = segments.split_first()?;
        let mut at = match first.as_str() {
            "crate" => String::new(),
            "self" => from.to_owned(),
            "super" => parent(from),
            name => Some(join(from, name)).filter(|m| self.texts.contains_key(m))?,
        };
        while let Some((next, after)) = rest.split_first() {
            let child = join(&at, next);
            if next == "super" {
                at = parent(&at);
            } else if self.texts.contains_key(&child) {
                at = child;
            } else if next != "self" {
                let own = || Some(at.clone());
                return match depth < 8 {
                    true => self.re_export(&at, rest, depth).or_else(own),
                    false => own(),
                };
            }
            rest = after;
        }
        Some(at)
    }

    /// The module that defines an item which `module` re-exports.
    fn re_export(&self, module: &str, path: &[String], depth: usize) -> Option<String> {
        let exports = paths(&self.texts[module]);
        let exports = exports.into_iter().filter(|e| e.exported);
        for export in exports {
            if export.name == path[0] {
                return self.resolve(module, &export.segments, depth + 1);
            }
            if export.name == "*" {
                let all = &export.segments[..export.segments.len() - 1];
                let source = self.resolve(module, all, depth + 1)?;
                if source != module && defines(&self.texts[&source], &path[0]) {
                    return Some(source);
                }
            }
        }
        None
    }
}

fn join(module: &str, name: &str) -> String {
    match module {
        "" => name.to_owned(),
        module => format!("{module}::{name}"),
    }
}

fn parent(module: &str) -> String {
    module
        .rsplit_once("::")
        .map_or("", |(parent, _)| parent)
        .to_owned()
}

fn reachable(from: &str, imports: &BTreeMap<&str, Circle>) -> Circle {
    let mut reached = Circle::new();
    let mut open = vec![from.to_owned()];
    while let Some(module) = open.pop() {
        for next in &imports[module.as_str()] {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    reached
}

/// The text without comments and without the unit tests at its end.
fn code(text: &str) -> String {
    let text = match text.find("#[cfg(test)]\nmod ") {
        Some(tests)
            if text[tests..]
                .lines()
                .nth(1)
                .is_some_and(|l| l.ends_with('{')) =>
        {
            &text[..tests]
        }
        _ => text,
    };
    let lines = text.lines().map(|l| l.find("//").map_or(l, |at| &l[..at]));
    lines.flat_map(|l| [l, "\n"]).collect()
}

/// A path in code, and the name under which a `use` item binds it.
struct Import {
    segments: Vec<String>,
    name: String,
    exported: bool,
}

/// Paths in `use` items, and those elsewhere that begin with a keyword.
fn paths(code: &str) -> Vec<Import> {
    let mut found = vec![];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in code.match_indices("use ") {
        if !code[..at].ends_with(is_word) {
            let line = code[..at].rsplit('\n').next().unwrap();
            let exported = line.trim_start().starts_with("pub");
            let tree = code[at + 4..].split(';').next().unwrap();
            expand(tree, &[], exported, &mut found);
        }
    }
    for keyword in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(keyword) {
            if !code[..at].ends_with(|c| is_word(c) || c == ':' || c == '$') {
                let end = code[at..].find(|c: char| !is_word(c) && c != ':');
                let path = &code[at..end.map_or(code.len(), |e| at + e)];
                // The head of a `use` tree names nothing by itself.
                if !path.ends_with(':') {
                    expand(path, &[], false, &mut found);
                }
            }
        }
    }
    found
}

/// Adds the paths of a `use` tree below a prefix.
fn expand(tree: &str, prefix: &[String], exported: bool, found: &mut Vec<Import>) {
    let tree = tree.trim();
    if let Some((head, group)) = tree.split_once('{') {
        let head = head.split("::").map(|s| s.trim().to_owned());
        let prefix: Vec<_> = prefix
            .iter()
            .cloned()
            .chain(head.filter(|s| !s.is_empty()))
            .collect();
        let group = group.rsplit_once('}').map_or(group, |(inner, _)| inner);
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&group[start..at], &prefix, exported, found);
                    start = at + 1;
                }
                _ => {}
            }
        }
        return expand(&group[start..], &prefix, exported, found);
    }
    if tree.is_empty() {
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim())),
        None => (tree, None),
    };
    let own = path.split("::").map(|s| s.trim().to_owned());
    let segments: Vec<_> = prefix
        .iter()
        .cloned()
        .chain(own.filter(|s| !s.is_empty()))
        .collect();
    let last = segments.last().cloned().unwrap_or_default();
    found.push(Import {
        name: alias.map_or(last, str::to_owned),
        segments,
        exported,
    });
}

/// Tells if a file defines an item of this name.
fn defines(code: &str, name: &str) -> bool {
    let kinds = [
        "struct", "enum", "trait", "type", "fn", "const", "static", "mod", "union",
    ];
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    kinds.iter().any(|kind| {
        let item = format!("{kind} {name}");
        code.match_indices(&item)
            .any(|(at, _)| is_end(&code[at + item.len()..]))
    })
}
