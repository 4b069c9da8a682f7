//! Text and JSON of values, times and tables.

use std::time::Duration;

use heddle::compare::Elements;
use heddle::{Tensor, Value};
use serde_json::{Value as Json, json};

use crate::out::printable;

/// So many elements of an array are shown.
const SHOWN: usize = 6;
/// So many elements are in the JSON form.
const SHOWN_JSON: usize = 1000;

/// Summary of an array.
pub struct Summary<'a> {
    elements: Elements<'a>,
}

impl<'a> Summary<'a> {
    /// The summary of an array.
    pub fn of(tensor: &'a Tensor) -> Self {
        Self {
            elements: Elements::of(tensor),
        }
    }

    /// The first elements.
    pub fn elements(&self) -> String {
        let count = self.elements.len();
        let shown: Vec<_> = (0..count.min(SHOWN))
            .map(|i| self.elements.show(i))
            .collect();
        let more = if count > SHOWN { ", …" } else { "" };
        format!("[{}{more}]", shown.join(", "))
    }

    /// Least, mean and greatest element of a longer array of numbers.
    pub fn range(&self) -> String {
        match self.statistics() {
            Some([min, mean, max]) => format!("min {min:.4} mean {mean:.4} max {max:.4}"),
            None => String::new(),
        }
    }

    fn statistics(&self) -> Option<[f64; 3]> {
        let count = self.elements.len();
        let values: Vec<f64> = (0..count)
            .map(|i| self.elements.number(i))
            .collect::<Option<_>>()?;
        if values.len() <= SHOWN {
            return None;
        }
        // A NaN must show, so it is not skipped as f64::min does.
        let worst = |a: f64, b: f64, best: fn(f64, f64) -> f64| {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                best(a, b)
            }
        };
        let min = values
            .iter()
            .fold(f64::INFINITY, |a, &b| worst(a, b, f64::min));
        let max = values
            .iter()
            .fold(f64::NEG_INFINITY, |a, &b| worst(a, b, f64::max));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some([min, mean, max])
    }
}

/// A value as JSON: type, shape and elements, of which a long array shows the first thousand.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Tensor(t) => {
            let summary = Summary::of(t);
            let elements = &summary.elements;
            let values: Vec<_> = (0..elements.len().min(SHOWN_JSON))
                .map(|i| element(elements, i))
                .collect();
            let mut object = json!({
                "kind": "tensor",
                "dtype": t.dtype().name(),
                "shape": t.shape(),
                "values": values,
                "truncated": elements.len() > SHOWN_JSON,
            });
            if let Some([min, mean, max]) = summary.statistics() {
                object["min"] = number(min);
                object["mean"] = number(mean);
                object["max"] = number(max);
            }
            object
        }
        Value::Seq(items) => json!({
            "kind": "sequence",
            "items": items.iter().map(to_json).collect::<Vec<_>>(),
        }),
        Value::Opt(item) => json!({
            "kind": "optional",
            "item": item.as_ref().map(|item| to_json(item)),
        }),
    }
}

/// A float as JSON, which has no NaN and no infinities: those become strings.
pub fn number(value: f64) -> Json {
    if value.is_finite() {
        json!(value)
    } else {
        json!(value.to_string())
    }
}

fn element(elements: &Elements, i: usize) -> Json {
    match elements {
        // The shortest decimals, so that 0.1 in f32 stays 0.1.
        Elements::Singles(v) if v[i].is_finite() => {
            json!(v[i].to_string().parse::<f64>().unwrap_or(f64::from(v[i])))
        }
        Elements::Singles(v) => number(f64::from(v[i])),
        Elements::Doubles(v) => number(v[i]),
        Elements::Bools(v) => json!(v[i] != 0),
        // All values of 64-bit types fit one of the two.
        Elements::Ints(v) => match i64::try_from(v[i]) {
            Ok(small) => json!(small),
            Err(_) => json!(u64::try_from(v[i]).unwrap_or_default()),
        },
        Elements::Complex(v) => json!([number(v[i][0]), number(v[i][1])]),
        Elements::Strings(v) => json!(v[i]),
    }
}

/// Rows with their columns aligned; the last column is as wide as it is.
pub fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|c| printable(c)).collect())
        .collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| {
        rows.iter()
            .filter_map(|r| r.get(c))
            .map(|s| s.chars().count())
            .max()
    };
    let widths: Vec<_> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += &format!("{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// A time in the unit that suits it.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

/// A count with a separator between thousands.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

/// Bytes in the unit that suits them.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if value < 1024 {
        return format!("{value} B");
    }
    let mut size = value as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(count(1234567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
        assert_eq!(duration(Duration::from_millis(1500)), "1.50 s");
    }

    #[test]
    fn summaries() {
        let t = Tensor::vector(&[1f32, f32::NAN, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(Summary::of(&t).elements(), "[1, NaN, 3, 4, 5, 6, …]");
        assert_eq!(Summary::of(&t).range(), "min NaN mean NaN max NaN");
        let t = Tensor::scalar(5i64);
        assert_eq!(Summary::of(&t).elements(), "[5]");
    }
}
