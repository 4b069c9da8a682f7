//! The functions of the CUDA driver, found in its library at run time.
//!
//! This file and `nvrtc.rs` are the only ones here that call foreign code. Addresses of a device are numbers: the driver checks them, and
//! nothing on the host reads through them. Copies to and from memory of the host have ended when a method returns, but for those into
//! [`HostMemory`], which belongs to the driver.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use libloading::Library;

use super::error::{DeviceError, Failed};
use super::table::function_table;
use crate::abi::Env;
use crate::fork::generation;
use crate::loading::loader_message;

/// The variable that names the driver's library.
const LIBRARY: &str = "HEDDLE_LIBCUDA";

/// The driver's library where no variable names one.
const DEFAULT: &str = "libcuda.so.1";

/// A pointer that only the driver reads.
type Handle = usize;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Location {
    /// 1: a device.
    kind: c_int,
    device: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Allocation {
    /// 1: it does not move.
    kind: c_int,
    /// 0: no other process gets it.
    handles: c_int,
    location: Location,
    metadata: Handle,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Access {
    location: Location,
    /// 3: reads and writes.
    flags: c_int,
}

/// `CUlaunchAttribute`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
struct LaunchAttribute {
    id: c_int,
    pad: c_int,
    /// A union of 64 bytes.
    value: [c_uint; 16],
}

impl LaunchAttribute {
    /// All blocks are there at once, as they wait for each other.
    const COOPERATIVE: LaunchAttribute = LaunchAttribute::new(2, [1, 0, 0]);

    /// Neighbouring blocks are clusters of so many.
    const fn clusters(blocks: u32) -> LaunchAttribute {
        LaunchAttribute::new(4, [blocks, 1, 1])
    }

    const fn new(id: c_int, [x, y, z]: [c_uint; 3]) -> LaunchAttribute {
        let mut value = [0; 16];
        (value[0], value[1], value[2]) = (x, y, z);
        LaunchAttribute { id, pad: 0, value }
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct LaunchConfig {
    blocks: [c_uint; 3],
    threads: [c_uint; 3],
    shared_bytes: c_uint,
    stream: Handle,
    attributes: *const LaunchAttribute,
    attribute_count: c_uint,
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) blocks: u32,
    pub(super) threads: u32,
    /// Bytes of dynamic shared memory of each block.
    pub(super) shared_bytes: u32,
    /// Blocks of each cluster; 1: there are none.
    pub(super) cluster: u32,
}

impl Shape {
    /// As the driver takes it, with attributes that the caller keeps.
    fn config(self, stream: Handle, attributes: &[LaunchAttribute]) -> LaunchConfig {
        LaunchConfig {
            blocks: [self.blocks, 1, 1],
            threads: [self.threads, 1, 1],
            shared_bytes: self.shared_bytes,
            stream,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len() as c_uint,
        }
    }

    /// Launches without clusters are left as older devices know them.
    fn attributes(self) -> Vec<LaunchAttribute> {
        let clusters = (self.cluster > 1).then(|| LaunchAttribute::clusters(self.cluster));
        std::iter::once(LaunchAttribute::COOPERATIVE)
            .chain(clusters)
            .collect()
    }
}

function_table! {
    /// `libcuda`.
    struct Table {
        init = "cuInit"(c_uint),
        error_name = "cuGetErrorName"(c_int, *mut *const c_char),
        error_text = "cuGetErrorString"(c_int, *mut *const c_char),
        device_count = "cuDeviceGetCount"(*mut c_int),
        device_get = "cuDeviceGet"(*mut c_int, c_int),
        device_name = "cuDeviceGetName"(*mut c_char, c_int, c_int),
        device_memory = "cuDeviceTotalMem_v2"(*mut usize, c_int),
        device_attribute = "cuDeviceGetAttribute"(*mut c_int, c_int, c_int),
        context_retain = "cuDevicePrimaryCtxRetain"(*mut Handle, c_int),
        context_release = "cuDevicePrimaryCtxRelease_v2"(c_int),
        context_reset = "cuDevicePrimaryCtxReset_v2"(c_int),
        context_push = "cuCtxPushCurrent_v2"(Handle),
        context_pop = "cuCtxPopCurrent_v2"(*mut Handle),
        module_load = "cuModuleLoadData"(*mut Handle, *const c_void),
        module_unload = "cuModuleUnload"(Handle),
        module_function = "cuModuleGetFunction"(*mut Handle, Handle, *const c_char),
        module_global = "cuModuleGetGlobal_v2"(*mut u64, *mut usize, Handle, *const c_char),
        function_attribute = "cuFuncSetAttribute"(Handle, c_int, c_int),
        function_facts = "cuFuncGetAttribute"(*mut c_int, c_int, Handle),
        occupancy = "cuOccupancyMaxActiveBlocksPerMultiprocessor"(*mut c_int, Handle, c_int, usize),
        clusters = "cuOccupancyMaxActiveClusters"(*mut c_int, Handle, *const LaunchConfig),
        launch = "cuLaunchKernelEx"(*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void),
        stream_create = "cuStreamCreate"(*mut Handle, c_uint),
        stream_destroy = "cuStreamDestroy_v2"(Handle),
        stream_wait = "cuStreamSynchronize"(Handle),
        stream_query = "cuStreamQuery"(Handle),
        memory_info = "cuMemGetInfo_v2"(*mut usize, *mut usize),
        memory_alloc = "cuMemAlloc_v2"(*mut u64, usize),
        memory_free = "cuMemFree_v2"(u64),
        memory_set = "cuMemsetD8Async"(u64, u8, usize, Handle),
        copy_in = "cuMemcpyHtoDAsync_v2"(u64, *const c_void, usize, Handle),
        copy_out = "cuMemcpyDtoHAsync_v2"(*mut c_void, u64, usize, Handle),
        host_alloc = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint),
        host_free = "cuMemFreeHost"(*mut c_void),
        host_address = "cuMemHostGetDevicePointer_v2"(*mut u64, *mut c_void, c_uint),
        granularity = "cuMemGetAllocationGranularity"(*mut usize, *const Allocation, c_int),
        reserve = "cuMemAddressReserve"(*mut u64, usize, usize, u64, u64),
        unreserve = "cuMemAddressFree"(u64, usize),
        pages_create = "cuMemCreate"(*mut u64, usize, *const Allocation, u64),
        pages_release = "cuMemRelease"(u64),
        pages_map = "cuMemMap"(u64, usize, usize, u64, u64),
        pages_unmap = "cuMemUnmap"(u64, usize),
        pages_access = "cuMemSetAccess"(u64, usize, *const Access, usize),
    }
}

/// Statuses of the driver that we act on.
pub(super) mod status {
    /// Memory is short.
    pub const OUT_OF_MEMORY: i32 = 2;
    /// There is no device.
    pub const NO_DEVICE: i32 = 100;
    /// There is nothing of a name.
    pub const NOT_FOUND: i32 = 500;
    /// A program has no code for the device.
    pub const NO_BINARY_FOR_GPU: i32 = 209;
    /// Work goes on.
    pub const NOT_READY: i32 = 600;
    /// More blocks than can be resident.
    pub const TOO_MANY_BLOCKS: i32 = 720;

    /// Does a status mean that the context cannot be used any more? Faults of memory, of the hardware and of a kernel do.
    pub fn breaks_context(status: i32) -> bool {
        matches!(status, 201 | 214 | 220 | 226 | 700 | 702 | 709..=710 | 714..=719)
    }
}

/// Numbers of a device, by the driver's number for each.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attribute {
    ThreadsPerBlock = 1,
    Multiprocessors = 16,
    MapsHostMemory = 19,
    Major = 75,
    Minor = 76,
    CooperativeLaunch = 95,
    SharedBytesPerBlock = 97,
    VirtualMemory = 102,
}

/// A context of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextHandle(Handle);

/// A program on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModuleHandle(Handle);

/// A kernel of a program, which takes an environment.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelHandle(Handle);

/// A queue of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamHandle(Handle);

/// Memory without an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pages(u64);

/// The driver.
#[derive(Debug)]
pub(super) struct Driver {
    table: Table,
    /// The library's name.
    pub(super) library: String,
}

type Result<T> = std::result::Result<T, Failed>;

impl Driver {
    /// Loads the driver's library and starts it.
    pub(super) fn load() -> std::result::Result<Driver, DeviceError> {
        let named = std::env::var(LIBRARY).ok().filter(|name| !name.is_empty());
        let named = named.unwrap_or_else(|| DEFAULT.to_owned());
        // SAFETY: the driver's library may be loaded at any time, by what its vendor says.
        let library = unsafe { Library::new(&named) }
            .map_err(|e| DeviceError::NoDriver(vec![(named.clone(), loader_message(&e))]))?;
        let version = version(&library);
        let table = Table::load(library).map_err(|function| DeviceError::OldDriver {
            library: named.clone(),
            version,
            function,
        })?;
        let driver = Driver {
            table,
            library: named,
        };
        // SAFETY: the function takes no flags yet.
        match driver.check("cuInit", unsafe { (driver.table.init)(0) }) {
            Err(failed) if failed.code == status::NO_DEVICE => Err(DeviceError::NoDevice {
                library: driver.library,
            }),
            Err(failed) => Err(failed.into()),
            Ok(()) => Ok(driver),
        }
    }

    /// Number of devices.
    pub(super) fn devices(&self) -> Result<i32> {
        let mut count = 0;
        // SAFETY: it writes one number.
        let status = unsafe { (self.table.device_count)(&mut count) };
        self.check("cuDeviceGetCount", status).map(|()| count)
    }

    /// The driver's number of a device.
    pub(super) fn device(&self, place: i32) -> Result<i32> {
        let mut device = 0;
        // SAFETY: it writes one number.
        let status = unsafe { (self.table.device_get)(&mut device, place) };
        self.check("cuDeviceGet", status).map(|()| device)
    }

    pub(super) fn device_name(&self, device: i32) -> Result<String> {
        let mut name = [0 as c_char; 256];
        let bytes = name.len() as c_int;
        // SAFETY: it writes up to so many bytes, the last of them a zero.
        let status = unsafe { (self.table.device_name)(name.as_mut_ptr(), bytes, device) };
        self.check("cuDeviceGetName", status)?;
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        Ok(name.to_string_lossy().into_owned())
    }

    pub(super) fn device_memory(&self, device: i32) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: it writes one number.
        let status = unsafe { (self.table.device_memory)(&mut bytes, device) };
        self.check("cuDeviceTotalMem", status)
            .map(|()| bytes as u64)
    }

    pub(super) fn attribute(&self, attribute: Attribute, device: i32) -> Result<i32> {
        let mut value = 0;
        // SAFETY: it writes one number.
        let status =
            unsafe { (self.table.device_attribute)(&mut value, attribute as c_int, device) };
        self.check("cuDeviceGetAttribute", status).map(|()| value)
    }

    /// Takes part in a device's primary context.
    pub(super) fn retain(&self, device: i32) -> Result<ContextHandle> {
        let mut context = 0;
        // SAFETY: it writes one handle.
        let status = unsafe { (self.table.context_retain)(&mut context, device) };
        self.check("cuDevicePrimaryCtxRetain", status)
            .map(|()| ContextHandle(context))
    }

    /// Gives a device's primary context up, and all that is in it, whoever uses it.
    pub(super) fn reset(&self, device: i32) -> Result<()> {
        // SAFETY: nothing of the context is used any more: it is lost.
        let status = unsafe { (self.table.context_release)(device) };
        self.check("cuDevicePrimaryCtxRelease", status)?;
        // SAFETY: as above.
        let status = unsafe { (self.table.context_reset)(device) };
        self.check("cuDevicePrimaryCtxReset", status)
    }

    /// Makes a context this thread's, until it is popped.
    pub(super) fn push(&self, context: ContextHandle) -> Result<()> {
        // SAFETY: the context is retained.
        let status = unsafe { (self.table.context_push)(context.0) };
        self.check("cuCtxPushCurrent", status)
    }

    /// Gives this thread the context back that it had.
    pub(super) fn pop(&self) {
        let mut context = 0;
        // SAFETY: it writes one handle. A failure leaves the thread as it is.
        unsafe { (self.table.context_pop)(&mut context) };
    }

    /// Loads a cubin into the current context.
    pub(super) fn load_module(&self, cubin: &[u8]) -> Result<ModuleHandle> {
        let mut module = 0;
        // SAFETY: what NVRTC made, which states its own length.
        let status = unsafe { (self.table.module_load)(&mut module, cubin.as_ptr().cast()) };
        self.check("cuModuleLoadData", status)
            .map(|()| ModuleHandle(module))
    }

    pub(super) fn unload(&self, module: ModuleHandle) -> Result<()> {
        // SAFETY: the caller has the module alone.
        let status = unsafe { (self.table.module_unload)(module.0) };
        self.check("cuModuleUnload", status)
    }

    /// The kernel of a name.
    pub(super) fn kernel(&self, module: ModuleHandle, name: &str) -> Result<KernelHandle> {
        let mut kernel = 0;
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: it reads a name and writes one handle.
        let status = unsafe { (self.table.module_function)(&mut kernel, module.0, name.as_ptr()) };
        self.check("cuModuleGetFunction", status)
            .map(|()| KernelHandle(kernel))
    }

    /// Address and bytes of a program's variable.
    pub(super) fn global(&self, module: ModuleHandle, name: &str) -> Result<(u64, usize)> {
        let (mut address, mut bytes) = (0, 0);
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: it reads a name and writes two numbers.
        let status = unsafe {
            (self.table.module_global)(&mut address, &mut bytes, module.0, name.as_ptr())
        };
        self.check("cuModuleGetGlobal", status)
            .map(|()| (address, bytes))
    }

    /// Lets launches of a kernel give each block `bytes` of dynamic shared memory.
    pub(super) fn allow_shared(&self, kernel: KernelHandle, bytes: u32) -> Result<()> {
        const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: it takes numbers.
        let status = unsafe {
            (self.table.function_attribute)(kernel.0, MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)
        };
        self.check("cuFuncSetAttribute", status)
    }

    /// Bytes of memory that each thread of a kernel has for what its registers do not hold.
    pub(super) fn local_bytes(&self, kernel: KernelHandle) -> Result<usize> {
        const LOCAL_SIZE_BYTES: c_int = 3;
        let mut bytes = 0;
        // SAFETY: it writes one number.
        let status = unsafe { (self.table.function_facts)(&mut bytes, LOCAL_SIZE_BYTES, kernel.0) };
        self.check("cuFuncGetAttribute", status)
            .map(|()| usize::try_from(bytes).unwrap_or(0))
    }

    /// Blocks of a kernel, each with `shared` bytes of dynamic shared memory, that a multiprocessor can hold at once.
    pub(super) fn blocks_at_once(
        &self,
        kernel: KernelHandle,
        threads: usize,
        shared: u32,
    ) -> Result<usize> {
        let mut blocks = 0;
        // SAFETY: it writes one number.
        let status = unsafe {
            (self.table.occupancy)(&mut blocks, kernel.0, threads as c_int, shared as usize)
        };
        self.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", status)
            .map(|()| usize::try_from(blocks).unwrap_or(0))
    }

    /// Clusters of a kernel that the device can hold at once.
    pub(super) fn clusters_at_once(&self, kernel: KernelHandle, shape: Shape) -> Result<usize> {
        let attributes = shape.attributes();
        let config = shape.config(0, &attributes);
        let mut clusters = 0;
        // SAFETY: it writes one number, and reads the shape and its attributes.
        let status = unsafe { (self.table.clusters)(&mut clusters, kernel.0, &config) };
        self.check("cuOccupancyMaxActiveClusters", status)
            .map(|()| usize::try_from(clusters).unwrap_or(0))
    }

    /// Enqueues a kernel whose blocks wait for each other.
    pub(super) fn launch(
        &self,
        kernel: KernelHandle,
        shape: Shape,
        stream: StreamHandle,
        env: &Env,
    ) -> Result<()> {
        let attributes = shape.attributes();
        let config = shape.config(stream.0, &attributes);
        let mut arguments = [std::ptr::from_ref(env).cast_mut().cast::<c_void>()];
        // SAFETY: the kernel takes one environment, which is copied before the call returns. What it points to is memory of the device.
        let status = unsafe {
            let extra = std::ptr::null_mut();
            (self.table.launch)(&config, kernel.0, arguments.as_mut_ptr(), extra)
        };
        self.check("cuLaunchKernelEx", status)
    }

    /// A queue that waits for no other one.
    pub(super) fn create_stream(&self) -> Result<StreamHandle> {
        const NON_BLOCKING: c_uint = 1;
        let mut stream = 0;
        // SAFETY: it writes one handle.
        let status = unsafe { (self.table.stream_create)(&mut stream, NON_BLOCKING) };
        self.check("cuStreamCreate", status)
            .map(|()| StreamHandle(stream))
    }

    pub(super) fn destroy_stream(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller has the stream alone.
        let status = unsafe { (self.table.stream_destroy)(stream.0) };
        self.check("cuStreamDestroy", status)
    }

    /// Waits for all work of a queue.
    pub(super) fn wait(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: it takes a handle.
        let status = unsafe { (self.table.stream_wait)(stream.0) };
        self.check("cuStreamSynchronize", status)
    }

    /// Has a queue done all of its work?
    pub(super) fn is_done(&self, stream: StreamHandle) -> Result<bool> {
        // SAFETY: it takes a handle.
        let status = unsafe { (self.table.stream_query)(stream.0) };
        match status {
            status::NOT_READY => Ok(false),
            status => self.check("cuStreamQuery", status).map(|()| true),
        }
    }

    /// Bytes that are free, and those of the device.
    pub(super) fn memory(&self) -> Result<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: it writes two numbers.
        let status = unsafe { (self.table.memory_info)(&mut free, &mut total) };
        self.check("cuMemGetInfo", status)
            .map(|()| (free as u64, total as u64))
    }

    /// Memory of the device, with any contents.
    pub(super) fn alloc(&self, bytes: usize) -> Result<u64> {
        let mut address = 0;
        // SAFETY: it writes one number.
        let status = unsafe { (self.table.memory_alloc)(&mut address, bytes) };
        self.check("cuMemAlloc", status).map(|()| address)
    }

    pub(super) fn free(&self, address: u64) -> Result<()> {
        // SAFETY: the driver knows what it gave.
        let status = unsafe { (self.table.memory_free)(address) };
        self.check("cuMemFree", status)
    }

    /// Enqueues a fill.
    pub(super) fn fill(
        &self,
        address: u64,
        byte: u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: it writes memory of the device, whose bounds the driver knows.
        let status = unsafe { (self.table.memory_set)(address, byte, bytes, stream.0) };
        self.check("cuMemsetD8Async", status)
    }

    /// Copies arrays to the device, and waits for it.
    pub(super) fn copy_in(&self, pairs: &[(u64, &[u8])], stream: StreamHandle) -> Result<()> {
        let mut copied = Ok(());
        for (to, from) in pairs.iter().filter(|(_, from)| !from.is_empty()) {
            // SAFETY: it reads these bytes until the wait below ends.
            let status =
                unsafe { (self.table.copy_in)(*to, from.as_ptr().cast(), from.len(), stream.0) };
            copied = copied.and(self.check("cuMemcpyHtoDAsync", status));
        }
        // Whatever failed, these bytes may be read until then.
        let waited = self.wait(stream);
        copied.and(waited)
    }

    /// Copies an array from the device, and waits for it.
    pub(super) fn copy_out(&self, to: &mut [u8], from: u64, stream: StreamHandle) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: it writes these bytes until the wait below ends.
        let status =
            unsafe { (self.table.copy_out)(to.as_mut_ptr().cast(), from, to.len(), stream.0) };
        let copied = self.check("cuMemcpyDtoHAsync", status);
        let waited = self.wait(stream);
        copied.and(waited)
    }

    /// Enqueues a copy of bytes from the device. They are there when the queue is done.
    pub(super) fn copy_back(
        &self,
        to: &HostMemory,
        from: u64,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        let bytes = bytes.min(to.words.len() * 4);
        let to = to.start.as_ptr().cast();
        // SAFETY: it writes the beginning of memory that the driver gave and keeps until the queue is done, since it frees no memory before.
        let status = unsafe { (self.table.copy_out)(to, from, bytes, stream.0) };
        self.check("cuMemcpyDtoHAsync", status)
    }

    /// Memory of the host that the device reads and writes in place, zero at first.
    /// It belongs to the current context, `context`; `lost`: that is gone, and the memory with it.
    pub(super) fn host_alloc(
        self: &Arc<Self>,
        bytes: usize,
        context: ContextHandle,
        lost: &Arc<AtomicBool>,
    ) -> Result<HostMemory> {
        const DEVICE_MAP: c_uint = 2;
        let words = bytes.div_ceil(4).max(1);
        let mut start = std::ptr::null_mut();
        // SAFETY: it writes one pointer.
        let status = unsafe { (self.table.host_alloc)(&mut start, 4 * words, DEVICE_MAP) };
        self.check("cuMemHostAlloc", status)?;
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| Failed {
            function: "cuMemHostAlloc",
            code: 0,
            text: "it gave no address".into(),
        })?;
        let mut address = 0;
        // SAFETY: it takes memory that it gave, and writes one number.
        let status = unsafe { (self.table.host_address)(&mut address, start.as_ptr().cast(), 0) };
        let found = self.check("cuMemHostGetDevicePointer", status);
        // SAFETY: so many words, which the driver gave, aligned to a page.
        let words = unsafe {
            start.write_bytes(0, 4 * words);
            std::slice::from_raw_parts(start.as_ptr().cast::<AtomicU32>(), words)
        };
        let memory = HostMemory {
            driver: self.clone(),
            context,
            lost: lost.clone(),
            generation: generation(),
            start,
            words,
            address,
        };
        found.map(|()| memory)
    }

    /// The multiple that memory with addresses of its own has to be of.
    pub(super) fn granule(&self, device: i32) -> Result<usize> {
        const MINIMUM: c_int = 0;
        let mut bytes = 0;
        let of = Allocation::of(device);
        // SAFETY: it reads a structure and writes one number.
        let status = unsafe { (self.table.granularity)(&mut bytes, &of, MINIMUM) };
        self.check("cuMemGetAllocationGranularity", status)
            .map(|()| bytes.max(1))
    }

    /// Addresses without memory.
    pub(super) fn reserve(&self, bytes: usize) -> Result<u64> {
        let mut address = 0;
        // SAFETY: it writes one number.
        let status = unsafe { (self.table.reserve)(&mut address, bytes, 0, 0, 0) };
        self.check("cuMemAddressReserve", status).map(|()| address)
    }

    pub(super) fn unreserve(&self, address: u64, bytes: usize) -> Result<()> {
        // SAFETY: the driver knows what it reserved.
        let status = unsafe { (self.table.unreserve)(address, bytes) };
        self.check("cuMemAddressFree", status)
    }

    /// Memory of a device for addresses that were reserved.
    pub(super) fn create_pages(&self, device: i32, bytes: usize) -> Result<Pages> {
        let mut pages = 0;
        let of = Allocation::of(device);
        // SAFETY: it reads a structure and writes one number.
        let status = unsafe { (self.table.pages_create)(&mut pages, bytes, &of, 0) };
        self.check("cuMemCreate", status).map(|()| Pages(pages))
    }

    /// Gives memory up; it is freed when it has no address any more.
    pub(super) fn release_pages(&self, pages: Pages) -> Result<()> {
        // SAFETY: it takes a handle, which nobody uses again.
        let status = unsafe { (self.table.pages_release)(pages.0) };
        self.check("cuMemRelease", status)
    }

    /// Gives memory its addresses, for reads and writes by a device.
    pub(super) fn map_pages(
        &self,
        pages: Pages,
        address: u64,
        bytes: usize,
        device: i32,
    ) -> Result<()> {
        // SAFETY: the driver knows the addresses and the memory.
        let status = unsafe { (self.table.pages_map)(address, bytes, 0, pages.0, 0) };
        self.check("cuMemMap", status)?;
        let access = Access {
            location: Location { kind: 1, device },
            flags: 3,
        };
        // SAFETY: it reads one structure.
        let status = unsafe { (self.table.pages_access)(address, bytes, &access, 1) };
        self.check("cuMemSetAccess", status)
            .inspect_err(|_| drop(self.unmap_pages(address, bytes)))
    }

    pub(super) fn unmap_pages(&self, address: u64, bytes: usize) -> Result<()> {
        // SAFETY: the driver knows what it mapped.
        let status = unsafe { (self.table.pages_unmap)(address, bytes) };
        self.check("cuMemUnmap", status)
    }

    fn check(&self, function: &'static str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let words = |of: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = std::ptr::null();
            // SAFETY: it writes a pointer to a text that stays, or leaves null.
            unsafe {
                of(status, &mut text);
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        let name = words(self.table.error_name).unwrap_or_else(|| "unknown".into());
        let text = words(self.table.error_text).map_or(String::new(), |text| format!(", {text}"));
        Err(Failed {
            function,
            code: status,
            text: format!("{name}{text}"),
        })
    }
}

