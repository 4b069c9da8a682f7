"""Part `micro`: what the driver says of the device, and the costs of synchronisation, launches and memories.
usage: python micro.py RESULTS WORK [--dry-run]

Writes RESULTS/h200.json, which has the fields of crates/heddle-machine/h200.json. A time is a slope: that of many iterations less that of
few, by the host's clock, so that launches do not count. With --dry-run it runs what the driver of our tests can, a few iterations each,
and compiles the rest for sm_90a."""
import ctypes
import random
import re
import statistics
import subprocess
import sys
from pathlib import Path

import report
from driver import (CONDITIONAL_WHILE, NON_PORTABLE_CLUSTERS, CudaError, Driver, Graph, Nvrtc)

HERE = Path(__file__).resolve().parent
THREADS = 256  # of a block in emitted programs
# Numbers of syncs.cu, and iterations of the longer run.
SYNCS = {"loop_head": (0, 20000), "grid_barrier": (1, 4000), "two_waits": (2, 4000),
         "gather_in_turn": (3, 400), "gather_at_once": (4, 2000), "broadcast": (5, 4000),
         "two_exchanges": (6, 8000), "lean_barrier": (7, 4000), "flag_barrier": (8, 4000)}
FIGURES = (
    "warp_barrier_ns", "block_barrier_ns", "grid_barrier_ns", "grid_barrier_lean_ns", "grid_barrier_flags_ns",
    "grid_barrier_groups_ns", "cluster_barrier_4_ns", "cluster_barrier_8_ns",
    "cluster_barrier_16_ns", "cluster_word_ns", "clusters_of_4", "clusters_of_8", "clusters_of_16",
    "wait_one_to_one_ns", "wait_one_to_all_ns", "wait_all_to_one_ns",
    "wait_all_to_one_in_turn_ns", "flag_in_data_ns", "loop_head_ns", "launch_ns",
    "launch_and_wait_ns", "graph_node_ns", "while_iteration_ns", "registers_gb_s", "f32_tflop_s",
    "shared_gb_s", "l2_gb_s", "l2_unit_gb_s", "hbm_gb_s", "hbm_unit_gb_s", "shared_latency_ns",
    "l2_latency_ns", "hbm_latency_ns")


def structure(text: str, name: str):
    """A C structure of the prelude as ctypes has it; its members are pointers and integers."""
    body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", text, re.DOTALL)[1]
    sizes = {"uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32, "uint64_t": ctypes.c_uint64,
             "int64_t": ctypes.c_int64}
    fields = []
    for kind, member in re.findall(r"^ *([^;/]*?)(\w+);", body, re.MULTILINE):
        fields.append((member, ctypes.c_uint64 if "*" in kind else sizes[kind.strip()]))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def slope(times, few: int, many: int) -> float:
    """Nanoseconds of an iteration; `times(count)` is that of one run."""
    times(few)
    low, high = (statistics.median(times(count) for _ in range(5)) for count in (few, many))
    return (high - low) / (many - few)


class Syncs:
    """The emitted programs' words: a launch of syncs.cu with an environment of its own."""

    def __init__(self, driver: Driver, nvrtc: Nvrtc):
        self.driver = driver
        prelude = (HERE / "cuda.h").read_text()
        text = prelude + (HERE / "syncs.cu").read_text()
        self.module = driver.module(nvrtc.compile(text, "syncs.cu", driver.arch()))
        self.function = driver.function(self.module, "heddle_run")
        self.blocks, self.threads = driver.attribute(16), min(THREADS, driver.attribute(1))
        self.sizes = {"sync": 8192, "units": 4096 * self.blocks, "error": 64, "scratch": 4096 * self.blocks}
        self.memory = {name: driver.zeros(size) for name, size in self.sizes.items()}
        self.table = driver.zeros(16)
        # The word that tells a kernel to stop lies in the host's memory.
        self.cancel, mapped = ctypes.c_void_p(), ctypes.c_uint64()
        driver.call("cuMemHostAlloc", ctypes.byref(self.cancel), ctypes.c_size_t(64), 2)
        ctypes.memset(self.cancel, 0, 64)
        driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(mapped), self.cancel, 0)
        self.env = structure(prelude, "heddle_env")(
            **{name: address.value for name, address in self.memory.items()},
            table=self.table.value, cancel=mapped.value, watchdog=5_000_000_000,
            max_iterations=2**62, max_depth=1)

    def run(self, kind: int, count: int) -> float:
        """Nanoseconds of a launch; an error that the kernel raised is one here."""
        for name, address in self.memory.items():
            self.driver.clear(address, self.sizes[name])
        self.driver.upload(self.table, (ctypes.c_int64 * 2)(kind, count))
        time = self.driver.timed(lambda: self.driver.cooperative(self.function, self.blocks, self.threads, self.env))
        code = int.from_bytes(self.driver.download(self.memory["error"], 4), "little")
        # 11 is HEDDLE_UNWATCHED, by which block 0 says that it has ended.
        if code not in (0, 11):
            raise CudaError(f"syncs.cu, kind {kind}: the kernel ended with code {code}")
        return time

    def close(self):
        """Gives all back."""
        for address in (*self.memory.values(), self.table):
            self.driver.free(address)
        self.driver.call("cuMemFreeHost", self.cancel)
        self.driver.call("cuModuleUnload", self.module)


