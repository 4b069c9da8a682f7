"""Errors by ONNX Runtime's names. Each is a `heddle.Error`, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .. import _errors
from .._errors import Error


class Fail(Error):
    """A run ended: a limit, `RunOptions.terminate`, or a program that can't be built."""


class InvalidArgument(Error):
    """Names, types or sizes of inputs or outputs do not fit the model."""


class NoSuchFile(Error):
    """The model's file can't be read."""


class InvalidProtobuf(Error):
    """The file is no ONNX model."""


class InvalidGraph(Error):
    """The model is not valid."""


class NotImplemented(Error):  # noqa: A001 - the name is ONNX Runtime's
    """The model uses something that Heddle does not support."""


class RuntimeException(Error):
    """Heddle itself is wrong."""


class NoModel(Error):
    """ONNX Runtime's; never raised here."""


class EngineError(Error):
    """ONNX Runtime's; never raised here."""


class ModelLoaded(Error):
    """ONNX Runtime's; never raised here."""


class EPFail(Error):
    """ONNX Runtime's; never raised here."""


_NAMES: list[tuple[type[Error], type[Error]]] = [
    (_errors.InputError, InvalidArgument),
    (_errors.FileError, NoSuchFile),
    (_errors.InvalidModel, InvalidGraph),
    (_errors.Unsupported, NotImplemented),
    (_errors.InternalError, RuntimeException),
    (Error, Fail),
]


def renamed(error: Error, name: type[Error] | None = None, message: str | None = None) -> Error:
    """The error by ONNX Runtime's name."""
    name = name or next(theirs for ours, theirs in _NAMES if isinstance(error, ours))
    made = name(message or error.args[0])
    made.kind, made.hint, made.node, made.place = error.kind, error.hint, error.node, error.place
    return made


@contextmanager
def renaming() -> Iterator[None]:
    """Raises errors by ONNX Runtime's names."""
    try:
        yield
    except Error as error:
        raise renamed(error) from error
