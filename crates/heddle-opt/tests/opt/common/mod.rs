//! Drawing inputs and comparing runs, for tests that show that passes keep results.

pub mod drawn;
pub mod loops;
pub mod many;
pub mod recursions;

use std::collections::HashMap;

use heddle_interp::{Options, run};
use heddle_ir::tensor::element_count;
use heddle_ir::{DType, Datum, Dim, Module, Tensor, Type};
use heddle_machine::Machine;
use heddle_opt::CostModel;

/// The machine that decisions are for.
pub fn machine() -> Machine {
    Machine::reference_host(2)
}

/// Its costs.
pub fn costs() -> CostModel {
    CostModel::of(&machine())
}

/// A number that the environment may give.
pub fn variable(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|t| t.parse().ok()).unwrap_or(default)
}

/// A small generator of pseudorandom numbers (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Inputs of the entry's types: named sizes within their bounds, small numbers, among them those
/// that rules get wrong when they are not careful: negative zero, infinities, NaN, the ends of
/// integers' ranges.
pub fn draw_inputs(module: &Module, seed: u64) -> Vec<Datum> {
    let mut random = Random(seed);
    let sig = &module.entry().sig;
    let mut sizes: HashMap<String, i64> = HashMap::new();
    for (name, bound) in &sig.bounds {
        let span = bound.max.unwrap_or(bound.min + 4) - bound.min + 1;
        let size = bound.min + random.below(span.min(6));
        sizes.insert(name.to_string(), size as i64);
    }
    let params = sig.params.iter();
    params
        .map(|(_, ty)| draw(ty, &mut sizes, &mut random))
        .collect()
}

/// The same with named sizes that are all this.
pub fn draw_sized(module: &Module, size: i64, seed: u64) -> Vec<Datum> {
    let mut random = Random(seed);
    let sig = &module.entry().sig;
    let names = sig.bounds.iter().map(|(name, _)| (name.to_string(), size));
    let mut sizes = names.collect();
    let params = sig.params.iter();
    params
        .map(|(_, ty)| draw(ty, &mut sizes, &mut random))
        .collect()
}

fn draw(ty: &Type, sizes: &mut HashMap<String, i64>, random: &mut Random) -> Datum {
    match ty {
        Type::Seq(elem) => {
            let count = 1 + random.below(3);
            Datum::Seq((0..count).map(|_| draw(elem, sizes, random)).collect())
        }
        Type::Opt(elem) => match random.below(2) {
            0 => Datum::Opt(None),
            _ => Datum::Opt(Some(Box::new(draw(elem, sizes, random)))),
        },
        Type::Tensor(t) => {
            let dims = t.shape.clone().unwrap_or(vec![Dim::from(2), Dim::from(3)]);
            let mut size = |dim: &Dim| match dim {
                Dim::Unknown(max) => random.below(max.map_or(4, |m| m.min(3) + 1)) as usize,
                Dim::Expr(e) => {
                    e.for_each_sym(&mut |name| {
                        if !sizes.contains_key(&**name) {
                            let fresh = 1 + random.below(4);
                            sizes.insert(name.to_string(), fresh as i64);
                        }
                    });
                    let value = e.eval(&|name| sizes.get(name).copied());
                    value.and_then(|v| usize::try_from(v).ok()).unwrap_or(0)
                }
            };
            let shape: Vec<usize> = dims.iter().map(&mut size).collect();
            Datum::Tensor(draw_tensor(t.dtype, shape, random))
        }
    }
}

pub fn draw_tensor(dtype: DType, shape: Vec<usize>, random: &mut Random) -> Tensor {
    let count = element_count(&shape).expect("a small shape");
    if dtype == DType::Str {
        let words = ["", "a", "B", "heddle"];
        let strings = (0..count).map(|_| words[random.below(4) as usize].into());
        return Tensor::strings(shape, strings.collect()).expect("as many as the shape says");
    }
    let mut bytes = vec![];
    for _ in 0..count {
        let special = random.below(8) == 0;
        let value = match dtype {
            d if d.is_float() && special => {
                let all = [-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40, 0.0];
                all[random.below(6) as usize]
            }
            d if d.is_float() => (random.below(65) as f64 - 32.0) / 8.0,
            d if d.is_signed_int() && special => i64::MIN as f64,
            d if d.is_signed_int() => random.below(9) as f64 - 4.0,
            d if d.is_int() && special => u64::MAX as f64,
            DType::Bool => random.below(2) as f64,
            _ => random.below(6) as f64,
        };
        bytes.extend_from_slice(Tensor::splat(dtype, vec![], value).bytes());
    }
    Tensor::new(dtype, shape, bytes.into()).expect("as many as the shape says")
}

