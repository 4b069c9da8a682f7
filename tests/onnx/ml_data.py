"""Cases for the domain ai.onnx.ml. ONNX Runtime's kernels are the reference."""
from itertools import product

import numpy as np

from opset_data import NAN, Case, f32, i64, ints

F32, F64 = np.float32, np.float64
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
RNG = np.random.default_rng(16)


def cases():
    """All cases."""
    for family in (regressors, tree_inputs, ensembles, classifiers, two_classes, linear,
                   svm_regressors, svm_classifiers, zip_maps, features, labels):
        yield from family()


def ml(name, op, inputs, attributes=None, outputs=1, opset=1, tolerance=None, **more):
    """A node of ai.onnx.ml."""
    if (attributes or {}).get("post_transform") == "PROBIT":
        # It cancels most digits of scores near one half.
        tolerance = (1e-2, 1e-2)
    return Case(f"ml_{name}", op, opset, inputs, attributes or {}, (), outputs,
                more.pop("oracle", "ort"), None, tolerance, domain="ai.onnx.ml", **more)


def floats(*shape, low=-1.0, high=1.0):
    """Evenly distributed numbers."""
    return RNG.uniform(low, high, shape).astype(F32)


def forest(trees, depth, votes, width=4, modes=MODES[:1], missing=False, prefix="target"):
    """Random trees. `votes` gives the targets and weights of leaf `l` of tree `t`."""
    node_lists = {key: [] for key in ("treeids", "nodeids", "featureids", "modes", "values",
                                      "truenodeids", "falsenodeids")}
    if missing:
        node_lists["missing_value_tracks_true"] = []
    weight_lists = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        # Nodes with the ids of their children; a node splits less often the deeper it lies.
        nodes, level, leaf = [[None, None]], [0], 0
        for at_depth in range(depth):
            split = [n for n in level if at_depth == 0 or RNG.random() < 0.8]
            level = []
            for node in split:
                nodes[node] = [len(nodes), len(nodes) + 1]
                level += nodes[node]
                nodes += [[None, None], [None, None]]
        for node, (yes, no) in enumerate(nodes):
            row = [tree, node, int(RNG.integers(width)), str(RNG.choice(modes)),
                   round(float(RNG.uniform(-1, 1)), 1), yes or 0, no or 0]
            if yes is None:
                row[2:5] = [0, "LEAF", 0.0]
                for target, weight in votes(tree, leaf):
                    for key, value in zip(weight_lists, (tree, node, target, weight)):
                        weight_lists[key].append(value)
                leaf += 1
            if missing:
                row.append(int(RNG.integers(2)))
            for key, value in zip(node_lists, row):
                node_lists[key].append(value)
    return {f"nodes_{k}": v for k, v in node_lists.items()} \
        | {f"{prefix}_{k}": v for k, v in weight_lists.items()}


def weight(low=-1.0, high=1.0):
    """One weight."""
    return float(F32(RNG.uniform(low, high)))


def regressors():
    """Trees with one or several targets and all aggregate functions."""
    x = np.round(floats(7, 4), 1)

    def one(_tree, _leaf):
        return [(0, weight())]

    def own(tree, _leaf):
        return [(tree % 3, weight())]

    def dense(_tree, _leaf):
        return [(k, weight()) for k in range(3)]

    def sparse(_tree, leaf):
        return [(k, weight()) for k in range(3) if (leaf + k) % 2]

    votes = {"one": (one, 1, 5), "own": (own, 3, 6), "uneven": (own, 3, 7), "dense": (dense, 3, 4),
             "sparse": (sparse, 3, 4)}
    for (name, (vote, targets, trees)), function in product(
            votes.items(), ("SUM", "AVERAGE", "MIN", "MAX")):
        at = forest(trees, 4, vote) | {"n_targets": targets, "aggregate_function": function}
        yield ml(f"regressor_{name}_{function.lower()}", "TreeEnsembleRegressor", [x], at)
        at |= {"base_values": [0.5, -0.25, 1.0][:targets]}
        yield ml(f"regressor_{name}_{function.lower()}_base", "TreeEnsembleRegressor", [x], at,
                 opset=3)
    for transform in TRANSFORMS:
        for name in ("one", "dense"):
            vote, targets, _ = votes[name]
            at = forest(3, 3, vote) | {"n_targets": targets, "post_transform": transform}
            yield ml(f"regressor_{name}_{transform.lower()}", "TreeEnsembleRegressor", [x], at)
    only_two = forest(4, 3, lambda t, _: [(t % 2, weight())]) | {"n_targets": 4}
    yield ml("regressor_silent_targets", "TreeEnsembleRegressor", [x], only_two)


