"""Inputs and outputs that are bound to memory: `IOBinding`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import InvalidArgument
from ._value import OrtValue, array_at, on_cpu, plain

if TYPE_CHECKING:
    from ._session import InferenceSession


class IOBinding:
    """Values for the inputs and memory for the outputs of a session's runs, for `InferenceSession.run_with_iobinding`."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        #: Memory by name; `None` where the run makes it.
        self._outputs: dict[str, np.ndarray | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an input to an array, whose memory each run reads."""
        self._inputs[self._known(name, self._session.input_names)] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an input to a value."""
        self.bind_cpu_input(name, plain(ortvalue))

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds an input to memory at an address, which the caller keeps."""
        on_cpu(device_type)
        self.bind_cpu_input(name, array_at(buffer_ptr, element_type, shape))

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None, shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Asks for an output, in memory at an address if there is one."""
        on_cpu(device_type)
        memory = None
        if buffer_ptr is not None:
            if element_type is None or shape is None:
                raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
            memory = array_at(buffer_ptr, element_type, shape)
        self._outputs[self._known(name, self._session.output_names)] = memory

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Asks for an output in the memory of a value."""
        self._outputs[self._known(name, self._session.output_names)] = ortvalue.numpy()

    def clear_binding_inputs(self) -> None:
        """Forgets the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forgets the outputs."""
        self._outputs.clear()
        self._results = []

    def synchronize_inputs(self) -> None:
        """Does nothing: memory is the processor's."""

    def synchronize_outputs(self) -> None:
        """Does nothing: memory is the processor's."""

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as arrays of their own."""
        copies = (plain(value) for value in self._results)
        return [value.copy() if isinstance(value, np.ndarray) else value for value in copies]

    def _known(self, name: str, names: Sequence[str]) -> str:
        if name not in names:
            raise InvalidArgument(f"there is no input or output named {name!r}; there are {', '.join(names)}")
        return name
