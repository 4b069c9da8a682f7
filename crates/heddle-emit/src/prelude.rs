//! Selects the routines of the prelude that a program uses.
//!
//! The routines are C and C++ of ours, and of one form: a definition begins at the start of a line, names itself before its first
//! bracket (a `typedef` at its end), and ends where its brackets close. Families of routines are instances of macros,
//! `HEDDLE_FLOATS(float, f32, f)`; their names are those that the macro makes with `##`. A comment belongs to the definition
//! right below it; one above an empty line is for readers of the file alone.

use std::collections::{BTreeMap, BTreeSet};

/// The definitions in `routines` that `program` names, and those that these name in turn, in their order. Each takes the C
/// compiler time in each program, used or not.
pub fn used(routines: &str, program: &str) -> String {
    let items = items(routines);
    let macros: BTreeMap<&str, Macro> = items.iter().filter_map(|item| Macro::of(item)).collect();
    let made: Vec<BTreeSet<String>> = items.iter().map(|item| instance(item, &macros)).collect();
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, item) in items.iter().enumerate() {
        let own = defined(item).filter(|_| made[i].is_empty());
        for name in made[i].iter().map(String::as_str).chain(own) {
            places.entry(name).or_default().push(i);
        }
    }
    let mut kept = BTreeSet::new();
    let mut asked: Vec<&str> = identifiers(program).collect();
    while let Some(name) = asked.pop() {
        for &i in places.get(name).into_iter().flatten() {
            if kept.insert(i) {
                asked.extend(identifiers(items[i]));
                asked.extend(made[i].iter().map(String::as_str));
            }
        }
    }
    kept.into_iter().map(|i| items[i]).collect()
}

/// A macro: its parameters and its text.
struct Macro<'a> {
    parameters: Vec<&'a str>,
    body: &'a str,
}

impl<'a> Macro<'a> {
    /// The macro that an item defines, by name.
    fn of(item: &'a str) -> Option<(&'a str, Macro<'a>)> {
        let (name, rest) = code(item).strip_prefix("#define ")?.split_once('(')?;
        let (parameters, body) = rest.split_once(')')?;
        let parameters = parameters.split(',').map(str::trim).collect();
        // A macro without parameters may have a parenthesis in its text.
        let named = identifiers(name).eq([name]);
        named.then_some((name, Macro { parameters, body }))
    }

    /// Names that the macro makes of these arguments, by itself and by macros that it calls.
    fn names(
        &self,
        arguments: &[String],
        macros: &BTreeMap<&str, Macro>,
        made: &mut BTreeSet<String>,
    ) {
        let of = |name: &str| {
            let place = self.parameters.iter().position(|p| *p == name);
            place
                .and_then(|i| arguments.get(i))
                .map_or(name, String::as_str)
                .to_owned()
        };
        let pasted = |text: &str| {
            text.split("##")
                .map(|part| of(part.trim()))
                .collect::<String>()
        };
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '#';
        let words = self.body.split(|c| !word(c));
        made.extend(words.filter(|w| w.contains("##")).map(pasted));
        for (name, inner) in macros {
            for (at, _) in self.body.match_indices(&format!("{name}(")) {
                let given = arguments_of(&self.body[at + name.len() + 1..]);
                let given: Vec<String> = given.iter().map(|a| pasted(a)).collect();
                inner.names(&given, macros, made);
            }
        }
    }
}

/// Names that an item makes as an instance of a macro; of another item none.
fn instance(item: &str, macros: &BTreeMap<&str, Macro>) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    if let Some((name, rest)) = code(item).split_once('(')
        && let Some(called) = macros.get(name)
    {
        let arguments: Vec<String> = arguments_of(rest).iter().map(|a| (*a).to_owned()).collect();
        called.names(&arguments, macros, &mut made);
    }
    // C's own functions are there without us.
    made.retain(|name| name.starts_with("heddle_"));
    made
}

/// The text before the closing parenthesis, cut at its commas.
fn arguments_of(text: &str) -> Vec<&str> {
    let end = text.find(')').unwrap_or(text.len());
    text[..end].split(',').map(str::trim).collect()
}

/// The name that an item gives to what it defines.
fn defined(item: &str) -> Option<&str> {
    let code = code(item);
    if let Some(rest) = code.strip_prefix("#define ") {
        return identifiers(rest).next();
    }
    if code.starts_with("typedef") {
        return identifiers(code).last();
    }
    identifiers(code.split(['(', '{']).next()?).last()
}

/// An item without the comment above it.
fn code(item: &str) -> &str {
    let mut code = item;
    while code.starts_with("/*") {
        code = code
            .split_once("*/")
            .map_or("", |(_, rest)| rest.trim_start());
    }
    code
}

/// Definitions with their comments, each in whole lines.
fn items(text: &str) -> Vec<&str> {
    let (mut items, mut start, mut end) = (vec![], 0, 0);
    let (mut depth, mut comment) = (0_i32, false);
    for line in text.split_inclusive('\n') {
        end += line.len();
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            match rest.get(..2) {
                Some("/*") => comment = true,
                Some("*/") => comment = false,
                _ if comment => {}
                _ => depth += i32::from("({[".contains(c)) - i32::from(")}]".contains(c)),
            }
            rest = &rest[c.len_utf8()..];
        }
        // A template's parameters may have a line of their own.
        if depth > 0 || comment || line.trim_end().ends_with(['\\', '>']) {
            continue;
        }
        let item = &text[start..end];
        if line.trim().is_empty() {
            start = end;
        } else if !code(item).trim().is_empty() {
            items.push(item);
            start = end;
        }
    }
    items
}

/// Words of C in a text.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c| !word(c)).filter(|w| !w.is_empty())
}
