"""Times of GreedySearch and BeamSearch on a decoder like GPT-2, and of ensembles of trees, on Heddle
and on ONNX Runtime, in turns, as a table.
usage: python bench_searches.py FOLDER [--heddle HEDDLE] [--threads N] [--runs N] [--only NAME]

FOLDER keeps the models; their weights are random. ONNX Runtime's results are the reference. The
last column is its better median (threads that spin or sleep) by Heddle's. Models whose name contains
NAME: greedy and beam, whose decoders are made of ONNX's operators (plain) or of com.microsoft's
(fused), as ONNX Runtime's converter writes them; trees and forest, at 1 and 1,000 rows. Times of
ONNX Runtime hold the call from Python, some microseconds. Needs onnx and onnxruntime."""
import sys
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from beside import arguments, by_heddle, by_onnx_runtime, head, row, times
from onnx_graph import F32, I64, Graph, model

I32 = np.int32
MICROSOFT = {"domain": "com.microsoft"}
HEAD = 64


@dataclass
class Size:
    """Sizes of a decoder; a prompt of `prompt` words and `steps` more are said."""
    layers: int
    width: int
    words: int
    prompt: int
    steps: int

    @property
    def heads(self):
        return self.width // HEAD


def as_gpt2(g, size, x):
    """The graph with the inputs and outputs of GPT-2 that ends with these activations."""
    g.node("MatMul", x, g.weight(size.width, size.words), name="logits")
    ports = [("input_ids", TensorProto.INT32, ["b", "s"]),
             ("position_ids", TensorProto.INT32, ["b", "s"]),
             ("attention_mask", TensorProto.INT32, ["b", "t"])]
    caches = [[(f"{name}_{i}", TensorProto.FLOAT, [2, "b", size.heads, length, HEAD])
               for i in range(size.layers)] for name, length in (("past", "p"), ("present", "t"))]
    outputs = [("logits", TensorProto.FLOAT, ["b", "s", size.words]), *caches[1]]
    infos = [[helper.make_tensor_value_info(*p) for p in all_]
             for all_ in (ports + caches[0], outputs)]
    return helper.make_graph(g.nodes, "decoder", *infos, g.initializers)


def fused(size):
    """A decoder out of the operators that ONNX Runtime's optimiser fuses."""
    g, width = Graph(0), size.width
    tables = [g.weight(size.words, width), g.weight(1024, width)]
    y, _, x = g.node("EmbedLayerNormalization", "input_ids", "", *tables, "", *g.norm(width), "",
                     "position_ids", outputs=3, **MICROSOFT)
    for i in range(size.layers):
        y, present = g.node("Attention", y, g.weight(width, 3 * width), g.vector(3 * width),
                            "attention_mask", f"past_{i}", outputs=2, num_heads=size.heads,
                            unidirectional=1, **MICROSOFT)
        g.node("Identity", present, name=f"present_{i}")
        y = g.linear(y, width, width)
        y, _, _, x = g.node("SkipLayerNormalization", x, y, *g.norm(width), outputs=4, **MICROSOFT)
        y = g.node("MatMul", y, g.weight(width, 4 * width))
        y = g.node("FastGelu", y, g.vector(4 * width), **MICROSOFT)
        y = g.linear(y, 4 * width, width)
        y, _, _, x = g.node("SkipLayerNormalization", x, y, *g.norm(width), outputs=4, **MICROSOFT)
    return as_gpt2(g, size, y)


def plain(size):
    """The same kind of decoder out of ONNX's operators."""
    g, width = Graph(1), size.width
    words = g.node("Gather", g.weight(size.words, width), "input_ids")
    x = g.node("Add", words, g.node("Gather", g.weight(1024, width), "position_ids"))
    zero, none = g.constant(0, F32), g.constant(-10000, F32)
    axis, last = g.constant(1), g.constant([1, 2])
    new, total = (g.node("Gather", g.node("Shape", v), axis)
                  for v in ("input_ids", "attention_mask"))
    real = g.node("Cast", g.node("Unsqueeze", "attention_mask", last), to=TensorProto.BOOL)
    rows = g.node("Range", g.node("Sub", total, new), total, axis)
    columns = g.node("Range", g.constant(0), total, axis)
    seen = g.node("LessOrEqual", columns, g.node("Unsqueeze", rows, g.constant([1])))
    bias = g.node("Where", g.node("And", seen, real), zero, none)
    first = g.constant([0])
    apart, together = g.constant([0, 0, size.heads, HEAD]), g.constant([0, 0, width])
    for i in range(size.layers):
        y = g.node("LayerNormalization", x, *g.norm(width))
        parts = g.node("Split", g.linear(y, width, 3 * width), outputs=3, axis=2)
        q, k, v = (g.node("Transpose", g.node("Reshape", p, apart), perm=[0, 2, 1, 3])
                   for p in parts)
        past = g.node("Split", f"past_{i}", outputs=2, axis=0)
        k, v = (g.node("Concat", g.node("Squeeze", p, first), x, axis=2)
                for p, x in zip(past, (k, v)))
        g.node("Concat", *(g.node("Unsqueeze", x, first) for x in (k, v)), axis=0,
               name=f"present_{i}")
        scores = g.node("MatMul", q, g.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g.node("Add", g.node("Div", scores, g.constant(HEAD ** 0.5, F32)), bias)
        mixed = g.node("MatMul", g.node("Softmax", scores, axis=-1), v)
        mixed = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), together)
        x = g.node("Add", x, g.linear(mixed, width, width))
        y = g.linear(g.node("LayerNormalization", x, *g.norm(width)), width, 4 * width)
        cube = g.node("Mul", g.node("Mul", y, y), g.node("Mul", y, g.constant(0.044715, F32)))
        inner = g.node("Mul", g.node("Add", y, cube), g.constant((2 / np.pi) ** 0.5, F32))
        gate = g.node("Add", g.node("Tanh", inner), g.constant(1, F32))
        y = g.node("Mul", g.node("Mul", y, g.constant(0.5, F32)), gate)
        x = g.node("Add", x, g.linear(y, 4 * width, width))
    return as_gpt2(g, size, g.node("LayerNormalization", x, *g.norm(width)))


