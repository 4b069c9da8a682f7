//! Finds a working C or C++ compiler, and calls it with our own flags.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use crate::abi::ABI;
use crate::build::{BuildOptions, Language};
use crate::cache::{Cache, Key};
use crate::error::BuildError;
use crate::flags::{Flags, Product};

/// The candidates in order, if neither an option nor `HEDDLE_CC` names a compiler. Those of [`add_candidate`] follow.
pub const CANDIDATES: &[&str] = &["gcc", "clang", "cc"];

static MORE: Mutex<Vec<String>> = Mutex::new(vec![]);

/// Adds a compiler, optionally with leading arguments, that is tried when no other one works: one that a package brings along.
pub fn add_candidate(command: &str) {
    let mut more = MORE.lock().unwrap_or_else(PoisonError::into_inner);
    if !more.iter().any(|known| known == command) {
        more.push(command.to_owned());
    }
}

/// Flags that select this processor, in order of preference; the last always works, also for a compiler that runs on a processor
/// of another kind. On x86 `-march` selects instructions and their costs; on Arm it selects instructions alone, and `-mcpu` both.
const ARCHS: [&[&str]; 3] = match cfg!(target_arch = "aarch64") {
    true => [&["-mcpu=native"], &["-march=native"], &[]],
    false => [&["-march=native"], &["-mcpu=native"], &[]],
};

/// A flag that compilers are given where they know it, as GCC does: without it, GCC (12.2, from `-O2` on) drops stores that a later
/// iteration of a loop overwrites, and stores elements that the loop did not reach with what they held before the loop. That loses
/// what another worker wrote there meanwhile. `-fno-allow-store-data-races`, which is the default, does not hold it back.
const NO_STRAY_STORES: &str = "-fno-predictive-commoning";

/// A flag that clang is given where it knows it: it otherwise makes loops of 32-byte vectors where the processor has 64-byte ones, as
/// kernels use. GCC 12 makes 64-byte vectors without.
const LONG_VECTORS: &str = "-mprefer-vector-width=512";

/// A compiler that has compiled, linked and loaded a small program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    program: PathBuf,
    args: Vec<String>,
    version: String,
    /// The flags of [`ARCHS`], [`NO_STRAY_STORES`] and [`LONG_VECTORS`] that it accepts.
    accepted: Vec<String>,
}

impl Compiler {
    /// The compiler given by options and environment, or the first candidate that works.
    pub fn find(options: &BuildOptions, cache: &Cache) -> Result<Arc<Compiler>, BuildError> {
        type Id = (Language, Option<String>, Option<OsString>);
        type Found = HashMap<Id, Arc<Compiler>>;
        static FOUND: LazyLock<Mutex<Found>> = LazyLock::new(Mutex::default);

        let wanted = options.compiler.clone().or_else(|| {
            let value = std::env::var_os("HEDDLE_CC")?;
            Some(value.to_string_lossy().into_owned()).filter(|v| !v.trim().is_empty())
        });
        let language = options.language;
        let id = (language, wanted, std::env::var_os("PATH"));
        let found = FOUND
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&id)
            .cloned();
        if let Some(compiler) = found.filter(|c| c.program.exists()) {
            return Ok(compiler);
        }
        let candidates = match &id.1 {
            Some(wanted) => vec![wanted.clone()],
            None => {
                let more = MORE.lock().unwrap_or_else(PoisonError::into_inner);
                let usual = CANDIDATES.iter().map(|usual| (*usual).to_owned());
                usual.chain(more.iter().cloned()).collect()
            }
        };
        let mut probed = Vec::new();
        for candidate in candidates {
            match probe(&candidate, language, cache) {
                Ok(compiler) => {
                    let compiler = Arc::new(compiler);
                    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
                    found.insert(id, compiler.clone());
                    return Ok(compiler);
                }
                Err(Unfit::Reason(why)) => probed.push((candidate, why)),
                Err(Unfit::Disk(path, source)) => {
                    let action = "writing a test program to";
                    return Err(BuildError::Io {
                        action,
                        path,
                        source,
                    });
                }
            }
        }
        Err(BuildError::NoCompiler { language, probed })
    }

    /// Its path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Everything that its output depends on, besides source and flags.
    pub fn identity(&self) -> String {
        let Compiler {
            program,
            args,
            version,
            accepted,
        } = self;
        let accepted = accepted.join(" ");
        format!("{}\n{args:?}\n{accepted}\n{version}", program.display())
    }

    /// The first line of its `--version`.
    pub fn version(&self) -> &str {
        self.version.lines().next().unwrap_or("")
    }

    /// Compiles `text` in `folder`; returns the path of the output there.
    pub(crate) fn compile(
        &self,
        text: &str,
        flags: &Flags,
        folder: &Path,
    ) -> Result<PathBuf, CompileError> {
        let write = |file: &str, text: &str| {
            let path = folder.join(file);
            std::fs::write(&path, text).map_err(|e| CompileError::Disk(path, e))
        };
        let (header, content) = flags.header_file();
        write(header, content)?;
        write("program.c", text)?;
        for (file, text) in flags.more_sources() {
            write(file, text)?;
        }
        let product = folder.join("product");
        let output = Command::new(&self.program)
            .args(&self.args)
            .args(flags.list(&self.accepted))
            .args(["-o", "product"])
            .current_dir(folder)
            .env("LC_ALL", "C")
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .output()
            .map_err(CompileError::Start)?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() && product.exists() {
            return Ok(product);
        }
        const NO_ROOM: &[&str] = &["No space left", "Disk quota exceeded", "File too large"];
        if NO_ROOM.iter().any(|s| stderr.contains(s)) || is_full(folder) {
            let e = io::Error::new(io::ErrorKind::StorageFull, stderr.trim().to_owned());
            return Err(CompileError::Disk(product, e));
        }
        Err(CompileError::Refused {
            status: output.status.to_string(),
            stderr,
        })
    }

    /// The error for a failure that no other folder would avoid.
    pub(crate) fn refusal(&self, name: &str, error: CompileError) -> BuildError {
        let (status, stderr) = match error {
            CompileError::Disk(path, source) => {
                let action = "writing";
                return BuildError::Io {
                    action,
                    path,
                    source,
                };
            }
            CompileError::Start(e) => ("it does not start".to_owned(), e.to_string()),
            CompileError::Refused { status, stderr } => (status, stderr),
        };
        BuildError::Compile {
            name: name.to_owned(),
            compiler: self.program.display().to_string(),
            status,
            stderr,
        }
    }
}

