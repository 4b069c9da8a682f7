"""The C compiler: the one that is asked for, the usual ones, and one that is installed as a package."""

import os
import shutil
import subprocess
import sys

import pytest

import heddle

CODE = """
import sys
import heddle
text = "fn @main(%x: f32[n]) -> (%y: f32[n]) {\\n  %y = add(%x, %x)\\n  return %y\\n}\\n"
try:
    p = heddle.compile(heddle.load(text.encode(), format="heddle"), cache=False)
    print("works", p([1.0, 2.0]).tolist())
except heddle.NoCompiler as error:
    print("none", error)
"""


def run(tmp_path, *, path, **environment):
    """Compiles in a process that finds programs at `path` only."""
    packages = [str(tmp_path), *filter(None, sys.path)]
    environment = {"PATH": path, "PYTHONPATH": os.pathsep.join(packages), "HOME": str(tmp_path), **environment}
    return subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True)


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def gcc():
    found = shutil.which("gcc") or shutil.which("cc")
    if found is None:
        pytest.skip("there is no gcc")
    return found


def test_without_any_the_candidates_are_named(tmp_path):
    # A package without its program, before any that is installed.
    script(tmp_path / "ziglang" / "__init__.py", "")
    done = run(tmp_path, path=str(tmp_path))
    assert done.stdout.startswith("none"), done.stderr
    places = [done.stdout.find(f" {name}: not found") for name in ("gcc", "clang", "cc")]
    assert -1 not in places and places == sorted(places), done.stdout
    assert "interp" in done.stdout


def test_gcc_is_the_first(tmp_path, gcc):
    for name in ("gcc", "clang", "cc"):
        script(tmp_path / "bin" / name, f'echo {name} >> "{tmp_path}/used"\nPATH="{os.environ["PATH"]}" exec "{gcc}" "$@"')
    done = run(tmp_path, path=str(tmp_path / "bin"))
    assert done.stdout == "works [2.0, 4.0]\n", done.stdout + done.stderr
    assert set((tmp_path / "used").read_text().split()) == {"gcc"}


def test_the_one_that_is_named_counts(tmp_path, gcc):
    own = script(tmp_path / "own", f'echo own >> "{tmp_path}/used"\nPATH="{os.environ["PATH"]}" exec "{gcc}" "$@"')
    done = run(tmp_path, path=os.environ["PATH"], HEDDLE_CC=str(own))
    assert done.stdout == "works [2.0, 4.0]\n", done.stdout + done.stderr
    assert (tmp_path / "used").exists()
    text = "fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  return %x\n}\n"
    with pytest.raises(heddle.NoCompiler, match="none-such"):
        heddle.compile(heddle.load(text.encode(), format="heddle"), compiler="none-such", cache=False)


def test_the_package_ziglang_is_the_last(tmp_path, gcc):
    # In the form of the package, with gcc behind it.
    script(tmp_path / "ziglang" / "__init__.py", "")
    script(tmp_path / "ziglang" / "zig", f'[ "$1" = cc ] || exit 9\nshift\nPATH="{os.environ["PATH"]}" exec "{gcc}" "$@"')
    done = run(tmp_path, path=str(tmp_path / "bin"))
    assert done.stdout == "works [2.0, 4.0]\n", done.stdout + done.stderr
    # A compiler of the system goes before it.
    script(tmp_path / "ziglang" / "zig", "exit 9")
    done = run(tmp_path, path=os.environ["PATH"])
    assert done.stdout == "works [2.0, 4.0]\n", done.stdout + done.stderr


@pytest.mark.parametrize("name", ["kept", "."])
def test_where_builds_are_kept(tmp_path, monkeypatch, name):
    """In the folder that is asked for, or nowhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "of the environment"))
    text = "fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  %y = sub(%x, 12.25)\n  return %y\n}\n"
    model = heddle.load(text.encode(), format="heddle")
    heddle.compile(model, cache=False).save("p.hprog")
    heddle.open("p.hprog", cache=False)
    assert not list(tmp_path.glob("**/*.so"))
    heddle.compile(model, cache=name)
    assert [file.parent for file in tmp_path.glob("**/*.so")] == [tmp_path / name / "entries"]
    assert heddle.compile(model).report["compile"] > 0 and (tmp_path / "of the environment").is_dir()
