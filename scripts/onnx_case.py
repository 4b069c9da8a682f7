"""ONNX's on-disk test layout: model.onnx beside test_data_set_N/{input,output}_I.pb."""
import json
import shutil
from pathlib import Path

import numpy as np
from onnx import ModelProto, OptionalProto, SequenceProto, TensorProto, TypeProto, numpy_helper


def to_proto(value, type_proto: TypeProto, name: str):
    """The message that holds `value`: which one is decided by the type that the graph declares."""
    kind = type_proto.WhichOneof("value")
    if kind == "optional_type":
        return _to_optional(value, type_proto.optional_type.elem_type, name)
    if kind == "sequence_type":
        return _to_sequence(value, type_proto.sequence_type.elem_type, name)
    if isinstance(value, TensorProto):
        tensor = TensorProto()
        tensor.CopyFrom(value)
        tensor.name = name
        return tensor
    return numpy_helper.from_array(np.asarray(value), name)


def _to_sequence(values, elem_type: TypeProto, name: str) -> SequenceProto:
    """A sequence; an empty one still says what its elements would be."""
    nested = elem_type.WhichOneof("value") == "sequence_type"
    sequence = SequenceProto(name=name)
    sequence.elem_type = SequenceProto.SEQUENCE if nested else SequenceProto.TENSOR
    target = sequence.sequence_values if nested else sequence.tensor_values
    target.extend(to_proto(v, elem_type, "") for v in values)
    return sequence


def _to_optional(value, elem_type: TypeProto, name: str) -> OptionalProto:
    """An optional; None leaves the value out and keeps the element's kind."""
    is_sequence = elem_type.WhichOneof("value") == "sequence_type"
    optional = OptionalProto(name=name)
    optional.elem_type = OptionalProto.SEQUENCE if is_sequence else OptionalProto.TENSOR
    if value is not None:
        field = optional.sequence_value if is_sequence else optional.tensor_value
        field.CopyFrom(to_proto(value, elem_type, name))
    return optional


def write_case(folder, model: ModelProto | bytes, data_sets, tolerance=None, ports=None):
    """Writes one case. `data_sets` are (inputs, outputs) in the graph's order; `ports`, for a model
    given as bytes, are its (input, output) declarations; `tolerance` is (rtol, atol) if special."""
    folder = Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    is_bytes = isinstance(model, bytes)
    (folder / "model.onnx").write_bytes(model if is_bytes else model.SerializeToString())
    ports = ports or (model.graph.input, model.graph.output)
    for n, values in enumerate(data_sets):
        data = folder / f"test_data_set_{n}"
        data.mkdir()
        for kind, infos, arrays in zip(("input", "output"), ports, values, strict=True):
            for i, (info, value) in enumerate(zip(infos, arrays, strict=True)):
                if value is None and info.type.WhichOneof("value") == "tensor_type":
                    continue  # an input that is left to its default value
                proto = to_proto(value, info.type, info.name)
                (data / f"{kind}_{i}.pb").write_bytes(proto.SerializeToString())
    if tolerance:
        text = json.dumps(dict(zip(("rtol", "atol"), tolerance)))
        (folder / "tolerance.json").write_text(text + "\n")
