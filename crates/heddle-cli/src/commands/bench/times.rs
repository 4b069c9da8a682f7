//! Times of runs and their statistics.

use std::time::Duration;

use serde_json::{Value, json};

/// The times of some runs.
#[derive(Clone, Debug, Default)]
pub struct Times {
    sorted: Vec<Duration>,
}

impl Times {
    /// Adds a run.
    pub fn push(&mut self, time: Duration) {
        let place = self.sorted.partition_point(|t| *t <= time);
        self.sorted.insert(place, time);
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The middle one; of an even number the mean of the two.
    pub fn median(&self) -> Duration {
        let upper = self.at(self.len() / 2);
        match self.len() % 2 {
            1 => upper,
            _ => (upper + self.at((self.len() / 2).saturating_sub(1))) / 2,
        }
    }

    /// The shortest.
    pub fn min(&self) -> Duration {
        self.at(0)
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        self.at(self.len().saturating_sub(1))
    }

    /// Adds `median_ms`, `min_ms` and `max_ms` to a JSON object.
    pub fn describe(&self, object: &mut Value) {
        object["median_ms"] = json!(milliseconds(self.median()));
        object["min_ms"] = json!(milliseconds(self.min()));
        object["max_ms"] = json!(milliseconds(self.max()));
    }

    fn at(&self, place: usize) -> Duration {
        self.sorted.get(place).copied().unwrap_or_default()
    }
}

/// Milliseconds without digits below the clock's.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_and_ends() {
        let mut times = Times::default();
        assert_eq!(times.median(), Duration::ZERO);
        for ms in [30, 10, 20, 40] {
            times.push(Duration::from_millis(ms));
        }
        let [median, min, max] = [times.median(), times.min(), times.max()].map(milliseconds);
        assert_eq!((median, min, max), (25.0, 10.0, 40.0));
        times.push(Duration::from_millis(1));
        assert_eq!(milliseconds(times.median()), 20.0);
    }
}
