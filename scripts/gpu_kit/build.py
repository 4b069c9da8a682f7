"""Makes the kit for a machine with an NVIDIA GPU: one folder that holds all that run.py needs there.
usage: python build.py OUT --heddle BINARY --program EXAMPLE --cases DIR... [--zoo DIR] [--random N]

BINARY is stripped into the kit, and must need no glibc newer than 2.36. EXAMPLE is heddle-gen's `program`, which prints random programs;
DIR holds cases in ONNX's layout. The zoo's DIR is the folder of its sources: what draws the models is copied, and their references at
batch 1 are computed here, with PyTorch, which is installed into target/gpu-kit-torch unless this Python has it. Without a zoo the kit has
the model `small`, which is our own."""
import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KIT = Path(__file__).resolve().parent / "kit"
PRELUDE = ROOT / "crates/heddle-emit/src/prelude/cuda.h"
MOST_BYTES, GLIBC = 60_000_000, (2, 36)
# What references need, of the tests' versions. All that tests need does not go together: PyTorch has an NVRTC of its own.
FOR_REFERENCES = {"requirements.txt": "numpy", "requirements-torch.txt": "torch"}


def needed_glibc(binary: Path) -> tuple[int, ...]:
    """The newest version of glibc's symbols that a binary needs."""
    listed = subprocess.run(["readelf", "--version-info", "--wide", binary], capture_output=True, text=True, check=True).stdout
    # Versions that it defines itself do not count, but programs define none.
    found = re.findall(r"GLIBC_(\d+(?:\.\d+)+)", listed)
    if not found:
        raise SystemExit(f"{binary} is not linked with glibc; the kit's program loads libraries, so it must be")
    return max(tuple(map(int, version.split("."))) for version in found)


def place_binary(heddle: Path, out: Path, most: tuple[int, ...]) -> str:
    """Strips the program into the kit, and checks that it needs no glibc after `most`; the version that it needs."""
    subprocess.run(["strip", "-o", out / "heddle", heddle], check=True)
    kind = subprocess.run(["readelf", "-h", out / "heddle"], capture_output=True, text=True, check=True).stdout
    if "X86-64" not in kind:
        raise SystemExit(f"{heddle} is no program for x86-64")
    newest = needed_glibc(out / "heddle")
    if newest > most:
        raise SystemExit(
            f"{heddle} needs glibc {'.'.join(map(str, newest))}, and the kit must run with {'.'.join(map(str, most))}: "
            "build it where glibc is no newer, as in a container of debian:12")
    return ".".join(map(str, newest))


def random_programs(heddle: Path, program: Path, out: Path, count: int):
    """Writes programs and their outputs on the interpreter, for inputs that are drawn by the program's number. Left out are those whose
    outputs are no arrays, and those whose results hang on the last bits of floats."""
    out.mkdir()

    def one(seed: int) -> bool:
        text, want = out / f"{seed}.heddle", out / f"{seed}.npz"
        text.write_bytes(subprocess.run([program, str(seed)], capture_output=True, check=True).stdout)
        common = [text, "--random", str(seed), "--device", "interp", "--timeout", "20"]
        ran = subprocess.run([heddle, "run", *common, "--output", want], capture_output=True)
        steady = ran.returncode == 0 and subprocess.run(
            [heddle, "check", *common, "--f64", "--expect", want, "--rtol", "1e-4", "--atol", "1e-5"], capture_output=True).returncode == 0
        if not steady:
            text.unlink(), want.unlink(missing_ok=True)
        return steady
    done, seed = 0, 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while done < count:
            batch = range(seed, seed + count - done)
            done, seed = done + sum(pool.map(one, batch)), batch.stop
            if seed > 4 * count:
                raise SystemExit(f"only {done} of {seed} random programs can be used")


def copy_zoo(source: Path, out: Path):
    """Copies what draws the models."""
    from zoo import DYNAMIC
    if not (source / "common.py").exists():
        raise SystemExit(f"{source} does not hold the zoo's sources: it has no common.py")
    (out / "zoo/models").mkdir(parents=True)
    for name in ("common.py", "torchnet.py", "models/__init__.py", *(f"models/{name}.py" for name in DYNAMIC)):
        shutil.copyfile(source / name, out / "zoo" / name)


def with_torch() -> str:
    """A Python that has PyTorch: this one, or that of a folder of its own."""
    if importlib.util.find_spec("torch"):
        return sys.executable
    folder = ROOT / "target/gpu-kit-torch"
    python = folder / "bin/python"
    if not (folder / ".stamp").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pinned = [line for file, name in FOR_REFERENCES.items()
                  for line in (ROOT / "scripts" / file).read_text().split() if line.startswith(f"{name}==")]
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pinned], check=True)
        (folder / ".stamp").touch()
    return str(python)


def references(out: Path) -> dict:
    """Writes the references at batch 1, by the kit's own files; checksums of the weights."""
    python = with_torch() if (out / "zoo").exists() else sys.executable
    done = subprocess.run([python, Path(__file__).parent / "references.py", out], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> int:
    """Makes the folder anew, and says what it holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--heddle", type=Path, required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--cases", type=Path, nargs="+", default=[])
    parser.add_argument("--zoo", type=Path)
    parser.add_argument("--random", type=int, default=200)
    parser.add_argument("--glibc", default=".".join(map(str, GLIBC)), help="the version where the kit is to run")
    args = parser.parse_args()
    out = args.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for file in (*sorted(KIT.iterdir()), PRELUDE):
        if file.is_file():
            shutil.copyfile(file, out / file.name)
    glibc = place_binary(args.heddle, out, tuple(map(int, args.glibc.split("."))))
    for folder in args.cases:
        for case in sorted(path.parent for path in folder.glob("*/model.onnx")):
            shutil.copytree(case, out / "corpus" / case.name)
    random_programs(args.heddle, args.program, out / "random", args.random)
    if args.zoo:
        copy_zoo(args.zoo, out)
    (out / "references").mkdir()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    contents = {"commit": commit, "glibc": glibc, "random": args.random, "zoo": bool(args.zoo), "checksums": {}}
    (out / "contents.json").write_text(json.dumps(contents))
    contents["checksums"] = references(out)
    (out / "contents.json").write_text(json.dumps(contents, indent=1) + "\n")
    total = size(out)
    if total >= MOST_BYTES:
        raise SystemExit(f"{out} takes {total / 1e6:.1f} MB; the limit is {MOST_BYTES / 1e6:.0f}")
    cases = sum(1 for _ in (out / "corpus").iterdir()) if args.cases else 0
    print(f"{out}: {total / 1e6:.1f} MB, glibc {glibc}, {cases} cases, {args.random} random programs, "
          f"{'the zoo' if args.zoo else 'no zoo'}\npython3 {args.out}/run.py RESULTS")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(KIT))
    sys.exit(main())
