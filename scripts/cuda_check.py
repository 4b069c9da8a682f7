"""Compiles the CUDA text of models to sm_90a cubins with NVRTC; no GPU and no driver is needed.
usage: python cuda_check.py HEDDLE OUT MODEL ...

A MODEL is a file, or a folder whose folders hold a model.onnx each; FILE@NAME,... is compiled for many
instances that differ in these inputs. For each model: registers, stack and shared memory a thread or
block, as cuobjdump reads them, and the bytes of registers that the compiler spills."""
import ctypes
import os
import re
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

OPTIONS = (b"--gpu-architecture=sm_90a", b"--std=c++17", b"--disable-warnings",
           b"--ptxas-options=--verbose")


class Nvrtc:
    """The compiler, from the Python package nvidia-cuda-nvrtc."""

    def __init__(self):
        self.home = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13"
        # The compiler looks its builtins up by name only, so they must be loaded before.
        for name in ("libnvrtc-builtins.so.13*", "libnvrtc.so.13*"):
            found = sorted((self.home / "lib").glob(name))
            if not found:
                sys.exit(f"{name} is missing in {self.home / 'lib'}: "
                         "pip install -r scripts/requirements.txt")
            self.lib = ctypes.CDLL(str(found[0]), mode=ctypes.RTLD_GLOBAL)

    def compile(self, source: bytes, name: str) -> tuple[bytes, int]:
        """The cubin, and the bytes that are stored and loaded for lack of registers; ends the
        program's turn with the compiler's log when there is none."""
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source, name.encode(), 0, None, None)
        options = (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
        code = self.lib.nvrtcCompileProgram(program, len(OPTIONS), options)
        log = self.text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
        log = log.decode(errors="replace")
        if code:
            raise ValueError(log)
        spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", log)
        if not spills:
            raise ValueError(f"the compiler does not say what it spills: {log}")
        if "wgmma" in log:
            raise ValueError(f"the compiler waits for each product of a warpgroup: {log}")
        cubin = self.text(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
        return cubin, sum(map(int, spills))

    def text(self, program, size: str, get: str) -> bytes:
        """What the library returns by asking for its size first."""
        count = ctypes.c_size_t()
        self.call(size, program, ctypes.byref(count))
        buffer = ctypes.create_string_buffer(count.value)
        self.call(get, program, buffer)
        return buffer.raw

    def call(self, name: str, *args):
        """A call that must not fail."""
        code = getattr(self.lib, name)(*args)
        if code:
            raise RuntimeError(f"{name} failed with {code}")

    def resources(self, cubin: Path) -> str:
        """What the kernel takes, as `REG:n STACK:n SHARED:n`."""
        tool = self.home / "bin" / "cuobjdump"
        ran = subprocess.run([tool, "--dump-resource-usage", cubin], capture_output=True, text=True)
        after = ran.stdout.partition("Function heddle_run:")[2]
        found = re.search(r"REG:\d+ STACK:\d+ SHARED:\d+", after)
        if not found:
            raise ValueError(f"the cubin has no kernel heddle_run: {ran.stdout}{ran.stderr}")
        return found[0]


def source(heddle: str, model) -> str:
    """The text of the program as a whole."""
    command = [heddle, "compile", *model, "--target", "cuda", "--emit", "source", "--verify"]
    whole = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if re.search(r"^// part\.\d+$", whole, re.MULTILINE):
        raise ValueError("the interpreter runs parts of it")
    return whole


def main(heddle: str, out: str, models) -> int:
    """Checks all; the number that failed decides the exit status."""
    nvrtc = Nvrtc()
    Path(out).mkdir(parents=True, exist_ok=True)
    cases = {}
    for given in models:
        path, _, names = given.partition("@")
        model, differ = Path(path), ["--batch-of", names] * bool(names)
        found = sorted(model.glob("*/model.onnx")) if model.is_dir() else [model]
        end = "_batched" * bool(names)
        cases.update(((m.parent.name if model.is_dir() else m.stem) + end, [m, *differ])
                     for m in found)

    def check(name: str) -> tuple[bool, str]:
        try:
            whole = source(heddle, cases[name])
            text, cubin = (Path(out) / (name + end) for end in (".cu", ".cubin"))
            text.write_text(whole)
            begin = time.thread_time()
            built, spilled = nvrtc.compile(whole.encode(), text.name)
            seconds = time.thread_time() - begin
            cubin.write_bytes(built)
            return True, (f"{len(whole.splitlines())} lines, {nvrtc.resources(cubin)}, "
                          f"SPILLS:{spilled}, {len(built)} bytes, {seconds:.1f} s of NVRTC")
        except subprocess.CalledProcessError as error:
            return False, error.stderr
        except ValueError as error:
            return False, str(error)
    # The compiler runs without Python's lock.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(check, cases))
    for name, (good, said) in zip(cases, results):
        print(f"{'pass' if good else 'FAIL'} {name}: {said}")
    passed = sum(good for good, _ in results)
    failed = len(results) - passed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
