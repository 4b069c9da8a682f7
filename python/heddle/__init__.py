"""Heddle compiles neural networks with control flow into one program that runs where the data is.

    program = heddle.compile(heddle.load("decoder.onnx"))
    words = program(sentence)
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, overload

from . import _batch, _compilers, _html, _native, _progress
from ._errors import (
    BuildError,
    Cancelled,
    CheckFailed,
    DeviceError,
    Error,
    FileError,
    InputError,
    InternalError,
    InvalidModel,
    LimitReached,
    NoCompiler,
    Timeout,
    Unsupported,
)
from ._measure import Agreement, Bench, Check, bench, check
from ._native import Cancel, Model
from ._values import as_target, library_of, to_library

__version__: str = _native.version

_compilers.add_installed()

__all__ = [
    "Agreement", "BatchProgram", "Bench", "BuildError", "Cancel", "Cancelled", "Check", "CheckFailed", "DeviceError", "Error", "FileError", "InputError", "InternalError", "InvalidModel", "LimitReached", "Model",
    "NoCompiler", "Program", "Report", "Timeout", "Unsupported", "bench", "check", "compile", "eager", "function", "load", "open",
]


def load(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    format: str = "onnx",
    folder: str | os.PathLike[str] | None = None,
    ranks: Mapping[str, int] | None = None,
    overrides: Sequence[str] = (),
    entry: str | None = None,
    constants: Mapping[str, Any] | None = None,
) -> Model:
    """Reads a model: a `.onnx`, `.pt2`, `.heddle` or `.hl` file, the bytes of one, or an `onnx.ModelProto`.

    `format` is that of bytes: "onnx", "pt2", "heddle" or "hl", and `folder` holds the weights beside them. `ranks` states those of inputs that the model declares without,
    `overrides` names inputs with a default value that are to be given, `entry` is the function to run. `constants` are arrays in the place of
    initializers of an ONNX model, or of parameters and buffers of a `.pt2` file, of their types and shapes: a model that is compiled again with other weights is not built again, but found
    in the cache.
    """
    name, data = "model", None
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
    elif hasattr(source, "SerializeToString"):
        data = source.SerializeToString()
    else:
        name = os.fspath(source)
    folder = None if folder is None else Path(folder)
    reading = dict(
        format=format, folder=folder, ranks=_dict(ranks), overrides=list(overrides), entry=entry, constants=_dict(constants),
    )
    return _native.load(Path(name), data, reading)


@overload
def compile(
    model: Model | str | os.PathLike[str] | bytes | Any,
    *example: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = "auto",
    device: str = "cpu",
    threads: int | None = None,
    verify: bool = False,
    tune: bool = False,
    pin: bool = True,
    optimize: bool = True,
    max_frames: int | None = None,
    weights: str = "f32",
    precision: str = "f32",
    compiler: str | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
    entries: None = None,
    batch_of: None = None,
) -> Program: ...


@overload
def compile(
    model: Model | str | os.PathLike[str] | bytes | Any, *, batch_of: str | Sequence[str] | Mapping[str, str | None], **options: Any
) -> BatchProgram: ...


@overload
def compile(
    model: Model | str | os.PathLike[str] | bytes | Any, *, entries: Sequence[str], **options: Any
) -> dict[str, Program]: ...


def compile(
    model: Model | str | os.PathLike[str] | bytes | Any,
    *example: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = "auto",
    device: str = "cpu",
    threads: int | None = None,
    verify: bool = False,
    tune: bool = False,
    pin: bool = True,
    optimize: bool = True,
    max_frames: int | None = None,
    weights: str = "f32",
    precision: str = "f32",
    compiler: str | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
    entries: Sequence[str] | None = None,
    batch_of: str | Sequence[str] | Mapping[str, str | None] | None = None,
) -> Any:
    """Compiles a model, what `load` reads, a PyTorch module, a `torch.export.ExportedProgram`, or a Python function on tensors.

    A module or function is traced with the arguments `example` and `kwargs`. Sizes of 2 and more are open, or as `dynamic_shapes` says in
    the form of `torch.export`; `None` keeps all. The program is called as the module is.

    `device` is "cpu", or "interp" for the interpreter, which needs no C compiler, "cuda" for an NVIDIA GPU, or "sim" for a simulated one. `threads` is the most that take part in a run; `None`:
    one for each physical core. `compiler` is the C compiler; `cache` the folder of what is kept from one compilation to the next, or
    `False` for none. `weights` is the type that constant weights of products and convolutions are stored in: "f32", "bf16", "f16", or "int8" with a
    scale for each output column; they are computed in f32. `precision` is the type in which tensor cores of a GPU may multiply f32: "f32", "tf32", "bf16" or "f16". `verify` proves the schedule sound, `tune` measures operators on this machine. `entries` names several of the model's
    functions: the result is a dictionary of a program for each, which share their weights.

    `batch_of` names the inputs in which many instances differ: the result is a `BatchProgram`, which runs them together, each with control
    flow of its own. Inputs with an open first size are ragged, others stacked; `{"x": "stacked"}` says otherwise.
    """
    options = dict(
        device=device, threads=threads, verify=verify, tune=tune, pin=pin, optimize=optimize, max_frames=max_frames,
        weights=weights, precision=precision, compiler=compiler, cache=cache,
    )
    if _is_traced(model):
        if entries is not None:
            raise TypeError("entries are functions of a model; a PyTorch module has one")
        if batch_of is not None:
            raise TypeError("batch_of is for models; torch.export.save writes one of a PyTorch module")
        from ._trace import api

        return api.compile(model, example, dict(kwargs or {}), dynamic_shapes, options)
    if example or kwargs:
        raise TypeError("examples are for PyTorch modules and functions; a model states its inputs")
    if not isinstance(model, Model):
        model = load(model)
    native = _native_options(options)
    if batch_of is not None:
        if entries is not None:
            raise TypeError("batch_of is for one entry: heddle.load(path, entry=...)")
        forms = dict(batch_of) if isinstance(batch_of, Mapping) else dict.fromkeys([batch_of] if isinstance(batch_of, str) else batch_of)
        return BatchProgram(_progress.shown(lambda: _native.compile_batch(model, forms, native)), (model, forms, options))
    if entries is None:
        return Program(_progress.compile(model, native))
    if isinstance(entries, str):
        raise TypeError(f"entries are a list of names: entries=[{entries!r}]")
    return {name: Program(_progress.compile(model.with_entry(name), native)) for name in entries}


def _native_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the native part takes them: defaults stated, and the cache as a path."""
    made = dict(
        device="cpu", threads=None, verify=False, tune=False, pin=True, optimize=True, max_frames=None, weights="f32",
        precision="f32", compiler=None, cache=None,
    )
    unknown = set(options) - set(made)
    if unknown:
        raise InputError(f"there is no option {', '.join(sorted(unknown))}; there are {', '.join(made)}")
    made.update(options)
    made["cache"] = _cache(made["cache"])
    return made


