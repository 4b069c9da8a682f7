//! The functions of operators. Operators whose text differs only in names of buffers and variables,
//! and in their error sites, share a function that takes these as arguments. Layers of deep networks and unrolled loops have
//! such operators, and the C compiler's time grows with the number of functions.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use heddle_ir::Entity;
use heddle_uprogram::UProgram;
use heddle_uprogram::program::OperatorId;

use crate::dialect::Dialect;
use crate::gatherings::given;
use crate::operator::{self, Parameter};
use crate::residents;
use crate::text::{Text, plain};

/// The functions of a program's operators.
pub struct Functions {
    functions: Vec<Function>,
    /// The function and arguments of each operator.
    calls: BTreeMap<OperatorId, Call>,
    /// The calls that copy resident operands.
    residents: BTreeMap<OperatorId, Call>,
}

struct Function {
    /// The operator that provides its number and names.
    id: OperatorId,
    /// The start of its name.
    prefix: &'static str,
    text: String,
    /// The parameters, by index among all names in text order.
    places: Vec<usize>,
    /// The model's nodes.
    nodes: Vec<String>,
}

struct Call {
    function: usize,
    /// The unit's number, counted from the one with the first share.
    unit: String,
    /// Arguments that only some kinds of operators have.
    special: String,
    args: Vec<String>,
    /// The operator's error site, if its function takes it.
    site: Option<usize>,
}

/// Limit on the nodes named in a function's comment.
const MAX_NODES: usize = 4;

impl Functions {
    /// Writes the function of each operator that runs.
    pub fn new(program: &UProgram, dialect: &Dialect) -> Self {
        let mut all = Self {
            functions: vec![],
            calls: BTreeMap::new(),
            residents: BTreeMap::new(),
        };
        let mut known = HashMap::new();
        for id in program.running() {
            if let Some(copy) = residents::function(program, dialect, id) {
                let call = all.add(&mut known, program, id, "resident", copy);
                all.residents.insert(id, call);
            }
            let function = operator::function(program, dialect, id);
            let call = all.add(&mut known, program, id, "op", function);
            all.calls.insert(id, call);
        }
        all
    }

    /// Adds a function of an operator, or finds one with the same text but for names; gives its call. `known` has the functions so far by
    /// their text without names.
    fn add(
        &mut self,
        known: &mut HashMap<String, usize>,
        program: &UProgram,
        id: OperatorId,
        prefix: &'static str,
        function: operator::Function,
    ) -> Call {
        let operator::Function {
            parameters,
            takes_site,
            text,
        } = function;
        let (key, places) = nameless(&text, &parameters);
        let number = *known.entry(key).or_insert_with(|| {
            self.functions.push(Function {
                id,
                prefix,
                text,
                places: places.clone(),
                nodes: vec![],
            });
            self.functions.len() - 1
        });
        let shared = &mut self.functions[number];
        let node = &program.operators[id].name;
        if !shared.nodes.contains(node) {
            shared.nodes.push(node.clone());
        }
        let own = |place: &usize| {
            let k = places.iter().position(|p| p == place);
            k.map_or(String::new(), |k| parameters[k].name.clone())
        };
        Call {
            function: number,
            unit: unit(program, id),
            special: match prefix {
                "op" => special(program, id),
                _ => String::new(),
            },
            args: shared.places.iter().map(own).collect(),
            site: takes_site.then_some(id.index()),
        }
    }

    /// Writes them all. Gives the place of each in the text, with its first operator.
    pub fn write(&self, text: &mut Text) -> Vec<(usize, OperatorId)> {
        let mut places = vec![];
        for function in &self.functions {
            text.line("");
            let named = function.nodes.iter().take(MAX_NODES).map(|n| plain(n));
            let mut nodes = named.collect::<Vec<_>>().join(", ");
            if function.nodes.len() > MAX_NODES {
                nodes += &format!(" and {} more", function.nodes.len() - MAX_NODES);
            }
            text.line(format!("/* {nodes} */"));
            places.push((text.len(), function.id));
            text.append(&function.text);
        }
        places
    }

    /// A call that runs this unit's share of an operator. `prefix` precedes each argument's name.
    pub fn call(&self, id: OperatorId, prefix: &str) -> String {
        self.call_text(&self.calls[&id], prefix)
    }

    /// A call that copies an operator's resident operand, if it has one.
    pub fn call_resident(&self, id: OperatorId) -> Option<String> {
        self.residents.get(&id).map(|call| self.call_text(call, ""))
    }

    fn call_text(&self, call: &Call, before_names: &str) -> String {
        let Function { id, prefix, .. } = &self.functions[call.function];
        let k = id.index();
        let args = call.args.iter();
        let args = args.map(|name| format!(", {before_names}{name}"));
        let args: String = args.collect();
        let site = call.site.map_or(String::new(), |site| format!(", {site}"));
        let Call { unit, special, .. } = call;
        format!("{prefix}{k}(env, {unit}, workers{special}{args}{site});")
    }
}

/// A unit's number, counted from the one with the first share.
fn unit(program: &UProgram, id: OperatorId) -> String {
    let share = program.operators[id].share;
    match share.first() {
        first if first > 0 && !share.is_in_pieces() => {
            format!("heddle_from(worker, workers, {first})")
        }
        _ => "worker".into(),
    }
}

/// Arguments of an operator in pieces, or of one that gathers an array.
fn special(program: &UProgram, id: OperatorId) -> String {
    let op = &program.operators[id];
    match (op.share.is_in_pieces(), op.gathers(program)) {
        (true, _) => ", ++phase".into(),
        (false, Some(gather)) => {
            let (given, count) = given(program, gather);
            format!(", {given}, {count}")
        }
        (false, None) => String::new(),
    }
}

/// The text with its function's name, buffers and variables replaced by their indices in order of
/// first use; and the index of each parameter.
fn nameless(text: &str, parameters: &[Parameter]) -> (String, Vec<usize>) {
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut key = String::with_capacity(body.len());
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let mut rest = body;
    // Skips whole characters: words are ASCII, so they end at a character's boundary.
    while let Some(first) = rest.as_bytes().first() {
        let is_word = in_word(first);
        let end = rest.bytes().position(|byte| in_word(&byte) != is_word);
        let (token, after) = rest.split_at(end.unwrap_or(rest.len()));
        key.push_str(match is_name(token) {
            true => &token[..1],
            false => token,
        });
        if is_name(token) {
            let next = names.len();
            let place = *names.entry(token).or_insert(next);
            // Writing to a string does not fail.
            let _ = write!(key, "#{place}");
        }
        rest = after;
    }
    let places = parameters.iter().map(|p| {
        let next = names.len();
        *names.entry(&p.name).or_insert(next)
    });
    let places: Vec<usize> = places.collect();
    let mut types: Vec<_> = places
        .iter()
        .zip(parameters)
        .map(|(k, p)| (k, &p.ty))
        .collect();
    types.sort();
    types
        .iter()
        .for_each(|(k, ty)| key += &format!("\n{k} {ty}"));
    (key, places)
}

/// True if a word names a buffer or variable.
fn is_name(word: &str) -> bool {
    let number = word.strip_prefix(['b', 'v']);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}
