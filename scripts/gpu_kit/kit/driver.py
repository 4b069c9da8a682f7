"""The CUDA driver and NVRTC through ctypes: what the micro-benchmarks call.

The libraries are those that Heddle looks for: HEDDLE_LIBCUDA or libcuda.so.1; HEDDLE_NVRTC, PyTorch's own NVRTC, or one of a toolkit."""
import ctypes
import functools
import os
import sysconfig
import time
from pathlib import Path

# Device attributes by their numbers in cuda.h.
ATTRIBUTES = {
    "multiprocessors": 16, "warp": 10, "threads_per_block": 1, "registers_per_block": 12,
    "registers_per_multiprocessor": 82, "shared_bytes_per_block": 97,
    "shared_bytes_per_multiprocessor": 81, "shared_bytes_reserved_per_block": 111,
    "blocks_per_multiprocessor": 106, "clock_khz": 13, "memory_clock_khz": 36,
    "memory_bus_bits": 37, "l2_bytes": 38, "l2_persisting_bytes": 108, "cooperative_launch": 95,
    "cluster_launch": 120, "virtual_memory": 102}
COOPERATIVE, CLUSTER_DIMENSION = 2, 4  # attributes of launches
NON_PORTABLE_CLUSTERS = 14  # an attribute of kernels
CONDITIONAL_NODE, CONDITIONAL_IF, CONDITIONAL_WHILE = 13, 0, 1
ASSIGN_DEFAULT = 1


