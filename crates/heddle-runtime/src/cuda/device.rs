//! A GPU, its context, and what lies in it.
//!
//! There is one device in a process, the driver's first, and one context of it: the primary one, which other libraries of the process
//! use, too. A fault of a kernel breaks the context and all that lies in it. The next run resets it, and programs and sessions load and
//! allocate anew: they hold the context that their memory lies in, and compare it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use super::driver::{Attribute, ContextHandle, Driver, HostMemory, StreamHandle, status};
use super::error::{DeviceError, Failed};
use crate::fork::{PerProcess, generation};

/// A GPU of this process.
#[derive(Debug)]
pub struct Device {
    pub(super) driver: Arc<Driver>,
    number: i32,
    facts: Facts,
    context: Mutex<Arc<Context>>,
    /// Runs share it; a context is made anew by nobody but its holder.
    in_use: RwLock<()>,
}

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Its architecture, as `sm_90`.
    pub arch: String,
    /// Multiprocessors, each of which takes at least a block.
    pub multiprocessors: usize,
    /// The most threads of a block.
    pub threads_per_block: usize,
    /// The most bytes of shared memory of a block.
    pub shared_bytes: usize,
    /// Bytes of its memory.
    pub memory: u64,
}

impl Device {
    /// The device of this process, which is looked for once.
    ///
    /// # Errors
    /// There is no driver or device, or one that does not do.
    pub fn open() -> Result<Arc<Device>, DeviceError> {
        static DEVICE: PerProcess<Arc<Device>> = PerProcess::none();
        static OPENING: Mutex<()> = Mutex::new(());
        let _one = lock(&OPENING);
        DEVICE.get_or_try(Device::find).cloned()
    }

    fn find() -> Result<Arc<Device>, DeviceError> {
        let driver = Arc::new(Driver::load()?);
        if driver.devices()? < 1 {
            let library = driver.library.clone();
            return Err(DeviceError::NoDevice { library });
        }
        let number = driver.device(0)?;
        let facts = Facts::of(&driver, number)?;
        let context = Mutex::new(Context::new(&driver, number, &facts)?);
        Ok(Arc::new(Device {
            driver,
            number,
            facts,
            context,
            in_use: RwLock::default(),
        }))
    }

    /// Its properties.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Its context, made anew if it was lost.
    pub(crate) fn context(&self) -> Result<Arc<Context>, DeviceError> {
        let mut context = lock(&self.context);
        if context.generation != generation() {
            return Err(DeviceError::Forked);
        }
        if context.is_lost() {
            let _alone = self.in_use.write().unwrap_or_else(PoisonError::into_inner);
            self.driver.reset(self.number)?;
            *context = Context::new(&self.driver, self.number, &self.facts)?;
        }
        Ok(context.clone())
    }

    /// Keeps the context from being made anew.
    pub(crate) fn using(&self) -> RwLockReadGuard<'_, ()> {
        self.in_use.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    /// The architecture of programs for this device alone: Hopper has instructions that are not in `sm_90`, since later devices lack them
    /// (PTX ISA, "PTX Module Directives: .target").
    pub fn own_arch(&self) -> String {
        match &*self.arch {
            "sm_90" => "sm_90a".into(),
            other => other.into(),
        }
    }

    fn of(driver: &Driver, device: i32) -> Result<Facts, DeviceError> {
        let number = |attribute| driver.attribute(attribute, device);
        let count =
            |attribute| Ok::<_, Failed>(usize::try_from(number(attribute)?).unwrap_or_default());
        let facts = Facts {
            name: driver.device_name(device)?,
            arch: format!(
                "sm_{}{}",
                number(Attribute::Major)?,
                number(Attribute::Minor)?
            ),
            multiprocessors: count(Attribute::Multiprocessors)?,
            threads_per_block: count(Attribute::ThreadsPerBlock)?,
            shared_bytes: count(Attribute::SharedBytesPerBlock)?,
            memory: driver.device_memory(device)?,
        };
        for (attribute, lacks) in [
            (
                Attribute::CooperativeLaunch,
                "has no cooperative launches, of blocks that wait for each other",
            ),
            (
                Attribute::VirtualMemory,
                "has no memory whose addresses are reserved before it is there",
            ),
            (Attribute::MapsHostMemory, "does not read the host's memory"),
        ] {
            if number(attribute)? == 0 {
                let device = facts.name;
                return Err(DeviceError::Unable { device, lacks });
            }
        }
        Ok(facts)
    }
}

