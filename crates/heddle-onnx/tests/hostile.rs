//! Broken files: whatever the bytes are, the outcome is a module or an error, within bounded
//! memory.
//!
//! The runs are seeded. `HEDDLE_FUZZ_SECONDS` makes the mutations go on for longer than a test
//! should take. A program of its own: its allocator counts the bytes of the whole process.

#[allow(dead_code)] // This program uses a part of it.
#[path = "onnx/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::*;
use heddle_onnx::proto::*;
use heddle_onnx::{ImportOptions, load_bytes, read_datum};
use prost::Message;

/// Counts what is allocated.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all work is the system allocator's; the counters do not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MAX_MEMORY: usize = 1 << 30;

/// A model with a bit of everything.
fn sample() -> ModelProto {
    let body = graph(
        "body",
        vec![
            info("i", INT64, &[]),
            info("c", BOOL, &[]),
            info("s", FLOAT, &[-1]),
        ],
        names(&["d", "t", "u"]),
        vec![
            node("Identity", &["c"], &["d"]),
            node("Concat", &["s", "w"], &["t"]).int("axis", 0),
            node("ReduceSum", &["t"], &["u"]).int("keepdims", 0),
        ],
    );
    let scanned = graph(
        "scanned",
        names(&["p", "e"]),
        names(&["q", "q"]),
        vec![node("Add", &["p", "e"], &["q"])],
    );
    let rec = graph(
        "again",
        names(&["k"]),
        names(&["f"]),
        vec![
            node("Less", &["k", "zero"], &["base"]),
            fork(
                "f",
                "base",
                vec![node("Neg", &["k"], &["r"])],
                vec![
                    node("Sub", &["k", "zero"], &["m"]),
                    node("again", &["m"], &["r"]),
                ],
            ),
        ],
    );
    let mut g = graph(
        "main",
        vec![info("x", FLOAT, &[-1]), info("n", INT64, &[])],
        vec![untyped("y"), untyped("z"), untyped("f")],
        vec![
            node("Loop", &["n", "", "x"], &["a", "b"]).graph("body", body),
            node("Scan", &["zero", "b"], &["z", "y"])
                .graph("body", scanned)
                .int("num_scan_inputs", 1),
            node("Recursion", &["z"], &["g"]).graph("body", rec),
            call("twice", &["g"], &["f"]),
        ],
    );
    g.initializer.push(floats("w", &[2], &[1.0, 2.0]));
    g.initializer.push(floats("zero", &[], &[0.0]));
    let twice = function(
        "twice",
        &["v"],
        &["o"],
        vec![node("Add", &["v", "v"], &["o"])],
    );
    model(g, vec![twice])
}

/// Imports; a panic or too much memory fails the test.
fn attempt(bytes: Vec<u8>, what: &dyn Fn() -> String) {
    PEAK.store(NOW.load(Ordering::Relaxed), Ordering::Relaxed);
    let options = ImportOptions {
        folder: Some(heddle_interp::fold),
        ..Default::default()
    };
    let result = std::panic::catch_unwind(|| {
        load_bytes("model".as_ref(), Bytes::from(bytes), None, &options).map(|m| {
            heddle_ir::verify::verify(&m.module)
                .unwrap_or_else(|e| panic!("not verified: {}", e[0]));
        })
    });
    if result.is_err() {
        panic!("{} makes it panic", what());
    }
    let peak = PEAK.load(Ordering::Relaxed);
    assert!(peak < MAX_MEMORY, "{} takes {peak} bytes", what());
}

/// A small generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// One to four changes: flipped bits, other bytes, pieces cut out, doubled or moved.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        let length = 1 + random.below(16.min(bytes.len() - at));
        match random.below(6) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let piece = bytes[at..at + length].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let piece = bytes[at..at + length].to_vec();
                let to = random.below(bytes.len() + 1 - length);
                bytes[to..to + length].copy_from_slice(&piece);
            }
        }
    }
}

#[test]
fn the_sample_is_sound() {
    import(&sample()).unwrap();
}

/// All in one test: the allocator counts what all threads do.
#[test]
fn broken_files_end_in_errors() {
    let whole = sample().encode_to_vec();
    for length in 0..whole.len() {
        attempt(whole[..length].to_vec(), &|| {
            format!("the first {length} bytes")
        });
    }
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        attempt(bytes, &|| format!("bit {bit} flipped"));
    }
    let seconds = std::env::var("HEDDLE_FUZZ_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok());
    let time = seconds.map(Duration::from_secs);
    let begin = Instant::now();
    for seed in 1.. {
        if time.map_or(seed > 4000, |t| begin.elapsed() > t) {
            break;
        }
        let mut bytes = whole.clone();
        mutate(
            &mut bytes,
            &mut Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed)),
        );
        attempt(bytes, &|| format!("seed {seed}"));
    }
}

#[test]
fn test_data_is_guarded_too() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let f32s = heddle_ir::Type::unranked(heddle_ir::DType::F32);
    let types = [
        f32s.clone(),
        heddle_ir::Type::Seq(Box::new(f32s.clone())),
        heddle_ir::Type::Opt(Box::new(f32s)),
    ];
    let whole = floats("x", &[3], &[1.0, 2.0, 3.0]).encode_to_vec();
    // A sequence in a sequence in a sequence …
    let mut deep = vec![];
    for _ in 0..10_000 {
        let mut next = vec![5 << 3 | 2];
        prost::encoding::encode_varint(deep.len() as u64, &mut next);
        next.append(&mut deep);
        deep = next;
    }
    let cut = (0..whole.len()).map(|n| whole[..n].to_vec());
    for bytes in cut.chain([deep]) {
        std::fs::write(file.path(), bytes).unwrap();
        for ty in &types {
            let _ = read_datum(file.path(), ty);
        }
    }
}