class CudaError(RuntimeError):
    """A call that failed, with the driver's or compiler's own words."""


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute."""
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)),
                ("count", ctypes.c_uint)]


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""
    _fields_ = [("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3),
                ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("arguments", ctypes.c_void_p), ("extra", ctypes.c_void_p),
                ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p)]


class ConditionalNode(ctypes.Structure):
    """CUgraphNodeParams with CUDA_CONDITIONAL_NODE_PARAMS in its union."""
    _fields_ = [("node", ctypes.c_int), ("reserved", ctypes.c_int * 3),
                ("handle", ctypes.c_uint64), ("kind", ctypes.c_int), ("size", ctypes.c_uint),
                ("graphs", ctypes.POINTER(ctypes.c_void_p)), ("context", ctypes.c_void_p),
                ("rest", ctypes.c_longlong * 25), ("last", ctypes.c_longlong)]


class Driver:
    """The first device and its primary context, current in this thread."""

    def __init__(self):
        name = os.environ.get("HEDDLE_LIBCUDA", "libcuda.so.1")
        try:
            self.lib = ctypes.CDLL(name)
        except OSError as error:
            raise CudaError(f"no CUDA driver: {error}") from None
        self.call("cuInit", 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.device = device.value
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxPushCurrent_v2", self.context)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def close(self):
        """Gives the queue and the context back."""
        self.call("cuStreamDestroy_v2", self.stream)
        self.call("cuDevicePrimaryCtxRelease_v2", self.device)

    def call(self, name: str, *arguments):
        """A call that must not fail."""
        try:
            function = getattr(self.lib, name)
        except AttributeError:
            raise CudaError(f"the driver has no {name}") from None
        status = function(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(status, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or b'?').decode()} ({status})")

    def version(self) -> str:
        """The newest CUDA that the driver knows."""
        number = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(number))
        return f"{number.value // 1000}.{number.value % 1000 // 10}"

    def attribute(self, number: int):
        """An attribute of the device; None if the driver does not know it."""
        value = ctypes.c_int()
        status = self.lib.cuDeviceGetAttribute(ctypes.byref(value), number, self.device)
        return None if status else value.value

    def facts(self) -> dict:
        """What the driver says of the device."""
        name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
        self.call("cuDeviceGetName", name, 256, self.device)
        self.call("cuDeviceTotalMem_v2", ctypes.byref(memory), self.device)
        values = {key: self.attribute(number) for key, number in ATTRIBUTES.items()}
        return {"device": name.value.decode(), "driver_cuda": self.version(), "arch": self.arch(),
                "memory_bytes": memory.value} | values

    def arch(self) -> str:
        """The device's architecture, `sm_90`."""
        return f"sm_{self.attribute(75)}{self.attribute(76)}"

    def module(self, image: bytes):
        """A loaded cubin, or PTX with a zero at its end."""
        handle = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(handle), image)
        return handle

    def function(self, module, name: str):
        """A kernel of a module."""
        handle = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(handle), module, name.encode())
        return handle

    def zeros(self, size: int) -> ctypes.c_uint64:
        """Memory of the device."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.clear(address, size)
        return address

    def clear(self, address, size: int):
        """Sets it to zero."""
        self.call("cuMemsetD8Async", address, ctypes.c_ubyte(0), ctypes.c_size_t(size), self.stream)
        self.sync()

    def upload(self, address, data):
        """Copies what ctypes or bytes hold."""
        size = ctypes.sizeof(data) if isinstance(data, (ctypes.Structure, ctypes.Array)) else len(data)
        source = data if isinstance(data, bytes) else ctypes.byref(data)
        self.call("cuMemcpyHtoDAsync_v2", address, source, ctypes.c_size_t(size), self.stream)
        self.sync()

    def download(self, address, size: int) -> bytes:
        """Copies to the host."""
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoHAsync_v2", data, address, ctypes.c_size_t(size), self.stream)
        self.sync()
        return data.raw

    def free(self, address):
        """Gives memory back."""
        self.call("cuMemFree_v2", address)

    def sync(self):
        """Waits for what was begun."""
        self.call("cuStreamSynchronize", self.stream)

    def cooperative(self, function, blocks: int, threads: int, *arguments):
        """A cooperative launch, as those of programs are; arguments are ctypes values."""
        attributes = (LaunchAttribute * 1)()
        attributes[0].id, attributes[0].value[:1] = COOPERATIVE, (1,)
        config = LaunchConfig((blocks, 1, 1), (threads, 1, 1), 0, self.stream, attributes, 1)
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers(arguments), None)

    def prepared(self, function, blocks: int, threads: int, *arguments, cluster=1):
        """A function that launches a kernel, in clusters if wanted, and takes little time itself."""
        attributes = (LaunchAttribute * 1)()
        attributes[0].id, attributes[0].value[:3] = CLUSTER_DIMENSION, (cluster, 1, 1)
        config = LaunchConfig((blocks, 1, 1), (threads, 1, 1), 0, self.stream, attributes, int(cluster > 1))
        values = pointers(arguments)
        return functools.partial(self.call, "cuLaunchKernelEx", ctypes.byref(config), function, values, None)

    def launch(self, function, blocks: int, threads: int, *arguments, cluster=1):
        """A launch of a kernel."""
        self.prepared(function, blocks, threads, *arguments, cluster=cluster)()

    def clusters(self, function, threads: int, cluster: int) -> int:
        """The most clusters of a kernel that are resident at once."""
        attributes = (LaunchAttribute * 1)()
        attributes[0].id, attributes[0].value[:3] = CLUSTER_DIMENSION, (cluster, 1, 1)
        config = LaunchConfig((cluster, 1, 1), (threads, 1, 1), 0, None, attributes, 1)
        most = ctypes.c_int()
        self.call("cuOccupancyMaxActiveClusters", ctypes.byref(most), function, ctypes.byref(config))
        return most.value

    def set(self, function, attribute: int, value: int):
        """Sets an attribute of a kernel."""
        self.call("cuFuncSetAttribute", function, attribute, value)

    def timed(self, work) -> float:
        """Nanoseconds from before `work()` to the end of what it begins."""
        self.sync()
        begin = time.perf_counter_ns()
        work()
        self.sync()
        return time.perf_counter_ns() - begin


class Graph:
    """A graph whose nodes run one after the other."""

    def __init__(self, driver: Driver, handle=None):
        self.driver, self.last = driver, None
        self.handle = handle or ctypes.c_void_p()
        if handle is None:
            driver.call("cuGraphCreate", ctypes.byref(self.handle), 0)

    def add(self, name: str, *arguments):
        """Adds a node behind the last one."""
        node = ctypes.c_void_p()
        before = (ctypes.c_void_p * 1)(self.last) if self.last else None
        count = ctypes.c_size_t(1 if self.last else 0)
        self.driver.call(name, ctypes.byref(node), self.handle, before, count, *arguments)
        self.last = node

    def kernel(self, function, blocks: int, threads: int, *arguments):
        """Adds a kernel."""
        held = pointers(arguments)
        node = KernelNode(function, (blocks, 1, 1), (threads, 1, 1), 0,
                          ctypes.cast(held, ctypes.c_void_p))
        self.add("cuGraphAddKernelNode_v2", ctypes.byref(node))

    def child(self, graph):
        """Adds a copy of another graph, by its handle."""
        self.add("cuGraphAddChildGraphNode", ctypes.c_void_p(graph))

    def condition(self, default: int) -> ctypes.c_uint64:
        """A condition for a node of this graph, which is `default` as the launch begins."""
        handle = ctypes.c_uint64()
        self.driver.call("cuGraphConditionalHandleCreate", ctypes.byref(handle), self.handle,
                         self.driver.context, default, ASSIGN_DEFAULT)
        return handle

    def conditional(self, handle: ctypes.c_uint64, kind: int) -> "Graph":
        """Adds a WHILE or IF node; its body."""
        node = ConditionalNode(CONDITIONAL_NODE, (0, 0, 0), handle.value, kind, 1, None,
                               self.driver.context)
        self.add("cuGraphAddNode", ctypes.byref(node))
        return Graph(self.driver, ctypes.c_void_p(node.graphs[0]))

    def ready(self):
        """An instance that can be launched."""
        handle = ctypes.c_void_p()
        self.driver.call("cuGraphInstantiateWithFlags", ctypes.byref(handle), self.handle,
                         ctypes.c_ulonglong(0))
        return lambda: self.driver.call("cuGraphLaunch", handle, self.driver.stream)


class Nvrtc:
    """NVIDIA's run-time compiler."""

    def __init__(self):
        self.path, self.headers = None, []
        said = []
        for name in nvrtc_places():
            try:
                for builtins in sorted(Path(name).parent.glob("libnvrtc-builtins.so.*")):
                    ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
                self.lib, self.path = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL), name
                break
            except OSError as error:
                said.append(str(error))
        if not self.path:
            raise CudaError(f"no NVRTC: {'; '.join(said)}")
        for folder in (Path(self.path).resolve().parent.parent / "include", *toolkits("include")):
            # The header includes those of libcu++, which wheels may lack.
            if (folder / "cooperative_groups.h").exists() and any((folder / name).exists() for name in ("cccl/nv", "nv")):
                self.headers = [folder, folder / "cccl"]
                break

    def compile(self, text: str, name: str, arch: str, *options: str, ptx=False) -> bytes:
        """The cubin, or PTX for `--gpu-architecture=compute_…`; the compiler's log as an error."""
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
        wanted = arch.replace("sm_", "compute_") if ptx else arch
        options = [f"--gpu-architecture={wanted}", "--std=c++17", "--disable-warnings", *options]
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if self.lib.nvrtcCompileProgram(program, len(options), given):
            log = self.text(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise CudaError(f"{name}: {log.strip() or 'NVRTC gives no reason'}")
        return self.text(program, "PTX" if ptx else "CUBIN")

    def text(self, program, what: str) -> bytes:
        """What is got by asking for its size first."""
        count = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(count))
        buffer = ctypes.create_string_buffer(count.value)
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw

    def call(self, name: str, *arguments):
        """A call that must not fail."""
        status = getattr(self.lib, name)(*arguments)
        if status:
            raise CudaError(f"{name} failed with {status}")

    def version(self) -> str:
        """Its version."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"


def pointers(arguments):
    """The addresses of a kernel's arguments, which the array keeps alive."""
    array = (ctypes.c_void_p * max(len(arguments), 1))(*(ctypes.addressof(a) for a in arguments))
    array.held = arguments
    return array


def toolkits(inner: str):
    """Folders of CUDA toolkits."""
    homes = filter(None, (os.environ.get("CUDA_HOME"), "/usr/local/cuda"))
    return [Path(home) / inner for home in homes]


def nvrtc_places():
    """Names under which NVRTC may be found, best first."""
    if "HEDDLE_NVRTC" in os.environ:
        return [os.environ["HEDDLE_NVRTC"]]
    site = Path(sysconfig.get_path("purelib")) / "nvidia"
    folders = (site / "cu13" / "lib", site / "cuda_nvrtc" / "lib", *toolkits("lib64"))
    found = [str(path) for folder in folders for path in sorted(folder.glob("libnvrtc.so.1?"))]
    return [*found, "libnvrtc.so.13", "libnvrtc.so.12"]
