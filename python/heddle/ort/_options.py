"""Options of sessions and runs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from .. import Cancel
from ._errors import NotImplemented
from ._process import warn_once
from ._value import plain


class GraphOptimizationLevel(IntEnum):
    """`ORT_DISABLE_ALL` leaves the passes on the graph out; all others run them."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Has no meaning here: a program is scheduled as a whole."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Has no meaning here: a program is scheduled as a whole."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Options:
    """Attributes with defaults. One that is changed and has no meaning is named in a warning."""

    _DEFAULTS: dict[str, Any] = {}
    _MEANT: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._values = dict(self._DEFAULTS)
        self._entries: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self._DEFAULTS:
            return self._values[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            return object.__setattr__(self, name, value)
        if name not in self._DEFAULTS:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        default = self._DEFAULTS[name]
        kind = (int,) if isinstance(default, int) else type(default)
        if not isinstance(value, kind):
            raise TypeError(f"{type(self).__name__}.{name} can't be {value!r}")
        if value != default and name not in self._MEANT:
            warn_once(f"{type(self).__name__}.{name}")
        self._values[name] = value
        return None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._DEFAULTS]

    def _add_entry(self, key: str, value: str) -> None:
        self._entries[str(key)] = str(value)
        warn_once(f"{type(self).__name__}'s configuration {key!r}")

    def _get_entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._entries[key]


class SessionOptions(_Options):
    """Options of a session. Those with a meaning are `intra_op_num_threads` (0: one for each physical core) and
    `graph_optimization_level`; `use_deterministic_compute` is always so."""

    _DEFAULTS = dict(
        enable_cpu_mem_arena=True, enable_mem_pattern=True, enable_mem_reuse=True, enable_profiling=False,
        execution_mode=ExecutionMode.ORT_SEQUENTIAL, execution_order=ExecutionOrder.DEFAULT,
        graph_optimization_level=GraphOptimizationLevel.ORT_ENABLE_ALL, inter_op_num_threads=0, intra_op_num_threads=0,
        log_severity_level=-1, log_verbosity_level=0, logid="", optimized_model_filepath="", profile_file_prefix="onnxruntime_profile_",
        use_deterministic_compute=False, use_per_session_threads=True,
    )
    _MEANT = frozenset({"graph_optimization_level", "intra_op_num_threads", "use_deterministic_compute"})

    def __init__(self) -> None:
        super().__init__()
        self._initializers: dict[str, Any] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keeps an entry, which has no meaning here."""
        self._add_entry(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """The entry of this key; a `RuntimeError` if there is none."""
        return self._get_entry(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Has no meaning here: a program runs for any size."""
        warn_once("SessionOptions.add_free_dimension_override_by_name")

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Has no meaning here: a program runs for any size."""
        warn_once("SessionOptions.add_free_dimension_override_by_denotation")

    def add_provider(self, name: str, options: dict[str, str] | None = None) -> None:
        """Has no meaning here: the processor runs everything."""
        if name != "CPUExecutionProvider":
            warn_once(f"the provider {name!r}")

    def has_providers(self) -> bool:
        """False: none but the processor."""
        return False

    def add_initializer(self, name: str, value: Any) -> None:
        """Has sessions take this value in the place of the model's initializer of this name."""
        self._initializers[str(name)] = plain(value)

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """The same for several."""
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)

    def register_custom_ops_library(self, path: str) -> None:
        """Is not supported."""
        raise NotImplemented("SessionOptions.register_custom_ops_library is not supported: Heddle runs no operators of other libraries")


class RunOptions(_Options):
    """Options of a run. `terminate = True` ends the runs that these options were given to, and later ones until it is `False`."""

    _DEFAULTS = dict(
        log_severity_level=-1, log_verbosity_level=0, logid="", only_execute_path_to_fetches=False, training_mode=False,
    )

    def __init__(self) -> None:
        super().__init__()
        self._cancel = Cancel()

    def __getattr__(self, name: str) -> Any:
        return self._cancel.cancelled if name == "terminate" else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "terminate":
            return self._cancel.cancel() if value else self._cancel.reset()
        return super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), "terminate"]

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keeps an entry, which has no meaning here."""
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """The entry of this key; a `RuntimeError` if there is none."""
        return self._get_entry(key)
