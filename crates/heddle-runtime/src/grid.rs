//! Grids of simulated launches.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The grid of a simulated launch: what a launch on a GPU would have, and the order in which its threads run.
///
/// Its text is a list of `KEY=N`, as `blocks=4,threads=64,warp=32,cluster=1,seed=1`; keys that are left out have the default's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks, 1 to 1024, which are the program's units; it is scheduled for them.
    pub blocks: u32,
    /// Threads of a block, 1 to 1024.
    pub threads: u32,
    /// Threads of a warp, 1 to 64; they divide the threads of a block.
    pub warp: u32,
    /// Blocks of a cluster, 1 to 16, which have a barrier of their own and see each other's shared arrays; they divide the blocks. The
    /// program is scheduled for clusters of more than one.
    pub cluster: u32,
    /// Seed of the order in which blocks, warps and threads run.
    pub seed: u64,
}

/// 4 blocks of 64 threads, in warps of 32 and clusters of 1; seed 1.
impl Default for Grid {
    fn default() -> Self {
        Self {
            blocks: 4,
            threads: 64,
            warp: 32,
            cluster: 1,
            seed: 1,
        }
    }
}

/// A grid that can't be simulated, or is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// A part of the text is not of the form `KEY=N`.
    #[error("`{0}` is not of the form KEY=N")]
    Form(String),
    /// There is no such key.
    #[error("there is no key `{0}`; the keys are {keys}", keys = KEYS.join(", "))]
    Key(String),
    /// A key is given twice.
    #[error("`{0}` is given twice")]
    Twice(&'static str),
    /// A value is no number in the range of its key.
    #[error("{key}={value}: it takes a number from {} to {}", .range.start(), .range.end())]
    Value {
        /// The key.
        key: &'static str,
        /// The value as it is given.
        value: String,
        /// The values that it takes.
        range: RangeInclusive<u64>,
    },
    /// The last warp of a block would be incomplete.
    #[error("threads={threads} is no multiple of warp={warp}")]
    Warps {
        /// Threads of a block.
        threads: u32,
        /// Threads of a warp.
        warp: u32,
    },
    /// The last cluster of blocks would be incomplete.
    #[error("blocks={blocks} is no multiple of cluster={cluster}")]
    Clusters {
        /// Blocks.
        blocks: u32,
        /// Blocks of a cluster.
        cluster: u32,
    },
    /// More threads than the simulator has stacks for.
    #[error(
        "blocks={blocks} times threads={threads}: a launch of up to {MOST_THREADS} threads is simulated"
    )]
    Threads {
        /// Blocks.
        blocks: u32,
        /// Threads of a block.
        threads: u32,
    },
}

const KEYS: [&str; 5] = ["blocks", "threads", "warp", "cluster", "seed"];

/// The most threads of a launch. Each takes two of the 65,530 mappings that Linux gives a process.
const MOST_THREADS: u32 = 16_384;

impl Grid {
    /// Checks that it can be simulated.
    ///
    /// # Errors
    ///
    /// A size out of its range, or sizes that do not fit each other.
    pub fn check(&self) -> Result<(), GridError> {
        let Self {
            blocks,
            threads,
            warp,
            cluster,
            ..
        } = *self;
        for (key, value) in KEYS.into_iter().zip([blocks, threads, warp, cluster]) {
            in_range(key, &value.to_string())?;
        }
        if threads % warp > 0 {
            return Err(GridError::Warps { threads, warp });
        }
        if blocks % cluster > 0 {
            return Err(GridError::Clusters { blocks, cluster });
        }
        match blocks * threads > MOST_THREADS {
            true => Err(GridError::Threads { blocks, threads }),
            false => Ok(()),
        }
    }
}

impl FromStr for Grid {
    type Err = GridError;

    fn from_str(text: &str) -> Result<Self, GridError> {
        let mut values = [None; KEYS.len()];
        for part in text.split(',') {
            let pair = part.split_once('=');
            let (name, value) = pair.ok_or_else(|| GridError::Form(part.into()))?;
            let key = KEYS.iter().position(|key| *key == name.trim());
            let key = key.ok_or_else(|| GridError::Key(name.trim().into()))?;
            let value = in_range(KEYS[key], value.trim())?;
            if values[key].replace(value).is_some() {
                return Err(GridError::Twice(KEYS[key]));
            }
        }
        let default = Self::default();
        let size = |key: usize, default: u32| values[key].map_or(default, |value| value as u32);
        let grid = Self {
            blocks: size(0, default.blocks),
            threads: size(1, default.threads),
            warp: size(2, default.warp),
            cluster: size(3, default.cluster),
            seed: values[4].unwrap_or(default.seed),
        };
        grid.check()?;
        Ok(grid)
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            blocks,
            threads,
            warp,
            cluster,
            seed,
        } = self;
        write!(
            f,
            "blocks={blocks},threads={threads},warp={warp},cluster={cluster},seed={seed}"
        )
    }
}

/// A key's value, if it is in its range.
fn in_range(key: &'static str, value: &str) -> Result<u64, GridError> {
    let range = match key {
        "blocks" | "threads" => 1..=1024,
        "warp" => 1..=64,
        "cluster" => 1..=16,
        _ => 0..=u64::MAX,
    };
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| GridError::Value {
        key,
        value: value.into(),
        range,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        let text = "blocks=2,threads=128,warp=64,cluster=2,seed=7";
        let grid: Grid = text.parse().unwrap();
        assert_eq!(grid.to_string(), text);
        let grid: Grid = "seed=3, blocks=1".parse().unwrap();
        let text = "blocks=1,threads=64,warp=32,cluster=1,seed=3";
        assert_eq!(grid.to_string(), text);
        assert_eq!("threads=64".parse(), Ok(Grid::default()));
    }

    #[test]
    fn faults_name_key_and_value() {
        for (text, words) in [
            ("", "`` is not of the form KEY=N"),
            ("blocks", "`blocks` is not of the form"),
            (
                "clusters=2",
                "no key `clusters`; the keys are blocks, threads, warp, cluster, seed",
            ),
            ("seed=1,seed=2", "`seed` is given twice"),
            ("blocks=0", "blocks=0: it takes a number from 1 to 1024"),
            ("threads=2000", "threads=2000: it takes"),
            ("warp=128", "warp=128: it takes a number from 1 to 64"),
            ("seed=-1", "seed=-1: it takes a number from 0"),
            ("blocks=two", "blocks=two: it takes"),
            ("threads=48", "threads=48 is no multiple of warp=32"),
            ("cluster=32", "cluster=32: it takes a number from 1 to 16"),
            ("cluster=3", "blocks=4 is no multiple of cluster=3"),
            ("blocks=1000,threads=1024", "up to 16384 threads"),
        ] {
            let error = text.parse::<Grid>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
