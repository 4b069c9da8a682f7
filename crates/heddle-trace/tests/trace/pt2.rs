//! `.pt2` files: those of `tests/models/pt2`, and broken ones made of them.

use std::collections::HashMap;
use std::io::{Cursor, Read, Write};
use std::path::PathBuf;

use bytes::Bytes;
use heddle_ir::{DType, Tensor};
use heddle_trace::pt2::{Pt2, Pt2Error, Pt2Options, load};
use heddle_trace::{OpError, TraceError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value as Json, json};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/pt2")
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

/// Entries of an archive, in order.
type Entries = Vec<(String, Vec<u8>)>;

fn entries(name: &str) -> Entries {
    let mut zip = ZipArchive::new(Cursor::new(file(name))).unwrap();
    let mut all = vec![];
    for i in 0..zip.len() {
        let mut entry = zip.by_index(i).unwrap();
        let name = entry.name().unwrap().into_owned();
        let mut bytes = vec![];
        entry.read_to_end(&mut bytes).unwrap();
        all.push((name, bytes));
    }
    all
}

fn zipped(entries: &Entries, method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(vec![]));
    for (name, bytes) in entries {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(name.as_str(), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn read(bytes: Vec<u8>) -> Result<Pt2, TraceError> {
    let options = Pt2Options {
        folder: Some(heddle_interp::fold),
        ..Default::default()
    };
    let found = load(Bytes::from(bytes), &options)?;
    heddle_ir::verify(&found.module).unwrap_or_else(|e| panic!("{e:?}"));
    Ok(found)
}

fn error(bytes: Vec<u8>) -> TraceError {
    match read(bytes) {
        Ok(_) => panic!("the file is wrong"),
        Err(error) => error,
    }
}

/// The error of an archive some of whose entries are other ones.
fn edited(name: &str, edit: impl Fn(&mut Entries)) -> TraceError {
    let mut all = entries(name);
    edit(&mut all);
    error(zipped(&all, CompressionMethod::Stored))
}

/// An archive with an edited JSON entry, the one whose name ends so.
fn with_json(name: &str, end: &str, edit: impl Fn(&mut Json)) -> Vec<u8> {
    let mut all = entries(name);
    let entry = all
        .iter_mut()
        .find(|(name, _)| name.ends_with(end))
        .unwrap();
    let mut json: Json = serde_json::from_slice(&entry.1).unwrap();
    edit(&mut json);
    entry.1 = json.to_string().into_bytes();
    zipped(&all, CompressionMethod::Stored)
}

fn graph_error(name: &str, edit: impl Fn(&mut Json)) -> TraceError {
    error(with_json(name, "models/model.json", |json| {
        edit(&mut json["graph_module"]["graph"])
    }))
}

#[test]
fn all_files_are_read() {
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".pt2") {
            let found = read(file(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
            let optional = &found.optional["main"];
            assert_eq!(optional.is_empty(), !name.starts_with("state"), "{name}");
            count += 1;
        }
    }
    assert!(count >= 21, "{count} files");
}

#[test]
fn buffers_that_change_become_inputs_on_demand() {
    let found = read(file("state.pt2")).unwrap();
    let optional = found.optional["main"].iter();
    let names: Vec<&str> = optional.map(|(name, _)| name.as_str()).collect();
    assert!(
        names.contains(&"calls") && names.contains(&"last"),
        "{names:?}"
    );
    let options = Pt2Options {
        overrides: ["calls".to_owned()].into(),
        ..Default::default()
    };
    let found = load(file("state.pt2").into(), &options).unwrap();
    let params = &found.module.entry().sig.params;
    assert!(params.iter().any(|(name, _)| name == "calls"), "{params:?}");
}

#[test]
fn constants_are_replaced_if_they_fit() {
    let with = |name: &str, tensor: Tensor| {
        let options = Pt2Options {
            constants: HashMap::from([(name.to_owned(), tensor)]),
            ..Default::default()
        };
        load(file("branches.pt2").into(), &options).map(|_| ())
    };
    assert_eq!(
        with("weight", Tensor::splat(DType::F32, vec![4, 4], 2.0)),
        Ok(())
    );
    for (name, tensor) in [
        ("weight", Tensor::splat(DType::F32, vec![4, 3], 2.0)),
        ("weight", Tensor::splat(DType::F64, vec![4, 4], 2.0)),
        ("other", Tensor::splat(DType::F32, vec![4, 4], 2.0)),
    ] {
        let error = with(name, tensor).unwrap_err();
        assert!(
            matches!(error, TraceError::Pt2(Pt2Error::Replacement { .. })),
            "{error}"
        );
    }
}

#[test]
fn files_that_are_no_archives() {
    for bytes in [vec![], b"PK".to_vec(), vec![0; 1000], b"{}".to_vec()] {
        let error = error(bytes);
        assert!(
            matches!(error, TraceError::Pt2(Pt2Error::Archive { .. })),
            "{error}"
        );
    }
    let whole = file("branches.pt2");
    for cut in (0..whole.len()).step_by(211) {
        let _ = error(whole[..cut].to_vec());
    }
}

#[test]
fn archives_of_another_kind() {
    let plain = vec![("a/b".to_owned(), vec![1])];
    let foreign = error(zipped(&plain, CompressionMethod::Stored));
    assert!(
        matches!(foreign, TraceError::Pt2(Pt2Error::Foreign { .. })),
        "{foreign}"
    );
    for name in ["m/data.pkl", "serialized_state_dict.pt"] {
        let pickle = vec![(name.to_owned(), vec![1])];
        let pickle = error(zipped(&pickle, CompressionMethod::Stored));
        assert!(
            matches!(&pickle, TraceError::Pt2(Pt2Error::Pickle { entry }) if entry == name),
            "{pickle}"
        );
    }
}

#[test]
fn pickled_weights_are_refused_by_name() {
    let bytes = with_json("branches.pt2", "weights_config.json", |json| {
        json["config"]["weight"]["use_pickle"] = json!(true);
    });
    let found = error(bytes);
    let TraceError::Pt2(Pt2Error::Pickle { entry }) = &found else {
        panic!("{found}");
    };
    assert!(entry.ends_with("data/weights/weight_0"), "{entry}");
}

#[test]
fn names_that_lead_out_of_the_archive() {
    for path in ["../../etc/passwd", "/etc/passwd", "a\\..\\b"] {
        let bytes = with_json("branches.pt2", "weights_config.json", |json| {
            json["config"]["weight"]["path_name"] = json!(path);
        });
        let found = error(bytes);
        assert!(
            matches!(
                found,
                TraceError::Pt2(Pt2Error::Entry { .. } | Pt2Error::Missing { .. })
            ),
            "{found}"
        );
    }
    let found = edited("branches.pt2", |all| all.push(("../x".into(), vec![])));
    assert!(
        found.to_string().contains("leads out of the archive"),
        "{found}"
    );
}

#[test]
fn bombs_end_at_the_limit() {
    // 64 MB of zeros, in a file that is a thousandth of that.
    let mut all = entries("branches.pt2");
    let weight = all
        .iter_mut()
        .find(|(name, _)| name.ends_with("weight_0"))
        .unwrap();
    weight.1 = vec![0; 64 << 20];
    let many = zipped(&all, CompressionMethod::Deflated);
    assert!(many.len() < 1 << 20);
    // The array is the first 64 bytes of it, so that this is read.
    assert!(read(many).is_ok());
    let bytes = with_json("types.pt2", "weights_config.json", |json| {
        let meta = &mut json["config"]["turned"]["tensor_meta"];
        meta["sizes"] = json!([{"as_int": 1i64 << 31}, {"as_int": 3}]);
        meta["strides"] = json!([{"as_int": 0}, {"as_int": 0}]);
    });
    let found = error(bytes);
    assert!(
        matches!(found, TraceError::Pt2(Pt2Error::TooLarge { .. })),
        "{found}"
    );
}

/// An archive whose directory states another size for the entry that ends so, once it is inflated.
fn with_stated_size(end: &str, size: u32) -> Vec<u8> {
    let mut bytes = zipped(&entries("branches.pt2"), CompressionMethod::Deflated);
    // A record of the directory: its signature, the size at 24, the length of the name at 28, the name at 46.
    let starts = |at: &usize| bytes[*at..].starts_with(b"PK\x01\x02");
    let records: Vec<usize> = (0..bytes.len()).filter(starts).collect();
    let mut count = 0;
    for at in records {
        let length = usize::from(bytes[at + 28]);
        if bytes[at + 46..at + 46 + length].ends_with(end.as_bytes()) {
            bytes[at + 24..at + 28].copy_from_slice(&size.to_le_bytes());
            count += 1;
        }
    }
    assert_eq!(count, 1);
    bytes
}

#[test]
fn stated_sizes_of_entries_are_bounded_and_not_trusted() {
    for end in ["models/model.json", "weights_config.json", "weight_0"] {
        let huge = error(with_stated_size(end, u32::MAX - 1));
        assert!(
            matches!(huge, TraceError::Pt2(Pt2Error::TooLarge { .. })),
            "{end}: {huge}"
        );
        for size in [0, 3, 1 << 20] {
            let wrong = error(with_stated_size(end, size));
            assert!(
                matches!(wrong, TraceError::Pt2(Pt2Error::Entry { .. })),
                "{end}: {wrong}"
            );
        }
    }
}

#[test]
fn arrays_that_lie_outside_of_their_bytes() {
    for (field, value) in [
        ("sizes", json!([{"as_int": 4}, {"as_int": i64::MAX}])),
        ("sizes", json!([{"as_int": -1}, {"as_int": 4}])),
        ("sizes", json!([{"as_int": 4}, {"as_int": 5}])),
        ("strides", json!([{"as_int": i64::MAX}, {"as_int": 1}])),
        ("strides", json!([{"as_int": 1}])),
        ("storage_offset", json!({"as_int": 1})),
        (
            "storage_offset",
            json!({"as_expr": {"expr_str": "Symbol('s0')", "hint": null}}),
        ),
        ("dtype", json!(10)),
        ("dtype", json!(99)),
        ("layout", json!(1)),
    ] {
        let bytes = with_json("branches.pt2", "weights_config.json", |json| {
            json["config"]["weight"]["tensor_meta"][field] = value.clone();
        });
        let found = error(bytes);
        assert!(
            matches!(found, TraceError::Pt2(Pt2Error::Entry { .. })),
            "{field}: {found}"
        );
    }
    let huge = json!(vec![json!({"as_int": 1}); 100]);
    let bytes = with_json("branches.pt2", "weights_config.json", |json| {
        let meta = &mut json["config"]["weight"]["tensor_meta"];
        (meta["sizes"], meta["strides"]) = (huge.clone(), huge.clone());
    });
    assert!(error(bytes).to_string().contains("100 sizes"));
}

#[test]
fn versions_are_named() {
    for (major, minor) in [(7, 0), (9, 1), (-1, 0), (8, -1)] {
        let bytes = with_json("branches.pt2", "models/model.json", |json| {
            json["schema_version"] = json!({"major": major, "minor": minor});
        });
        assert_eq!(
            error(bytes),
            TraceError::Pt2(Pt2Error::Version { major, minor })
        );
    }
    let later = with_json("branches.pt2", "models/model.json", |json| {
        json["schema_version"] = json!({"major": 8, "minor": 99});
        json["something_new"] = json!([1, 2]);
    });
    assert!(read(later).is_ok());
}

#[test]
fn entries_that_are_missing_or_broken() {
    for end in ["models/model.json", "weights_config.json", "weight_0"] {
        let missing = edited("branches.pt2", |all| all.retain(|(n, _)| !n.ends_with(end)));
        assert!(
            matches!(missing, TraceError::Pt2(Pt2Error::Missing { .. })),
            "{missing}"
        );
        let broken = edited("branches.pt2", |all| {
            let entry = all.iter_mut().find(|(n, _)| n.ends_with(end)).unwrap();
            entry.1.truncate(10);
        });
        assert!(
            matches!(broken, TraceError::Pt2(Pt2Error::Entry { .. })),
            "{broken}"
        );
    }
    let deep = edited("branches.pt2", |all| {
        let entry = all
            .iter_mut()
            .find(|(n, _)| n.ends_with("model.json"))
            .unwrap();
        entry.1 = b"[".repeat(100_000);
    });
    assert!(
        matches!(deep, TraceError::Pt2(Pt2Error::TooLarge { .. })),
        "{deep}"
    );
}

#[test]
fn references_that_lead_nowhere() {
    let dangling = graph_error("attention.pt2", |graph| {
        graph["nodes"][3]["inputs"][0]["arg"] = json!({"as_tensor": {"name": "nowhere"}});
    });
    assert!(
        dangling
            .to_string()
            .contains("`nowhere` is not defined before it"),
        "{dangling}"
    );
    assert!(dangling.place().is_some(), "{dangling}");
    // A node that reads its own result.
    let cyclic = graph_error("attention.pt2", |graph| {
        let node = &mut graph["nodes"][3];
        node["inputs"][0]["arg"] = node["outputs"][0].clone();
    });
    assert!(
        matches!(
            cyclic,
            TraceError::Node {
                error: OpError::Invalid(_),
                ..
            }
        ),
        "{cyclic}"
    );
    let twice = graph_error("attention.pt2", |graph| {
        let node = graph["nodes"][3].clone();
        graph["nodes"].as_array_mut().unwrap().push(node);
    });
    assert!(
        twice.to_string().contains("two values are called"),
        "{twice}"
    );
    let output = graph_error("attention.pt2", |graph| {
        graph["outputs"][0] = json!({"as_tensor": {"name": "nowhere"}});
    });
    assert!(matches!(output, TraceError::Graph { .. }), "{output}");
    let untyped = graph_error("attention.pt2", |graph| {
        graph["tensor_values"] = json!({});
    });
    assert!(
        untyped.to_string().contains("the file states no type"),
        "{untyped}"
    );
}

#[test]
fn operators_without_a_lowering_are_all_named() {
    let found = graph_error("attention.pt2", |graph| {
        let nodes = graph["nodes"].as_array_mut().unwrap();
        for (i, name) in [
            (2, "torch.ops.aten.first.default"),
            (5, "torch.ops.my.second.default"),
        ] {
            nodes[i]["target"] = json!(name);
        }
    });
    let TraceError::Unsupported(ops) = &found else {
        panic!("{found}");
    };
    assert_eq!(ops.len(), 2, "{found}");
    assert!(ops[0].at.place.is_some(), "{found}");
}

#[test]
fn arrays_of_many_axes_and_absurd_sizes() {
    let axes = |count: usize| {
        with_json("attention.pt2", "models/model.json", |json| {
            let meta = &mut json["graph_module"]["graph"]["tensor_values"]["x"];
            meta["sizes"] = json!(vec![json!({"as_int": 1}); count]);
            meta["strides"] = meta["sizes"].clone();
        })
    };
    assert!(error(axes(5000)).to_string().contains("5000 axes"));
    for (size, message) in [
        (json!({"as_int": i64::MIN}), "size"),
        (
            json!({"as_expr": {"expr_str": "Mul(".repeat(5000), "hint": null}}),
            "has no form here",
        ),
        (
            json!({"as_expr": {"expr_str": "Symbol('s0'", "hint": null}}),
            "has no form here",
        ),
    ] {
        let found = graph_error("attention.pt2", |graph| {
            graph["tensor_values"]["x"]["sizes"][1] = size.clone();
        });
        assert!(found.to_string().contains(message), "{found}");
    }
}

/// A change of a place of a JSON text.
fn mutate(json: &mut Json, path: &[usize], with: usize, pool: &[Json]) {
    let Some((step, rest)) = path.split_first() else {
        *json = pool[with % pool.len()].clone();
        return;
    };
    match json {
        Json::Array(items) if !items.is_empty() => {
            let at = step % items.len();
            mutate(&mut items[at], rest, with, pool);
        }
        Json::Object(fields) if !fields.is_empty() => {
            let at = step % fields.len();
            let key = fields.keys().nth(at).unwrap().clone();
            match with % 7 {
                0 if rest.is_empty() => drop(fields.remove(&key)),
                _ => mutate(&mut fields[&key], rest, with, pool),
            }
        }
        other => *other = pool[with % pool.len()].clone(),
    }
}

const CASES: usize = 300;

/// Mutated texts give programs that are valid, or errors.
#[test]
fn mutated_texts_do_no_harm() {
    let names = [
        "branches.pt2",
        "in_place.pt2",
        "state.core.pt2",
        "types.pt2",
        "dynamic.pt2",
        "sizes.pt2",
    ];
    let pool = [
        json!(null),
        json!(-1),
        json!(2),
        json!(i64::MAX),
        json!(1e300),
        json!(""),
        json!("x"),
        json!([]),
        json!({}),
        json!(true),
        json!({"as_int": 3}),
        json!({"as_tensor": {"name": "x"}}),
        json!({"as_ints": [0, -5, 1i64 << 40]}),
        json!({"as_none": true}),
        json!({"as_sym_int": {"as_name": "n"}}),
        json!({"as_float": "NaN"}),
        json!({"as_expr": {"expr_str": "Symbol('s77')"}}),
        json!("torch.ops.aten.add_.Tensor"),
        json!("torch.ops.aten.select.int"),
        json!("torch.ops.higher_order.cond"),
    ];
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut changed = 0;
    for _ in 0..CASES {
        let mut all = entries(names[random.random_range(0..names.len())]);
        let end = match random.random_range(0..3) {
            0 => "weights_config.json",
            _ => "models/model.json",
        };
        let Some(entry) = all.iter_mut().find(|(name, _)| name.ends_with(end)) else {
            continue;
        };
        let mut json: Json = serde_json::from_slice(&entry.1).unwrap();
        for _ in 0..random.random_range(1..4) {
            let steps = random.random_range(1..14);
            let path: Vec<usize> = (0..steps).map(|_| random.random_range(0..1000)).collect();
            mutate(&mut json, &path, random.random_range(0..1000), &pool);
        }
        entry.1 = json.to_string().into_bytes();
        let _ = read(zipped(&all, CompressionMethod::Stored));
        changed += 1;
    }
    assert!(changed > CASES / 2, "{changed} of {CASES} have the entry");
}

/// So do archives of which bytes are changed.
#[test]
fn mutated_archives_do_no_harm() {
    let whole = file("scans.pt2");
    let mut random = ChaCha8Rng::seed_from_u64(12);
    for _ in 0..CASES {
        let mut bytes = whole.clone();
        for _ in 0..random.random_range(1..8) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        let _ = read(bytes);
    }
}