/// Do two programs give the same results on these inputs, bit for bit except for NaN payloads? A
/// program that stops with an error may become one that does not: the passes remove dead code.
pub fn same_outcome(before: &Module, after: &Module, inputs: &[Datum]) -> Result<(), String> {
    outcomes_are(before, after, inputs, false, same)
}

/// [`same_outcome`] where a pass may have changed the order in which floats are added.
pub fn same_but_for_sums(before: &Module, after: &Module, inputs: &[Datum]) -> Result<(), String> {
    let is_same = |a: &Datum, b: &Datum| same(a, b) || is_close(a, b);
    outcomes_are(before, after, inputs, false, is_same)
}

/// [`same_but_for_sums`] where all floats are doubles, so that many terms round little.
pub fn same_in_doubles(before: &Module, after: &Module, inputs: &[Datum]) -> Result<(), String> {
    let is_same = |a: &Datum, b: &Datum| same(a, b) || is_close(a, b);
    outcomes_are(before, after, inputs, true, is_same)
}

fn outcomes_are(
    before: &Module,
    after: &Module,
    inputs: &[Datum],
    f64: bool,
    same: impl Fn(&Datum, &Datum) -> bool,
) -> Result<(), String> {
    let options = Options {
        f64,
        max_iterations: 10_000,
        max_depth: 200,
        check_types: true,
        ..Options::default()
    };
    let expected = match run(before, inputs, &options) {
        Ok(outputs) => outputs,
        Err(_) => return Ok(()),
    };
    let found = run(after, inputs, &options).map_err(|e| format!("the result fails: {e}"))?;
    if expected.len() != found.len() {
        return Err(format!("{} results became {}", expected.len(), found.len()));
    }
    for (i, (a, b)) in expected.iter().zip(&found).enumerate() {
        if !same(a, b) {
            return Err(format!("result {i}: {} became {}", show(a), show(b)));
        }
    }
    Ok(())
}

/// Are these floats of one shape, and as close as the order of sums allows?
fn is_close(a: &Datum, b: &Datum) -> bool {
    let (Datum::Tensor(a), Datum::Tensor(b)) = (a, b) else {
        return false;
    };
    let tolerance = match a.dtype() {
        DType::F32 => 1e-5,
        DType::F64 => 1e-12,
        _ => return false,
    };
    let (Some(x), Some(y)) = (a.to_f64s(), b.to_f64s()) else {
        return false;
    };
    let finite = x.iter().filter(|v| v.is_finite());
    let scale = finite.fold(1.0f64, |most, v| most.max(v.abs()));
    let close = |(x, y): (&f64, &f64)| {
        x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= tolerance * scale
    };
    a.dtype() == b.dtype() && a.shape() == b.shape() && x.iter().zip(&y).all(close)
}

/// Results are as many as expected, and the same.
pub fn assert_same(expected: &[Datum], found: &[Datum], what: &str) {
    let same = expected.len() == found.len() && expected.iter().zip(found).all(|(a, b)| same(a, b));
    assert!(same, "{what}: {expected:?} became {found:?}");
}

pub fn same(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Tensor(a), Datum::Tensor(b)) => {
            if a.dtype() != b.dtype() || a.shape() != b.shape() || a.strs() != b.strs() {
                return false;
            }
            match (a.to_f64s(), b.to_f64s()) {
                (Some(x), Some(y)) => {
                    let alike = |(x, y): (&f64, &f64)| {
                        x.is_nan() && y.is_nan() || x.to_bits() == y.to_bits()
                    };
                    x.iter().zip(&y).all(alike)
                }
                _ => a.bytes() == b.bytes(),
            }
        }
        (Datum::Seq(a), Datum::Seq(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Datum::Opt(a), Datum::Opt(b)) => match (a, b) {
            (Some(a), Some(b)) => same(a, b),
            (a, b) => a.is_none() && b.is_none(),
        },
        _ => false,
    }
}

fn show(datum: &Datum) -> String {
    match datum {
        Datum::Tensor(t) => {
            let elements = match (t.to_f64s(), t.to_i64s()) {
                (Some(f), _) => format!("{f:?}"),
                (_, Some(i)) => format!("{i:?}"),
                _ => format!("{:?}", t.bytes()),
            };
            format!("{t:?} {elements}")
        }
        other => format!("{other:?}"),
    }
}
