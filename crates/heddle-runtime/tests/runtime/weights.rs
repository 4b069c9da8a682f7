//! Constants in the cache on disk: written once, mapped by all, in memory where that fails.

use std::fs;
use std::path::{Path, PathBuf};

use heddle_runtime::cache::{Cache, CacheChoice, Key};
use heddle_runtime::{ALIGNMENT, Constant, weights};

const SIZE: usize = 100_000;

fn open(folder: &Path) -> Cache {
    Cache::open(&CacheChoice::At(folder.to_owned()), 1 << 20)
}

/// The constant of this name, and whether it was packed for that.
fn get(cache: &Cache, name: &str) -> (Constant, bool) {
    let mut is_packed = false;
    let constant = weights::shared_in(cache, Key::new(&[name.as_bytes()]), SIZE, |out| {
        is_packed = true;
        out.fill(7);
    });
    let constant = constant.unwrap();
    assert!(constant.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT));
    assert!(constant.bytes().len() == SIZE && constant.bytes().iter().all(|&byte| byte == 7));
    (constant, is_packed)
}

/// Is a constant that nobody holds packed anew?
fn packs(cache: &Cache, name: &str) -> bool {
    get(cache, name).1
}

fn entry(folder: &Path) -> PathBuf {
    let mut files = fs::read_dir(folder.join("entries")).unwrap();
    let path = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    path
}

#[test]
fn a_constant_is_packed_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path());
    let (first, is_packed) = get(&cache, "once");
    assert!(is_packed);
    let (second, is_packed) = get(&cache, "once");
    assert!(!is_packed);
    assert_eq!(first.bytes().as_ptr(), second.bytes().as_ptr());
    drop((first, second));
    assert!(!packs(&open(folder.path()), "once"));
    assert!(packs(&cache, "another"));
}

#[test]
fn a_mapped_constant_outlives_its_entry() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path());
    let (constant, _) = get(&cache, "outlives");
    fs::remove_file(entry(folder.path())).unwrap();
    assert!(constant.bytes().iter().all(|&byte| byte == 7));
    drop(constant);
    assert!(packs(&cache, "outlives") && !packs(&cache, "outlives"));
}

#[test]
fn broken_entries_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path());
    get(&cache, "broken");
    let path = entry(folder.path());
    let good = fs::read(&path).unwrap();
    let mut flipped = good.clone();
    flipped[SIZE / 2] ^= 1;
    let mut cases = vec![vec![], flipped, [&good[..], b"more"].concat()];
    cases.extend([1, 8, SIZE, good.len() - 1].map(|length| good[..length].to_vec()));
    for broken in cases {
        fs::remove_file(&path).unwrap();
        fs::write(&path, &broken).unwrap();
        assert!(packs(&cache, "broken"), "{} bytes", broken.len());
        assert_eq!(fs::read(&path).unwrap(), good);
        assert!(!packs(&cache, "broken"));
    }
    // A complete entry of another size.
    cache
        .put("weights", Key::new(&[b"broken"]), &[7; 10])
        .unwrap();
    assert!(packs(&cache, "broken") && !packs(&cache, "broken"));
}

#[test]
fn without_a_cache_constants_stay_in_memory() {
    for choice in [CacheChoice::Off, CacheChoice::At("/proc/heddle".into())] {
        let cache = Cache::open(&choice, 1 << 20);
        assert!(packs(&cache, "none") && packs(&cache, "none"));
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path());
    get(&cache, "kept");
    // Permissions do not stop every user; files in the place of folders do.
    for name in ["work", "locks"] {
        fs::remove_dir_all(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name), "").unwrap();
    }
    assert!(!packs(&cache, "kept"));
    assert!(packs(&cache, "new") && packs(&cache, "new"));
}

#[test]
fn constants_beyond_the_limit_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&CacheChoice::At(folder.path().to_owned()), 10);
    let held = [get(&cache, "large 1"), get(&cache, "large 2")];
    entry(folder.path());
    assert!(
        held.iter()
            .all(|(c, _)| c.bytes().iter().all(|&byte| byte == 7))
    );
}
