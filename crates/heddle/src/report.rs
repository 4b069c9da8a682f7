//! Reports of compiling and running.

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
    /// Differences from the options, with the reason: fewer units than the machine has.
    pub notes: Vec<String>,
    /// Running it.
    pub run: Duration,
    /// The interpreter's part of that, where it runs any of it.
    pub interpreter: Option<Duration>,
    /// Was its schedule proven sound?
    pub verified: bool,
    /// Number of uPrograms whose text read back as the same program; 0 without [`check_text`](crate::CompileOptions::check_text).
    pub texts_checked: usize,
    /// Reason why the interpreter runs it or parts of it, if another device was asked for.
    pub interpreted: Option<Interpreted>,
}

/// Reason why a program, a run of it, or a part of it is left to the interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreted {
    /// Nodes without a compiled form.
    pub uncompiled: Vec<Uncompiled>,
    /// Number of compiled parts; 0 if the interpreter runs the whole program.
    pub compiled_parts: usize,
}

/// A node without a compiled form, or another reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncompiled {
    /// The node, if it is one node.
    pub node: Option<String>,
    /// The reason.
    pub reason: String,
    /// A change of the model that removes the reason, if there is one.
    pub change: Option<&'static str>,
}

impl Report {
    /// The interpreter's share of a run's time, from 0 to 1.
    pub fn interpreted_share(&self) -> Option<f64> {
        let share = self.interpreter?.as_secs_f64() / self.run.as_secs_f64();
        share.is_finite().then(|| share.clamp(0.0, 1.0))
    }
}

impl Interpreted {
    /// The subject of a sentence on it: "this" program, or "part of this".
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
        Self::of(Uncompiled {
            node,
            reason,
            change: None,
        })
    }

    /// The interpreter runs all of it, for this reason.
    pub(crate) fn of(uncompiled: Uncompiled) -> Self {
        Self {
            uncompiled: vec![uncompiled],
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
            reason: error.cause.to_string(),
            change: error.cause.change(),
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