/// The reasons for which a compilation fails.
#[derive(Debug)]
pub(crate) enum CompileError {
    /// The compiler does not start.
    Start(io::Error),
    /// A file in the folder; another folder may do.
    Disk(PathBuf, io::Error),
    /// The compiler rejected the program.
    Refused {
        /// Its exit status.
        status: String,
        /// Its messages.
        stderr: String,
    },
}

/// The reasons for which a candidate is not used.
enum Unfit {
    /// It does not work.
    Reason(String),
    /// It could not be tried for lack of disk space.
    Disk(PathBuf, io::Error),
}

/// A linker may die silently of a full disk (SIGBUS in a mapped output), so ask the disk itself.
fn is_full(folder: &Path) -> bool {
    let path = folder.join("room");
    let full = std::fs::write(&path, [0; 1 << 16]).is_err();
    let _ = std::fs::remove_file(path);
    full
}

/// Tests one candidate; the result is cached until the compiler's file changes.
fn probe(candidate: &str, language: Language, cache: &Cache) -> Result<Compiler, Unfit> {
    let (program, args) = resolve(candidate).map_err(Unfit::Reason)?;
    let stamp = stamp(&program).map_err(|e| Unfit::Reason(e.to_string()))?;
    let flags = probe_flags(language)?;
    let known = [
        program.as_os_str().as_encoded_bytes(),
        stamp.as_bytes(),
        flags.header().as_bytes(),
        NO_STRAY_STORES.as_bytes(),
        LONG_VECTORS.as_bytes(),
    ];
    let args_text = format!("{args:?}");
    let key = Key::new(&[&known[..], &[args_text.as_bytes()]].concat());
    let remembered = cache
        .get("compiler", key)
        .and_then(|b| String::from_utf8(b).ok());
    if let Some((accepted, version)) = remembered.as_deref().and_then(|t| t.split_once('\n')) {
        return Ok(Compiler {
            program,
            args,
            version: version.to_owned(),
            accepted: accepted.split_whitespace().map(str::to_owned).collect(),
        });
    }
    let compiler = try_out(program, args, language, &flags)?;
    let content = format!("{}\n{}", compiler.accepted.join(" "), compiler.version);
    // Without a cache it is tested again next time.
    let _ = cache.put("compiler", key, content.as_bytes());
    Ok(compiler)
}