def search(op, decoder, size):
    """A model of one search, and its inputs."""
    numbers = [size.prompt + size.steps, 1] + [4, 1] * (op == "BeamSearch")
    names = ["max_length", "min_length", "num_beams", "num_return_sequences"][:len(numbers)]
    initializers = [numpy_helper.from_array(np.array([n], I32), name)
                    for n, name in zip(numbers, names)]
    if op == "BeamSearch":
        initializers.append(numpy_helper.from_array(np.ones(1, F32), "length_penalty"))
    node = helper.make_node(op, ["input_ids"] + [i.name for i in initializers], ["sequences"], op,
                            decoder=decoder, eos_token_id=size.words - 1,
                            pad_token_id=size.words - 1, model_type=0, **MICROSOFT)
    rank = ["batch", "length"] if op == "GreedySearch" else ["batch", "kept", "length"]
    ports = [[helper.make_tensor_value_info(name, TensorProto.INT32, shape)]
             for name, shape in (("input_ids", ["batch", "prompt"]), ("sequences", rank))]
    graph = helper.make_graph([node], op, *ports, initializers)
    prompt = np.arange(size.prompt, dtype=I32)[None] * 7 % (size.words - 1)
    return model(graph), {"input_ids": prompt}


def trees(op, count, depth, features, classes):
    """Full trees: boosted ones add a number each, those of a forest weights of all classes."""
    rng = np.random.default_rng(2)
    inner, all_ = 2 ** depth - 1, 2 ** (depth + 1) - 1
    node = np.arange(all_)
    is_leaf = node >= inner
    child = np.where(is_leaf, 0, 2 * node + 1)
    leaves = np.repeat(node[is_leaf], classes)
    nodes = {
        "nodes_treeids": np.repeat(np.arange(count), all_),
        "nodes_nodeids": np.tile(node, count),
        "nodes_featureids": rng.integers(0, features, count * all_),
        "nodes_values": rng.standard_normal(count * all_, F32),
        "nodes_truenodeids": np.tile(child, count),
        "nodes_falsenodeids": np.tile(np.where(is_leaf, 0, child + 1), count),
        "nodes_missing_value_tracks_true": np.zeros(count * all_, I64),
        "nodes_hitrates": np.ones(count * all_, F32),
    }
    votes = {
        "treeids": np.repeat(np.arange(count), len(leaves)),
        "nodeids": np.tile(leaves, count),
        "ids": np.tile(np.arange(classes), count * (all_ - inner)),
        "weights": rng.random(count * len(leaves), F32) / F32(count),
    }
    kind = "class" if op == "TreeEnsembleClassifier" else "target"
    attributes = nodes | {f"{kind}_{key}": value for key, value in votes.items()}
    attributes = {key: value.tolist() for key, value in attributes.items()}
    attributes["nodes_modes"] = np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist() * count
    outputs = [("scores", TensorProto.FLOAT, ["rows", classes])]
    if kind == "class":
        attributes["classlabels_int64s"] = list(range(classes))
        outputs.insert(0, ("labels", TensorProto.INT64, ["rows"]))
    else:
        attributes["n_targets"] = classes
    made = helper.make_node(op, ["x"], [o[0] for o in outputs], op, domain="ai.onnx.ml",
                            **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", features])
    outputs = [helper.make_tensor_value_info(*o) for o in outputs]
    return model(helper.make_graph([made], op, [x], outputs))


def cases(size):
    """Name, function that makes model and inputs, and runs at a time."""
    for op, name in (("GreedySearch", "greedy"), ("BeamSearch", "beam")):
        for decoder in (plain, fused):
            def make(op=op, decoder=decoder):
                return search(op, decoder(size), size)
            yield f"{name}_{decoder.__name__}", make, 2
    ensembles = {"trees": ("TreeEnsembleRegressor", 100, 6, 28, 1),
                 "forest": ("TreeEnsembleClassifier", 100, 8, 28, 10)}
    for name, form in ensembles.items():
        for rows in (1, 1000):
            def make(form=form, rows=rows):
                x = np.random.default_rng(rows).standard_normal((rows, form[3]), F32)
                return trees(*form), {"x": x}
            yield f"{name}_{rows}", make, 100


def main():
    parser = arguments(__doc__, 6, "of a search; of trees 100 times as many")
    parser.add_argument("--only", default="")
    for name, default in (("layers", 12), ("width", 768), ("words", 50257), ("prompt", 32),
                          ("steps", 32)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    size = Size(args.layers, args.width, args.words, args.prompt, args.steps)
    args.folder.mkdir(parents=True, exist_ok=True)
    print(head("model"))
    for name, make, turn in cases(size):
        if args.only not in name:
            continue
        made, inputs = make()
        path, data = args.folder / f"{name}.onnx", args.folder / f"{name}.npz"
        onnx.save(made, path)
        del made
        np.savez(data, **inputs)
        results = by_onnx_runtime(path, data)
        how = by_heddle(args.heddle, path, data, results, args.threads)
        runs = args.runs * (turn if turn > 2 else 1)
        medians = times(args.heddle, path, data, args.threads, runs, turn)
        print(row(name, how, medians), flush=True)


if __name__ == "__main__":
    sys.exit(main())
