//! How the stages on the way to a result went.

use std::time::Duration;

use heddle_lower::LowerError;

/// The time that each stage took, by name.
pub type StageTimes = Vec<(&'static str, Duration)>;

/// Times of the stages on the way to a result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Reading the model.
    pub load: Duration,
    /// Compiling it.
    pub compile: Duration,
    /// Each stage of the pipeline, in order: reading, each pass, emitting, building. Those of a program in parts add up.
    pub stages: StageTimes,
    /// Running it.
    pub run: Duration,
    /// Whether its schedule was proven sound.
    pub verified: bool,
    /// Why the interpreter runs it, or some of it, although a device that compiles was asked for.
    pub interpreted: Option<Interpreted>,
}

/// Why a program, a run of it, or a part of it is left to the interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreted {
    /// What has no compiled form.
    pub uncompiled: Vec<Uncompiled>,
    /// How many parts of the program are compiled all the same; 0 if the interpreter runs all of it.
    pub compiled_parts: usize,
}

/// Something that has no compiled form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncompiled {
    /// The node, if it is one node.
    pub node: Option<String>,
    /// What it has that is not compiled.
    pub reason: String,
}

impl Interpreted {
    /// How much of the program it is, to begin a sentence.
    pub fn what(&self) -> &'static str {
        match self.compiled_parts {
            0 => "this",
            _ => "part of this",
        }
    }

    /// The rest of a program that was refused as a whole and has so many compiled parts; `None` if nothing is left, as where it only
    /// had to begin anew where sizes are known.
    pub(crate) fn rest(
        (compiled_parts, left): (usize, &[Uncompiled]),
        refused: LowerError,
    ) -> Option<Self> {
        let uncompiled = match (compiled_parts, left) {
            (0, []) => vec![refused.into()],
            (_, []) => return None,
            (_, left) => left.to_vec(),
        };
        Some(Self {
            uncompiled,
            compiled_parts,
        })
    }

    /// The interpreter runs all of it.
    pub(crate) fn whole(node: Option<String>, reason: String) -> Self {
        Self {
            uncompiled: vec![Uncompiled { node, reason }],
            compiled_parts: 0,
        }
    }
}

impl std::fmt::Display for Interpreted {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        const SHOWN: usize = 8;
        for (k, what) in self.uncompiled.iter().take(SHOWN).enumerate() {
            write!(f, "{}{what}", if k > 0 { "; " } else { "" })?;
        }
        match self.uncompiled.len().saturating_sub(SHOWN) {
            0 => {}
            more => write!(f, "; and {more} more")?,
        }
        match self.compiled_parts {
            0 => Ok(()),
            1 => f.write_str(" (1 part around or in it is compiled)"),
            n => write!(f, " ({n} parts around or in it are compiled)"),
        }
    }
}

impl From<LowerError> for Uncompiled {
    fn from(error: LowerError) -> Self {
        Self {
            node: Some(error.node).filter(|node| !node.is_empty()),
            reason: error.reason,
        }
    }
}

impl std::fmt::Display for Uncompiled {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "{node}: ")?;
        }
        f.write_str(&self.reason)
    }
}
