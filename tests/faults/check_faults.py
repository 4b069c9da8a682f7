"""What can go wrong around a compiled model: each fault gives the right result or an error that says what to do, and
the next run works.
usage: python check_faults.py HEDDLE MODELS     (MODELS: what tests/models/make_models.py wrote)

Every case starts with an empty cache of its own. Cases that need mounts of their own are left out, and named, where the
system does not allow them."""
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

KILLS = 100
ENDLESS = """<ir_version: 8, opset_import: ["": 17]> endless (float[N] x) => (float[N] y)
  <bool yes = {1}, float one = {1}> {
  y = Loop <body = step (int64 n, bool go, float[N] a) => (bool on, float[N] b) {
    on = Identity(go)  b = Add(a, one)
  }> ("", yes, x)
}"""
DEEP = """<ir_version: 8, opset_import: ["": 17, "local": 1]> deep (int64 n) => (int64 sum) {
  sum = local.down (n)
}
<domain: "local", opset_import: ["": 17, "local": 1]>
down (n) => (s) {
  zero = Constant <value_int = 0> ()  none = LessOrEqual(n, zero)
  s = If <then_branch = yes () => (t) { t = Identity(n) },
          else_branch = no () => (t) {
            one = Constant <value_int = 1> ()  m = Sub(n, one)  r = local.down (m)  t = Add(r, n) }> (none)
}"""
CASES = []


def case(function):
    """Registers a case: it returns nothing, or why it was left out; it raises when it fails."""
    CASES.append(function)
    return function


class Box:
    """A model with inputs and expected outputs, the command, and a cache that nobody else uses."""

    def __init__(self, heddle, model: Path, folder: Path):
        self.heddle, self.model, self.cache = str(Path(heddle).resolve()), model, folder / "cache"
        self.folder, self.input = folder, folder / "in.npz"
        graph = onnx.load(model / "model.onnx").graph
        np.savez(self.input, **self.read("input", graph.input))
        self.expected = self.read("output", graph.output)

    def read(self, kind, ports) -> dict:
        """The arrays of the first data set by name."""
        paths = (self.model / "test_data_set_0" / f"{kind}_{i}.pb" for i in range(len(ports)))
        return {port.name: numpy_helper.to_array(onnx.load_tensor(path))
                for port, path in zip(ports, paths)}

    def command(self, output, *more):
        """`heddle run` of the model."""
        return [self.heddle, "run", str(self.model / "model.onnx"), "--input", str(self.input),
                "--device", "cpu", "--output", str(output), *more]

    def environment(self, **more):
        """The environment with this cache."""
        return os.environ | {"HEDDLE_CACHE": str(self.cache)} | more

    def check(self, *more, prefix=(), **environment):
        """Runs and compares; the command's messages."""
        output = self.folder / "out.npz"
        output.unlink(missing_ok=True)
        done = subprocess.run([*prefix, *self.command(output, *more)], text=True,
                              capture_output=True, env=self.environment(**environment), timeout=120)
        assert done.returncode == 0, f"exit {done.returncode}: {done.stderr}"
        self.compare(output)
        return done.stderr

    def compare(self, output):
        """The outputs in a file are the expected ones."""
        with np.load(output) as got:
            for name, want in self.expected.items():
                assert np.allclose(got[name], want, rtol=1e-4, atol=1e-5), f"{name} is wrong"

    def fails(self, command, *words, **environment):
        """The command ends with an error, not by a signal or a panic, whose text has all words."""
        done = subprocess.run(command, text=True, capture_output=True, timeout=120,
                              env=self.environment(**environment))
        assert 0 < done.returncode < 128 and "panicked" not in done.stderr, \
            f"exit {done.returncode}: {done.stderr}"
        for word in words:
            assert word in done.stderr, f"no `{word}` in: {done.stderr}"

    def text_model(self, text, **inputs):
        """`heddle run` of a model given as text."""
        path, data = self.folder / "own.onnx", self.folder / "own.npz"
        path.write_bytes(parser.parse_model(text).SerializeToString())
        np.savez(data, **inputs)
        return [self.heddle, "run", str(path), "--input", str(data), "--device", "cpu"]


@case
def killed_while_compiling(box):
    """kill -9 at a hundred moments between the start and the end of a cold compile."""
    begin = time.perf_counter()
    box.check()
    whole = time.perf_counter() - begin
    moments = random.Random(7)
    for round_ in range(KILLS):
        if round_ % 10 == 0:
            subprocess.run(["rm", "-rf", box.cache], check=True)
        output = box.folder / f"killed{round_}.npz"
        child = subprocess.Popen(box.command(output), env=box.environment(),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0, whole))
        child.kill()
        child.wait()
        if output.exists():
            box.compare(output)
            output.unlink()
        if round_ % 10 == 9:
            box.check()
    box.check()


