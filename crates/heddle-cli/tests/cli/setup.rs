//! A scratch folder to run the command in, and models to run.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output};

use npyz::WriterBuilder;
use serde_json::Value;

/// `y = x * 2^k`, and all the steps on the way.
pub const DOUBLER: &str = "\
fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[n], %steps: f32[?,n]) {
  %y, %steps = loop %i trip %k carry (%h = %x) {
    %twice = add(%h, %h)
    continue carry %twice stack %twice
  }
  return %y, %steps
}
";

/// A folder that goes away at the end of the test.
pub struct Scratch {
    folder: tempfile::TempDir,
}

/// Outcome of a run of the command.
pub struct Done {
    /// The exit status.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Scratch {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder for temporary files"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The names of what is in the folder, sorted.
    pub fn list(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let name = |e: std::io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }

    /// Runs `heddle` in the folder with arguments that are separated by spaces.
    pub fn heddle(&self, args: &str) -> Done {
        self.heddle_with(args, |_| {})
    }

    pub fn heddle_with(&self, args: &str, adjust: impl FnOnce(&mut Command)) -> Done {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
        command
            .args(args.split_whitespace())
            .current_dir(self.folder.path());
        adjust(&mut command);
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().expect("the command can be started");
        Done {
            code: status.code().expect("no signal"),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    /// Writes an archive of arrays, in NumPy's format by another implementation than the command's
    /// own.
    pub fn npz(&self, name: &str, arrays: &[(&str, Array)]) {
        let mut zip = zip::ZipWriter::new(File::create(self.path(name)).unwrap());
        for (name, array) in arrays {
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(format!("{name}.npy"), options).unwrap();
            zip.write_all(&array.encode()).unwrap();
        }
        zip.finish().unwrap();
    }

    /// The bytes of an array in an archive.
    pub fn array(&self, archive: &str, name: &str) -> Vec<u8> {
        let mut zip = zip::ZipArchive::new(File::open(self.path(archive)).unwrap()).unwrap();
        let mut bytes = vec![];
        let mut entry = zip.by_name(&format!("{name}.npy")).unwrap();
        entry.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// Shape and elements of an array in an archive.
    pub fn elements<T: npyz::Deserialize>(&self, archive: &str, name: &str) -> (Vec<u64>, Vec<T>) {
        let bytes = self.array(archive, name);
        let file = npyz::NpyFile::new(bytes.as_slice()).unwrap();
        assert_eq!(file.order(), npyz::Order::C);
        (file.shape().to_vec(), file.into_vec().unwrap())
    }
}

impl Done {
    /// Asserts success and returns standard output.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.out, self.err);
        self.out
    }

    /// Asserts success and returns the JSON document on standard output.
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// Asserts failure with this status, an error that contains all these words, and no panic.
    pub fn fails(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(
            self.code, code,
            "stdout: {}\nstderr: {}",
            self.out, self.err
        );
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }
}

/// An array to be written.
#[derive(Clone)]
pub enum Array {
    F32(Vec<u64>, Vec<f32>),
    F64(Vec<u64>, Vec<f64>),
    I64(Vec<u64>, Vec<i64>),
    I32(Vec<u64>, Vec<i32>),
    /// First index fastest.
    Fortran(Vec<u64>, Vec<f32>),
    /// Whatever the bytes are.
    Raw(Vec<u8>),
}

impl Array {
    fn encode(&self) -> Vec<u8> {
        fn put<T: npyz::AutoSerialize + Copy>(
            order: npyz::Order,
            shape: &[u64],
            data: &[T],
        ) -> Vec<u8> {
            let mut bytes = vec![];
            let options = npyz::WriteOptions::new()
                .default_dtype()
                .order(order)
                .shape(shape);
            let mut writer = options.writer(&mut bytes).begin_nd().unwrap();
            writer.extend(data.iter().copied()).unwrap();
            writer.finish().unwrap();
            bytes
        }
        use npyz::Order::{C, Fortran};
        match self {
            Array::F32(shape, data) => put(C, shape, data),
            Array::F64(shape, data) => put(C, shape, data),
            Array::I64(shape, data) => put(C, shape, data),
            Array::I32(shape, data) => put(C, shape, data),
            Array::Fortran(shape, data) => put(Fortran, shape, data),
            Array::Raw(bytes) => bytes.clone(),
        }
    }
}

/// [`DOUBLER`] as `m.heddle`, with inputs in `in.npz` and its results in `want.npz`.
pub fn doubler() -> Scratch {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    s.npz("in.npz", &doubler_inputs());
    let steps = vec![2.0, -4.0, 1.0, 4.0, -8.0, 2.0];
    s.npz(
        "want.npz",
        &[
            ("y", Array::F32(vec![3], vec![4.0, -8.0, 2.0])),
            ("steps", Array::F32(vec![2, 3], steps)),
        ],
    );
    s
}

/// The inputs of [`DOUBLER`].
pub fn doubler_inputs() -> Vec<(&'static str, Array)> {
    vec![
        ("x", Array::F32(vec![3], vec![1.0, -2.0, 0.5])),
        ("k", Array::I64(vec![], vec![2])),
    ]
}
