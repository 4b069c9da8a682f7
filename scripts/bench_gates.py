"""Times of networks that skip blocks, on Heddle and on its peers, in turns, as a table.
usage: python bench_gates.py FOLDER OUT [--heddle HEDDLE] [--threads N] [--runs N] [--only NAME,NAME]

FOLDER keeps the models; they are made of BlockDrop and SkipNet in OUT, which the zoo's make.py wrote. ONNX Runtime's results are the reference, and the last column is the best peer's median by
Heddle's. Models whose name contains one of NAME:

    blockdrop_K  BlockDrop, of whose 15 blocks K run, whatever its policy network computes
    gates        that policy network alone
    pictures     SkipNet in a Loop over 64 pictures

At the end stands the time of no block as a part of that of all 15, both without the gates, as in
figure 17 of Cocktailer. Needs onnx, onnxruntime and openvino."""
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, utils

from beside import PEERS, arguments, beside_peers, head

BLOCKS, EXECUTED = 15, (0, 4, 8, 11, 15)
PICTURES = 64


def forced(model, executed):
    """BlockDrop whose policy says yes to so many blocks, spread evenly."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    wanted = (np.arange(BLOCKS) + 1) * executed // BLOCKS > np.arange(BLOCKS) * executed // BLOCKS
    for array in model.graph.initializer:
        if array.name == "p.fc.w":
            zeros = np.zeros_like(numpy_helper.to_array(array))
            array.CopyFrom(numpy_helper.from_array(zeros, array.name))
        elif array.name == "p.fc.b":
            logits = np.where(wanted, 4, -4).astype(np.float32)
            array.CopyFrom(numpy_helper.from_array(logits, array.name))
    return model


def over_pictures(model):
    """A model of one picture in a Loop over the first axis of its input; results are stacked."""
    graph = model.graph
    (port,), (scores, *_) = graph.input, graph.output
    shape = [d.dim_value for d in port.type.tensor_type.shape.dim]
    take = [helper.make_node("Gather", ["pictures", "i"], ["picture"], "take"),
            helper.make_node("Unsqueeze", ["picture", "first"], [port.name], "one"),
            helper.make_node("Identity", ["on"], ["still"], "go_on")]
    body = helper.make_graph([*take, *graph.node], "picture", [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
    ], [helper.make_tensor_value_info("still", TensorProto.BOOL, []), scores])
    loop = helper.make_node("Loop", ["count", "yes"], ["all"], "over_pictures", body=body)
    numbers = {"count": np.int64(PICTURES), "yes": np.bool_(True), "first": np.zeros(1, np.int64)}
    numbers = [numpy_helper.from_array(np.asarray(n), name) for name, n in numbers.items()]
    sizes = [d.dim_value for d in scores.type.tensor_type.shape.dim]
    whole = helper.make_graph([loop], "pictures", [
        helper.make_tensor_value_info("pictures", TensorProto.FLOAT, [PICTURES, *shape[1:]]),
    ], [
        helper.make_tensor_value_info("all", TensorProto.FLOAT, [PICTURES, *sizes]),
    ], [*graph.initializer, *numbers])
    return helper.make_model(whole, opset_imports=model.opset_import, ir_version=model.ir_version)


def pictures(out):
    """The zoo's pictures for SkipNet, as they are and mirrored, so that decisions differ."""
    some = [np.load(out / f"skipnet_b1_s{seed}.npz")["in_x"][0] for seed in range(3)]
    some += [turned for one in some for turned in (one[:, :, ::-1], one[:, ::-1], one[:, ::-1, ::-1])]
    return np.stack([some[i % len(some)] for i in range(PICTURES)])


def cases(out, folder):
    """Name, function that makes model and inputs, and runs at a time."""
    def blockdrop():
        inputs = {"x": np.load(out / "blockdrop_b1_s0.npz")["in_x"]}
        return onnx.load(out / "blockdrop_if_b1.onnx"), inputs

    def some(executed):
        model, inputs = blockdrop()
        return forced(model, executed), inputs

    def gates():
        model, inputs = blockdrop()
        onnx.save(model, folder / "blockdrop.onnx")
        utils.extract_model(folder / "blockdrop.onnx", folder / "gates.onnx", ["x"], ["probs"])
        return onnx.load(folder / "gates.onnx"), inputs

    for executed in EXECUTED:
        yield f"blockdrop_{executed}", lambda executed=executed: some(executed), 20
    yield "gates", gates, 20
    yield "pictures", lambda: (over_pictures(onnx.load(out / "skipnet_if_b1.onnx")),
                               {"pictures": pictures(out)}), 1


def main():
    parser = arguments(__doc__, 100, "of pictures a twentieth")
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(head("model", PEERS))
    medians = {}
    for name, make, turn in cases(args.out, args.folder):
        if not any(word in name for word in args.only.split(",")):
            continue
        made, inputs = make()
        medians[name] = beside_peers(args, name, made, inputs, turn)
    if {f"blockdrop_{n}" for n in EXECUTED} | {"gates"} <= medians.keys():
        none, whole, gates = (medians[name]["heddle"]
                              for name in ("blockdrop_0", f"blockdrop_{BLOCKS}", "gates"))
        print(f"\nWithout blocks: {(none - gates) / (whole - gates):.1%} of all {BLOCKS}")


if __name__ == "__main__":
    sys.exit(main())