@case
def ten_processes(box):
    """Ten at once, all with the right result."""
    outputs = [box.folder / f"ten{i}.npz" for i in range(10)]
    children = [subprocess.Popen(box.command(o), env=box.environment(), stderr=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, text=True) for o in outputs]
    for child, output in zip(children, outputs):
        _, said = child.communicate(timeout=300)
        assert child.returncode == 0, said
        box.compare(output)
    box.check()


@case
def full_disk_for_the_cache(box):
    """Room for nothing, and for a part of what a compile writes."""
    if not can_mount():
        return "no mounts of our own here"
    box.cache.mkdir(mode=0o700)
    for size in ("4k", "32k", "64k", "128k"):
        mount = f'mount -t tmpfs -o mode=700,size={size} none "$HEDDLE_CACHE" && exec "$@"'
        box.check(prefix=("unshare", "-rm", "sh", "-c", mount, "sh"))
    box.check()


@case
def full_disk_for_the_output(box):
    """The output's file system is full: an error that names the file, and no half-written file."""
    if not can_mount():
        return "no mounts of our own here"
    target = box.folder / "full"
    target.mkdir()
    mount = f'mount -t tmpfs -o mode=700,size=4k none "{target}" && ' \
            f'head -c 4096 /dev/zero > "{target}/ballast"; exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", mount, "sh", *box.command(target / "out.npz")]
    box.fails(command, "out.npz")
    box.check()


@case
def read_only_cache(box):
    """An empty one is done without; a filled one is read."""
    if not can_mount():
        return "no mounts of our own here"
    mount = 'mount --bind "$HEDDLE_CACHE" "$HEDDLE_CACHE" && ' \
            'mount -o remount,ro,bind "$HEDDLE_CACHE" && exec "$@"'
    box.cache.mkdir(mode=0o700)
    box.check(prefix=("unshare", "-rm", "sh", "-c", mount, "sh"))
    box.check()
    box.check(prefix=("unshare", "-rm", "sh", "-c", mount, "sh"))


@case
def no_compiler(box):
    """The message says what to install and what works without; then it does."""
    box.fails(box.command(box.folder / "none.npz"), "clang", "cc", "gcc", "--device interp",
              PATH=str(box.folder))
    output = box.folder / "interp.npz"
    command = [w if w != "cpu" else "interp" for w in box.command(output)]
    subprocess.run(command, check=True, env=box.environment(PATH=str(box.folder)),
                   capture_output=True)
    box.compare(output)
    box.check()


@case
def numbers_of_threads(box):
    """Fewer and more than there are cores."""
    for threads in (1, 2, 3, 5, 64):
        box.check("--threads", str(threads))


@case
def recursion_too_deep(box):
    """The error names the flag and the depth; the run before and after it is right."""
    def at(n, *more):
        return [*box.text_model(DEEP, n=np.array(n)), *more]
    subprocess.run(at(50), check=True, capture_output=True, env=box.environment())
    box.fails(at(5000, "--max-depth", "100"), "--max-depth", "100")
    subprocess.run(at(90, "--max-depth", "100"), check=True, capture_output=True,
                   env=box.environment())


@case
def endless_loop(box):
    """A timeout ends it soon, and so does a limit on iterations; both errors name their flag."""
    command = box.text_model(ENDLESS, x=np.zeros(5, np.float32))
    begin = time.perf_counter()
    box.fails([*command, "--timeout", "1"], "--timeout")
    assert time.perf_counter() - begin < 30, "the timeout came late"
    box.fails([*command, "--max-iterations", "1000"], "--max-iterations", "1000")
    box.check()


def can_mount() -> bool:
    """Whether the system lets us make mounts of our own."""
    done = subprocess.run(["unshare", "-rm", "true"], capture_output=True)
    return done.returncode == 0


def passes(function, heddle, models) -> bool:
    """Runs a case and prints its outcome."""
    with tempfile.TemporaryDirectory() as folder:
        name, begin = function.__name__, time.perf_counter()
        try:
            left_out = function(Box(heddle, Path(models, "stacked_lstm"), Path(folder)))
        except (AssertionError, subprocess.SubprocessError, OSError) as error:
            print(f"FAIL {name}: {error}", flush=True)
            return False
        seconds = time.perf_counter() - begin
        print(f"skip {name}: {left_out}" if left_out else f"pass {name} ({seconds:.1f} s)",
              flush=True)
        return True


def main(heddle, models) -> int:
    """Runs all cases; the number that failed decides the exit status. The first one measures a compile, which nothing should
    disturb; the others mostly wait, so that several run at a time."""
    first, *others = CASES
    outcomes = [passes(first, heddle, models)]
    with ThreadPoolExecutor(4) as pool:
        outcomes += pool.map(lambda case: passes(case, heddle, models), others)
    failed = outcomes.count(False)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