def _is_traced(model: Any) -> bool:
    """Whether a model is to be traced: a module of PyTorch, an exported program, or a function."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        return True
    return callable(model) and not isinstance(model, (Model, type)) and not hasattr(model, "SerializeToString")


def function(target: Callable[..., Any] | None = None, *, results: Any = None, **options: Any) -> Any:
    """Makes a Python function run compiled, with its loops, branches and recursion: `@heddle.function`.

    The function is traced once for each signature of its arguments: their types, and sizes that are 0 or 1. Tensors decide its `if`,
    `while` and `for`, and its calls of itself and of other such functions are calls of the program. `results` states what the function
    gives, as a function of its arguments, where its calls of itself don't show it. `options` are those of `compile`. Needs PyTorch and
    diastatic-malt (`pip install heddle-compiler[torch]`).
    """
    from ._trace import api

    if target is None:
        return lambda target: api.function(target, results, options)
    return api.function(target, results, options)


def eager() -> AbstractContextManager[None]:
    """Within it, functions of `function` run as plain Python, for a debugger."""
    from ._trace import api

    return api.eager()


def open(
    source: str | os.PathLike[str] | bytes,
    *,
    trusted: bool = False,
    device: str | None = None,
    compiler: str | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
) -> Program:
    """Opens a program that `Program.save` wrote, or the bytes of one, for the device that it was compiled for or another.

    Its graph is read, verified and compiled; nothing in the file is run. With `trusted=True`, for files of people whose programs you would
    run, the binary in the file is loaded in the place of the C compiler's work, where it was made for the same processor.
    """
    data = bytes(source) if isinstance(source, (bytes, bytearray, memoryview)) else None
    path = Path("program" if data is not None else os.fspath(source))
    return Program(_native.open(path, data, dict(trusted=trusted, device=device, compiler=compiler, cache=_cache(cache))))


def _dict(given: Any) -> Any:
    """A mapping as a dictionary, which the native part takes; it says what is wrong with anything else."""
    return dict(given) if isinstance(given, Mapping) else {} if given is None else given


def _cache(choice: str | os.PathLike[str] | bool | None) -> str | None:
    """The folder of what is kept, as the native part takes it: an empty text for none. (An empty `Path` is the folder at hand.)"""
    if choice is None or choice is True:
        return None
    return os.fspath(choice) if choice else ""


def _program_of_bytes(data: bytes) -> Program:
    return open(data)


def _batch_program_of(model: Model, forms: dict[str, str | None], options: dict[str, Any]) -> BatchProgram:
    return compile(model, batch_of=forms, **options)


_model_of_bytes = _native.model_of_bytes

_NO_LIMITS: dict[str, Any] = dict(
    timeout=None, watchdog=None, max_depth=None, max_iterations=None, max_memory=None, max_frames=None, seed=0, f64=False, cancel=None,
)


class Report(dict[str, Any]):
    """What compiling took: seconds as `load`, `compile` and, by name, `stages`; `verified`, if the schedule was proven sound; `interpreted`,
    triples of a node, a reason and a change of the model, for what the interpreter runs; `compiled_parts` beside it, or `None`."""

    def _repr_html_(self) -> str:
        return _html.of_report(self)


class Program:
    """A compiled program. Threads may share it."""

    __slots__ = ("_native", "__weakref__")

    def __init__(self, native: _native.Program) -> None:
        self._native = native

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Runs on inputs by position and name. Gives the result, or a tuple of several: arrays of PyTorch or JAX if such came in,
        else of NumPy."""
        return self._native(*args, **kwargs)

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        timeout: float | None = None,
        watchdog: float | None = None,
        max_depth: int | None = None,
        max_iterations: int | None = None,
        max_memory: int | None = None,
        max_frames: int | None = None,
        seed: int = 0,
        f64: bool = False,
        cancel: Cancel | None = None,
        out: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Runs on inputs by name, within limits, and gives the results by name.

        `out` are arrays by the names of outputs, which take the results of these: of NumPy or PyTorch, writable, of the result's type and
        shape. They are the results under their names then. If all outputs have such arrays, whose shapes follow from those of the inputs,
        the program writes to their memory; else the results are copied.
        """
        results = self._run(
            inputs, out, timeout=timeout, watchdog=watchdog, max_depth=max_depth, max_iterations=max_iterations, max_memory=max_memory,
            max_frames=max_frames, seed=seed, f64=f64, cancel=cancel,
        )
        library, out = library_of(inputs.values()), out or {}
        if library is None:
            return {**results, **out}
        return {name: out[name] if name in out else to_library(library, r) for name, r in results.items()}

    def _run(self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None, **limits: Any) -> dict[str, Any]:
        """The results as arrays of NumPy."""
        arrays = None if not out else {name: as_target(name, array) for name, array in out.items()}
        results, _ = self._native.run(dict(inputs), self._limits(limits), arrays)
        return results

    @staticmethod
    def _limits(limits: Mapping[str, Any]) -> dict[str, Any]:
        """All limits of a run, of which some are given."""
        unknown = [name for name in limits if name not in _NO_LIMITS]
        if unknown:
            raise TypeError(f"there is no limit {', '.join(unknown)}; there are {', '.join(_NO_LIMITS)}")
        return {**_NO_LIMITS, **limits}

    async def run_async(self, inputs: Mapping[str, Any], **limits: Any) -> dict[str, Any]:
        """The same, on a thread of its own. Cancelling the task ends the run."""
        given = limits.pop("cancel", None)
        cancel = Cancel() if given is None else given.child()
        try:
            return await asyncio.to_thread(self.run, inputs, cancel=cancel, **limits)
        except asyncio.CancelledError:
            cancel.cancel()
            raise

    @property
    def inputs(self) -> dict[str, str]:
        """Types of the inputs by name, such as `f32[n,3]`."""
        return dict(self._native.inputs)

    @property
    def outputs(self) -> dict[str, str]:
        """Types of the outputs by name."""
        return dict(self._native.outputs)

    @property
    def device(self) -> str:
        """The device: "interp" where the one that was asked for has no compiled form."""
        return self._native.device

    @property
    def threads(self) -> int:
        """The most worker threads that take part in a run."""
        return self._native.threads

    @property
    def report(self) -> Report:
        """What compiling took, and what the interpreter runs."""
        return Report(self._native.report())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program to a file (`.hprog`), which `heddle.open` reads: its graph, constants, options, source and binary. The file is
        there in full or not at all."""
        self._native.save(Path(path))

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        """Pickled by its graph: another process compiles it, or finds it in the cache."""
        return _program_of_bytes, (self._native.to_bytes(),)

    def source(self, stage: str = "c") -> str:
        """The program as text: "c", "cuda", "ir" or "schedule"."""
        return self._native.source(stage)

    def outline(self) -> dict[str, Any]:
        """Inputs, outputs, operators and the tree of control flow, with what the interpreter runs: `heddle inspect --json`, but for facts of the file."""
        return self._native.outline()

    def _repr_html_(self) -> str:
        return _html.of_program(self)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {ty}" for name, ty in self._native.inputs)
        outputs = ", ".join(f"{name}: {ty}" for name, ty in self._native.outputs)
        return f"<heddle.Program ({inputs}) -> ({outputs}) on {self.device}>"


