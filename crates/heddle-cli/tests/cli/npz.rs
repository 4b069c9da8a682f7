//! Arrays of all kinds, from NumPy's format through a model and back.

use crate::setup::{Array, Scratch};

/// Runs the identity on a type.
fn identity(ty: &str) -> Scratch {
    let s = Scratch::new();
    s.write(
        "m.heddle",
        format!("fn @main(%x: {ty}) -> (%y: {ty}) {{\n  return %x\n}}\n"),
    );
    s
}

/// An array file with this type string, shape and data.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Array {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    Array::Raw(file)
}

#[test]
fn types_round_trip_by_their_bytes() {
    let types = [
        ("f16", "<f2", 2),
        ("f32", "<f4", 4),
        ("f64", "<f8", 8),
        ("bf16", "<V2", 2),
        ("i8", "|i1", 1),
        ("i16", "<i2", 2),
        ("i32", "<i4", 4),
        ("i64", "<i8", 8),
        ("u8", "|u1", 1),
        ("u16", "<u2", 2),
        ("u32", "<u4", 4),
        ("u64", "<u8", 8),
        ("f8e4m3fn", "<V1", 1),
        ("f8e5m2", "<V1", 1),
        ("c64", "<c8", 8),
        ("c128", "<c16", 16),
    ];
    for (dtype, descr, size) in types {
        let s = identity(&format!("{dtype}[2,3]"));
        let data: Vec<u8> = (0..6 * size).map(|i| (i * 7 % 100) as u8).collect();
        s.npz("in.npz", &[("x", npy(descr, "(2, 3)", &data))]);
        s.heddle("run m.heddle -i in.npz -o out.npz").ok();
        let file = s.array("out.npz", "y");
        assert_eq!(&file[file.len() - data.len()..], data, "{dtype}");
        assert_eq!(
            (file.len() - data.len()) % 64,
            0,
            "{dtype}: elements are aligned"
        );
        let header = String::from_utf8_lossy(&file[10..file.len() - data.len()]).into_owned();
        let kind = descr.trim_start_matches(['<', '|']);
        assert!(header.contains(&format!("{kind}'")), "{dtype}: {header}");
        assert!(header.contains("'shape': (2, 3,)"), "{dtype}: {header}");
    }
}

#[test]
fn small_integers_take_a_byte_each() {
    let s = identity("i4[3]");
    s.npz("in.npz", &[("x", npy("<V1", "(3,)", &[0x01, 0xff, 0x07]))]);
    s.heddle("run m.heddle -i in.npz -o out.npz").ok();
    let file = s.array("out.npz", "y");
    assert_eq!(&file[file.len() - 3..], [0x01, 0xff, 0x07]);
}

#[test]
fn bools_and_strings() {
    let s = identity("bool[2]");
    s.npz("in.npz", &[("x", npy("|b1", "(2,)", &[1, 0]))]);
    let json = s.heddle("run m.heddle -i in.npz --json").json();
    assert_eq!(
        json["outputs"][0]["values"],
        serde_json::json!([true, false])
    );

    let s = identity("str[2]");
    let wide: Vec<u8> = "aßb\0"
        .chars()
        .flat_map(|c| (c as u32).to_le_bytes())
        .collect();
    s.npz("in.npz", &[("x", npy("<U2", "(2,)", &wide))]);
    s.heddle("run m.heddle -i in.npz -o out.npz").ok();
    let file = s.array("out.npz", "y");
    assert_eq!(&file[file.len() - 16..], wide);
    let json = s.heddle("run m.heddle -i in.npz --json").json();
    assert_eq!(json["outputs"][0]["values"], serde_json::json!(["aß", "b"]));
    s.npz("in.npz", &[("x", npy("|O", "(2,)", b"pickle"))]);
    s.heddle("run m.heddle -i in.npz")
        .fails(3, &["pickled", "astype(str)"]);
}

