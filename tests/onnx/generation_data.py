"""Cases for GreedySearch, Sampling and BeamSearch of com.microsoft, on small random decoders. ONNX
Runtime's kernels are the reference."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from contrib_data import microsoft

F32, I32 = np.float32, np.int32
WORDS, WIDTH, HEADS, LAYERS, PLACES = 23, 8, 2, 1, 40
HEAD = WIDTH // HEADS
PAD = 22


def cases():
    """All cases."""
    for family in (greedy, sampling, beams):
        yield from family()


class Graph:
    """A graph under construction."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers = [], []

    def constant(self, value, dtype=np.int64):
        """The name of a constant."""
        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape):
        """The name of random numbers."""
        return self.constant(self.rng.standard_normal(shape), F32)

    def node(self, op, *inputs, outputs=1, name=None, **attributes):
        """The name of a node's output, or a list of them."""
        stem = name or f"{op.lower()}_{len(self.nodes)}"
        names = [stem] if outputs == 1 else [f"{stem}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, stem + "_node", **attributes))
        return names[0] if outputs == 1 else names

    def graph(self, name, inputs, outputs):
        """The graph; ports are (name, element type, shape)."""
        ports = [[helper.make_tensor_value_info(*p) for p in ports] for ports in (inputs, outputs)]
        return helper.make_graph(self.nodes, name, *ports, self.initializers)

    def size(self, x, axis):
        """The size of an axis."""
        return self.node("Gather", self.node("Shape", x), self.constant(axis))

    def heads(self, x):
        """x[b, s, h * d] as [b, h, s, d]."""
        apart = self.node("Reshape", x, self.constant([0, 0, HEADS, HEAD]))
        return self.node("Transpose", apart, perm=[0, 2, 1, 3])

    def attention(self, q, k, v, bias):
        """Attention of heads, as [b, s, h * d]."""
        turned = self.node("Transpose", k, perm=[0, 1, 3, 2])
        scores = self.node("MatMul", q, turned)
        scores = self.node("Mul", scores, self.constant(HEAD ** -0.5, F32))
        if bias:
            scores = self.node("Add", scores, bias)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        mixed = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.node("Reshape", mixed, self.constant([0, 0, WIDTH]))


def gpt(seed):
    """A decoder with the inputs and outputs of GPT-2."""
    g = Graph(seed)
    words = g.node("Gather", g.weight(WORDS, WIDTH), "input_ids")
    places = g.node("Gather", g.weight(PLACES, WIDTH), "position_ids")
    x = g.node("Add", words, places)
    zero, one, none = (g.constant(v, F32) for v in (0, 1, -10000))
    mask = g.node("Cast", "attention_mask", to=TensorProto.FLOAT)
    mask = g.node("Unsqueeze", mask, g.constant([1, 2]))
    padding = g.node("Mul", g.node("Sub", one, mask), none)
    new, total = g.size("input_ids", 1), g.size("attention_mask", 1)
    rows = g.node("Range", g.node("Sub", total, new), total, g.constant(1))
    columns = g.node("Range", g.constant(0), total, g.constant(1))
    causal = g.node("LessOrEqual", columns, g.node("Unsqueeze", rows, g.constant([1])))
    bias = g.node("Add", padding, g.node("Where", causal, zero, none))
    first = g.constant([0])
    for i in range(LAYERS):
        y = g.node("LayerNormalization", x, g.weight(WIDTH), g.weight(WIDTH))
        qkv = g.node("MatMul", y, g.weight(WIDTH, 3 * WIDTH))
        q, k, v = (g.heads(p) for p in g.node("Split", qkv, outputs=3, axis=2))
        past = g.node("Split", f"past_{i}", outputs=2, axis=0)
        k, v = (g.node("Concat", g.node("Squeeze", p, first), x, axis=2)
                for p, x in zip(past, (k, v)))
        g.node("Concat", *(g.node("Unsqueeze", x, first) for x in (k, v)), axis=0,
               name=f"present_{i}")
        x = g.node("Add", x, g.attention(q, k, v, bias))
    return finished_gpt(g, x)


def fused_gpt(seed):
    """The same out of operators that ONNX Runtime's optimiser fuses."""
    g = Graph(seed)
    own = {"domain": "com.microsoft"}
    tables = [g.weight(WORDS, WIDTH), g.weight(PLACES, WIDTH)]
    y, _, x = g.node("EmbedLayerNormalization", "input_ids", "", *tables, "", g.weight(WIDTH),
                     g.weight(WIDTH), "", "position_ids", outputs=3, **own)
    for i in range(LAYERS):
        y, present = g.node("Attention", y, g.weight(WIDTH, 3 * WIDTH), g.weight(3 * WIDTH),
                            "attention_mask", f"past_{i}", outputs=2, num_heads=HEADS,
                            unidirectional=1, **own)
        g.node("Identity", present, name=f"present_{i}")
        y, _, _, x = g.node("SkipLayerNormalization", x, y, g.weight(WIDTH), g.weight(WIDTH),
                            g.weight(WIDTH), outputs=4, **own)
        y = g.node("MatMul", y, g.weight(WIDTH, 2 * WIDTH))
        y = g.node("MatMul", g.node("FastGelu", y, g.weight(2 * WIDTH), **own),
                   g.weight(2 * WIDTH, WIDTH))
        y, _, _, x = g.node("SkipLayerNormalization", x, y, g.weight(WIDTH), g.weight(WIDTH),
                            g.weight(WIDTH), outputs=4, **own)
    return finished_gpt(g, y)


def finished_gpt(g, x):
    """The graph, with logits of the last layer's results."""
    g.node("MatMul", x, g.weight(WIDTH, WORDS), name="logits")
    i32, real = TensorProto.INT32, TensorProto.FLOAT
    inputs = [("input_ids", i32, ["b", "s"]), ("position_ids", i32, ["b", "s"]),
              ("attention_mask", i32, ["b", "t"])]
    inputs += [(f"past_{i}", real, [2, "b", HEADS, "p", HEAD]) for i in range(LAYERS)]
    outputs = [("logits", real, ["b", "s", WORDS])]
    outputs += [(f"present_{i}", real, [2, "b", HEADS, "t", HEAD]) for i in range(LAYERS)]
    return g.graph("decoder", inputs, outputs)


def decoder_step(g, mask, caches, crosses):
    """A step of T5's decoder: defines its logits and caches."""
    x = g.node("Gather", g.weight(WORDS, WIDTH), caches["ids"])
    none = g.constant(-10000, F32)
    mask = g.node("Cast", g.node("Unsqueeze", mask, g.constant([1, 2])), to=TensorProto.FLOAT)
    bias = g.node("Mul", g.node("Sub", g.constant(1, F32), mask), none)
    for i in range(LAYERS):
        y = g.node("LayerNormalization", x, g.weight(WIDTH), g.weight(WIDTH))
        q, k, v = (g.heads(g.node("MatMul", y, g.weight(WIDTH, WIDTH))) for _ in range(3))
        if "past" in caches:
            k = g.node("Concat", f"past_key_self_{i}", k, axis=2)
            v = g.node("Concat", f"past_value_self_{i}", v, axis=2)
        k = g.node("Identity", k, name=f"present_key_self_{i}")
        v = g.node("Identity", v, name=f"present_value_self_{i}")
        x = g.node("Add", x, g.attention(q, k, v, None))
        q = g.heads(g.node("MatMul", x, g.weight(WIDTH, WIDTH)))
        x = g.node("Add", x, g.attention(q, *crosses[i], bias))
    g.node("MatMul", x, g.weight(WIDTH, WORDS), name="logits")


def caches_of(kind, name):
    """Caches of all layers, as ports."""
    return [(f"{name}_{part}_{kind}_{i}", TensorProto.FLOAT, ["b", HEADS, f"{name}_{kind}", HEAD])
            for i in range(LAYERS) for part in ("key", "value")]


def t5(seed, first, hidden):
    """An encoder, which runs the first step if asked for, and a decoder."""
    i32, real = TensorProto.INT32, TensorProto.FLOAT
    logits = ("logits", real, ["b", 1, WORDS])
    states = ("encoder_hidden_states", real, ["b", "s", WIDTH])
    g = Graph(seed)
    x = g.node("Gather", g.weight(WORDS, WIDTH), "encoder_input_ids")
    x = g.node("Tanh", g.node("MatMul", x, g.weight(WIDTH, WIDTH)), name=states[0])
    crosses = []
    for i in range(LAYERS):
        crosses.append([g.node("Identity", g.heads(g.node("MatMul", x, g.weight(WIDTH, WIDTH))),
                               name=f"present_{part}_cross_{i}") for part in ("key", "value")])
    inputs = [("encoder_input_ids", i32, ["b", "s"]), ("encoder_attention_mask", i32, ["b", "s"])]
    outputs = caches_of("cross", "present")
    if first:
        decoder_step(g, "encoder_attention_mask", {"ids": "decoder_input_ids"}, crosses)
        inputs.append(("decoder_input_ids", i32, ["b", 1]))
        outputs = [logits, states] + caches_of("self", "present") + outputs
    encoder = g.graph("encoder", inputs, outputs)
    g = Graph(seed + 100)
    crosses = [[f"past_{part}_cross_{i}" for part in ("key", "value")] for i in range(LAYERS)]
    decoder_step(g, "encoder_attention_mask", {"ids": "input_ids", "past": True}, crosses)
    inputs = [("input_ids", i32, ["b", 1]), ("encoder_attention_mask", i32, ["b", "s"])]
    inputs += [states] * hidden + caches_of("self", "past") + caches_of("cross", "past")
    decoder = g.graph("decoder", inputs, [logits] + caches_of("self", "present"))
    return {"encoder": encoder, "decoder": decoder, "model_type": 1, "decoder_start_token_id": 2}


def number(value):
    """An input of one number."""
    return np.array([value], F32 if isinstance(value, float) else I32)


PROMPT = np.array([[3, 5, 7], [PAD, PAD, 4]], I32)
ALLOWED = np.ones(WORDS, I32)
ALLOWED[16] = 0
FIRST = np.ones((2, WORDS), I32)
FIRST[0, 6] = FIRST[1, 20] = 0
MASK = np.array([[1, 0, 1], [1, 1, 1]], I32)


def search(name, op, more=(), least=1, most=12, end=1, parameters=(), **attributes):
    """A search without beams; `more` are the inputs behind min_length."""
    inputs = [PROMPT, number(most), number(least), *more]
    at = {"decoder": gpt(0), "eos_token_id": end, "pad_token_id": PAD} | attributes
    return microsoft(name, op, inputs, at, parameters)


def greedy():
    """GreedySearch. Behind the step in which the last sequence ends ONNX Runtime leaves what the
    memory held."""
    yield search("greedy", "GreedySearch", parameters=(1, 2))
    yield search("greedy_ngrams_1", "GreedySearch", no_repeat_ngram_size=1)
    yield search("greedy_ngrams_3", "GreedySearch", [number(1.7)], no_repeat_ngram_size=3)
    yield search("greedy_words", "GreedySearch", [None, ALLOWED, FIRST, MASK])
    yield search("greedy_least", "GreedySearch", least=12, end=16)
    yield search("greedy_fused", "GreedySearch", decoder=fused_gpt(3), end=11)
    yield search("greedy_first", "GreedySearch", init_decoder=gpt(1))
    yield search("greedy_one", "GreedySearch", most=4)
    yield search("greedy_last", "GreedySearch", most=11, end=21)
    ends = search("greedy_ends", "GreedySearch", most=16, end=21)
    rows = [3, 5, 7, 0, 20, 10, 0, 20, 16, 9], [PAD, PAD, 4, 9, 9, 9]
    ends.expected = [np.array([row + [PAD] * (16 - len(row)) for row in rows], I32)]
    yield ends


def sampling():
    """Sampling where one token remains: the draws of runtimes differ."""
    few = {"top_p": 1e-6}
    yield search("sampling", "Sampling", [number(1.7)], **few)
    yield search("sampling_custom", "Sampling", custom=1, temperature=0.5, **few)
    # ONNX Runtime takes the whole penalty from the first token. All of it is a mask of words.
    case = search("sampling_presence", "Sampling",
                  [None, None, None, None, np.tile(1 - ALLOWED, (2, 1))],
                  presence_penalty=1e9, custom=1, **few)
    case.twin = search("words", "Sampling", [None, ALLOWED], **few)
    yield case


def beams():
    """BeamSearch."""
    def beam(name, more=(), most=12, least=1, count=3, kept=2, length=1.0, penalty=1.0, end=20,
             seed=0, outputs=2, parameters=(), **attributes):
        inputs = [PROMPT, number(most), number(least), number(count), number(kept),
                  number(length), number(penalty), *more]
        at = {"eos_token_id": end, "pad_token_id": PAD} | attributes
        if "decoder" not in at:
            at["decoder"] = gpt(seed)
        return microsoft(f"beam_{name}", "BeamSearch", inputs, at, parameters, outputs)

    yield beam("plain", parameters=(1, 2, 3, 4, 5, 6))
    yield beam("early", seed=1, end=15, count=4, kept=3, early_stopping=1)
    yield beam("one", count=1, kept=1, least=8)
    yield beam("penalty", length=2.0, penalty=1.5, no_repeat_ngram_size=2)
    yield beam("words", [ALLOWED, FIRST, MASK], length=0.0, kept=3)
    yield beam("scores", end=1, outputs=3, most=8)
    for name, first, hidden in (("encoder", True, False), ("hidden", True, True),
                                ("cross", False, False)):
        yield beam(f"t5_{name}", end=15, **t5(5, first, hidden))
