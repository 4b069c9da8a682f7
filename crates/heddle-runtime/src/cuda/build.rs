//! Builds CUDA text for a device: NVRTC makes a cubin, which is cached as programs of the processor are.

use std::sync::Arc;
use std::time::Instant;

use super::device::Device;
use super::error::DeviceError;
use super::nvrtc::{self, Nvrtc, Rejected};
use crate::abi::ABI;
use crate::build::{BuildOptions, BuildReport, CacheUse};
use crate::cache::{Cache, Key};
use crate::error::BuildError;
use crate::source::Source;

/// The kind of cubins in the cache.
const KIND: &str = "cubin";

/// A device that programs are built for.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The device.
    pub device: Arc<Device>,
    /// The architecture that programs are built for, as `sm_90`.
    pub arch: String,
}

impl Gpu {
    /// This process's device, with programs for an architecture, or for its own.
    ///
    /// # Errors
    /// There is no driver or device, or one that does not do.
    pub fn open(arch: Option<&str>) -> Result<Gpu, DeviceError> {
        let device = Device::open()?;
        let arch = arch.map_or_else(|| device.facts().own_arch(), str::to_owned);
        Ok(Gpu { device, arch })
    }

    /// That programs can be built for it.
    ///
    /// # Errors
    /// There is no compiler, or it does not know the architecture.
    pub fn check_compiler(&self) -> Result<(), DeviceError> {
        Nvrtc::find()?.check_arch(&self.arch)
    }
}

/// The cubin of a text, unless the cache has it or it came with the program.
pub(crate) fn build(
    source: &Source,
    gpu: &Gpu,
    options: &BuildOptions,
) -> Result<(Vec<u8>, BuildReport), BuildError> {
    let start = Instant::now();
    let flags = nvrtc::flags(&gpu.arch, options.contract, options.notes);
    let abi = ABI.to_string();
    let parts = ["cubin", &source.text, &flags.join("\n"), &abi];
    let content = Key::new(&parts.map(str::as_bytes));
    let libraries = options.libraries.as_deref();
    let report = |compiler: String, key, cache| BuildReport {
        compiler,
        key,
        cache,
        elapsed: start.elapsed(),
    };
    if let Some(cubin) = libraries.and_then(|known| known.content(content)) {
        let compiler = "saved with the program".to_owned();
        return Ok((cubin, report(compiler, content, CacheUse::Hit)));
    }
    let nvrtc = Nvrtc::find()?;
    nvrtc.check_arch(&gpu.arch)?;
    let version = nvrtc.version();
    let key = Key::new(&[content.bytes(), version.as_bytes()]);
    let cache = Cache::open(&options.cache, options.cache_limit);
    let (cubin, used) = cached_or(&cache, key, || {
        nvrtc
            .compile(&source.text, &flags)
            .map_err(|Rejected { status, log }| BuildError::Compile {
                name: source.name.clone(),
                compiler: nvrtc.identity(),
                status,
                stderr: log,
            })
    })?;
    if let Some(libraries) = libraries {
        libraries.keep_content(content, &source.text, cubin.clone());
    }
    Ok((cubin, report(nvrtc.identity(), key, used)))
}

/// The cached cubin, or the one that is made and put there.
fn cached_or(
    cache: &Cache,
    key: Key,
    make: impl FnOnce() -> Result<Vec<u8>, BuildError>,
) -> Result<(Vec<u8>, CacheUse), BuildError> {
    if let Some(found) = cache.get(KIND, key) {
        return Ok((found, CacheUse::Hit));
    }
    let _lock = cache.lock(key);
    // Another process may have built it in the meantime.
    if let Some(found) = cache.get(KIND, key) {
        return Ok((found, CacheUse::Hit));
    }
    let made = make()?;
    let used = match cache.put(KIND, key, &made) {
        Ok(_) => CacheUse::Stored,
        Err(error) => CacheUse::Uncached(error.to_string()),
    };
    Ok((made, used))
}
