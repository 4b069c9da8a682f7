"""C compilers that are installed as packages of Python."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from . import _native


def add_installed() -> None:
    """Has the compiler of the package `ziglang`, which is clang, tried when the system has none that works. It is not imported."""
    found = importlib.util.find_spec("ziglang")
    for folder in (found.submodule_search_locations or ()) if found else ():
        program = Path(folder) / "zig"
        # What `python -m ziglang` runs. A command is parted at spaces.
        if program.is_file() and len(str(program).split()) == 1:
            _native.add_compiler(f"{program} cc")
