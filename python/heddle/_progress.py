"""A bar while a model is compiled, if that takes over a second and someone looks on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from . import _native

#: Seconds before the bar is shown, and between its updates.
DELAY, PERIOD = 1.0, 0.2

_Made = TypeVar("_Made")


def compile(model: _native.Model, options: Mapping[str, Any]) -> _native.Program:
    """Compiles a model, with a bar that counts the seconds where tqdm is installed."""
    return shown(lambda: _native.compile(model, options))


def shown(work: Callable[[], _Made]) -> _Made:
    """The result of compiling, with the bar while it is made."""
    if not _is_seen():
        return work()
    done = threading.Event()
    bar = threading.Thread(target=_show, args=(done,), daemon=True)
    bar.start()
    try:
        return work()
    finally:
        done.set()
        bar.join()


def _is_seen() -> bool:
    """Can a person see it, in a terminal or a notebook?"""
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


def _show(done: threading.Event) -> None:
    if done.wait(DELAY):
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return
    with tqdm(desc="compiling", bar_format="{desc}: {elapsed}", leave=False) as bar:
        while not done.wait(PERIOD):
            bar.refresh()