/// A context of a device.
#[derive(Debug)]
pub(crate) struct Context {
    pub(super) driver: Arc<Driver>,
    pub(super) number: i32,
    name: String,
    pub(super) multiprocessors: usize,
    handle: ContextHandle,
    lost: Arc<AtomicBool>,
    /// The process that it belongs to.
    generation: u32,
    /// The unit, in bytes, of memory at reserved addresses.
    pub(super) granule: usize,
}

impl Context {
    fn new(driver: &Arc<Driver>, number: i32, facts: &Facts) -> Result<Arc<Context>, DeviceError> {
        let handle = driver.retain(number)?;
        Ok(Arc::new(Context {
            driver: driver.clone(),
            number,
            name: facts.name.clone(),
            multiprocessors: facts.multiprocessors,
            handle,
            lost: Arc::default(),
            generation: generation(),
            granule: driver.granule(number)?,
        }))
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Makes it this thread's, until the guard is dropped.
    pub(super) fn enter(&self) -> Result<Entered<'_>, DeviceError> {
        if self.generation != generation() {
            return Err(DeviceError::Forked);
        }
        self.driver.push(self.handle)?;
        Ok(Entered(self))
    }

    /// The error of a call. `what` was done; `bytes` are those asked for.
    pub(super) fn error(&self, failed: Failed, what: &str, bytes: usize) -> DeviceError {
        if failed.code == status::OUT_OF_MEMORY {
            let (free, total) = self.driver.memory().unwrap_or_default();
            return DeviceError::Memory {
                bytes: bytes as u64,
                free,
                total,
                device: self.name.clone(),
            };
        }
        if status::breaks_context(failed.code) {
            self.lost.store(true, Ordering::Release);
            return DeviceError::Lost {
                what: what.to_owned(),
                device: self.name.clone(),
                failed,
                lines: Box::default(),
            };
        }
        failed.into()
    }

    /// The error of a launch of more blocks than fit, of which a multiprocessor takes so many.
    pub(super) fn too_many(&self, blocks: usize, threads: usize, fits: usize) -> DeviceError {
        DeviceError::Resident {
            blocks,
            threads,
            fits,
            device: self.name.clone(),
        }
    }

    /// Memory, with any contents.
    pub(crate) fn alloc(self: &Arc<Self>, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        if bytes == 0 {
            return Ok(DeviceBuffer::nothing(self));
        }
        let _entered = self.enter()?;
        let address = self.driver.alloc(bytes);
        let address = address.map_err(|e| self.error(e, "memory was asked for", bytes))?;
        Ok(DeviceBuffer {
            context: self.clone(),
            address,
            bytes,
        })
    }

    /// Memory of the host that the device reads and writes in place.
    pub(super) fn host_alloc(&self, bytes: usize) -> Result<HostMemory, DeviceError> {
        let _entered = self.enter()?;
        let memory = self.driver.host_alloc(bytes, self.handle, &self.lost);
        memory.map_err(|e| self.error(e, "memory of the host was asked for", bytes))
    }

    /// A queue of work.
    pub(super) fn stream(self: &Arc<Self>) -> Result<Stream, DeviceError> {
        let _entered = self.enter()?;
        let handle = self.driver.create_stream();
        let handle = handle.map_err(|e| self.error(e, "a stream was asked for", 0))?;
        Ok(Stream {
            context: self.clone(),
            handle,
        })
    }
}

/// A context is this thread's.
#[must_use]
#[derive(Debug)]
pub(super) struct Entered<'a>(&'a Context);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.driver.pop();
    }
}

/// Memory of a device. Given back on drop.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    context: Arc<Context>,
    address: u64,
    bytes: usize,
}

impl DeviceBuffer {
    /// No memory.
    pub(crate) fn nothing(context: &Arc<Context>) -> Self {
        Self {
            context: context.clone(),
            address: 0,
            bytes: 0,
        }
    }

    /// The first byte's address.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes it hold at least so many bytes. Growing discards its contents.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), DeviceError> {
        if self.bytes < bytes {
            // The old memory goes first, so that both never coexist.
            *self = Self::nothing(&self.context);
            *self = self.context.alloc(bytes)?;
        }
        Ok(())
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.bytes > 0
            && !self.context.is_lost()
            && let Ok(_entered) = self.context.enter()
        {
            // Nothing can be done about memory that can't be given back.
            let _ = self.context.driver.free(self.address);
        }
    }
}

/// A queue of work.
#[derive(Debug)]
pub(super) struct Stream {
    context: Arc<Context>,
    pub(super) handle: StreamHandle,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.context.is_lost()
            && let Ok(_entered) = self.context.enter()
        {
            let _ = self.context.driver.wait(self.handle);
            let _ = self.context.driver.destroy_stream(self.handle);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
