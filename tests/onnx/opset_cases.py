"""Cases for operator versions and forms that ONNX's own suite does not have.
usage: python opset_cases.py OUT [--verify]

Each case is written in several forms: parameters (axes, shapes, pads, …) as initializers and as
inputs, sizes as numbers and as names. Expected outputs are ONNX Runtime's, or the reference
evaluator's where ONNX Runtime has no kernel. --verify prints where the two disagree."""
import sys
import warnings
from itertools import chain
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).resolve().parent)]

import contrib_data  # noqa: E402
import early_data  # noqa: E402
import generation_data  # noqa: E402
import integer_data  # noqa: E402
import ml_data  # noqa: E402
import opset_data  # noqa: E402
from onnx_case import write_case  # noqa: E402

ort.set_default_logger_severity(4)
IR_VERSION = 10
# The version of ONNX's own operators beside nodes of other domains.
DEFAULT_OPSET = 17


def element_type(array) -> int:
    """The array's element type as ONNX numbers it; text may come as Python strings."""
    if array.dtype.kind in "OUS":
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def info(name: str, array, symbolic: bool):
    """Declares an input; with names for its sizes if asked for."""
    sizes = [f"{name}_{i}" if symbolic else n for i, n in enumerate(array.shape)]
    return helper.make_tensor_value_info(name, element_type(array), sizes)


def build(case, outputs, constant: bool, symbolic: bool):
    """The model and its inputs. `outputs` are (element type, rank), or None while not known."""
    names, inputs, fixed = [], [], []
    for i, array in enumerate(case.inputs):
        if array is None:
            names.append("")
            continue
        names.append(f"x{i}")
        if constant and i in case.parameters:
            fixed.append(numpy_helper.from_array(array, names[-1]))
        else:
            inputs.append((info(names[-1], array, symbolic), array))
    results = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, results, name="node", domain=case.domain,
                            **case.attributes)
    declared = [helper.make_tensor_value_info(n, *(outputs[i] if outputs else (0, None)))
                for i, n in enumerate(results)]
    if not outputs:
        declared = [onnx.ValueInfoProto(name=n) for n in results]
    graph = helper.make_graph([node], case.name, [i for i, _ in inputs], declared, fixed)
    opset = [helper.make_opsetid(case.domain, case.opset)]
    if case.domain:
        opset.append(helper.make_opsetid("", DEFAULT_OPSET))
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
    return model, [a for _, a in inputs]


def run_ort(model, arrays):
    """ONNX Runtime's outputs."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options,
                                   providers=["CPUExecutionProvider"])
    feed = {i.name: a for i, a in zip(model.graph.input, arrays, strict=True)}
    return session.run(None, feed)


def run_reference(model, arrays):
    """The reference evaluator's outputs."""
    feed = {i.name: a for i, a in zip(model.graph.input, arrays, strict=True)}
    return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, feed)]


def expected(case, verify: bool):
    """The case's outputs: stated ones, else those of the first oracle that has them."""
    if case.twin is not None:
        return expected(case.twin, verify)[:case.outputs]
    if case.expected is not None:
        return [np.asarray(y) for y in case.expected]
    found = {}
    oracles = {"ort": run_ort, "reference": run_reference}
    for name in [case.oracle] if case.oracle else oracles:
        try:
            # Some kernels want parameters as initializers, the reference evaluator any types.
            found[name] = oracles[name](*build(case, None, name == "ort", False))
        except Exception as error:  # noqa: BLE001: kernels fail in many ways
            if verify and name == case.oracle:
                print(f"{case.name}: {name}: {error}")
        if name in found and not verify:
            break
    if not found:
        raise SystemExit(f"{case.name}: no oracle runs it")
    if len(found) == 2:
        for a, b in zip(*found.values(), strict=True):
            same = a.shape == b.shape and a.dtype == b.dtype
            if not same or a.dtype.kind in "fiub" and not np.allclose(
                    a, b, 1e-4, 1e-6, equal_nan=True):
                print(f"{case.name}: {a.tolist()} and {b.tolist()}, {a.dtype} and {b.dtype}")
    return next(iter(found.values()))


def main(out: str, verify: bool):
    """Writes all cases in all forms."""
    warnings.simplefilter("ignore")
    count, names = 0, set()
    for case in chain(opset_data.cases(), early_data.cases(), contrib_data.cases(),
                      generation_data.cases(), integer_data.cases(), ml_data.cases()):
        assert case.name not in names, case.name
        names.add(case.name)
        with np.errstate(all="ignore"):
            outputs = expected(case, verify)
        types = [(element_type(y), y.shape) for y in outputs]
        forms = {(bool(case.parameters), False), (bool(case.parameters), True)}
        if case.domain == "ai.onnx.ml":
            # Attributes hold all that models of this domain know of sizes.
            forms = {(False, True)}
        if case.parameters:
            forms |= {(False, False), (False, True)}
        for constant, symbolic in sorted(forms):
            # Ranks and sizes of outputs are left open: Heddle finds them itself.
            declared = [(t, None) for t, _ in types]
            model, inputs = build(case, declared, constant, symbolic)
            form = f"{'fixed' if constant else 'given'}_{'named' if symbolic else 'sized'}"
            write_case(Path(out, f"{case.name}_{form}"), model, [(inputs, outputs)],
                       case.tolerance)
            count += 1
    print(f"{count} cases written to {out}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], "--verify" in sys.argv[2:])
