//! Builds and loads emitted programs.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use heddle_abi::Plan;
use libloading::Library;

use crate::abi::{ABI, About, EntryFn, HostFn};
use crate::buffer::ALIGNMENT;
use crate::build::{BuildOptions, BuildReport, CacheUse, Language};
use crate::cache::{Cache, Key};
use crate::compiler::{CompileError, Compiler};
use crate::cpu;
use crate::cuda::{self, DeviceError, Gpu, Kernel};
use crate::error::BuildError;
use crate::flags::{Flags, Product};
use crate::libraries;
use crate::loading::open;
use crate::source::{Constant, Source};

/// A loaded program with its constants. Several sessions can run it concurrently.
#[derive(Debug)]
pub struct Program {
    name: String,
    /// Unique among the programs of this process.
    id: u64,
    about: About,
    plan: Plan,
    code: Code,
    report: BuildReport,
}

/// The code of a program, by where it runs.
#[derive(Debug)]
pub(crate) enum Code {
    /// In this process.
    Library(Linked),
    /// On a GPU.
    Kernel(Kernel),
}

/// A program in this process.
#[derive(Debug)]
pub(crate) struct Linked {
    main: EntryFn,
    host_main: Option<HostFn>,
    /// Addresses of `blobs`: `env->constants`.
    pointers: Vec<*const c_void>,
    _blobs: Vec<Constant>,
    library: Library,
    language: Language,
}

// SAFETY: the pointers are to constants that the program owns and never writes.
unsafe impl Send for Linked {}
// SAFETY: as above; emitted programs have no mutable globals.
unsafe impl Sync for Linked {}

/// An entry of a program besides `heddle_main`, for [`crate::Staged::dispatch`].
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub(crate) function: EntryFn,
    /// The program that it belongs to, the only one it may be called for.
    pub(crate) owner: u64,
}

impl Program {
    /// Builds the program, unless the cache has it, and loads it.
    pub fn build(source: &Source, options: &BuildOptions) -> Result<Program, BuildError> {
        let start = Instant::now();
        let flags = Flags::new(options, Product::Library)?;
        let content = libraries::key(&source.text, &flags);
        let libraries = options.libraries.as_deref();
        if let Some(library) = libraries.and_then(|known| known.load(content)) {
            let report = BuildReport {
                compiler: "saved with the program".to_owned(),
                key: content,
                cache: CacheUse::Hit,
                elapsed: start.elapsed(),
            };
            return Program::resolve(source, library, options.language, report);
        }
        let cache = Cache::open(&options.cache, options.cache_limit);
        let compiler = Compiler::find(options, &cache)?;
        let key = key(&source.text, &flags, &compiler);
        let keep = |file: &Path| {
            if let Some(libraries) = libraries {
                libraries.keep(content, &source.text, file);
            }
        };
        let (library, cache) = obtain(source, &cache, &compiler, &flags, key, &keep)?;
        let report = BuildReport {
            compiler: format!("{} ({})", compiler.program().display(), compiler.version()),
            key,
            cache,
            elapsed: start.elapsed(),
        };
        Program::resolve(source, library, options.language, report)
    }

    /// Builds a program for a GPU, unless the cache has it, and loads it there. Its language is CUDA.
    ///
    /// # Errors
    /// There is no compiler, it rejects the text, or the device does not take the program.
    pub fn build_for(
        source: &Source,
        gpu: &Gpu,
        options: &BuildOptions,
    ) -> Result<Program, BuildError> {
        let (cubin, report) = cuda::build(source, gpu, options)?;
        let constants = source.constants.clone();
        let kernel = Kernel::new(&gpu.device, &gpu.arch, cubin, constants, options.notes);
        let name = source.name.clone();
        let about = kernel.about()?.ok_or(BuildError::Symbol {
            name,
            symbol: "heddle_program",
        })?;
        Program::of(source, about, Code::Kernel(kernel), report)
    }