def tree_inputs():
    """Comparisons, missing values and types of inputs."""
    x = np.round(floats(40, 4), 1)
    x[RNG.random(x.shape) < 0.3] = NAN

    one = {"n_targets": 1}

    def vote(_tree, _leaf):
        return [(0, weight())]

    for mode in MODES:
        for missing in (False, True):
            at = one | forest(6, 4, vote, modes=[mode], missing=missing)
            name = f"{mode[7:].lower()}{'_missing' * missing}"
            yield ml(f"tree_{name}", "TreeEnsembleRegressor", [x], at)
    at = one | forest(9, 5, vote, modes=MODES, missing=True)
    yield ml("tree_mixed_modes", "TreeEnsembleRegressor", [x], at)
    at = one | forest(5, 4, vote)
    yield ml("tree_float64", "TreeEnsembleRegressor", [ints(-1, 2, (6, 4)).astype(F64)], at)
    yield ml("tree_one_row", "TreeEnsembleRegressor", [x[:1]], at)
    yield ml("tree_stumps", "TreeEnsembleRegressor", [x], one | forest(5, 0, vote))
    double = one | forest(4, 4, vote)
    for key in ("nodes_values", "target_weights"):
        double[f"{key}_as_tensor"] = array(np.array(double.pop(key)) + 1e-12)
    double["base_values_as_tensor"] = array(np.array([1.0 / 3]))
    yield ml("tree_double_weights", "TreeEnsembleRegressor", [x.astype(F64)], double, opset=3)


