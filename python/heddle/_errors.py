"""Errors. The native part raises them through `make`."""

from __future__ import annotations


class Error(Exception):
    """Failure to load, compile or run a model."""

    #: A short name of the kind of error.
    kind: str = "error"
    #: The model's node that a run stopped at, or None.
    node: str | None = None
    #: The Python line that the node comes from, as `file:line`, or None.
    place: str | None = None
    #: What to do, or None.
    hint: str | None = None

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\nhint: {self.hint}" if self.hint else text


class InvalidModel(Error):
    """The model is not what its format asks for."""

    kind = "invalid"


class Unsupported(Error):
    """The model is right, but uses something that Heddle does not support. All such operators are named at once."""

    kind = "unsupported"


class InputError(Error, ValueError):
    """Inputs, options or their types do not fit."""

    kind = "input"


class CheckFailed(Error, AssertionError):
    """A check of the program does not hold: an `assert` of a `@heddle.function`, a variable that is read where nothing was assigned to it, a
    branch of the model that can't be computed."""

    kind = "check"


class LimitReached(Error):
    """A run reached a limit, whose keyword is `limit`."""

    kind = "limit"
    limit: str | None = None


class Timeout(LimitReached, TimeoutError):
    """A run took longer than its `timeout`."""


class Cancelled(Error):
    """A run was cancelled."""

    kind = "cancelled"


class NoCompiler(Error):
    """There is no C compiler that works."""

    kind = "no_compiler"


class BuildError(Error):
    """The C compiler refused a program, or the disk is full."""

    kind = "build"


class DeviceError(Error):
    """The device, its driver or its compiler is missing, or does not do."""

    kind = "device"


class InternalError(Error):
    """Heddle itself is wrong."""

    kind = "internal"


class FileError(Error, OSError):
    """A file can't be read."""

    kind = "io"

    # OSError has a text of its own, without the hint.
    __str__ = Error.__str__


_CLASSES = {
    c.kind: c
    for c in (
        InvalidModel, Unsupported, InputError, CheckFailed, LimitReached, Cancelled, NoCompiler, BuildError, DeviceError,
        InternalError, FileError,
    )
}


def make(kind: str, message: str, *, hint: str | None, node: str | None, place: str | None, limit: str | None) -> Error:
    """The exception of an error of the library."""
    error = Timeout(message) if limit == "timeout" else _CLASSES.get(kind, Error)(message)
    error.hint = hint
    error.node = node
    error.place = place
    if isinstance(error, LimitReached):
        error.limit = limit
    return error
