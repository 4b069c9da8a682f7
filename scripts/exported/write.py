"""Exports the table's programs and writes them as cases, results by the framework itself."""
import contextlib
import io
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch

from onnx_case import write_case

# They fill the table.
from . import (decoders, flow, from_jax, from_sklearn, from_tf, recurrent, sizes,  # noqa: F401
               speech)
from .foreign import foreign
from .table import DYNAMO, TABLE, TORCHSCRIPT, Small

OPSET = {TORCHSCRIPT: 17, DYNAMO: 18}
TOLERANCE = (1e-4, 1e-5)


def write_small(out: Path, names=()) -> list[str]:
    """Writes OUT/NAME__EXPORTER for each program; gives the errors of those not exported."""
    failed = []
    for program in TABLE:
        for exporter in program.exporters:
            label = f"{program.name}__{exporter}"
            if names and program.name not in names and label not in names:
                continue
            try:
                torch.manual_seed(0)
                with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                    warnings.simplefilter("ignore")
                    model, data = exported(program, exporter)
                write_case(out / label, model, data, TOLERANCE)
                print(f"{label}: {len(model.graph.node)} nodes", flush=True)
            except Exception as error:  # an exporter may fail in any way
                first = (str(error).strip().splitlines() or [""])[0]
                failed.append(f"{label}: {type(error).__name__}: {first[:150]}")
                print(failed[-1], flush=True)
    return failed


def exported(program: Small, exporter: str):
    """The model, and (inputs, outputs) of each run in the graph's order."""
    if exporter not in (TORCHSCRIPT, DYNAMO):
        model, data = foreign(program, exporter)
        return without_comments(model), data
    module = program.make().eval()
    if program.scripted:
        module = torch.jit.script(module)
    model = export(module, program, exporter)
    places = [int(i.name.removeprefix("in")) for i in model.graph.input]
    data = []
    for inputs in program.runs:
        with torch.no_grad():
            scalars = program.scripted  # scripted functions take plain numbers where they say int
            results = module(*(plain(module, k, v) if scalars else v
                               for k, v in enumerate(inputs)))
        results = [np.asarray(r) for r in flat(results)]
        data.append(([np.asarray(inputs[k]) for k in places], results))
    return model, data


def plain(module, k, value):
    """A number where the scripted function declares one."""
    declared = str(module.forward.schema.arguments[k + 1].type)
    return int(value) if declared == "int" else value


def flat(results):
    """The tensors of a result, in order."""
    if isinstance(results, (tuple, list)):
        return [r for part in results for r in flat(part)]
    return [results]


def export(module, program: Small, exporter: str) -> onnx.ModelProto:
    """The file that torch writes, without comments on its sources."""
    inputs = program.runs[0]
    names = [f"in{k}" for k in range(len(inputs))]
    if exporter == TORCHSCRIPT:
        buffer = io.BytesIO()
        axes = {n: a for n, a in zip(names, program.axes) if a}
        torch.onnx.export(module, inputs, buffer, dynamo=False, opset_version=OPSET[exporter],
                          input_names=names, dynamic_axes=axes)
        model = onnx.load_from_string(buffer.getvalue())
    else:
        shapes = tuple({k: torch.export.Dim.DYNAMIC for k in a} for a in program.axes)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            torch.onnx.export(module, inputs, path, dynamo=True, opset_version=OPSET[exporter],
                              input_names=names, external_data=False, verbose=False,
                              dynamic_shapes=shapes)
            model = onnx.load(path)
    if not program.ranks:
        drop_shapes(model.graph)
    return without_comments(model)


def drop_shapes(graph):
    """Declares element types only, but for inputs."""
    for value in [*graph.output, *graph.value_info]:
        value.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                drop_shapes(attribute.g)


def without_comments(model):
    """The model without documentation and stack traces, which are most of a small file."""
    def strip(graph):
        graph.doc_string = ""
        for node in graph.node:
            node.doc_string = ""
            del node.metadata_props[:]
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    strip(attribute.g)
        for value in [*graph.input, *graph.output, *graph.value_info]:
            value.doc_string = ""
            del value.metadata_props[:]
        del graph.metadata_props[:]
    strip(model.graph)
    for function in model.functions:
        function.doc_string = ""
        for node in function.node:
            node.doc_string = ""
            del node.metadata_props[:]
        del function.metadata_props[:]
    del model.metadata_props[:]
    return model