#[test]
fn absurd_types_are_refused() {
    let mut m = sample();
    let axes = vec![1; 1000];
    m.graph
        .as_mut()
        .unwrap()
        .initializer
        .push(floats("many", &axes, &[1.0]));
    assert!(import(&m).is_err());
    let mut m = sample();
    m.graph
        .as_mut()
        .unwrap()
        .input
        .push(info("many", FLOAT, &axes));
    assert!(import(&m).is_err());
    let mut ty = info("deep", FLOAT, &[]).r#type.unwrap();
    for _ in 0..100 {
        let elem_type = Some(Box::new(ty));
        let value = type_proto::Value::SequenceType(Box::new(type_proto::Sequence { elem_type }));
        ty = TypeProto {
            value: Some(value),
            ..Default::default()
        };
    }
    let mut m = sample();
    let deep = ValueInfoProto {
        r#type: Some(ty),
        ..untyped("deep")
    };
    m.graph.as_mut().unwrap().input.push(deep);
    assert!(import(&m).is_err());
}

/// The message with which a model of one graph is refused.
fn refusal(input: Vec<ValueInfoProto>, node: Vec<NodeProto>, opset: i64) -> String {
    let mut m = model(graph("main", input, names(&["y"]), node), vec![]);
    m.opset_import[0].version = Some(opset);
    import(&m).expect_err("no sound model").to_string()
}

#[test]
fn heads_without_four_axes_are_refused() {
    for (q, k, v) in [
        (&[8][..], &[8][..], &[8][..]),
        (&[4, 8], &[1, 4, 3, 8], &[1, 4, 3, 8]),
        (&[1, 4, 3, 8], &[1, 4, 3, 8], &[4, 8]),
    ] {
        let input = vec![
            info("q", FLOAT, q),
            info("k", FLOAT, k),
            info("v", FLOAT, v),
        ];
        let attention = NodeProto {
            domain: Some("com.microsoft".into()),
            ..named("heads", "MultiHeadAttention", &["q", "k", "v"], &["y"]).int("num_heads", 2)
        };
        let message = refusal(input, vec![attention], 17);
        assert!(
            message.contains("heads") && message.contains("not 4"),
            "{message}"
        );
    }
}

/// What is not supported may be found inside an open region, which must not stay open.
#[test]
fn unsupported_parts_of_loops_leave_nothing_behind() {
    let body = graph(
        "body",
        names(&["e"]),
        names(&["d"]),
        vec![node("Identity", &["e"], &["d"])],
    );
    let scan = named("scan", "Scan", &["lengths", "x"], &["unused"])
        .graph("body", body)
        .int("num_scan_inputs", 1);
    let text = tensor_proto::DataType::String as i32;
    let input = vec![
        info("lengths", INT64, &[1]),
        info("x", text, &[1, 2]),
        info("w", FLOAT, &[1]),
    ];
    let nodes = vec![scan, node("Abs", &["w"], &["y"])];
    let message = refusal(input, nodes, 8);
    assert!(
        message.contains("scan") && message.contains("of type str"),
        "{message}"
    );
}

#[test]
fn negative_sizes_are_refused() {
    let mut shape = node("Constant", &[], &["shape"]).tensor("value", ints("", &[1], &[-3]));
    shape.name = Some("three".into());
    let crop = named("crop", "CenterCropPad", &["x", "shape"], &["y"]);
    let message = refusal(vec![info("x", FLOAT, &[-1])], vec![shape, crop], 18);
    assert!(
        message.contains("crop") && message.contains("-3"),
        "{message}"
    );
}

/// Functions that call each other in a long cycle are built one inside the other.
#[test]
fn long_cycles_of_functions_are_refused() {
    const LENGTH: usize = 1500;
    let name = |i: usize| format!("f{}", i % LENGTH);
    let functions = (0..LENGTH).map(|i| {
        let next = named("next", &name(i + 1), &["v"], &["o"]);
        let next = NodeProto {
            domain: Some("local".into()),
            ..next
        };
        function(&name(i), &["v"], &["o"], vec![next])
    });
    let first = call("f0", &["x"], &["y"]);
    let input = vec![info("x", FLOAT, &[1])];
    let m = model(
        graph("main", input, names(&["y"]), vec![first]),
        functions.collect(),
    );
    let message = import(&m).expect_err("too long").to_string();
    assert!(message.contains("more than 1000 functions"), "{message}");
}

/// An operator whose expansion grows with the product of two attributes.
#[test]
fn long_grams_with_many_skips_are_unsupported() {
    let list = |name: &str, ints: Vec<i64>| AttributeProto {
        name: Some(name.into()),
        ints,
        ..Default::default()
    };
    let length = 2000;
    let grams = named("grams", "TfIdfVectorizer", &["x"], &["y"])
        .attr(AttributeProto {
            name: Some("mode".into()),
            s: Some("TF".into()),
            ..Default::default()
        })
        .attr(list("pool_int64s", (0..length as i64).collect()))
        .attr(list("ngram_counts", vec![0; length]))
        .attr(list("ngram_indexes", vec![0]))
        .int("min_gram_length", 1)
        .int("max_gram_length", length as i64)
        .int("max_skip_count", 200);
    let message = refusal(vec![info("x", INT64, &[4])], vec![grams], 17);
    assert!(message.contains("comparisons"), "{message}");
}