def ensembles():
    """TreeEnsemble, which has leaves apart from nodes."""
    x = np.round(floats(9, 4), 1)
    for name, targets in (("one", 1), ("own", 3)):
        for function in range(4):
            at = ensemble(forest(6, 4, lambda t, _, n=targets: [(t % n, weight())]))
            yield ml(f"ensemble_{name}_{function}", "TreeEnsemble", [x],
                     at | {"n_targets": targets, "aggregate_function": function}, opset=5)
        # ONNX Runtime takes the numbers of SOFTMAX and LOGISTIC for each other.
        for number, transform in enumerate(("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                            "PROBIT")):
            at = forest(6, 4, lambda t, _, n=targets: [(t % n, weight())])
            more = {"n_targets": targets}
            case = ml(f"ensemble_{name}_{transform.lower()}", "TreeEnsemble", [x],
                      ensemble(at) | more | {"post_transform": number}, opset=5,
                      tolerance=(1e-2, 1e-2) if transform == "PROBIT" else None)
            case.twin = ml("twin", "TreeEnsembleRegressor", [x],
                           at | more | {"post_transform": transform})
            yield case
    x[RNG.random(x.shape) < 0.3] = NAN
    at = forest(6, 4, lambda t, _: [(0, weight())], modes=MODES, missing=True)
    yield ml("ensemble_mixed_modes", "TreeEnsemble", [x], ensemble(at) | {"n_targets": 1}, opset=5)
    double = {"n_targets": 1} | ensemble(forest(5, 4, lambda *_: [(0, weight())]), F64)
    yield ml("ensemble_float64", "TreeEnsemble", [x.astype(F64)], double, opset=5)


def ensemble(at, dtype=F32):
    """The trees of a TreeEnsembleRegressor as those of a TreeEnsemble."""
    ids = list(zip(at["nodes_treeids"], at["nodes_nodeids"]))
    leaf = [mode == "LEAF" for mode in at["nodes_modes"]]
    place = {node: sum(m == is_leaf for m in leaf[:i])
             for i, (node, is_leaf) in enumerate(zip(ids, leaf))}
    is_leaf = dict(zip(ids, leaf))

    def inner(name):
        return [v for v, end in zip(at[f"nodes_{name}"], leaf) if not end]

    trees = inner("treeids")
    new = {"nodes_featureids": inner("featureids"),
           "nodes_splits": array(np.array(inner("values"), dtype)),
           "nodes_modes": array(np.array([MODES.index(m) for m in inner("modes")], np.uint8)),
           "leaf_targetids": at["target_ids"],
           "leaf_weights": array(np.array(at["target_weights"], dtype)),
           "tree_roots": [place[tree, 0] for tree in sorted(set(trees))]}
    for way in ("true", "false"):
        ends = list(zip(trees, inner(f"{way}nodeids")))
        new[f"nodes_{way}nodeids"] = [place[end] for end in ends]
        new[f"nodes_{way}leafs"] = [int(is_leaf[end]) for end in ends]
    if "nodes_missing_value_tracks_true" in at:
        new["nodes_missing_value_tracks_true"] = inner("missing_value_tracks_true")
    return new


def array(values):
    """A tensor attribute."""
    from onnx import numpy_helper
    return numpy_helper.from_array(values)


def classifiers():
    """Trees with labels."""
    x = np.round(floats(9, 4), 1)
    text = {"classlabels_strings": ["cat", "dog", "bird"]}
    numbers = {"classlabels_int64s": [7, -1, 3]}

    def own(tree, _leaf):
        return [(tree % 3, weight())]

    def dense(_tree, _leaf):
        return [(k, weight(0)) for k in range(3)]

    def sparse(_tree, leaf):
        return [(k, weight()) for k in range(3) if (leaf + k) % 2]

    for name, vote in (("own", own), ("dense", dense), ("sparse", sparse)):
        at = forest(6, 4, vote, prefix="class")
        yield classifier(f"{name}_text", x, at | text | {"post_transform": "LOGISTIC"})
        yield classifier(f"{name}_base", x, at | numbers | {"base_values": [0.1, 0.5, -0.25]})
        for transform in TRANSFORMS:
            yield classifier(f"{name}_{transform.lower()}", x,
                             at | numbers | {"post_transform": transform})
    at = forest(6, 3, own, prefix="class")
    for dtype in (np.int32, np.int64, F64):
        name = f"classifier_{np.dtype(dtype).name}"
        yield ml(name, "TreeEnsembleClassifier", [ints(-1, 2, (5, 4)).astype(dtype)], at | numbers,
                 2)
    at = forest(4, 3, lambda t, _: [(0, weight())], prefix="class")
    yield classifier("one_class", x, at | {"classlabels_int64s": [1]})


def classifier(name, x, attributes):
    """TreeEnsembleClassifier."""
    return ml(f"classifier_{name}", "TreeEnsembleClassifier", [x], attributes, 2, 3)


def two_classes():
    """Two classes: one weight a leaf, or one for each class, or either."""
    x = np.round(floats(9, 4), 1)

    def apart(low):
        return lambda _, leaf: [(leaf % 2, weight(low))]

    votes = {"first": lambda low: lambda *_: [(0, weight(low, 0.4))],
             "second": lambda low: lambda *_: [(1, weight(low, 0.4))],
             "both": lambda low: lambda *_: [(0, weight(low)), (1, weight(low))],
             "apart": apart}
    labels = {"classlabels_int64s": [0, 1]}
    for (name, vote), low, base in product(votes.items(), (0.0, -1.0), ([], [0.1], [0.1, 0.3])):
        # ONNX Runtime leaves the second score undefined.
        if name == "apart" and len(base) == 1:
            continue
        for transform in TRANSFORMS:
            if transform == "PROBIT" and name in ("first", "apart"):
                continue
            at = forest(1 if name == "apart" else 3, 3, vote(low), prefix="class")
            at |= labels | {"post_transform": transform}
            at |= {"base_values": base} if base else {}
            sign = "mixed" if low else "positive"
            yield classifier(f"{name}_{sign}_{len(base)}_{transform.lower()}", x, at)


def linear():
    """Linear models."""
    x = floats(5, 3)
    for targets, transform in product((1, 3), TRANSFORMS):
        at = {"coefficients": floats(3 * targets).tolist(), "targets": targets,
              "intercepts": floats(targets).tolist(), "post_transform": transform}
        yield ml(f"linear_regressor_{targets}_{transform.lower()}", "LinearRegressor", [x], at)
    at = {"coefficients": floats(3).tolist()}
    yield ml("linear_regressor_plain", "LinearRegressor", [x], at)
    for classes, transform in product((1, 2, 3), TRANSFORMS):
        # ONNX Runtime leaves the second score undefined.
        if (classes, transform) == (1, "PROBIT"):
            continue
        labels = ["no", "yes", "maybe"][:max(classes, 2)]
        at = {"coefficients": floats(3 * classes).tolist(),
              "intercepts": floats(classes).tolist(), "post_transform": transform}
        name = f"linear_classifier_{classes}_{transform.lower()}"
        kind = ("classlabels_strings", labels) if transform == "SOFTMAX" else \
            ("classlabels_ints", list(range(len(labels))))
        yield ml(name, "LinearClassifier", [x], at | dict([kind]), 2)
    at = {"coefficients": floats(6).tolist(), "intercepts": [0.5, -0.5],
          "classlabels_ints": [4, 9]}
    for dtype in (np.int32, np.int64, F64):
        yield ml(f"linear_classifier_{np.dtype(dtype).name}", "LinearClassifier",
                 [ints(-2, 3, (4, 3)).astype(dtype)], at, 2)


KERNELS = {"linear": ("LINEAR", [0.5, 0.0, 3.0]), "poly2": ("POLY", [0.5, 0.3, 2.0]),
           "poly3": ("POLY", [0.5, 0.3, 3.0]), "poly4": ("POLY", [0.4, 0.2, 4.0]),
           "rbf": ("RBF", [0.7, 0.0, 0.0]), "sigmoid": ("SIGMOID", [0.5, 0.1, 0.0])}


def svm_regressors():
    """Support vectors of one target."""
    x = floats(6, 3)
    for name, (kernel, parameters) in KERNELS.items():
        for one_class in (0, 1):
            at = {"kernel_type": kernel, "kernel_params": parameters, "n_supports": 5,
                  "support_vectors": floats(15).tolist(), "coefficients": floats(5).tolist(),
                  "rho": [0.1], "one_class": one_class}
            yield ml(f"svm_regressor_{name}{'_one_class' * one_class}", "SVMRegressor", [x], at)
    at = {"coefficients": floats(3).tolist(), "rho": [0.1], "kernel_params": [0.5, 0.0, 3.0]}
    yield ml("svm_regressor_coefficients", "SVMRegressor", [x], at)


def svm_classifiers():
    """Support vectors of classes, with votes and with probabilities."""
    x = floats(8, 3)
    names = ["no", "yes", "maybe", "never"]
    numbers = [5, 2, 9, 1]

    def attributes(classes, kernel):
        counts = [3, 2, 4, 2][:classes]
        kind, parameters = KERNELS[kernel]
        pairs = classes * (classes - 1) // 2
        return {"kernel_type": kind, "kernel_params": parameters, "vectors_per_class": counts,
                "support_vectors": floats(3 * sum(counts)).tolist(),
                "coefficients": floats((classes - 1) * sum(counts)).tolist(),
                "rho": floats(pairs, low=-0.3, high=0.3).tolist()}

    def probabilities(classes):
        pairs = classes * (classes - 1) // 2
        return {"prob_a": floats(pairs, low=-2, high=-1).tolist(),
                "prob_b": floats(pairs, low=-0.2, high=0.2).tolist()}

    def svm(name, at, x=x):
        return ml(f"svm_classifier_{name}", "SVMClassifier", [x], at, 2)

    for classes, kernel in product((2, 3, 4), KERNELS):
        at = attributes(classes, kernel) | {"classlabels_ints": numbers[:classes]}
        yield svm(f"{classes}_{kernel}", at)
        yield svm(f"{classes}_{kernel}_probability", at | probabilities(classes))
    for classes in (2, 3):
        at = attributes(classes, "rbf") | {"classlabels_strings": names[:classes]}
        yield svm(f"{classes}_text", at)
    for classes, transform in product((2, 3), TRANSFORMS[1:]):
        at = attributes(classes, "rbf") | {"post_transform": transform}
        at |= {"classlabels_ints": numbers[:classes]}
        if (classes, transform) != (2, "PROBIT"):
            yield svm(f"{classes}_{transform.lower()}", at)
        yield svm(f"{classes}_{transform.lower()}_probability", at | probabilities(classes))
    for classes, low in product((2, 3), (-1, 0)):
        at = {"coefficients": floats(3 * classes, low=low).tolist(), "rho": [0.1],
              "classlabels_ints": numbers[:classes], "kernel_params": [0.5, 0.0, 3.0]}
        yield svm(f"{classes}_coefficients_{'mixed' if low else 'positive'}", at)
    at = attributes(3, "rbf") | {"classlabels_ints": numbers[:3]}
    for dtype in (np.int32, np.int64, F64):
        yield svm(np.dtype(dtype).name, at, ints(-2, 3, (4, 3)).astype(dtype))


def zip_maps():
    """Maps become the array that they are made of."""
    x = floats(4, 3)
    for name, at in (("text", {"classlabels_strings": ["a", "b", "c"]}),
                     ("numbers", {"classlabels_int64s": [1, 2, 3]})):
        case = ml(f"zip_map_{name}", "ZipMap", [x], at)
        case.expected = [x]
        yield case


def features():
    """Scalers and encoders of numbers."""
    x = floats(4, 3, low=-3, high=3)
    for norm in ("MAX", "L1", "L2"):
        rows = x.copy()
        rows[1] = 0
        yield ml(f"normalizer_{norm.lower()}", "Normalizer", [rows], {"norm": norm})
        yield ml(f"normalizer_{norm.lower()}_int64", "Normalizer", [ints(-3, 4, (3, 3))],
                 {"norm": norm})
    yield ml("scaler", "Scaler", [x], {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 2.0, 3.0]})
    yield ml("scaler_one", "Scaler", [x], {"offset": [1.0], "scale": [0.5]})
    yield ml("scaler_int64", "Scaler", [ints(-3, 4, (3, 3))], {"offset": [1.0], "scale": [0.5]})
    yield ml("binarizer", "Binarizer", [x], {"threshold": 0.5})
    gaps = x.copy()
    gaps[0, 1] = gaps[2, 2] = NAN
    yield ml("imputer_nan", "Imputer", [gaps], {"imputed_value_floats": [1.0, 2.0, 3.0],
                                                "replaced_value_float": NAN})
    yield ml("imputer_one", "Imputer", [gaps], {"imputed_value_floats": [1.5],
                                                "replaced_value_float": NAN})
    yield ml("imputer_int64", "Imputer", [ints(0, 3, (4, 3))],
             {"imputed_value_int64s": [7, 8, 9], "replaced_value_int64": 1})
    yield ml("extractor", "ArrayFeatureExtractor", [x, i64(2, 0)])
    yield ml("extractor_vector", "ArrayFeatureExtractor", [x[0], i64(2, 0)])
    yield ml("extractor_cube", "ArrayFeatureExtractor", [f32(2, 2, 3), i64(1)])
    yield ml("vectorizer", "FeatureVectorizer", [x, floats(4, 2)], {"inputdimensions": [3, 2]})
    for dtype in (np.int64, F32):
        yield ml(f"one_hot_{np.dtype(dtype).name}", "OneHotEncoder",
                 [np.array([2, 5, 3], dtype)], {"cats_int64s": [5, 2, 7]})
    yield ml("one_hot_matrix", "OneHotEncoder", [i64(2, 5, 3, 7).reshape(2, 2)],
             {"cats_int64s": [5, 2, 7]})
    yield ml("one_hot_strict", "OneHotEncoder", [i64(2, 5, 7)],
             {"cats_int64s": [5, 2, 7], "zeros": 0})
    yield ml("one_hot_text", "OneHotEncoder", [np.array(["b", "x"], object)],
             {"cats_strings": ["a", "b"]})


def labels():
    """Encoders of labels."""
    words, numbers = np.array([["b", "x"], ["a", "b"]], object), i64(1, 0, 7, 2)
    categories = {"cats_int64s": [2, 0, 1], "cats_strings": ["c", "a", "b"]}
    yield ml("category_mapper_text", "CategoryMapper", [words], categories)
    yield ml("category_mapper_numbers", "CategoryMapper", [numbers], categories)
    yield ml("category_mapper_text_default", "CategoryMapper", [words],
             categories | {"default_int64": 9})
    yield ml("category_mapper_numbers_default", "CategoryMapper", [numbers],
             categories | {"default_string": "?"})
    yield ml("label_encoder_1_text", "LabelEncoder", [words],
             {"classes_strings": ["a", "b"], "default_int64": 4})
    yield ml("label_encoder_1_numbers", "LabelEncoder", [numbers],
             {"classes_strings": ["a", "b"], "default_string": "?"})
    for name, keys, values in (("numbers_text", {"keys_int64s": [1, 2]},
                                {"values_strings": ["a", "b"]}),
                               ("numbers_floats", {"keys_int64s": [1, 2]},
                                {"values_floats": [0.5, 1.5]}),
                               ("numbers", {"keys_int64s": [1, 2]}, {"values_int64s": [7, 8]})):
        yield ml(f"label_encoder_2_{name}", "LabelEncoder", [numbers], keys | values, opset=2)
    yield ml("label_encoder_2_text", "LabelEncoder", [words],
             {"keys_strings": ["a", "b"], "values_int64s": [7, 8]}, opset=2)
    yield ml("label_encoder_2_floats", "LabelEncoder", [np.array([0.5, NAN], F32)],
             {"keys_floats": [0.5, NAN], "values_strings": ["a", "b"]}, opset=2)
    yield ml("label_encoder_2_twice", "LabelEncoder", [numbers],
             {"keys_int64s": [1, 1], "values_int64s": [7, 8]}, opset=2)
