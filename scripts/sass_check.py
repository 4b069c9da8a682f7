"""Reads the machine code that NVRTC makes for sm_90a: no GPU and no driver is needed.
usage: python sass_check.py HEDDLE OUT

Checks of hot loops and syncs, each by the instructions of one function:
- a recurrent step loads weights from shared memory, and its state, 16 bytes at a time;
- products by tiles load 16 bytes at a time from shared memory, and with `--precision` use the tensor cores;
- those of many rows do so by warpgroups, which wait once for all instructions of a round;
- a barrier of all blocks has one fence, and one of a cluster is the hardware's, with one; numbers that blocks gather need none;
- what a kernel writes is not read by way of the read-only cache;
- code and the time to compile it do not grow with trip counts or the depth of recursion."""
import re
import subprocess
import sys
from pathlib import Path

from cuda_check import Nvrtc

CELL = """fn @main(%x: f32[1,256], %w: f32[256,1024]) -> (%y: f32[1,256]) {
  %y, %c = loop %i trip TRIPS carry (%h: f32[1,256] = %x, %d: f32[1,256] = %x) {
    %g = dot(%h, %w)
    %e = add(mul(sigmoid(slice(%g, [0], [256], [1], axes=[1])), %d), sigmoid(slice(%g, [256], [512], [1], axes=[1])))
    %n = mul(tanh(slice(%g, [512], [768], [1], axes=[1])), tanh(add(%e, slice(%g, [768], [1024], [1], axes=[1]))))
    continue carry %n, %e
  }
  return %y
}
"""
PRODUCT = """fn @main(%a: f32[1024,1024], %b: f32[1024,1024]) -> (%y: f32[1024,1024]) {
  return dot(%a, %b)
}
"""
# A block has 32 rows.
SMALLER = PRODUCT.replace("1024", "512")
CLUSTER = """fn @main(%x: f32[1,128], %w: f32[128,128]) -> (%y: f32[1,128]) {
  %y = loop %i trip 40 carry (%h: f32[1,128] = %x) {
    continue carry tanh(mul(dot(%h, %w), 0.1))
  }
  return %y
}
"""
RECURSION = """fn @main(%x: f32[64], %w: f32[64,64]) -> (%y: f32[64]) {
  %y = call @down(%x, %w, const DEPTH)
  return %y
}
fn @down(%x: f32[64], %w: f32[64,64], %d: i64[]) -> (%y: f32[64]) {
  %last = le(%d, 0)
  %y = if %last {
    yield %x
  } else {
    %h = tanh(squeeze(dot(unsqueeze(%x, axes=[0]), %w), axes=[0]))
    %z = call @down(%h, %w, sub(%d, 1))
    yield add(%z, %h)
  }
  return %y
}
"""


class Program:
    """The machine code of a program, by its functions."""

    def __init__(self, nvrtc: Nvrtc, heddle: str, out: Path, name: str, text: str, *options: str):
        model = out / f"{name}.heddle"
        model.write_text(text)
        command = [heddle, "compile", model, "--target", "cuda", "--emit", "source", "--verify", *options]
        source = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        cubin = out / f"{name}.cubin"
        cubin.write_bytes(nvrtc.compile(source.encode(), f"{name}.cu")[0])
        self.name, self.bytes = name, cubin.stat().st_size
        listed = subprocess.run([nvrtc.home / "bin" / "nvdisasm", "-c", cubin], check=True, capture_output=True, text=True).stdout
        # $heddle_run$_ZN…INTERNAL…14heddle_barrierE…: is a function; the kernel itself comes first.
        parts = re.split(r"^\$heddle_run\$(\S+):$", listed, flags=re.MULTILINE)
        self.functions = dict(zip(parts[1::2], parts[2::2]), kernel=parts[0])

    def of(self, pattern: str) -> str:
        """The instructions of all functions whose mangled names match."""
        found = [text for name, text in self.functions.items() if re.search(pattern, name)]
        if not found:
            raise ValueError(f"{self.name} has no function {pattern}: {', '.join(self.functions)}")
        return "\n".join(found)


def counts(code: str, pattern: str) -> int:
    return len(re.findall(rf"\b{pattern}", code))


OPERATORS = r"\dop\d+E"
# Blocks wait for each other, rather than give each other numbers.
WAITING = ("--without", "gather_state")


def recurrent_steps(make) -> str:
    # Blocks have what they gather in shared memory.
    code = make("waiting", CELL.replace("TRIPS", "100"), *WAITING).of(OPERATORS)
    wide, narrow = counts(code, r"LDS\.128"), counts(code, r"LDS\b(?!\.128)")
    loads, generic = counts(code, r"LDG\.E\.128"), counts(code, r"(?:LD|ST)\.E")
    if wide == 0 or loads == 0 or generic:
        raise ValueError(f"{wide} loads of 16 bytes from shared memory, {loads} from global memory, {generic} of addresses of any kind")
    return f"{wide} loads of 16 bytes from shared memory ({narrow} others), {loads} from global memory; no address is of any kind"


def tiles(make) -> str:
    code = make("product", PRODUCT).of(OPERATORS)
    found = [counts(code, what) for what in (r"FFMA", r"LDS\.128", r"LDGSTS\.E[.A-Z]*\.128", r"HMMA")]
    if found[0] < 100 or found[1] < 10 or found[2] == 0 or found[3]:
        raise ValueError("{} FFMA, {} LDS.128, {} LDGSTS of 16 bytes, {} HMMA".format(*found))
    return "{} FFMA, {} loads of 16 bytes from shared memory, {} asynchronous copies of 16 bytes".format(*found)


