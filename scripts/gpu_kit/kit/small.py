"""A small model in the form of the zoo's: h = tanh(h W + x[t]) for as long as the first element of h is below a limit, at most 16 steps.
It stands in for the zoo in dry runs, and where a kit was made without one."""
import numpy as np

BATCHES, HIDDEN, LENGTH, LIMIT = (1, 4), 32, 16, 0.9


def weights():
    """The recurrent weights."""
    return {"W": (np.random.default_rng(7).standard_normal((HIDDEN, HIDDEN)) / np.sqrt(HIDDEN)).astype(np.float32)}


def inputs(batch, seed):
    """The steps' inputs, which grow, so that the loop ends by its condition."""
    x = np.random.default_rng([seed, batch]).standard_normal((LENGTH, batch, HIDDEN)) * 0.3
    x[:, 0, 0] = np.linspace(0, 3, LENGTH)
    return {"x": x.astype(np.float32)}


def fixed(_, outputs):
    """The number of steps."""
    return [int(outputs[1])]


def reference(w, inputs):
    """The outputs in float64: the last state and the number of steps."""
    weight, x = w["W"].astype(np.float64), inputs["x"].astype(np.float64)
    h, n = np.zeros_like(x[0]), 0
    while n < LENGTH and h[0, 0] < LIMIT:
        h, n = np.tanh(h @ weight + x[n]), n + 1
    return h, np.int64(n)


def __getattr__(name):
    """The classes of PyTorch are in a file of their own, so that drawing the model does not need it."""
    if name in ("Torch", "TorchGraph"):
        import small_torch
        return getattr(small_torch, name)
    raise AttributeError(name)


def run_jax(w, x, fixed=None):
    """The same in JAX."""
    import jax
    import jax.numpy as jnp

    def step(s):
        return s[0] + 1, jnp.tanh(s[1] @ w["W"] + x[s[0]])

    s = (0, jnp.zeros(x.shape[1:]))
    if fixed is not None:
        for _ in range(fixed[0]):
            s = step(s)
    else:
        s = jax.lax.while_loop(lambda s: (s[0] < LENGTH) & (s[1][0, 0] < LIMIT), step, s)
    return s[1], jnp.asarray(s[0])


def jax_weights(w):
    """As they are."""
    return w


def save_onnx(w, batch, path):
    """The same as an ONNX Loop."""
    from onnx import TensorProto, helper, numpy_helper, save
    info = helper.make_tensor_value_info
    state, boolean, integer = (TensorProto.FLOAT, [batch, HIDDEN]), (TensorProto.BOOL, []), (TensorProto.INT64, [])
    node = helper.make_node
    body = helper.make_graph(
        [node("Gather", ["x", "n"], ["xt"], axis=0), node("MatMul", ["h", "W"], ["hw"]),
         node("Add", ["hw", "xt"], ["z"]), node("Tanh", ["z"], ["h1"]),
         node("Gather", ["h1", "corner"], ["row"], axis=0), node("Gather", ["row", "corner"], ["first"], axis=0),
         node("Less", ["first", "limit"], ["on"]), node("Add", ["n", "one"], ["n1"])],
        "body", [info("n", *integer), info("go", *boolean), info("h", *state), info("m", *integer)],
        [info("on", *boolean), info("h1", *state), info("n1", *integer)])
    constants = {"W": w["W"], "corner": np.int64(0), "one": np.int64(1), "limit": np.float32(LIMIT),
                 "trips": np.int64(LENGTH), "begin": np.bool_(True), "zero": np.zeros((batch, HIDDEN), np.float32)}
    graph = helper.make_graph(
        [node("Loop", ["trips", "begin", "zero", "corner"], ["y", "steps"], body=body)], "small",
        [info("x", TensorProto.FLOAT, [LENGTH, batch, HIDDEN])], [info("y", *state), info("steps", *integer)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
