"""ONNX's interface of back ends: `onnx.backend.base.Backend`. Needs the package `onnx`.

    rep = heddle.backend.prepare(model)
    outputs = rep.run([x])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from ._errors import InputError, Unsupported
from ._programs import Programs
from .ort._value import element_of


class HeddleRep(BackendRep):
    """A model that is compiled."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        said = programs.description
        self._inputs = [name for name, _, _ in said["inputs"]]
        self._optional = [name for name, _, _ in said["optional"]]
        self._outputs = [name for name, _, _ in said["outputs"]]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs on inputs by name, or in their order: those that a run needs, then those with a default value. Gives the outputs as a
        tuple whose items have names, too. Keywords are limits of `heddle.Program.run`."""
        feeds = self._by_name(inputs)
        results = self._programs.of(feeds)._run(feeds, None, **kwargs)
        return namedtupledict("Outputs", self._outputs)(*(results[name] for name in self._outputs))

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        names = [*self._inputs, *self._optional]
        if len(values) > len(names):
            raise InputError(f"{len(values)} inputs are given, the model takes {len(names)}")
        return dict(zip(names, values))


class HeddleBackend(Backend):
    """Compiles ONNX models with Heddle. The device is `CPU`; `interpret=True` asks for the interpreter, other keywords of `prepare` are those
    of `heddle.compile`."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Does Heddle support all of the model's operators? It is read, and not compiled."""
        if not cls.supports_device(device):
            return False
        try:
            Programs(model.SerializeToString(), device="interp")
        except Unsupported:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", *, interpret: bool = False, **kwargs: Any) -> HeddleRep:
        """Compiles a model, or takes it to the interpreter."""
        if not cls.supports_device(device):
            raise InputError(f"there is no device {device!r}; the back end's is 'CPU'")
        return HeddleRep(Programs(model.SerializeToString(), device="interp" if interpret else "cpu", **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compiles a model and runs it."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs a single operator on inputs in the node's order, or by name. `outputs_info` may state the outputs' types, which are
        inferred otherwise; `opset_version` is that of the node's domain, the newest by default."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)
        opset = kwargs.pop("opset_version", None)
        names = [name for name in node.input if name]
        given = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(names, inputs))
        arrays = {name: np.asarray(given[name]) for name in dict.fromkeys(names) if name in given}
        ports = [onnx.helper.make_tensor_value_info(name, element_of(a.dtype)[1], a.shape) for name, a in arrays.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        for port, (dtype, shape) in zip(outputs, outputs_info or ()):
            port.type.CopyFrom(onnx.helper.make_tensor_type_proto(element_of(np.dtype(dtype))[1], shape))
        graph = onnx.helper.make_graph([node], "node", ports, outputs)
        newest = onnx.defs.onnx_opset_version() if not node.domain else 1
        opsets = [onnx.helper.make_opsetid(node.domain, opset or newest)]
        model = onnx.helper.make_model(graph, opset_imports=opsets)
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Is it the processor?"""
        try:
            return Device(device).type == DeviceType.CPU
        except (AttributeError, ValueError):
            return False


is_compatible = HeddleBackend.is_compatible
prepare = HeddleBackend.prepare
run_model = HeddleBackend.run_model
run_node = HeddleBackend.run_node
supports_device = HeddleBackend.supports_device
