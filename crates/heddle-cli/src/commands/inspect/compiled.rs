//! The compiled form of a model: what has none, and why.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use heddle::{CompileOptions, Emit, Error, Interpreted, Model, Target, Uncompiled};
use serde_json::{Value, json};

/// Further nodes that grow are summed up.
const MAX_GROWING: usize = 8;

/// The compiled form of a model, and the nodes that are left to the interpreter.
#[derive(Debug, Default)]
pub struct Compiled {
    /// Compiled parts, if it is not compiled as a whole.
    parts: Option<usize>,
    /// Nodes without a compiled form, by name.
    left: BTreeMap<String, Uncompiled>,
    /// Names of those that the tree of control flow shows.
    shown: RefCell<BTreeSet<String>>,
    /// Nodes whose memory grows while the program runs.
    growing: BTreeSet<String>,
}

impl Compiled {
    /// Compiles a model for the processor, but for the C compiler's part.
    pub fn of(model: &Model) -> Result<Self, Error> {
        let dump = heddle::emit(
            model,
            &CompileOptions::default(),
            Target::Cpu,
            Emit::Lowered,
        );
        let (interpreted, growing) = match dump {
            Ok(dump) => (dump.interpreted, dump.growing),
            Err(Error::NotCompiled(interpreted)) => (Some(interpreted), BTreeSet::new()),
            Err(error) => return Err(error),
        };
        Ok(Self {
            growing,
            ..Self::without(interpreted)
        })
    }

    /// The compiled form of a program that lacks this.
    pub fn without(interpreted: Option<Interpreted>) -> Self {
        let Some(interpreted) = interpreted else {
            return Self::default();
        };
        let named = |left: Uncompiled| (left.node.clone().unwrap_or_default(), left);
        // The first reason of a node counts.
        let left = interpreted.uncompiled.into_iter().rev().map(named);
        Self {
            parts: Some(interpreted.compiled_parts),
            left: left.collect(),
            ..Self::default()
        }
    }

    /// The reason why the node of this name is interpreted.
    pub fn left(&self, node: &str) -> Option<&Uncompiled> {
        let left = self.left.get(node)?;
        self.shown.borrow_mut().insert(node.to_owned());
        Some(left)
    }

    /// Labelled lines for people.
    pub fn lines(&self) -> Vec<(String, String)> {
        let nodes = match self.left.len() {
            1 => "1 node".to_owned(),
            n => format!("{n} nodes"),
        };
        let form = match self.parts {
            None => "whole".to_owned(),
            Some(0) => format!("none: the interpreter runs it, because of {nodes}"),
            Some(1) => format!("1 part; the interpreter runs {nodes}"),
            Some(n) => format!("{n} parts; the interpreter runs {nodes}"),
        };
        let mut lines = vec![("compiled".to_owned(), form)];
        let grows = self.growing.iter().take(MAX_GROWING);
        lines.extend(grows.map(|node| ("grows".to_owned(), node.clone())));
        if self.growing.len() > MAX_GROWING {
            let more = self.growing.len() - MAX_GROWING;
            lines.push(("grows".to_owned(), format!("… and {more} more")));
        }
        let shown = self.shown.borrow();
        let hidden = self.left.iter().filter(|(node, _)| !shown.contains(*node));
        lines.extend(hidden.map(|(node, left)| {
            let change = left.change.map(|c| format!(": {c}")).unwrap_or_default();
            (node.clone(), format!("{}{change}", left.reason))
        }));
        lines
    }

    /// The JSON form.
    pub fn document(&self) -> Value {
        let left = self
            .left
            .values()
            .map(|left| json!({"node": left.node, "reason": left.reason, "change": left.change}));
        json!({
            "whole": self.parts.is_none(),
            "parts": self.parts,
            "interpreted": left.collect::<Vec<_>>(),
            "growing": self.growing,
        })
    }
}
