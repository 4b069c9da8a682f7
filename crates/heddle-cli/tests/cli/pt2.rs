//! `.pt2` files beside the results of PyTorch, on both devices.

use std::path::PathBuf;

use crate::setup::Scratch;

fn models() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.join("../../tests/models/pt2").canonicalize().unwrap()
}

/// Checks a file on its inputs of this number.
fn check(file: &str, number: u32, device: &str) {
    let folder = models();
    let name = file.trim_end_matches(".pt2").trim_end_matches(".core");
    let file = folder.join(file);
    let data = folder.join(format!("{name}.{number}"));
    let (file, data) = (file.display(), data.display());
    Scratch::new()
        .heddle(&format!(
            "check {file} -i {data}.in.npz --expect {data}.out.npz --rtol 1e-4 --atol 1e-5 --device {device}"
        ))
        .ok();
}

/// Each file; PyTorch fixed a size in the core of one, which is checked on the first inputs only.
fn check_all(device: &str) {
    let mut count = 0;
    for entry in std::fs::read_dir(models()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".pt2") {
            continue;
        }
        check(&name, 1, device);
        if name != "in_place.core.pt2" {
            check(&name, 2, device);
        }
        count += 1;
    }
    assert!(count >= 21, "{count} files");
}

#[test]
fn files_agree_with_pytorch_on_the_interpreter() {
    check_all("interp");
}

#[test]
fn files_agree_with_pytorch_compiled() {
    check_all("cpu");
}

#[test]
fn files_are_shown_and_measured() {
    let s = Scratch::new();
    let file = models().join("state.pt2");
    let file = file.display();
    let text = s.heddle(&format!("inspect {file}")).ok();
    assert!(text.contains("calls"), "{text}");
    s.heddle(&format!("compile {file} --emit ir")).ok();
    s.heddle(&format!(
        "bench {file} --random 0 --seconds 0.01 --device interp"
    ))
    .ok();
}

#[test]
fn files_of_other_kinds_are_refused() {
    let s = Scratch::new();
    s.write("m.pt2", "no archive");
    s.heddle("run m.pt2")
        .fails(3, &["m.pt2: it is no zip archive"]);
    s.heddle("run missing.pt2")
        .fails(6, &["cannot read missing.pt2"]);
}