/// The version of CUDA that a driver is for, in words; it is asked for even where other functions are missing.
fn version(library: &Library) -> String {
    type Version = unsafe extern "C" fn(*mut c_int) -> c_int;
    let mut version = 0;
    // SAFETY: the driver's interface gives the function this type; it writes one number.
    let status = unsafe {
        library
            .get::<Version>(b"cuDriverGetVersion\0")
            .map(|function| function(&mut version))
    };
    match status {
        Ok(0) => format!("for CUDA {}.{}", version / 1000, version % 1000 / 10),
        _ => "of an unknown version".into(),
    }
}

impl Allocation {
    /// Memory of a device that stays where it is.
    fn of(device: i32) -> Self {
        Self {
            kind: 1,
            handles: 0,
            location: Location { kind: 1, device },
            metadata: 0,
            flags: [0; 8],
        }
    }
}

/// Memory of the host that the device reads and writes in place.
#[derive(Debug)]
pub(super) struct HostMemory {
    driver: Arc<Driver>,
    context: ContextHandle,
    lost: Arc<AtomicBool>,
    /// The process that allocated it.
    generation: u32,
    start: NonNull<u8>,
    words: &'static [AtomicU32],
    /// Its address on the device.
    pub(super) address: u64,
}

// SAFETY: it owns its memory, which is read and written as atomics.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// The words.
    pub(super) fn words(&self) -> &[AtomicU32] {
        self.words
    }

    /// The word at a place, in bytes, and the next one as one number.
    pub(super) fn long(&self, at: usize) -> i64 {
        let word = |k: usize| u64::from(self.words[k].load(Ordering::Acquire));
        (word(at / 4) | word(at / 4 + 1) << 32) as i64
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        let is_gone = self.lost.load(Ordering::Acquire) || self.generation != generation();
        if !is_gone && self.driver.push(self.context).is_ok() {
            // SAFETY: the driver gave it, and nobody else has it.
            unsafe { (self.driver.table.host_free)(self.start.as_ptr().cast()) };
            self.driver.pop();
        }
    }
}
