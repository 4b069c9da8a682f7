//! A program on a device: its cubin, its kernel, and its constants, which are uploaded once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLockReadGuard, Weak};

use super::device::{Context, Device, DeviceBuffer, lock};
use super::driver::{KernelHandle, ModuleHandle, Shape, status};
use super::error::DeviceError;
use crate::abi::About;
use crate::source::Constant;

/// The kernel's name in emitted text.
const KERNEL: &str = "heddle_run";

/// The name of the program's counts.
const ABOUT: &str = "heddle_program";

/// The name of the bytes of each block's shared memory for resident operands; programs without any have none.
const RESIDENT_BYTES: &str = "heddle_resident_bytes";

/// The name of the blocks of each cluster of a launch; programs without clusters have none.
const CLUSTER_BLOCKS: &str = "heddle_cluster_blocks";

/// Bytes that an empty constant takes, since a load whose value is not used may be executed.
const LEAST: usize = 64;

/// A built program, loaded into the device's context, and into the next one if that is lost.
#[derive(Debug)]
pub(crate) struct Kernel {
    device: Arc<Device>,
    arch: String,
    cubin: Vec<u8>,
    constants: Vec<Constant>,
    notes: bool,
    loaded: Mutex<Option<Arc<Loaded>>>,
}

impl Kernel {
    pub(crate) fn new(
        device: &Arc<Device>,
        arch: &str,
        cubin: Vec<u8>,
        constants: Vec<Constant>,
        notes: bool,
    ) -> Kernel {
        Kernel {
            device: device.clone(),
            arch: arch.to_owned(),
            cubin,
            constants,
            notes,
            loaded: Mutex::default(),
        }
    }

    /// The program in the device's context, which stays as it is while the guard lives.
    pub(crate) fn load(&self) -> Result<(Arc<Loaded>, RwLockReadGuard<'_, ()>), DeviceError> {
        loop {
            // Making a context waits for all that use the one before.
            let context = self.device.context()?;
            let using = self.device.using();
            if !context.is_lost() {
                return Ok((self.loaded_into(&context)?, using));
            }
        }
    }

    /// The program in a context.
    fn loaded_into(&self, context: &Arc<Context>) -> Result<Arc<Loaded>, DeviceError> {
        let mut loaded = lock(&self.loaded);
        if let Some(there) = loaded.as_ref()
            && Arc::ptr_eq(&there.context, context)
        {
            return Ok(there.clone());
        }
        *loaded = None;
        let there = Arc::new(self.load_into(context)?);
        *loaded = Some(there.clone());
        Ok(there)
    }

    /// The program's counts; `None` if it states none.
    pub(crate) fn about(&self) -> Result<Option<About>, DeviceError> {
        let (loaded, _using) = self.load()?;
        loaded.about()
    }

    /// Blocks that can be on the device at once.
    pub(crate) fn resident(&self, threads: usize) -> Result<usize, DeviceError> {
        let (loaded, _using) = self.load()?;
        let _entered = loaded.context.enter()?;
        loaded.resident(threads)
    }

    /// Bytes of memory that each thread has for what its registers do not hold.
    pub(crate) fn local_bytes(&self) -> Result<usize, DeviceError> {
        let (loaded, _using) = self.load()?;
        let context = &loaded.context;
        let _entered = context.enter()?;
        let bytes = context.driver.local_bytes(loaded.kernel);
        bytes.map_err(|e| context.error(e, "the kernel was looked at", 0))
    }

    fn load_into(&self, context: &Arc<Context>) -> Result<Loaded, DeviceError> {
        let module = Module::load(context, &self.cubin).map_err(|error| match error {
            DeviceError::Call(failed) if failed.code == status::NO_BINARY_FOR_GPU => {
                DeviceError::OtherArch {
                    arch: self.arch.clone(),
                    device: self.device.facts().name.clone(),
                    own: self.device.facts().arch.clone(),
                }
            }
            error => error,
        })?;
        let blobs = self.constants.iter();
        let blobs = blobs.map(|constant| Upload::shared(context, constant));
        let blobs = blobs.collect::<Result<Vec<_>, _>>()?;
        let addresses = blobs.iter().flat_map(|b| b.memory.address().to_ne_bytes());
        let addresses: Vec<u8> = addresses.collect();
        let pointers = context.alloc(addresses.len())?;
        upload(context, pointers.address(), &addresses)?;
        let resident_bytes = number(context, &module, RESIDENT_BYTES)?.unwrap_or(0);
        let cluster = number(context, &module, CLUSTER_BLOCKS)?.unwrap_or(1);
        let _entered = context.enter()?;
        let kernel = context.driver.kernel(module.handle, KERNEL);
        let kernel = kernel.map_err(|e| context.error(e, "the kernel was looked for", 0))?;
        if resident_bytes > 0 {
            let allowed = context.driver.allow_shared(kernel, resident_bytes);
            allowed.map_err(|e| {
                context.error(
                    e,
                    "blocks were given shared memory",
                    resident_bytes as usize,
                )
            })?;
        }
        Ok(Loaded {
            context: context.clone(),
            kernel,
            resident_bytes,
            cluster,
            module,
            pointers,
            notes: self.notes,
            _blobs: blobs,
        })
    }
}

/// A program in a context.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) context: Arc<Context>,
    module: Module,
    pub(super) kernel: KernelHandle,
    /// Bytes of dynamic shared memory of each block in a launch.
    resident_bytes: u32,
    /// Blocks of each cluster of a launch; 1: there are none.
    cluster: u32,
    pointers: DeviceBuffer,
    /// Its blocks note operators.
    pub(super) notes: bool,
    _blobs: Vec<Arc<Upload>>,
}