class BatchProgram(Program):
    """A program for many instances. `run` takes and gives batched arrays: with another axis in front, or behind each other with
    `NAME.offsets`."""

    __slots__ = ("_batch", "_made_of")

    def __init__(self, native: _native.Batch, made_of: tuple[Model, dict[str, str | None], dict[str, Any]]) -> None:
        super().__init__(native.program)
        self._batch = native
        #: The model, the forms that were asked for, and the options.
        self._made_of = made_of

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickled by the model for one instance: another process compiles it, or finds it in the cache."""
        return _batch_program_of, self._made_of

    def run_batch(
        self, instances: Sequence[Mapping[str, Any]], *, weights: Mapping[str, Any] | None = None, keep_going: bool = False, **limits: Any
    ) -> list[Any]:
        """The results of instances, in their order: a dictionary of arrays for each.

        An instance is a dictionary of its inputs; `weights` are the inputs that all share. An instance that fails is an error that names
        it; with `keep_going` the error stands in the place of its results, and the others run again without it. `limits` are those of
        `run`.
        """
        return _batch.run(self._batch, self.inputs, instances, dict(weights or {}), self._limits(limits), keep_going)

    def activity(self, instances: Sequence[Mapping[str, Any]], *, weights: Mapping[str, Any] | None = None, **limits: Any) -> list[dict[str, Any]]:
        """How instances run together, as the interpreter counts it: for each block of the program its steps and the activations in them."""
        inputs = {**_batch.joined(self._batch.inputs, self.inputs, list(instances)), **(weights or {})}
        names = ("block", "steps", "activations", "one_by_one")
        return [dict(zip(names, row)) for row in self._batch.activity(inputs, self._limits(limits))]

    @property
    def forms(self) -> dict[str, str]:
        """Forms of the inputs that differ by instance, and of the outputs: "stacked", "ragged" or "flat"."""
        return {**self._batch.inputs, **self._batch.outputs}

    @property
    def one_by_one(self) -> list[tuple[str, str]]:
        """Nodes that are evaluated for one instance after the other, with reasons."""
        return self._batch.one_by_one