    /// Loads a program built elsewhere: a shared library as made by [`Program::build`].
    ///
    /// # Safety
    /// Loading runs the library's code: it must be an emitted program.
    pub unsafe fn load(
        path: &Path,
        name: &str,
        plan: Plan,
        constants: Vec<Constant>,
    ) -> Result<Program, BuildError> {
        let start = Instant::now();
        let library = open(path)?;
        let report = BuildReport {
            compiler: "built elsewhere".to_owned(),
            key: Key::new(&[path.as_os_str().as_encoded_bytes()]),
            cache: CacheUse::Uncached("built elsewhere".to_owned()),
            elapsed: start.elapsed(),
        };
        let source = Source {
            name: name.to_owned(),
            text: String::new(),
            constants,
            plan,
        };
        Program::resolve(&source, library, Language::C, report)
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program's counts.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The result of the build.
    pub fn report(&self) -> &BuildReport {
        &self.report
    }

    /// An entry that the program exports besides `heddle_main`: `HEDDLE_ENTRY(name)`.
    pub fn entry(&self, name: &str) -> Option<Entry> {
        let symbol = std::ffi::CString::new(format!("heddle_entry_{name}")).ok()?;
        let library = &self.linked()?.library;
        // SAFETY: emitted programs export functions of this type under such names, and nothing
        // else.
        let function = unsafe { library.get::<EntryFn>(symbol.to_bytes_with_nul()) };
        Some(self.own(*function.ok()?))
    }

    /// Distinguishes entries of different programs.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn own(&self, function: EntryFn) -> Entry {
        Entry {
            function,
            owner: self.id,
        }
    }

    /// Blocks of so many threads that can be on the device at once; `None` if the program runs on none.
    ///
    /// # Errors
    /// A call of the driver fails.
    pub fn resident_blocks(&self, threads: usize) -> Result<Option<usize>, DeviceError> {
        match &self.code {
            Code::Kernel(kernel) => kernel.resident(threads).map(Some),
            Code::Library(_) => Ok(None),
        }
    }

    /// Bytes of memory that each thread has for what its registers do not hold; `None` if the program runs on no device.
    ///
    /// # Errors
    /// A call of the driver fails.
    pub fn local_bytes(&self) -> Result<Option<usize>, DeviceError> {
        match &self.code {
            Code::Kernel(kernel) => kernel.local_bytes().map(Some),
            Code::Library(_) => Ok(None),
        }
    }

    /// Its code.
    pub(crate) fn code(&self) -> &Code {
        &self.code
    }

    /// Its code, if it runs in this process.
    pub(crate) fn linked(&self) -> Option<&Linked> {
        match &self.code {
            Code::Library(linked) => Some(linked),
            Code::Kernel(_) => None,
        }
    }

    /// The entry of a program that runs in this process.
    pub(crate) fn main(&self, linked: &Linked) -> Entry {
        self.own(linked.main)
    }

    /// The memory of a launch.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    fn resolve(
        source: &Source,
        library: Library,
        language: Language,
        report: BuildReport,
    ) -> Result<Program, BuildError> {
        let name = source.name.as_str();
        let missing = |symbol: &'static str| {
            let name = name.to_owned();
            move |_| BuildError::Symbol { name, symbol }
        };
        // SAFETY: the header fixes the types of these symbols.
        let (about, main) = unsafe {
            let about = library.get::<*const About>(c"heddle_program".to_bytes_with_nul());
            let main = library.get::<EntryFn>(c"heddle_main".to_bytes_with_nul());
            (
                **about.map_err(missing("heddle_program"))?,
                *main.map_err(missing("heddle_main"))?,
            )
        };
        // SAFETY: as above.
        let host_main = unsafe {
            let host_main = library.get::<HostFn>(c"heddle_host_main".to_bytes_with_nul());
            host_main.ok().map(|f| *f)
        };
        // A device has copies of all constants, which are aligned.
        let least = match language {
            Language::C => 1,
            Language::Simulated => ALIGNMENT,
        };
        let blobs = source.constants.iter();
        let blobs = blobs
            .map(|constant| constant.clone().aligned(least))
            .collect::<Result<Vec<_>, _>>()?;
        let linked = Linked {
            main,
            host_main,
            pointers: blobs.iter().map(|b| b.bytes().as_ptr().cast()).collect(),
            _blobs: blobs,
            library,
            language,
        };
        Program::of(source, about, Code::Library(linked), report)
    }

    /// A program with its code.
    fn of(
        source: &Source,
        about: About,
        code: Code,
        report: BuildReport,
    ) -> Result<Program, BuildError> {
        let (name, plan) = (source.name.clone(), source.plan.clone());
        check_counts(&name, &about, &plan, source.constants.len())?;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ok(Program {
            name,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            about,
            plan,
            code,
            report,
        })
    }
}