def tensor_cores(make) -> str:
    said = []
    for precision, instruction in (("tf32", r"HMMA\.\d+\.F32\.TF32"), ("bf16", r"HMMA\.\d+\.F32\.BF16"), ("f16", r"HMMA\.\d+\.F32\b(?!\.)")):
        code = make(f"smaller_{precision}", SMALLER, "--precision", precision).of(OPERATORS)
        found = counts(code, instruction)
        if found == 0:
            raise ValueError(f"{precision}: none of {sorted(set(re.findall(r'HMMA[.0-9A-Z]*', code)))} is {instruction}")
        said.append(f"{found} in {precision}")
    return "HMMA: " + ", ".join(said)


def warpgroups(make) -> str:
    """Their operators are a part of the kernel."""
    said = []
    for precision, instruction in (("tf32", r"HGMMA\.64x\d+x8\.F32\.TF32"), ("bf16", r"HGMMA\.64x\d+x16\.F32\.BF16"), ("f16", r"HGMMA\.64x\d+x16\.F32\b(?!\.)")):
        code = make(f"product_{precision}", PRODUCT, "--precision", precision).of("kernel")
        found = [counts(code, what) for what in (instruction, r"WARPGROUP\.ARRIVE", r"WARPGROUP\.DEPBAR", r"FENCE\.VIEW\.ASYNC", r"STS\.128", "HMMA")]
        if found[0] == 0 or found[1:4] != [1, 1, 1] or found[4] == 0 or found[5]:
            raise ValueError("{}: {} HGMMA, {} beginnings, {} waits, {} fences, {} STS.128, {} HMMA".format(precision, *found))
        if not re.search(r"HGMMA.*STS\.128.*WARPGROUP\.DEPBAR", code, re.DOTALL):
            raise ValueError(f"{precision}: lanes share no elements while tensor cores multiply")
        said.append(f"{found[0]} in {precision}")
    return "HGMMA: " + ", ".join(said) + ", with one wait for all of a round, behind the stores of the next"


def fences(make) -> str:
    code = make("cell", CELL.replace("TRIPS", "100")).of("heddle_barrier")
    found = counts(code, r"MEMBAR")
    if found != 1:
        raise ValueError(f"{found} fences in a barrier")
    return "a barrier has one"


def gathers(make) -> str:
    program = make("cell", CELL.replace("TRIPS", "100"))
    took, gave = program.of("heddle_gather"), program.of(OPERATORS)
    loads, stores = counts(took, r"LDG\.E\.64\.STRONG\.GPU"), counts(gave, r"STG\.E\.64\.STRONG\.GPU")
    fences = counts(took, "MEMBAR") + counts(gave, "MEMBAR")
    if loads < 8 or stores == 0 or fences:
        raise ValueError(f"{loads} loads of words with a number, {stores} stores, {fences} fences")
    return f"{loads} loads of words with a number, {stores} stores, no fence"


def clusters(make) -> str:
    code = make("cluster", CLUSTER, *WAITING).of("heddle_together")
    found = [counts(code, what) for what in ("UCGABAR_ARV", "UCGABAR_WAIT", "MEMBAR")]
    # Before the first store to other blocks, in a step, and behind the last store.
    if found != [3, 3, 3]:
        raise ValueError("{} arrivals, {} waits and {} fences for three barriers of a cluster".format(*found))
    return "a barrier is an arrival and a wait of the hardware's, with one fence"


def read_only(make) -> str:
    """Another block may have written what this one read before: loads through the read-only cache need not see that."""
    loads = 0
    for name, text in (("cell", CELL.replace("TRIPS", "100")), ("cluster", CLUSTER), ("product", PRODUCT)):
        code = "\n".join(make(name, text).functions.values())
        loads += counts(code, r"LDG\.")
        if found := re.findall(r"LDG\.\S*CONSTANT\S*", code):
            raise ValueError(f"{name} has {found}")
    return f"none of {loads} loads"


def sizes(make) -> str:
    said = []
    for what, text, word, numbers in (("trips", CELL, "TRIPS", (100, 1_000_000)), ("calls", RECURSION, "DEPTH", (1_000, 5_000))):
        few, many = (make(f"{what}_{n}", text.replace(word, str(n))).bytes for n in numbers)
        if abs(few - many) > 0.01 * few:
            raise ValueError(f"{few} bytes with {numbers[0]} {what}, {many} with {numbers[1]}")
        said.append(f"{few} and {many} bytes with {numbers[0]} and {numbers[1]} {what}")
    return ", ".join(said)


def main(heddle: str, out: str) -> int:
    """Runs all checks; the number that failed decides the exit status."""
    nvrtc, folder = Nvrtc(), Path(out)
    folder.mkdir(parents=True, exist_ok=True)

    def make(*args: str) -> Program:
        return Program(nvrtc, heddle, folder, *args)

    failed = 0
    checks = (recurrent_steps, tiles, tensor_cores, warpgroups, fences, gathers, clusters, read_only, sizes)
    for check in checks:
        try:
            good, said = True, check(make)
        except subprocess.CalledProcessError as error:
            good, said = False, error.stderr
        except ValueError as error:
            good, said = False, str(error)
        failed += not good
        print(f"{'pass' if good else 'FAIL'} {check.__name__}: {said}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