class Measures:
    """Figures by name; one that cannot be had has its reason in its place. `keep` is called after each, since the next may hang."""

    def __init__(self, keep):
        self.values, self.reasons, self.keep = {}, {}, keep

    def take(self, names, work):
        """Calls `work`, which returns the value of one name or those of several."""
        names = [names] if isinstance(names, str) else names
        try:
            values = work()
            values = [values] if len(names) == 1 else values
            self.values |= dict(zip(names, values, strict=True))
        except (CudaError, OSError) as error:
            self.reasons |= {name: str(error) for name in names}
            print(f"{', '.join(names)}: {error}", file=sys.stderr, flush=True)
        self.keep()

    def document(self, source: str) -> dict:
        """All figures in their order, with where they come from."""
        def entry(name):
            if name in self.values:
                return {"value": float(f"{self.values[name]:.5g}"), "source": source}
            return {"value": None, "source": self.reasons.get(name, "not measured")}
        return {name: entry(name) for name in FIGURES}


def measure_syncs(syncs: Syncs, measures: Measures, dry: bool):
    """Barriers and waits between blocks."""
    raw = {}
    for name, (kind, many) in SYNCS.items():
        def time(kind=kind, many=many):
            # Times of a simulator say nothing, so that its runs need not be many.
            return syncs.run(kind, 4) if dry else slope(lambda count: syncs.run(kind, count), many // 20, many)
        measures.take(f"raw_{name}", lambda name=name, time=time: raw.setdefault(name, time()))
    derived = {
        "loop_head_ns": lambda: raw["loop_head"], "grid_barrier_ns": lambda: raw["grid_barrier"],
        "grid_barrier_lean_ns": lambda: raw["lean_barrier"],
        "grid_barrier_flags_ns": lambda: raw["flag_barrier"],
        "wait_one_to_one_ns": lambda: raw["two_waits"] / 2,
        "flag_in_data_ns": lambda: raw["two_exchanges"] / 2,
        # A round is there and back.
        "wait_one_to_all_ns": lambda: raw["broadcast"] - raw["two_waits"] / 2,
        "wait_all_to_one_ns": lambda: raw["gather_at_once"] - raw["broadcast"] + raw["two_waits"] / 2,
        "wait_all_to_one_in_turn_ns":
            lambda: raw["gather_in_turn"] - raw["broadcast"] + raw["two_waits"] / 2}
    for name, value in derived.items():
        try:
            measures.values[name] = value()
        except KeyError as error:
            measures.reasons[name] = measures.reasons.get(f"raw_{error.args[0]}", "not measured")


def number(value: int):
    """An `int` argument of a kernel."""
    return ctypes.c_int(value)


def measure_device(driver: Driver, nvrtc: Nvrtc, measures: Measures):
    """Clusters, launches, graphs, rates and latencies."""
    arch = driver.arch()
    arch += "a" if arch == "sm_90" else ""
    module = driver.module(nvrtc.compile((HERE / "device.cu").read_text(), "device.cu", arch))
    kernel = {name: driver.function(module, name) for name in (
        "nothing", "warp_barriers", "block_barriers", "cluster_barriers", "cluster_words", "registers",
        "shared_reads", "global_reads", "link", "global_chain", "shared_chain")}
    units = driver.attribute(16)
    sink = driver.zeros(64)

    def of(name, few, many, blocks, threads, *arguments, **options):
        def run(count):
            return driver.timed(lambda: driver.launch(kernel[name], blocks, threads, number(count), *arguments, **options))
        return slope(run, few, many)

    measures.take("warp_barrier_ns", lambda: of("warp_barriers", 1000, 41000, 1, 32))
    measures.take("block_barrier_ns", lambda: of("block_barriers", 1000, 41000, 1, THREADS))
    for size in (4, 8, 16):
        def clusters(size=size):
            if size > 8:
                for name in ("cluster_barriers", "cluster_words"):
                    driver.set(kernel[name], NON_PORTABLE_CLUSTERS, 1)
            return driver.clusters(kernel["cluster_barriers"], THREADS, size)
        measures.take(f"clusters_of_{size}", clusters)
        measures.take(f"cluster_barrier_{size}_ns", lambda size=size: of(
            "cluster_barriers", 500, 10500, size * (measures.values.get(f"clusters_of_{size}") or 1), THREADS,
            cluster=size))
    measures.take("cluster_word_ns", lambda: of("cluster_words", 500, 10500, 4, 32, cluster=4) / 2)
    measures.take("grid_barrier_groups_ns", lambda: groups(driver, nvrtc, arch, units))

    def launches(count):
        return driver.timed(lambda: [empty() for _ in range(count)])
    empty = driver.prepared(kernel["nothing"], 1, 32)
    measures.take("launch_ns", lambda: slope(launches, 100, 2100))
    measures.take("launch_and_wait_ns", lambda: statistics.median(launches(1) for _ in range(200)))

    def nodes(count):
        graph = Graph(driver)
        for _ in range(count):
            graph.kernel(kernel["nothing"], 1, 32)
        start = graph.ready()
        start()
        return driver.timed(start)
    measures.take("graph_node_ns", lambda: slope(nodes, 20, 520))
    measures.take("while_iteration_ns", lambda: whiles(driver, nvrtc, arch))

    fmas = units * 2 * 1024 * 64
    rate = {}
    measures.take("raw_registers", lambda: rate.setdefault(
        "fma", fmas / of("registers", 200, 4200, units * 2, 1024, sink)))
    if "fma" in rate:
        measures.values |= {"f32_tflop_s": rate["fma"] * 2e-3, "registers_gb_s": rate["fma"] * 12}
    measures.take("shared_gb_s", lambda: units * 2 * 32768 / of("shared_reads", 200, 4200, units * 2, 1024, sink))
    for name, size in (("l2", 16 << 20), ("hbm", 4 << 30)):
        def rates(size=size, few=1 if size > 1 << 30 else 100):
            data = driver.zeros(size)
            vectors = ctypes.c_longlong(size // 16)
            whole = size / of("global_reads", few, few * 8, units * 8, THREADS, sink, data, vectors)
            # One block reads a part that takes as long as all blocks' whole.
            part = ctypes.c_longlong(min(size, 1 << 30) // 16)
            unit = part.value * 16 / of("global_reads", few, few * 4 if few > 1 else 2, 1, THREADS, sink, data, part)
            driver.free(data)
            return whole, unit
        measures.take((f"{name}_gb_s", f"{name}_unit_gb_s"), rates)
    measures.take("shared_latency_ns", lambda: of("shared_chain", 1000, 101000, 1, 1, sink))
    for name, lines in (("l2", 1 << 16), ("hbm", 1 << 23)):
        def latency(lines=lines):
            words = driver.zeros(lines * 128)
            driver.launch(kernel["link"], units, THREADS, words, ctypes.c_uint(lines))
            # A chain through the L2 is there after one round; one through HBM begins elsewhere each time.
            if lines == 1 << 16:
                driver.launch(kernel["global_chain"], 1, 1, number(lines), sink, words, ctypes.c_uint(0))

            def run(count):
                start = ctypes.c_uint(random.randrange(lines))
                return driver.timed(lambda: driver.launch(
                    kernel["global_chain"], 1, 1, number(count), sink, words, start))
            time = slope(run, 1000, 21000)
            driver.free(words)
            return time
        measures.take(f"{name}_latency_ns", latency)
    driver.free(sink)
    driver.call("cuModuleUnload", module)


def groups(driver: Driver, nvrtc: Nvrtc, arch: str, units: int) -> float:
    """The barrier of cooperative groups; its header comes with CUDA's toolkit."""
    if not nvrtc.headers:
        raise CudaError("cooperative_groups.h was found neither beside NVRTC nor in CUDA_HOME or /usr/local/cuda")
    include = [f"--include-path={folder}" for folder in nvrtc.headers]
    module = driver.module(nvrtc.compile((HERE / "groups.cu").read_text(), "groups.cu", arch, *include))
    kernel = driver.function(module, "group_barriers")

    def run(count):
        return driver.timed(lambda: driver.cooperative(kernel, units, THREADS, number(count)))
    time = slope(run, 200, 4200)
    driver.call("cuModuleUnload", module)
    return time


def conditions(nvrtc: Nvrtc, arch: str) -> bytes:
    """conditions.cu as PTX, whose missing function the driver has. It needs no more than CUDA 12.4, so older drivers take it, too."""
    text = nvrtc.compile((HERE / "conditions.cu").read_text(), "conditions.cu", arch.rstrip("a"),
                         "--relocatable-device-code=true", ptx=True)
    return re.sub(rb"(?m)^\.version \d+\.\d+$", b".version 8.4", text)


def whiles(driver: Driver, nvrtc: Nvrtc, arch: str) -> float:
    """An iteration of a WHILE node whose body is one kernel."""
    module = driver.module(conditions(nvrtc, arch))
    count_up = driver.function(module, "count_up")
    counter = driver.zeros(64)

    def run(count):
        root = Graph(driver)
        handle = root.condition(1)
        root.conditional(handle, CONDITIONAL_WHILE).kernel(count_up, 1, 1, handle, counter, ctypes.c_uint(count))
        start = root.ready()
        start()
        return driver.timed(start)
    return slope(run, 20, 1020)


def compile_all(nvrtc: Nvrtc, prelude: str) -> list[str]:
    """Compiles all texts for sm_90a, as a machine without a GPU can; what was compiled."""
    done = []
    texts = {"syncs.cu": prelude + (HERE / "syncs.cu").read_text(), "device.cu": (HERE / "device.cu").read_text()}
    if nvrtc.headers:
        texts["groups.cu"] = (HERE / "groups.cu").read_text()
    include = [f"--include-path={folder}" for folder in nvrtc.headers]
    for name, text in texts.items():
        done.append(f"{name}: {len(nvrtc.compile(text, name, 'sm_90a', *include))} bytes")
    ptx = conditions(nvrtc, "sm_90a")
    if b"cudaGraphSetConditional" not in ptx:
        raise CudaError("conditions.cu: the PTX lacks the call")
    return [*done, f"conditions.cu: {len(ptx)} bytes of PTX"]


def nvidia_smi() -> str:
    """The card's state as NVIDIA's tool reads it; nothing is set."""
    query = "driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu,mig.mode.current"
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout or done.stderr).strip()


def main(results: Path, work: Path, dry: bool) -> int:
    """Measures, and writes the figures even if some are missing."""
    driver, nvrtc, figures = Driver(), Nvrtc(), {}
    facts = {"device": "the driver of the tests"} if dry else driver.facts() | {"nvidia_smi": nvidia_smi()}
    about = facts | {"nvrtc": nvrtc.version(), "driver_cuda": driver.version()}
    machine = "h200" if "H200" in facts["device"] else facts["device"]

    def keep():
        figures.update(measures.document("simulated" if dry else "measured"))
        report.write(results / "h200.json", {"machine": machine, "about": about, "figures": figures})
    measures = Measures(keep)
    syncs = Syncs(driver, nvrtc)
    measure_syncs(syncs, measures, dry)
    syncs.close()
    keep()
    if not dry:
        measure_device(driver, nvrtc, measures)
        keep()
    driver.close()
    known = [(name, f"{entry['value']:g}") for name, entry in figures.items() if entry["value"] is not None]
    title = f"{len(known)} of {len(FIGURES)} figures on {facts['device']}"
    missing = [(name, entry["source"]) for name, entry in figures.items() if entry["value"] is None]
    report.table(work, "micro", title, ("figure", "value"), known + missing * (not dry))
    return 1 if missing and not dry or measures.reasons else 0


if __name__ == "__main__":
    sys.exit(report.part(main, __doc__))
