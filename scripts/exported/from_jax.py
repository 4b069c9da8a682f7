"""Control flow and sizes as jax2onnx writes them."""
from .from_tf import BATCH, LONG, SHORT, X, number
from .sizes import rows
from .table import JAX, traced

STATE = rows(4).numpy()


@traced(JAX, [(X, STATE), (LONG, STATE)], [("rows", 4), (4,)])
def jax_scan(jax):
    """lax.scan over the rows."""
    def run(x, h):
        def step(h, x):
            h = jax.numpy.tanh(h * 0.5 + x)
            return h, h * 2.0
        return jax.lax.scan(step, h, x)
    return run


@traced(JAX, [(X, number(5)), (LONG, number(0))], [("rows", 4), ()])
def jax_while(jax):
    """lax.while_loop with a counter of 32 bits."""
    def run(x, n):
        def body(state):
            i, s = state
            return i + 1, jax.numpy.tanh(s) + 0.1
        return jax.lax.while_loop(lambda state: state[0] < n, body, (0, x))[1]
    return run


@traced(JAX, [(X,), (LONG,)], [("rows", 4)])
def jax_until(jax):
    """lax.while_loop that a value or a counter ends."""
    def run(x):
        def goes(state):
            return (state[0] > 0) & (abs(state[1]).sum() > 0.5)

        def body(state):
            return state[0] - 2, state[1] * 0.5
        return jax.lax.while_loop(goes, body, (17, x))[1]
    return run


@traced(JAX, [(X,), (LONG,)], [("rows", 4)])
def jax_fori(jax):
    """lax.fori_loop that updates a slice."""
    def run(x):
        def body(i, s):
            row = jax.lax.dynamic_slice(s, (0, i), (s.shape[0], 1))
            return jax.lax.dynamic_update_slice(s, jax.numpy.tanh(row) + 1.0, (0, i))
        return jax.lax.fori_loop(1, 4, body, x)
    return run


@traced(JAX, [(X,), (-X,)], [("rows", 4)])
def jax_cond(jax):
    """lax.cond on a sum."""
    def run(x):
        return jax.lax.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: jax.numpy.tanh(x) - 1.0, x)
    return run


@traced(JAX, [(BATCH,), (SHORT,)], [("batch", "time", 4)])
def jax_attention(jax):
    """Attention over symbolic sizes."""
    def run(x):
        scores = jax.numpy.einsum("btd,bsd->bts", x, x)
        return jax.numpy.einsum("bts,bsd->btd", jax.nn.softmax(scores), x)
    return run