#[test]
fn scalars_empty_arrays_and_other_layouts() {
    let s = identity("f32[..]");
    for (shape, count) in [(vec![], 1), (vec![0, 3], 0), (vec![1, 1], 1)] {
        s.npz(
            "in.npz",
            &[("x", Array::F32(shape.clone(), vec![1.5; count]))],
        );
        s.heddle("run m.heddle -i in.npz -o out.npz").ok();
        assert_eq!(s.elements::<f32>("out.npz", "y"), (shape, vec![1.5; count]));
    }
    let columns = Array::Fortran(vec![2, 3], vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    s.npz("in.npz", &[("x", columns)]);
    s.heddle("run m.heddle -i in.npz -o out.npz").ok();
    assert_eq!(
        s.elements::<f32>("out.npz", "y").1,
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    );
    s.npz(
        "in.npz",
        &[("x", npy(">f4", "(1,)", &2.5f32.to_be_bytes()))],
    );
    s.heddle("run m.heddle -i in.npz -o out.npz").ok();
    assert_eq!(s.elements::<f32>("out.npz", "y").1, [2.5]);
}

#[test]
fn sequences_and_optionals() {
    let s = identity("seq<i64[?]>");
    let item = |v: Vec<i64>| Array::I64(vec![v.len() as u64], v);
    let length = |n| Array::I64(vec![], vec![n]);
    let inputs = || {
        vec![
            ("x.len", length(2)),
            ("x.0", item(vec![1])),
            ("x.1", item(vec![2, 3])),
        ]
    };
    s.npz("in.npz", &inputs());
    s.heddle("run m.heddle -i in.npz -o out.npz").ok();
    assert_eq!(s.elements::<i64>("out.npz", "y.len").1, [2]);
    assert_eq!(s.elements::<i64>("out.npz", "y.1").1, [2, 3]);
    s.npz("in.npz", &inputs()[..2]);
    s.heddle("run m.heddle -i in.npz")
        .fails(3, &["`x.len` is 2, but there is no `x.1`"]);
    s.npz("in.npz", &[("x.len", length(0))]);
    s.heddle("run m.heddle -i in.npz -o out.npz").ok();
    assert_eq!(s.elements::<i64>("out.npz", "y.len").1, [0]);

    let s = identity("opt<i64[?]>");
    s.npz("in.npz", &[("x", item(vec![7]))]);
    s.heddle("run m.heddle -i in.npz -o out.npz").ok();
    assert_eq!(s.elements::<i64>("out.npz", "y").1, [7]);
    let text = s.heddle("run m.heddle").ok();
    assert!(text.contains("empty optional"), "{text}");
}

#[test]
fn broken_archives_are_errors() {
    let s = identity("f32[1]");
    s.write("in.npz", "PK\x03\x04 nonsense");
    s.heddle("run m.heddle -i in.npz")
        .fails(3, &["in.npz is not an .npz archive", "savez"]);
    s.npz(
        "in.npz",
        &[("x", Array::Raw(b"\x93NUMPY\x01\x00\xff".to_vec()))],
    );
    s.heddle("run m.heddle -i in.npz")
        .fails(3, &["array `x`", "truncated"]);
    s.npz("in.npz", &[("x", npy("<f4", "(1000000000000,)", &[0; 8]))]);
    s.heddle("run m.heddle -i in.npz")
        .fails(3, &["array `x`", "truncated"]);
    s.npz(
        "in.npz",
        &[(
            "x",
            npy("<f4", "(4294967296, 4294967296, 4294967296)", &[0; 8]),
        )],
    );
    s.heddle("run m.heddle -i in.npz")
        .fails(3, &["array `x`", "too large"]);
    // The command's output is stored without compression, so that a byte of an array can be
    // changed.
    s.npz("in.npz", &[("x", npy("<f4", "(1,)", &[0; 4]))]);
    s.heddle("run m.heddle -i in.npz -o out.npz").ok();
    let mut bytes = std::fs::read(s.path("out.npz")).unwrap();
    let at = bytes.windows(5).position(|w| w == b"shape").unwrap();
    bytes[at + 8] = b'9';
    s.write("out.npz", bytes);
    s.write(
        "n.heddle",
        "fn @main(%y: f32[..]) -> (%z: f32[..]) {\n  return %y\n}\n",
    );
    s.heddle("run n.heddle -i out.npz").fails(3, &["array `y`"]);
}
