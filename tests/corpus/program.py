"""What a corpus program is: ONNX text, and beside it the same computation in plain Python."""
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import numpy as np
import onnx
from onnx import helper, parser, shape_inference

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from onnx_case import write_case  # noqa: E402

PROGRAMS: list["Program"] = []


@dataclass
class Program:
    """`text` is the main graph from its inputs on, then the functions; `reference` takes and
    returns the graph's inputs and outputs as arrays (lists for sequences, None for absent)."""
    name: str
    text: str
    reference: Callable
    inputs: list[tuple]
    opset: int = 17
    ir: int = 8
    dissent: str = ""  # why ONNX Runtime computes something else
    recursive: bool = field(init=False)

    def __post_init__(self):
        self.recursive = "recursive" in self.name

    def model(self, typed: bool) -> onnx.ModelProto:
        """The parsed model; `typed` adds the value_info that shape inference finds."""
        domains = f'"": {self.opset}, "local": 1, "other": 1'
        header = f"<ir_version: {self.ir}, opset_import: [{domains}]> {self.name} "
        try:
            model = parser.parse_model(header + self.text)
        except parser.ParseError as error:
            raise ValueError(f"{self.name}: {error}") from error
        if typed and not self.recursive:
            try:
                return shape_inference.infer_shapes(model)
            except shape_inference.InferenceError:
                pass  # it refuses a few forms that the specification allows, e.g. omitted outputs
        return model

    def data_sets(self, model):
        """(inputs, expected outputs) for each set, in the types that the graph declares."""
        for values in self.inputs:
            ports = zip(model.graph.input, values, strict=True)
            given = [convert(v, info.type) for info, v in ports]
            results = self.reference(*given)
            results = results if isinstance(results, tuple) else (results,)
            ports = zip(model.graph.output, results, strict=True)
            yield given, [convert(v, info.type) for info, v in ports]

    def write(self, folder, typed: bool):
        """Writes the program in ONNX's test layout."""
        model = self.model(typed)
        write_case(Path(folder, self.name), model, list(self.data_sets(model)))


def program(text: str, *inputs: tuple, **options):
    """Decorates the reference; its name is the program's, its arguments are the graph's inputs."""
    def register(reference):
        assert all(p.name != reference.__name__ for p in PROGRAMS), reference.__name__
        PROGRAMS.append(Program(reference.__name__, text, reference, list(inputs), **options))
        return reference
    return register


def convert(value, type_proto):
    """A Python value as the array (list, None) of the declared type."""
    kind = type_proto.WhichOneof("value")
    if value is None:
        return None
    if kind == "optional_type":
        return convert(value, type_proto.optional_type.elem_type)
    if kind == "sequence_type":
        return [convert(v, type_proto.sequence_type.elem_type) for v in value]
    return np.asarray(value, helper.tensor_dtype_to_np_dtype(type_proto.tensor_type.elem_type))
