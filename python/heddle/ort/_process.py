"""What ONNX Runtime keeps for the whole process."""

from __future__ import annotations

import warnings

from .. import __version__

_WARNED: set[str] = set()

#: The seed of random operators that have none of their own.
seed = 0


def warn_once(name: str) -> None:
    """Names an option that has no meaning here, once in a process."""
    if name not in _WARNED:
        _WARNED.add(name)
        warnings.warn(f"heddle.ort: {name} has no meaning here and is ignored", stacklevel=3)


def set_seed(value: int) -> None:
    """Sets the seed of random operators that have none of their own. Runs of equal seeds draw equal numbers."""
    global seed
    seed = int(value) % (1 << 64)


def get_available_providers() -> list[str]:
    """`["CPUExecutionProvider"]`."""
    return ["CPUExecutionProvider"]


def get_all_providers() -> list[str]:
    """`["CPUExecutionProvider"]`."""
    return get_available_providers()


def get_device() -> str:
    """`"CPU"`."""
    return "CPU"


def get_version_string() -> str:
    """Heddle's version."""
    return __version__


def get_build_info() -> str:
    """Heddle's name and version."""
    return f"Heddle {__version__}"


def set_default_logger_severity(level: int) -> None:
    """Has no meaning here: nothing is logged."""
    warn_once("set_default_logger_severity")


def set_default_logger_verbosity(level: int) -> None:
    """Has no meaning here: nothing is logged."""
    warn_once("set_default_logger_verbosity")


def disable_telemetry_events() -> None:
    """There are none."""


def enable_telemetry_events() -> None:
    """There are none."""
