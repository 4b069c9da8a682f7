//! Batch files that are broken in any way end in errors, never in a panic. `HEDDLE_FUZZ_SECONDS`
//! makes it go on for so long.

use std::fs;
use std::time::{Duration, Instant};

use crate::setup::{Array, Scratch};

/// A tree, a graph, lists, and arrays of one shape, each for several instances.
const PROGRAM: &str = "\
type Tree = Leaf(f32) | Node(Tree, Tree)
vertex cell(x: f32) -> f32 { scatter(x + gather(0)); push(x * gather(1)) }
fn sum(t) { match t { Leaf(x) => x, Node(a, b) => sum(a) - sum(b) } }
fn main(t: Tree[n], g: graph, x: list<f32>, l: list<list<f32>>, y: f32[2]) {
  (sum(t), pull(cell, g, x), map(fn(x) fold(fn(s, x) s + x, 0.0, x), l), y)
}
";

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// A sound batch of two instances: integers, or floats where `ints` is empty.
fn batch() -> Vec<(&'static str, Vec<i64>)> {
    vec![
        ("t.tag", vec![0, 0, 1, 0]),
        ("t.Leaf.0", vec![1, 2, 0, 4]),
        ("t.Node.0", vec![0, 0, 0, 0]),
        ("t.Node.1", vec![0, 0, 1, 0]),
        ("t.tag.offsets", vec![0, 3, 4]),
        ("t.Leaf.0.offsets", vec![0, 3, 4]),
        ("t.Node.0.offsets", vec![0, 3, 4]),
        ("t.Node.1.offsets", vec![0, 3, 4]),
        ("g.children", vec![0, 1, 0]),
        ("g.children.offsets", vec![0, 2, 3]),
        ("g.offsets", vec![0, 0, 0, 2, 0, 0, 1]),
        ("g.offsets.offsets", vec![0, 4, 7]),
        ("x", vec![1, 2, 3, 4, 5]),
        ("x.offsets", vec![0, 3, 5]),
        ("l.data", vec![1, 2, 3]),
        ("l.data.offsets", vec![0, 2, 3]),
        ("l.offsets", vec![0, 1, 2, 0, 1]),
        ("l.offsets.offsets", vec![0, 3, 5]),
        ("y", vec![1, 2, 3, 4]),
    ]
}

/// The array as the program wants it.
fn array(name: &str, values: &[i64]) -> Array {
    let floats = || values.iter().map(|x| *x as f32).collect();
    let size = values.len() as u64;
    match name {
        "t.tag" => Array::I32(vec![size], values.iter().map(|x| *x as i32).collect()),
        "y" if size.is_multiple_of(2) => Array::F32(vec![size / 2, 2], floats()),
        "t.Leaf.0" | "x" | "l.data" | "y" => Array::F32(vec![size], floats()),
        _ => Array::I64(vec![size], values.to_vec()),
    }
}

/// An array whose header states what its bytes do not hold.
fn lying(random: &mut Random, values: &[i64]) -> Array {
    let descr = ["<i8", "<f4", "<i4", "|b1", "<U4", "|O", ">i8", "<c8", "<i9"][random.below(9)];
    let shape = [
        "(99999999999999999999,)",
        "(9223372036854775807,)",
        "(4611686018427387904, 4)",
        "(0, 18446744073709551615)",
        "(-1,)",
        "()",
        "(2,)",
        "(1099511627776,)",
        "(3, 0)",
    ][random.below(9)];
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(values.iter().flat_map(|x| x.to_le_bytes()));
    Array::Raw(file)
}

/// Changes some numbers, arrays and bytes.
fn mutated(s: &Scratch, random: &mut Random) {
    let mut arrays = batch();
    let mut raw = vec![];
    for _ in 0..1 + random.below(3) {
        let k = random.below(arrays.len());
        let values = &mut arrays[k].1;
        let at = random.below(values.len());
        match random.below(7) {
            0 if !values.is_empty() => {
                values[at] = [-1, i64::MIN, i64::MAX, 1 << 40, 2, 5, 0, -7][random.below(8)];
            }
            1 if !values.is_empty() => drop(values.remove(at)),
            2 => values.insert(at, random.below(9) as i64 - 2),
            3 => values.reverse(),
            4 => values.clear(),
            5 => drop(arrays.remove(k)),
            _ => raw.push(k),
        }
    }
    let file: Vec<(&str, Array)> = arrays
        .iter()
        .enumerate()
        .map(|(k, (name, values))| match raw.contains(&k) {
            true => (*name, lying(random, values)),
            false => (*name, array(name, values)),
        })
        .collect();
    s.npz("in.npz", &file);
    let path = s.path("in.npz");
    let mut bytes = fs::read(&path).unwrap();
    match random.below(6) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => {
            for _ in 0..1 + random.below(8) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
        }
        // Sizes in the archive's directory.
        2 => {
            let directory = bytes.windows(4).rposition(|w| w == b"PK\x01\x02");
            if let Some(at) = directory {
                let field = at + [20, 24, 28, 42][random.below(4)];
                bytes[field..field + 4].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
            }
        }
        _ => {}
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn broken_batch_files_end_in_errors() {
    let seconds = std::env::var("HEDDLE_FUZZ_SECONDS").ok();
    let time = seconds.map(|s| Duration::from_secs(s.parse().expect("seconds")));
    let s = Scratch::new();
    s.write("m.hl", PROGRAM);
    let file: Vec<_> = batch().iter().map(|(n, v)| (*n, array(n, v))).collect();
    s.npz("in.npz", &file);
    let run =
        "run m.hl --batch in.npz --device interp --max-memory 100000000 --timeout 10 -o out.npz";
    s.heddle(run).ok();
    assert_eq!(s.elements::<f32>("out.npz", "out_0").1, [-1.0, 4.0]);
    let begin = Instant::now();
    let mut failed = 0;
    for seed in 1.. {
        if time.map_or(seed > 100, |t| begin.elapsed() > t) {
            break;
        }
        let random = &mut Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        mutated(&s, random);
        let extra = ["", " --keep-going", " --report"][random.below(3)];
        let done = s.heddle(&format!("{run}{extra}"));
        // A panic is an internal error, 70.
        let typed = matches!(done.code, 0 | 2 | 3 | 4 | 5);
        assert!(typed, "seed {seed}, code {}: {}", done.code, done.err);
        failed += (done.code != 0) as usize;
    }
    assert!(failed > 0, "all changed files are sound");
}