/// A candidate's file and its leading arguments, as in `ccache gcc`.
fn resolve(candidate: &str) -> Result<(PathBuf, Vec<String>), String> {
    if let Some(program) = on_path(candidate) {
        return Ok((program, Vec::new()));
    }
    let mut words = candidate.split_whitespace().map(str::to_owned);
    let first = words.next().unwrap_or_default();
    match on_path(&first) {
        Some(program) => Ok((program, words.collect())),
        None if first.contains('/') => Err("no such program".to_owned()),
        None => Err("not found on PATH".to_owned()),
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        let meta = path.metadata();
        meta.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if name.is_empty() {
        return None;
    }
    if name.contains('/') {
        // Absolute, since the compiler runs in another folder.
        return std::path::absolute(name).ok().filter(is_program);
    }
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).filter(|f| f.is_absolute());
    folders.map(|f| f.join(name)).find(is_program)
}

/// Changes when the compiler is replaced.
fn stamp(program: &Path) -> io::Result<String> {
    let file = program.canonicalize()?;
    let meta = file.metadata()?;
    let time = meta
        .modified()?
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok(format!(
        "{} {} {}",
        file.display(),
        meta.len(),
        time.as_nanos()
    ))
}

fn try_out(
    program: PathBuf,
    args: Vec<String>,
    language: Language,
    flags: &Flags,
) -> Result<Compiler, Unfit> {
    let version = Command::new(&program)
        .args(&args)
        .arg("--version")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Unfit::Reason(e.to_string()))?;
    let compiler = Compiler {
        program,
        args,
        version: String::from_utf8_lossy(&version.stdout).into_owned(),
        accepted: vec![],
    };
    let accepts = |accepted: &[&str]| {
        let accepted = accepted.iter().map(|flag| (*flag).to_owned()).collect();
        let compiler = Compiler {
            accepted,
            ..compiler.clone()
        };
        compiles_and_loads(&compiler, language, flags).map(|()| compiler)
    };
    let mut reason = String::new();
    for arch in ARCHS {
        match accepts(arch) {
            Ok(mut known) => {
                let is_clang = known.version.contains("clang");
                let more = [Some(NO_STRAY_STORES), is_clang.then_some(LONG_VECTORS)];
                for flag in more.into_iter().flatten() {
                    let so_far: Vec<_> = known.accepted.iter().map(String::as_str).collect();
                    match accepts(&[&so_far[..], &[flag]].concat()) {
                        Ok(all) => known = all,
                        Err(Unfit::Reason(_)) => {}
                        Err(disk) => return Err(disk),
                    }
                }
                return Ok(known);
            }
            Err(Unfit::Reason(why)) => reason = why,
            Err(disk) => return Err(disk),
        }
    }
    Err(Unfit::Reason(reason))
}

/// Flags of a test program.
fn probe_flags(language: Language) -> Result<Flags, Unfit> {
    let options = BuildOptions {
        language,
        optimize: Some(3),
        ..BuildOptions::default()
    };
    Flags::new(&options, Product::Library).map_err(|e| Unfit::Reason(e.to_string()))
}

/// A test program, whose function gives the version of the interface.
fn probe_text(language: Language) -> String {
    match language {
        Language::C => {
            "HEDDLE_EXPORT int32_t heddle_probe(void) { return HEDDLE_ABI; }\n".to_owned()
        }
        Language::Simulated => format!(
            "extern \"C\" __attribute__((visibility(\"default\"))) int32_t heddle_probe(void) {{ return {ABI}; }}\n"
        ),
    }
}

/// Loading detects a compiler for another machine.
fn compiles_and_loads(compiler: &Compiler, language: Language, flags: &Flags) -> Result<(), Unfit> {
    let folder = tempfile::tempdir().map_err(|e| Unfit::Disk(std::env::temp_dir(), e))?;
    let file = compiler
        .compile(&probe_text(language), flags, folder.path())
        .map_err(|e| match e {
            CompileError::Start(e) => Unfit::Reason(e.to_string()),
            CompileError::Disk(path, e) => Unfit::Disk(path, e),
            CompileError::Refused { status, stderr } => {
                let head: Vec<&str> = stderr.lines().take(8).collect();
                let head = head.join("\n");
                Unfit::Reason(format!(
                    "it does not compile a test program ({status})\n{head}"
                ))
            }
        })?;
    crate::loading::probe_library(&file)
        .map_err(|e| Unfit::Reason(format!("what it builds does not load here: {e}")))
}
