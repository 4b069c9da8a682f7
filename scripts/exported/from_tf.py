"""Control flow and sizes as tf2onnx writes them: TensorFlow's loops, branches and arrays, Keras'
recurrent layers."""
import functools

import numpy as np

from .sizes import rows
from .table import TF, traced

X, LONG = rows(3, 4).numpy(), rows(7, 4).numpy()
BATCH, SHORT = rows(2, 5, 4).numpy(), rows(3, 2, 4).numpy()


def number(n):
    """A count as TensorFlow's loops take it."""
    return np.int32(n)


@traced(TF, [(X, number(5)), (LONG, number(0))], [(None, 4), ()])
def tf_while(tf):
    """A loop with a counter of 32 bits."""
    def run(x, n):
        def body(i, s):
            return i + 1, tf.tanh(s) + 0.1
        return tf.while_loop(lambda i, s: i < n, body, [0, x])[1]
    return run


@traced(TF, [(X, number(20)), (LONG, number(3))], [(None, 4), ()])
def tf_until(tf):
    """A loop that a value or a counter by steps of 3 ends."""
    def run(x, n):
        def goes(i, s):
            return tf.logical_and(i <= n, tf.reduce_sum(tf.abs(s)) > 0.5)

        def body(i, s):
            return i + 3, s * 0.5
        return tf.while_loop(goes, body, [2, x])
    return run


@traced(TF, [(X, number(9)), (LONG, number(8))], [(None, 4), ()])
def tf_grow(tf):
    """A loop that its array's length ends."""
    def run(x, n):
        def body(s):
            return [tf.concat([s, tf.tanh(s[-1:]) + 1.0], 0)]
        unknown = [tf.TensorShape([None, 4])]
        return tf.while_loop(lambda s: tf.shape(s)[0] < n, body, [x], shape_invariants=unknown)
    return run


@traced(TF, [(X,), (-X,)], [(None, 4)])
def tf_cond(tf):
    """A branch whose arms give arrays of several sizes."""
    def run(x):
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.concat([x, x], 0), lambda: x * 2.0)
        return tf.reduce_mean(y, 0)
    return run


@traced(TF, [(X, number(2)), (LONG, number(0))], [(None, 4), ()])
def tf_case(tf):
    """One of three functions."""
    def run(x, n):
        return tf.cond(n > 0, lambda: tf.cond(n > 1, lambda: x + 1.0, lambda: x * 2.0),
                       lambda: tf.tanh(x))
    return run


@traced(TF, [(X,), (LONG,)], [(None, 4)])
def tf_array(tf):
    """A TensorArray that takes one row at each turn."""
    def run(x):
        n = tf.shape(x)[0]
        out = tf.TensorArray(tf.float32, n, element_shape=[4])

        def body(i, s, out):
            s = tf.tanh(s) + x[i]
            return i + 1, s, out.write(i, s)
        return tf.while_loop(lambda i, *_: i < n, body, [0, x[0], out])[2].stack()
    return run


@traced(TF, [(BATCH,), (SHORT,)], [(None, None, 4)])
def tf_map(tf):
    """tf.map_fn over the batch."""
    def run(x):
        return tf.map_fn(lambda v: tf.reduce_sum(v * tf.reverse(v, [0]), 1), x)
    return run


@traced(TF, [(BATCH,), (SHORT,)], [(None, None, 4)])
def tf_sizes(tf):
    """Sizes by arithmetic: heads split and joined, a mask of lengths."""
    def run(x):
        batch, time = tf.shape(x)[0], tf.shape(x)[1]
        heads = tf.transpose(tf.reshape(x, [batch, time, 2, 2]), [0, 2, 1, 3])
        scores = tf.matmul(heads, heads, transpose_b=True)
        mask = tf.sequence_mask(tf.range(1, time + 1), time)
        scores = tf.where(mask[None, None], scores, -1e9)
        joined = tf.transpose(tf.matmul(tf.nn.softmax(scores), heads), [0, 2, 1, 3])
        return tf.reshape(joined, [batch, time, 4])[:, time // 2:]
    return run


def layer(make):
    """A Keras layer as a function, the same weights each time."""
    @functools.wraps(make)
    def build(tf):
        tf.keras.utils.set_random_seed(0)
        net = make(tf.keras)
        return lambda x: net(x)  # pylint: disable=unnecessary-lambda
    return build


@traced(TF, [(BATCH,), (SHORT,)], [(None, None, 4)])
@layer
def keras_lstm(keras):
    """An LSTM over any number of steps."""
    return keras.layers.LSTM(6, return_sequences=True)


@traced(TF, [(BATCH,), (SHORT,)], [(None, None, 4)])
@layer
def keras_bidirectional(keras):
    """Two GRU layers, one in both directions."""
    return keras.Sequential([keras.layers.Bidirectional(keras.layers.GRU(
        5, return_sequences=True)), keras.layers.GRU(3)])


@traced(TF, [(BATCH,), (np.where(SHORT > 0, SHORT, 0),)], [(None, None, 4)])
@layer
def keras_masked(keras):
    """Steps of zeros do not count."""
    return keras.Sequential([keras.layers.Masking(), keras.layers.SimpleRNN(5)])
