"""Sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from .. import _errors
from .._programs import Programs, describe
from . import _process
from ._binding import IOBinding
from ._errors import Fail, InvalidArgument, InvalidProtobuf, renamed, renaming
from ._options import GraphOptimizationLevel, RunOptions, SessionOptions
from ._process import warn_once
from ._value import OrtValue, plain


@dataclass(frozen=True)
class NodeArg:
    """An input or output: its name, its type as `tensor(float)`, its shape as numbers, names and `None`."""

    name: str
    type: str
    shape: list[int | str | None]

    def __str__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


@dataclass(frozen=True)
class ModelMetadata:
    """What the model's file says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


class InferenceSession:
    """A model that is compiled and run as ONNX Runtime would."""

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(path_or_bytes, (str, bytes, os.PathLike)):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        for name in kwargs:
            warn_once(f"InferenceSession's {name}")
        _check_providers(providers)
        self._options = sess_options or SessionOptions()
        compiling: dict[str, Any] = dict(
            constants=dict(self._options._initializers),
            threads=self._options.intra_op_num_threads or None,
            optimize=self._options.graph_optimization_level != GraphOptimizationLevel.ORT_DISABLE_ALL,
        )
        self._programs = _programs(path_or_bytes, compiling)
        said = self._programs.description
        self._inputs, self._optional, self._outputs = (
            [NodeArg(*port[:2], port[2] or []) for port in said[key]] for key in ("inputs", "optional", "outputs")
        )
        self._meta = ModelMetadata(**said["metadata"])
        #: Names of all inputs, those with a default value at the end, and of the outputs.
        self.input_names = [arg.name for arg in [*self._inputs, *self._optional]]
        self.output_names = [arg.name for arg in self._outputs]
        self._executor: ThreadPoolExecutor | None = None

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """The outputs of these names, or all: arrays, lists for sequences, `None` for empty optionals."""
        names = self._wanted(output_names)
        results = self._results(input_feed, run_options, None)
        return [results[name] for name in names]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue], run_options: RunOptions | None = None
    ) -> list[OrtValue]:
        """The same, for values."""
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Runs on another thread, which then calls `callback(results, user_data, error)`; without results, `error` says why."""
        names, feed = self._wanted(output_names), dict(input_feed)
        self._check_missing(feed)

        def work() -> None:
            try:
                results, error = self.run(names, feed, run_options), ""
            except Exception as failure:  # noqa: BLE001 - the callback is told of all
                results, error = [], str(failure)
            callback(results, user_data, error)

        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="heddle.ort")
        self._executor.submit(work)

    def io_binding(self) -> IOBinding:
        """A new binding of inputs and outputs to memory."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs on what is bound. Results come into the memory that is bound, or into memory of their own."""
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        out = {name: memory for name, memory in iobinding._outputs.items() if memory is not None}
        results = self._results(iobinding._inputs, run_options, out)
        iobinding._results = [OrtValue(results[name]) for name in iobinding._outputs]

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a run needs."""
        return self._inputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs with a default value. A run that gives some is compiled for that, the first time."""
        return self._optional

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return self._outputs

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says of itself."""
        return self._meta

    def get_session_options(self) -> SessionOptions:
        """The options."""
        return self._options

    def get_providers(self) -> list[str]:
        """`["CPUExecutionProvider"]`."""
        return _process.get_available_providers()

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """None of the processor's."""
        return {name: {} for name in self.get_providers()}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Has no meaning here: the processor runs everything."""
        _check_providers(providers)

    def enable_fallback(self) -> None:
        """Has no meaning here: there is one provider."""

    def disable_fallback(self) -> None:
        """Has no meaning here: there is one provider."""

    def end_profiling(self) -> str:
        """Has no meaning here: nothing is written."""
        warn_once("InferenceSession.end_profiling")
        return ""

    def _wanted(self, names: Sequence[str] | None) -> Sequence[str]:
        for name in names or ():
            if name not in self.output_names:
                raise InvalidArgument(f"Invalid output name: {name}; the outputs are {', '.join(self.output_names)}")
        return names or self.output_names

    def _check_missing(self, feed: Mapping[str, Any]) -> None:
        missing = [arg.name for arg in self._inputs if arg.name not in feed and not arg.type.startswith("optional")]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")

    def _results(self, feed: Mapping[str, Any], options: RunOptions | None, out: Mapping[str, Any] | None) -> dict[str, Any]:
        self._check_missing(feed)
        feed = {name: plain(value) for name, value in feed.items()}
        for name in feed:
            if name not in self.input_names:
                raise InvalidArgument(f"Invalid input name: {name}; the inputs are {', '.join(self.input_names)}")
        cancel = options._cancel if options is not None else None
        if cancel is not None and cancel.cancelled:
            raise Fail("Exiting due to terminate flag being set to true.")
        with renaming():
            program = self._programs.of(feed)
            try:
                return program._run(feed, out, seed=_process.seed, cancel=cancel)
            except _errors.Cancelled as error:
                raise renamed(error, Fail, "Exiting due to terminate flag being set to true.") from error


def _programs(source: str | bytes | os.PathLike[str], compiling: dict[str, Any]) -> Programs:
    try:
        describe(source)
    except _errors.InvalidModel as error:
        raise renamed(error, InvalidProtobuf) from error
    except _errors.Error as error:
        raise renamed(error) from error
    with renaming():
        return Programs(source, **compiling)


def _check_providers(providers: Any) -> None:
    """Names providers that there are not, once."""
    if providers is None:
        return
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    for provider in providers:
        name = provider[0] if isinstance(provider, tuple) and provider else provider
        if not isinstance(name, str):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        if name != "CPUExecutionProvider":
            warn_once(f"the provider {name!r}")
