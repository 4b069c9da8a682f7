//! NVRTC, the CUDA compiler in a library: text to a cubin for one architecture.
//!
//! It never makes PTX, which a driver older than the compiler refuses.

use std::ffi::{CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;
use libloading::os::unix::{Library as GlobalLibrary, RTLD_GLOBAL, RTLD_NOW};

use super::error::{DeviceError, Failed};
use super::table::function_table;
use crate::fork::PerProcess;
use crate::loading::loader_message;

/// The variable that names the compiler's library.
const LIBRARY: &str = "HEDDLE_NVRTC";

/// The library's names, newest first.
const NAMES: &[&str] = &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// Folders of a toolkit that may hold it.
const FOLDERS: &[&str] = &["lib64", "lib", "targets/x86_64-linux/lib"];

/// The toolkit's folder where `CUDA_HOME` names none.
const TOOLKIT: &str = "/usr/local/cuda";

/// A program that is being compiled.
type Handle = usize;

function_table! {
    /// `libnvrtc`.
    struct Table {
        version = "nvrtcVersion"(*mut c_int, *mut c_int),
        arch_count = "nvrtcGetNumSupportedArchs"(*mut c_int),
        archs = "nvrtcGetSupportedArchs"(*mut c_int),
        create = "nvrtcCreateProgram"(
            *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
        ),
        destroy = "nvrtcDestroyProgram"(*mut Handle),
        compile = "nvrtcCompileProgram"(Handle, c_int, *const *const c_char),
        log_size = "nvrtcGetProgramLogSize"(Handle, *mut usize),
        log = "nvrtcGetProgramLog"(Handle, *mut c_char),
        cubin_size = "nvrtcGetCUBINSize"(Handle, *mut usize),
        cubin = "nvrtcGetCUBIN"(Handle, *mut c_char),
    }
}

/// The compiler.
#[derive(Debug)]
pub struct Nvrtc {
    table: Table,
    library: String,
    version: (i32, i32),
    /// Numbers of the architectures that it knows, as 90.
    archs: Vec<i32>,
}

/// The compiler's message about a text that it does not compile.
#[derive(Debug)]
pub(super) struct Rejected {
    pub(super) status: String,
    pub(super) log: String,
}

/// The flags of a text for an architecture.
pub(super) fn flags(arch: &str, contract: bool, notes: bool) -> Vec<String> {
    let mut flags = vec![
        format!("--gpu-architecture={arch}"),
        "--std=c++17".to_owned(),
        "--disable-warnings".to_owned(),
    ];
    if !contract {
        flags.push("--fmad=false".to_owned());
    }
    if notes {
        flags.push("--define-macro=HEDDLE_NOTES".to_owned());
    }
    flags
}

impl Nvrtc {
    /// The compiler of this process, which is looked for once: the library that `HEDDLE_NVRTC` names; else those of the loader's path,
    /// of `CUDA_HOME` and of `/usr/local/cuda`.
    ///
    /// # Errors
    /// There is none, or one that is too old.
    pub fn find() -> Result<Arc<Nvrtc>, DeviceError> {
        static FOUND: PerProcess<Arc<Nvrtc>> = PerProcess::none();
        FOUND.get_or_try(Nvrtc::load).cloned()
    }

    fn load() -> Result<Arc<Nvrtc>, DeviceError> {
        let mut tried = vec![];
        for candidate in candidates() {
            let name = candidate.display().to_string();
            load_builtins(&candidate);
            // SAFETY: the compiler's library may be loaded at any time, by what its vendor says.
            match unsafe { Library::new(&candidate) } {
                Ok(library) => return Ok(Arc::new(Nvrtc::of(library, name)?)),
                Err(error) => tried.push((name, loader_message(&error))),
            }
        }
        Err(DeviceError::NoCompiler(tried))
    }

    fn of(library: Library, name: String) -> Result<Nvrtc, DeviceError> {
        let table = Table::load(library).map_err(|function| DeviceError::OldCompiler {
            library: name.clone(),
            function,
        })?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: they write one or two numbers.
        unsafe {
            check("nvrtcVersion", (table.version)(&mut major, &mut minor))?;
            check("nvrtcGetNumSupportedArchs", (table.arch_count)(&mut count))?;
        }
        let mut archs = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: it writes as many numbers as it said.
        unsafe { check("nvrtcGetSupportedArchs", (table.archs)(archs.as_mut_ptr()))? };
        Ok(Nvrtc {
            table,
            library: name,
            version: (major, minor),
            archs,
        })
    }

    /// Name and version.
    pub fn identity(&self) -> String {
        let (major, minor) = self.version;
        format!("NVRTC {major}.{minor} ({})", self.library)
    }

    /// The version, which a program in the cache depends on.
    pub(super) fn version(&self) -> String {
        let (major, minor) = self.version;
        format!("NVRTC {major}.{minor}")
    }

    /// That it builds for an architecture, as `sm_90` or `sm_90a`.
    pub(super) fn check_arch(&self, arch: &str) -> Result<(), DeviceError> {
        let number = arch.strip_prefix("sm_").map(|number| {
            let plain = number.strip_suffix(['a', 'f']);
            plain.unwrap_or(number).parse::<i32>().ok()
        });
        if number.flatten().is_some_and(|n| self.archs.contains(&n)) {
            return Ok(());
        }
        Err(DeviceError::UnknownArch {
            arch: arch.to_owned(),
            compiler: self.identity(),
            known: self.archs.iter().map(|n| format!("sm_{n}")).collect(),
        })
    }

    /// Compiles a text to a cubin.
    pub(super) fn compile(&self, text: &str, flags: &[String]) -> Result<Vec<u8>, Rejected> {
        let failed = |failed: Failed| Rejected {
            status: failed.to_string(),
            log: String::new(),
        };
        let terminated = |text: &str| {
            CString::new(text).map_err(|e| Rejected {
                status: "the text has a zero".into(),
                log: e.to_string(),
            })
        };
        let text = terminated(text)?;
        let mut program = Building {
            table: &self.table,
            handle: 0,
        };
        let none = std::ptr::null();
        // SAFETY: it copies two texts, takes no headers, and writes one handle.
        let created = unsafe {
            let name = c"program.cu".as_ptr();
            (self.table.create)(&mut program.handle, text.as_ptr(), name, 0, none, none)
        };
        check("nvrtcCreateProgram", created).map_err(failed)?;
        let flags = flags.iter().map(|flag| terminated(flag));
        let flags = flags.collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<_> = flags.iter().map(|flag| flag.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(0);
        // SAFETY: it reads so many texts.
        let compiled = unsafe { (self.table.compile)(program.handle, count, pointers.as_ptr()) };
        if let Err(error) = check("nvrtcCompileProgram", compiled) {
            let log = program.bytes("nvrtcGetProgramLog", self.table.log_size, self.table.log);
            let log = log.unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            return Err(Rejected {
                status: error.to_string(),
                log: log.trim_end_matches('\0').to_owned(),
            });
        }
        let cubin = program.bytes("nvrtcGetCUBIN", self.table.cubin_size, self.table.cubin);
        cubin.map_err(failed)
    }
}

/// A program that is being compiled. Destroyed on drop.
struct Building<'a> {
    table: &'a Table,
    handle: Handle,
}

impl Building<'_> {
    /// The result of a pair of functions, for the size and for the bytes.
    fn bytes(
        &self,
        name: &'static str,
        size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, Failed> {
        let mut bytes = 0;
        // SAFETY: it writes one number.
        check(name, unsafe { size(self.handle, &mut bytes) })?;
        let mut content = vec![0u8; bytes];
        // SAFETY: it writes as many bytes as it said.
        check(name, unsafe {
            get(self.handle, content.as_mut_ptr().cast())
        })?;
        Ok(content)
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        if self.handle != 0 {
            // SAFETY: it takes a handle that nobody uses again.
            unsafe { (self.table.destroy)(&mut self.handle) };
        }
    }
}

fn check(function: &'static str, status: c_int) -> Result<(), Failed> {
    const TEXTS: &[&str] = &[
        "success",
        "out of memory",
        "the program can't be created",
        "invalid input",
        "invalid program",
        "invalid option",
        "compilation failed",
        "its builtins are missing (libnvrtc-builtins lies beside the library)",
    ];
    if status == 0 {
        return Ok(());
    }
    let text = usize::try_from(status).ok().and_then(|n| TEXTS.get(n));
    Err(Failed {
        function,
        code: status,
        text: (*text.unwrap_or(&"unknown")).to_owned(),
    })
}

/// Libraries to try, in order.
fn candidates() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(LIBRARY).filter(|name| !name.is_empty()) {
        return vec![named.into()];
    }
    let toolkits = std::env::var_os("CUDA_HOME").filter(|name| !name.is_empty());
    let toolkits = toolkits.into_iter().chain([TOOLKIT.into()]);
    let names = || NAMES.iter().map(PathBuf::from);
    let folders = toolkits.flat_map(|home| FOLDERS.iter().map(move |f| Path::new(&home).join(f)));
    let inside = folders.flat_map(|folder| NAMES.iter().map(move |name| folder.join(name)));
    names().chain(inside).collect()
}

/// Loads the compiler's builtins, which it looks up by name alone, from beside its library.
fn load_builtins(library: &Path) {
    let Some(folder) = library.parent().filter(|f| !f.as_os_str().is_empty()) else {
        return;
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("libnvrtc-builtins.so.") {
            // SAFETY: as the compiler's library. It stays for as long as the process.
            if let Ok(builtins) =
                unsafe { GlobalLibrary::open(Some(entry.path()), RTLD_NOW | RTLD_GLOBAL) }
            {
                std::mem::forget(builtins);
            }
        }
    }
}