impl Linked {
    /// The control flow of a program that leaves it to the host.
    pub(crate) fn host_main(&self) -> Option<HostFn> {
        self.host_main
    }

    pub(crate) fn constants(&self) -> *const *const c_void {
        self.pointers.as_ptr()
    }

    /// The language that it was emitted in.
    pub(crate) fn language(&self) -> Language {
        self.language
    }
}

fn key(text: &str, flags: &Flags, compiler: &Compiler) -> Key {
    let list = flags.list(&[]).join("\n");
    let compiler = compiler.identity();
    let parts = [
        text,
        &list,
        &compiler,
        cpu::identity(),
        flags.header(),
        std::env::consts::OS,
    ];
    Key::new(&parts.map(str::as_bytes))
}

/// The text and the plan must belong to the same program.
fn check_counts(
    name: &str,
    about: &About,
    plan: &Plan,
    constants: usize,
) -> Result<(), BuildError> {
    if about.abi != ABI {
        return Err(BuildError::Abi {
            name: name.to_owned(),
            found: about.abi,
        });
    }
    for (what, stated, given) in [
        ("inputs", about.inputs, plan.inputs.len()),
        ("outputs", about.outputs, plan.outputs.len()),
        ("sizes", about.sizes, plan.sizes()),
        ("words of table", about.table_len, plan.table.len()),
        ("constants", about.constants, constants),
    ] {
        if stated != given as i64 {
            return Err(BuildError::Counts {
                name: name.to_owned(),
                what,
                stated,
                given,
            });
        }
    }
    Ok(())
}

/// Finds or builds the library in the cache or, if that fails, in a temporary folder. `keep` is shown its file.
fn obtain(
    source: &Source,
    cache: &Cache,
    compiler: &Compiler,
    flags: &Flags,
    key: Key,
    keep: &dyn Fn(&Path),
) -> Result<(Library, CacheUse), BuildError> {
    const KIND: &str = "so";
    let open = |path: &Path| {
        let library = open(path)?;
        keep(path);
        Ok::<_, BuildError>(library)
    };
    let cached = || {
        let library = open(&cache.find(KIND, key)?).ok();
        if library.is_none() {
            cache.remove(KIND, key);
        }
        library
    };
    if let Some(library) = cached() {
        return Ok((library, CacheUse::Hit));
    }
    let build_in = |folder: &Path| compiler.compile(&source.text, flags, folder);
    let build_cached = || -> Result<PathBuf, CompileError> {
        let at_root = |e| CompileError::Disk(cache.root().unwrap_or(Path::new("")).to_owned(), e);
        let work = cache.work_dir().map_err(at_root)?;
        let product = build_in(work.path())?;
        cache.adopt(KIND, key, &product).map_err(at_root)
    };
    let mut why = cache.unusable().map(str::to_owned);
    if why.is_none() {
        let _lock = cache.lock(key);
        // Another process may have built it in the meantime.
        if let Some(library) = cached() {
            return Ok((library, CacheUse::Hit));
        }
        match build_cached() {
            Ok(path) => match open(&path) {
                Ok(library) => return Ok((library, CacheUse::Stored)),
                Err(e) => why = Some(e.to_string()),
            },
            Err(CompileError::Disk(path, e)) => why = Some(format!("{}: {e}", path.display())),
            Err(e) => return Err(compiler.refusal(&source.name, e)),
        }
    }
    let folder = tempfile::tempdir().map_err(|source| BuildError::Io {
        action: "making a folder in",
        path: std::env::temp_dir(),
        source,
    })?;
    let product = build_in(folder.path()).map_err(|e| compiler.refusal(&source.name, e))?;
    // A loaded library remains valid without its file.
    Ok((open(&product)?, CacheUse::Uncached(why.unwrap_or_default())))
}