impl Loaded {
    /// The address of the constants' addresses.
    pub(super) fn constants(&self) -> u64 {
        self.pointers.address()
    }

    /// A launch of so many blocks and threads of each.
    pub(super) fn shape(&self, (blocks, threads): (u32, u32)) -> Shape {
        Shape {
            blocks,
            threads,
            shared_bytes: self.resident_bytes,
            cluster: self.cluster,
        }
    }

    /// Blocks of so many threads that can be on the device at once, in whole clusters. The caller has entered the context.
    pub(super) fn resident(&self, threads: usize) -> Result<usize, DeviceError> {
        let Context { driver, .. } = &*self.context;
        let fits = match self.cluster {
            0 | 1 => driver
                .blocks_at_once(self.kernel, threads, self.resident_bytes)
                .map(|each| each * self.context.multiprocessors),
            cluster => driver
                .clusters_at_once(self.kernel, self.shape((cluster, threads as u32)))
                .map(|clusters| clusters * cluster as usize),
        };
        fits.map_err(|e| self.context.error(e, "the kernel was looked at", 0))
    }

    /// The program's counts; `None` if it states none.
    fn about(&self) -> Result<Option<About>, DeviceError> {
        let mut content = [0; size_of::<About>()];
        let what = "the program's counts were read";
        if !read_global(&self.context, &self.module, (ABOUT, what), &mut content)? {
            return Ok(None);
        }
        let mut numbers = content.chunks_exact(8).map(|bytes| {
            let bytes = bytes.try_into().unwrap_or_default();
            i64::from_ne_bytes(bytes)
        });
        let mut next = || numbers.next().unwrap_or_default();
        Ok(Some(About {
            abi: next(),
            inputs: next(),
            outputs: next(),
            constants: next(),
            sizes: next(),
            table_len: next(),
        }))
    }
}

/// A module, unloaded on drop.
#[derive(Debug)]
struct Module {
    context: Arc<Context>,
    handle: ModuleHandle,
}

impl Module {
    fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Module, DeviceError> {
        let _entered = context.enter()?;
        let handle = context.driver.load_module(cubin);
        Ok(Module {
            context: context.clone(),
            handle: handle.map_err(|e| context.error(e, "a program was loaded", cubin.len()))?,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if !self.context.is_lost()
            && let Ok(_entered) = self.context.enter()
        {
            // Nothing can be done about a module that can't be unloaded.
            let _ = self.context.driver.unload(self.handle);
        }
    }
}

/// A constant in a context.
#[derive(Debug)]
struct Upload {
    memory: DeviceBuffer,
    /// Keeps the address that it is known by.
    _constant: Constant,
}

/// The addresses of context and constant, which the upload keeps.
type UploadKey = (usize, usize);

impl Upload {
    /// A constant in a context: the one that another program has there, or a new one.
    fn shared(context: &Arc<Context>, constant: &Constant) -> Result<Arc<Upload>, DeviceError> {
        static KNOWN: Mutex<Option<HashMap<UploadKey, Weak<Upload>>>> = Mutex::new(None);
        let key = (
            Arc::as_ptr(context).addr(),
            Arc::as_ptr(&constant.blob).addr(),
        );
        let mut known = lock(&KNOWN);
        let known = known.get_or_insert_default();
        if let Some(upload) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(upload);
        }
        known.retain(|_, upload| upload.strong_count() > 0);
        let bytes = constant.bytes();
        let memory = context.alloc(bytes.len().max(LEAST))?;
        upload(context, memory.address(), bytes)?;
        let made = Arc::new(Upload {
            memory,
            _constant: constant.clone(),
        });
        known.insert(key, Arc::downgrade(&made));
        Ok(made)
    }
}

/// A number that a program states of its launches.
fn number(context: &Arc<Context>, module: &Module, name: &str) -> Result<Option<u32>, DeviceError> {
    let mut content = [0; 8];
    let what = "what a program says of its launches was read";
    let is_stated = read_global(context, module, (name, what), &mut content)?;
    let number = || u32::try_from(i64::from_ne_bytes(content)).unwrap_or(u32::MAX);
    Ok(is_stated.then(number))
}

/// Reads a variable of a program; false if it has none of this name, or one of another size.
fn read_global(
    context: &Arc<Context>,
    module: &Module,
    (name, what): (&str, &str),
    content: &mut [u8],
) -> Result<bool, DeviceError> {
    let found = {
        let _entered = context.enter()?;
        context.driver.global(module.handle, name)
    };
    let (address, bytes) = match found {
        Ok(found) => found,
        Err(failed) if failed.code == status::NOT_FOUND => return Ok(false),
        Err(failed) => return Err(context.error(failed, what, content.len())),
    };
    if bytes != content.len() {
        return Ok(false);
    }
    let stream = context.stream()?;
    let _entered = context.enter()?;
    let read = context.driver.copy_out(content, address, stream.handle);
    read.map_err(|e| context.error(e, what, bytes))?;
    Ok(true)
}

/// Copies bytes to a device.
fn upload(context: &Arc<Context>, to: u64, from: &[u8]) -> Result<(), DeviceError> {
    if from.is_empty() {
        return Ok(());
    }
    let stream = context.stream()?;
    let _entered = context.enter()?;
    let copied = context.driver.copy_in(&[(to, from)], stream.handle);
    copied.map_err(|e| context.error(e, "a constant was uploaded", from.len()))
}
