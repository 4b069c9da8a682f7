"""Regressors that skl2onnx writes with plain operators and loops."""
from .from_tf import LONG, X
from .table import SKLEARN, traced

TARGET = LONG[:, 0] - 2 * LONG[:, 1]


@traced(SKLEARN, [(X,), (LONG,)], [(None, 4)])
def neighbors(sklearn):
    """Nearest neighbours: distances by a Scan."""
    from sklearn.neighbors import KNeighborsRegressor
    return KNeighborsRegressor(2).fit(LONG, TARGET)


@traced(SKLEARN, [(X,), (LONG,)], [(None, 4)])
def gaussian_process(sklearn):
    """A Gaussian process with a radial kernel: distances by a Scan."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF
    return GaussianProcessRegressor(RBF(2.0), alpha=0.1).fit(LONG, TARGET)


@traced(SKLEARN, [(X,), (LONG,)], [(None, 4)])
def perceptron(sklearn):
    """A network of two layers."""
    from sklearn.neural_network import MLPRegressor
    return MLPRegressor(hidden_layer_sizes=(6, 5), max_iter=50, random_state=0, solver="lbfgs").fit(LONG, TARGET)
