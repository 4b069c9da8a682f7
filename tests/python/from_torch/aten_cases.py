"""A case for each overload of ATen's core set. A case makes the arguments for a size `n`; what PyTorch itself refuses for a size is left out."""

from __future__ import annotations

import torch

aten = torch.ops.aten
CASES = {}


class Drawn:
    """A result that is drawn, of which only type, shape and what `holds` says can be compared."""

    def __init__(self, holds):
        self.holds = holds


def of(*names, call=None, drawn=None):
    """Cases of overloads. `call(overload)` is the function that is run instead of the overload itself."""

    def add(make):
        for name in names:
            assert name not in CASES, name
            CASES[name] = (make, call, drawn)
        return make

    return add


def overloads():
    """The overloads of the core set, by name."""
    names = {schema.name.split("::")[1] for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")}
    found = {}
    for name in sorted(names):
        packet = getattr(aten, name, None)
        for overload in [] if packet is None else packet.overloads():
            op = getattr(packet, overload)
            if torch.Tag.core in op.tags:
                found[f"{name}.{overload}"] = op
    return found


# Arrays

def gen(seed):
    return torch.Generator().manual_seed(seed)


def x(*shape, seed=0):
    """Numbers of both signs, none of which is near to a step of a function."""
    made = torch.randn(*shape, generator=gen(seed)) * 1.7
    return torch.where((made * 2).round().sub(made * 2).abs() < 0.02, made + 0.03, made)


def inside(*shape, seed=0):
    """Numbers in (-0.95, 0.95)."""
    return torch.rand(*shape, generator=gen(seed)) * 1.9 - 0.95


def positive(*shape, seed=0):
    return torch.rand(*shape, generator=gen(seed)) * 3 + 0.1


def ints(*shape, low=-9, high=10, seed=0):
    return torch.randint(low, high, shape, generator=gen(seed))


def bools(*shape, seed=0):
    return torch.rand(*shape, generator=gen(seed)) < 0.5


def distinct(*shape, seed=0):
    """Numbers none of which occurs twice."""
    count = 1
    for size in shape:
        count *= size
    return (torch.randperm(count, generator=gen(seed)).float() * 0.37 - 2.05).reshape(shape)


def nonzero(t):
    return torch.where(t == 0, torch.full_like(t, 3), t)


# Elementwise

@of(
    "abs.default", "atan.default", "asinh.default", "ceil.default", "cos.default", "cosh.default", "erf.default", "exp.default", "expm1.default",
    "floor.default", "gelu.default", "hardtanh.default", "leaky_relu.default", "elu.default", "neg.default", "relu.default", "round.default",
    "sigmoid.default", "sign.default", "sin.default", "sinh.default", "tan.default", "tanh.default", "trunc.default", "reciprocal.default",
)
def _(n):
    return [(x(n, 3),), (x(n, seed=1),), (x(2, n, 3, seed=2),)]


@of("acos.default", "asin.default", "atanh.default")
def _(n):
    return [(inside(n, 3),), (inside(n, seed=1),)]


@of("log.default", "log10.default", "log2.default", "rsqrt.default", "sqrt.default")
def _(n):
    return [(positive(n, 3),), (positive(n, seed=1),), (ints(n, low=1),)]


@of("log1p.default")
def _(n):
    return [(inside(n, 3),), (positive(n),)]


@of("acosh.default")
def _(n):
    return [(positive(n, 3) + 1,)]


@of("isinf.default", "isnan.default")
def _(n):
    odd = torch.tensor([float("inf"), float("-inf"), float("nan"), 1.5])
    return [(odd.repeat(n),), (x(n, 3),), (ints(n),)]


@of("bitwise_not.default", "logical_not.default")
def _(n):
    return [(ints(n, 3),), (bools(n),), (ints(n).to(torch.int32),), (ints(n).to(torch.uint8),)]


@of("add.Tensor", "sub.Tensor")
def _(n):
    return [
        (x(n, 3), x(n, 3, seed=1)), (x(n, 3), x(3, seed=1), {"alpha": 0.5}), (ints(n), ints(n, seed=1), {"alpha": 3}), (ints(n), x(n)),
        (x(n, 1), x(1, n, seed=1)), (x(n).double(), x(n)),
    ]


@of("add.Scalar", "sub.Scalar")
def _(n):
    return [(x(n, 3), 2), (x(n), 0.25, 2), (ints(n), 3), (ints(n), 0.5)]


@of("mul.Tensor", "maximum.default", "minimum.default")
def _(n):
    return [(x(n, 3), x(n, 3, seed=1)), (x(n, 3), x(3, seed=1)), (ints(n), ints(n, seed=1)), (ints(n), x(n)), (bools(n), bools(n, seed=1))]


@of("div.Tensor")
def _(n):
    return [(x(n, 3), x(n, 3, seed=1)), (ints(n), nonzero(ints(n, seed=1))), (x(n, 3), x(3, seed=1))]


@of("div.Scalar", "mul.Scalar")
def _(n):
    return [(x(n, 3), 2), (x(n), 0.3), (ints(n), 3)]


@of("div.Tensor_mode")
def _(n):
    whole = nonzero(ints(n, seed=1))
    return [
        (a, b, {"rounding_mode": mode}) for mode in (None, "trunc", "floor") for a, b in ((x(n, 3), x(n, 3, seed=1)), (ints(n), whole))
    ]


@of("div.Scalar_mode")
def _(n):
    return [(a, b, {"rounding_mode": mode}) for mode in (None, "trunc", "floor") for a, b in ((x(n, 3), 0.7), (ints(n), -4))]


@of("fmod.Tensor", "remainder.Tensor")
def _(n):
    return [(x(n, 3), x(n, 3, seed=1)), (ints(n), nonzero(ints(n, seed=1))), (x(n, 3), x(3, seed=1))]


@of("fmod.Scalar", "remainder.Scalar")
def _(n):
    return [(x(n, 3), 0.7), (x(n), -2), (ints(n), 4), (ints(n), -4)]


@of("atan2.default")
def _(n):
    return [(x(n, 3), x(n, 3, seed=1)), (ints(n), ints(n, seed=1)), (torch.zeros(n), x(n))]


@of("atan2.out", call=lambda op: lambda a, b: op(a, b, out=torch.empty_like(a)))
def _(n):
    return [(x(n, 3), x(n, 3, seed=1))]


@of("pow.Tensor_Tensor")
def _(n):
    return [(positive(n, 3), x(n, 3)), (positive(n, 3), x(3)), (ints(n, low=-4, high=5), ints(n, low=0, high=7, seed=1))]


@of("pow.Tensor_Scalar")
def _(n):
    return [(positive(n, 3), 1.5), (x(n), 2), (x(n), 3), (positive(n), -0.5), (ints(n), 3), (ints(n), 0), (positive(n), 0.5)]


@of("pow.Scalar")
def _(n):
    return [(2.5, x(n, 3)), (2, ints(n, low=0)), (1, x(n))]


@of("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor")
def _(n):
    return [(ints(n, 3), ints(n, 3, seed=1)), (ints(n, 3), ints(3, seed=1)), (bools(n), bools(n, seed=1)), (ints(n).to(torch.int32), ints(n))]


@of("bitwise_and.Scalar", "bitwise_or.Scalar", "bitwise_xor.Scalar")
def _(n):
    return [(ints(n, 3), 5), (ints(n), -3), (bools(n), True)]


@of("logical_and.default", "logical_or.default", "logical_xor.default")
def _(n):
    return [(bools(n, 3), bools(n, 3, seed=1)), (ints(n, low=0, high=2), ints(n, low=0, high=3, seed=1)), (x(n), ints(n, low=0, high=2))]


@of("eq.Tensor", "ne.Tensor", "lt.Tensor", "le.Tensor", "gt.Tensor", "ge.Tensor")
def _(n):
    some = ints(n, 3, low=0, high=3)
    return [(some, ints(n, 3, low=0, high=3, seed=1)), (some.float(), ints(3, low=0, high=3)), (bools(n), bools(n, seed=1)), (x(n), x(n, seed=1))]


@of("eq.Scalar", "ne.Scalar", "lt.Scalar", "le.Scalar", "gt.Scalar", "ge.Scalar")
def _(n):
    return [(ints(n, 3, low=0, high=3), 1), (ints(n, low=0, high=3), 0.5), (x(n), 0.1), (bools(n), True)]


@of("clamp.default")
def _(n):
    return [(x(n, 3), -0.5, 0.7), (x(n), None, 0.2), (x(n), 0.2), (ints(n), -3, 4), (ints(n), 0.5)]


@of("clamp.Tensor")
def _(n):
    return [(x(n, 3), x(n, 3, seed=1), x(n, 3, seed=2)), (x(n, 3), x(3, seed=1)), (x(n, 3), None, x(n, 1, seed=1)), (ints(n), ints(n, seed=1))]


@of("where.self")
def _(n):
    return [(bools(n, 3), x(n, 3), x(n, 3, seed=1)), (bools(n, 1), x(3), x(n, 1)), (bools(n), ints(n), x(n))]


@of("scalar_tensor.default")
def _(n):
    return [(2.5,), (3, {"dtype": torch.int64}), (True, {"dtype": torch.bool})]


@of("_to_copy.default")
def _(n):
    kinds = (torch.int64, torch.bool, torch.float64, torch.float32, torch.int8)
    return [(a, {"dtype": to}) for to in kinds for a in (x(n, 3), ints(n), bools(n))]


@of("alias.default", "clone.default")
def _(n):
    return [(x(n, 3),), (ints(n),), (bools(n),)]


@of("copy.default")
def _(n):
    return [(x(n, 3), x(n, 3, seed=1)), (x(n, 3), ints(3)), (ints(n), x(n))]


@of("fill.Scalar")
def _(n):
    return [(x(n, 3), 2.5), (ints(n), 3), (bools(n), True)]


# Creation

@of("arange.start_step")
def _(n):
    return [(0, n), (1, 2 * n + 1, 2), (n, -1, -1), (0.5, n + 0.5, 0.5), (0, n, 1, {"dtype": torch.float32})]


@of("full.default")
def _(n):
    return [([n, 3], 2.5), ([n], 3), ([n], True), ([2, n], 1, {"dtype": torch.float64})]


@of("full_like.default")
def _(n):
    return [(x(n, 3), 2.5), (ints(n), 3), (x(n), 1, {"dtype": torch.int64})]


@of("empty.memory_format", drawn=Drawn(lambda t: True))
def _(n):
    return [([n, 3],), ([n], {"dtype": torch.int64})]


@of("empty_strided.default", drawn=Drawn(lambda t: True))
def _(n):
    return [([n, 3], [3, 1]), ([n], [1], {"dtype": torch.int64})]


@of("rand.default", drawn=Drawn(lambda t: bool(((t >= 0) & (t < 1)).all()) and (t.numel() < 30 or 0.2 < float(t.mean()) < 0.8)))
def _(n):
    return [([n, 31],), ([n], {"dtype": torch.float64})]


@of("randn.default", drawn=Drawn(lambda t: bool((t.abs() < 7).all()) and (t.numel() < 30 or 0.5 < float(t.std()) < 1.5)))
def _(n):
    return [([n, 31],), ([n], {"dtype": torch.float64})]


@of("randperm.default", drawn=Drawn(lambda t: t.sort().values.tolist() == list(range(len(t)))))
def _(n):
    return [(n,), (n, {"dtype": torch.int32})]


@of("native_dropout.default", drawn=Drawn(lambda t: t.dtype == torch.bool or bool(((t == 0) | ((t - 4).abs() < 1e-5)).all())))
def _(n):
    # PyTorch's mask of no elements is one of floats.
    return [(torch.full((n, 31), 3.0), 0.25, True)] if n else []


# Sizes

@of("sym_size.int", "sym_stride.int")
def _(n):
    return [(x(n, 3), 0), (x(n, 3), 1), (x(n, 3), -1)]


@of("sym_numel.default", "sym_storage_offset.default", "sym_is_contiguous.default")
def _(n):
    return [(x(n, 3),)]


@of("_local_scalar_dense.default")
def _(n):
    return [(torch.tensor(n),), (torch.tensor([n]),)]


# Shapes

@of("view.default")
def _(n):
    return [(x(n, 6), [n, 2, 3]), (x(n, 6), [n * 6]), (x(2, n), [-1, 2, n] if n else [0, 2, n]), (x(n, 6), [-1, 3])]


@of("expand.default")
def _(n):
    return [(x(n, 1), [n, 4]), (x(n, 1), [2, -1, 3]), (x(3), [n, 3]), (ints(1), [n])]


@of("permute.default")
def _(n):
    return [(x(n, 3, 2), [2, 0, 1]), (x(n, 3), [-1, 0])]


@of("repeat.default")
def _(n):
    return [(x(n, 3), [2, 1]), (x(n), [2, 3]), (x(2), [n]), (x(n, 3), [0, 2])]


@of("unsqueeze.default")
def _(n):
    return [(x(n, 3), 0), (x(n, 3), -1), (x(n), 1)]


@of("squeeze.dim")
def _(n):
    return [(x(n, 1, 3), 1), (x(1, n), 0), (x(n, 3), 1), (x(n, 1), -1)]


@of("squeeze.dims")
def _(n):
    return [(x(n, 1, 3, 1), [1, 3]), (x(1, 1, n), [0]), (x(n, 3), [1])]


@of("select.int")
def _(n):
    return [(x(n, 3), 1, 2), (x(3, n), 0, -1), (x(n, 3), 0, 0), (x(n, 3), 0, n - 1)]


@of("slice.Tensor")
def _(n):
    return [
        (x(n, 5), 1, 1, 4), (x(n, 5), 1, -3, None, 2), (x(n), 0, 0, 3), (x(n), 0, -2, None), (x(n), 0, 2, 9223372036854775807, 3), (x(n), 0, 1, -1),
    ]


@of("diagonal.default")
def _(n):
    return [(x(n, n),), (x(n, 4), 1), (x(2, n, 5), -1, 1, 2), (x(n, 3, 4), 0, 1, 2)]


@of("flip.default")
def _(n):
    return [(x(n, 3), [0]), (x(n, 3), [0, 1]), (ints(n), [-1])]


@of("cat.default")
def _(n):
    return [([x(n, 3), x(2, 3, seed=1)],), ([x(2, n), x(2, 3), x(2, n, seed=2)], 1), ([ints(n), x(n)],), ([x(n, 3)], -1)]


@of("split_with_sizes.default")
def _(n):
    return [(x(n, 7), [2, 4, 1], 1), (x(n), [n, 0]), (x(2, n), [1, 1])]


@of("constant_pad_nd.default")
def _(n):
    return [(x(n, 3), [1, 2], 1.5), (x(2, n), [1, 0, 0, 2]), (x(n, 5), [-1, -2]), (ints(n), [2, 1], 7)]


@of("reflection_pad1d.default")
def _(n):
    return [(x(n, 3, 5), [2, 1]), (x(3, n), [1, 2])]


@of("reflection_pad2d.default", "replication_pad2d.default")
def _(n):
    return [(x(n, 2, 4, 5), [2, 1, 1, 3]), (x(2, n, 3), [0, 1, 2, 1])]


@of("reflection_pad3d.default", "replication_pad3d.default")
def _(n):
    return [(x(n, 2, 3, 4, 5), [2, 1, 1, 3, 1, 2]), (x(2, n, 3, 4), [0, 1, 2, 1, 1, 0])]


@of("as_strided.default")
def _(n):
    return [(x(n, 6), [n, 3], [6, 2]), (x(n, 6), [n, 2, 3], [6, 3, 1]), (x(n, 6), [n, 5], [6, 1], 1), (x(12), [3, 2], [4, 1], 2)]


@of("resize_.default", call=lambda op: lambda a, size: op(a.clone(), size))
def _(n):
    return [(x(n, 6), [n, 3]), (x(n, 6), [2, n]), (x(n, 6), [n, 2, 3])]


# Reductions

@of("amax.default", "amin.default")
def _(n):
    return [(x(n, 3), [1]), (x(n, 3), [0]), (x(n, 3), [0, 1], True), (ints(n, 2), [-1]), (x(n, 3),)]


@of("any.default")
def _(n):
    return [(bools(n, 3),), (ints(n, low=0, high=2),), (x(n),)]


@of("any.dim")
def _(n):
    return [(bools(n, 3), 1), (bools(n, 3), 0, True), (ints(n, low=0, high=2), 0), (x(n, 2), -1)]


@of("any.dims")
def _(n):
    return [(bools(n, 3), [1]), (bools(n, 3), [0, 1], True), (ints(n, 2, 3, low=0, high=2), [0, 2]), (bools(n, 3), None)]


@of("argmax.default", "argmin.default")
def _(n):
    return [(distinct(n, 3),), (distinct(n, 3), 1), (distinct(n, 3), 0), (distinct(n, 3), -1, True), (torch.ones(n, 3), 1)]


@of("max.dim", "min.dim")
def _(n):
    return [(distinct(n, 3), 1), (distinct(n, 3), 0), (distinct(2, n, 3), -1, True), (torch.ones(n, 3), 1)]


@of("mean.default")
def _(n):
    return [(x(n, 3),), (x(n).double(),), (ints(n), {"dtype": torch.float32})]


@of("mean.dim")
def _(n):
    return [(x(n, 3), [1]), (x(n, 3), [0], True), (x(n, 2, 3), [-1, 0]), (x(n, 3), None)]


@of("prod.default")
def _(n):
    return [(inside(n, 3),), (ints(n, low=1, high=3),), (bools(n),)]


@of("prod.dim_int")
def _(n):
    return [(inside(n, 3), 1), (inside(n, 3), 0, True), (ints(2, n, low=1, high=3), -1)]


@of("sum.dim_IntList")
def _(n):
    return [(x(n, 3), [1]), (x(n, 3), [0], True), (ints(n, 2, 3), [-1, 0]), (bools(n, 3), [0]), (x(n, 3), None), (x(n, 3), [1], {"dtype": torch.float64})]


@of("var.dim")
def _(n):
    return [(x(n, 3), [1]), (x(n, 3), [0], False), (x(n, 3, 4), [1, 2], True, True), (x(n, 3), None)]


@of("var.correction")
def _(n):
    return [(x(n, 3), [1]), (x(n, 3), [0], {"correction": 0}), (x(n, 3, 4), [1, 2], {"correction": 2, "keepdim": True}), (x(n, 3),)]


@of("cumsum.default")
def _(n):
    return [(x(n, 3), 0), (x(n, 3), -1), (ints(n), 0), (bools(n), 0), (x(n), 0, {"dtype": torch.float64})]


@of("_softmax.default", "_log_softmax.default")
def _(n):
    return [(x(n, 3), 1, False), (x(n, 3), 0, False), (x(2, n, 3), -2, False), (x(n), 0, False)]


# Order

@of("sort.default")
def _(n):
    return [(distinct(n),), (distinct(n, 3), 0), (distinct(n, 3), 1, True), (torch.randperm(n, generator=gen(3)), 0)]


@of("topk.default")
def _(n):
    return [(distinct(n, 5), 3), (distinct(n), min(n, 3)), (distinct(5, n), 2, 0), (distinct(n, 5), 2, 1, False)]


# Products

@of("mm.default")
def _(n):
    return [(x(n, 3), x(3, 4, seed=1)), (x(2, n), x(n, 3, seed=1)), (x(3, 2), x(2, n, seed=1)), (ints(n, 3), ints(3, 2, seed=1))]


@of("bmm.default")
def _(n):
    return [(x(n, 2, 3), x(n, 3, 4, seed=1)), (x(2, n, 3), x(2, 3, n, seed=1)), (x(2, 3, n), x(2, n, 4, seed=1))]


@of("addmm.default")
def _(n):
    return [
        (x(4), x(n, 3), x(3, 4, seed=1)), (x(n, 4), x(n, 3), x(3, 4, seed=1), {"beta": 0.5, "alpha": 2}), (x(3), x(2, n), x(n, 3, seed=1)),
        (ints(2), ints(n, 3), ints(3, 2), {"beta": 2, "alpha": 3}),
    ]


@of("_cdist_forward.default")
def _(n):
    return [(x(n, 3), x(4, 3, seed=1), p, mode) for p, mode in ((2.0, None), (1.0, None), (0.0, 2), (3.0, None), (float("inf"), 1))] + [
        (x(2, n, 3), x(2, 5, 3, seed=1), 2.0, 1), (x(2, n), x(3, n), 2.0, None),
    ]


@of("_pdist_forward.default")
def _(n):
    return [(x(n, 3), 2.0), (x(n, 4), 1.0), (x(n, 3), 3.0), (x(n, 3), float("inf"))]


# Indices

def places(n, *shape, seed=0):
    """Indices below n."""
    return ints(*shape, low=0, high=max(n, 1), seed=seed)


@of("embedding.default")
def _(n):
    return [(x(7, 3), places(7, n)), (x(7, 3), places(7, n, 2), 1), (x(n, 3), places(n, 4)), (x(7, 3), places(7, n).int())]


@of("embedding_dense_backward.default")
def _(n):
    return [(x(n, 3), places(7, n), 7, -1, False), (x(n, 2, 3), places(7, n, 2), 7, 2, False), (x(n, 3), places(5, n), 5, -1, True)]


@of("_embedding_bag.default", call=lambda op: lambda *args: op(*args)[0])
def _(n):
    bags = torch.arange(n) * 2
    some = places(7, 2 * n)
    return [
        (x(7, 3), some, bags), (x(7, 3), some, bags, False, 1), (x(7, 3), some, bags, False, 2), (x(7, 3), some, bags, False, 0, False, positive(2 * n)),
        (x(7, 3), some, bags, False, 0, False, None, False, 3), (x(7, 3), some, bags, False, 1, False, None, False, 3),
        (x(7, 3), some, torch.cat([bags, torch.tensor([2 * n])]), False, 1, False, None, True),
        (x(7, 3), some, bags, False, 2, False, None, False, 3), (x(7, 3), some.int(), bags.int()),
    ]


@of("gather.default")
def _(n):
    return [(x(n, 3), 1, places(3, n, 2)), (x(5, 3), 0, places(5, n, 3)), (x(n), 0, places(n, 4)), (x(n, 3), -1, places(3, n, 1))]


@of("index.Tensor")
def _(n):
    return [
        (x(5, 3), [places(5, n)]), (x(5, 3), [None, places(3, n)]), (x(5, 3, 4), [places(5, n), None, places(4, n, seed=1)]), (x(n, 3), [bools(n)]),
        (x(5, 4), [places(5, n, 1), places(4, 1, n)]), (x(n, 3), [places(n, 2)]), (x(5, 3), [places(5, n) - 5]),
    ]


@of("index_put.default")
def _(n):
    rows = torch.randperm(7, generator=gen(1))[: min(n, 7)]
    return [
        (x(7, 3), [rows], x(len(rows), 3)), (x(7, 3), [places(7, n)], x(n, 3), True), (x(7, 3), [None, places(3, 1)], x(1)),
        (x(n, 3), [bools(n)], torch.tensor(2.5)), (ints(7), [places(7, n)], ints(n), True),
    ]


@of("index_select.default")
def _(n):
    return [(x(5, 3), 0, places(5, n)), (x(n, 3), 1, places(3, 4)), (x(n), 0, places(n, 2)), (x(5, 3), -1, places(3, n).int())]


@of("masked_scatter.default")
def _(n):
    return [(x(n, 3), bools(n, 3), x(n * 3, seed=1)), (x(n), bools(n), x(n + 2, seed=1)), (x(n, 3), bools(n, 1), x(n, 3, seed=1))]


@of("nonzero.default")
def _(n):
    return [(bools(n, 3),), (ints(n, low=0, high=2),), (torch.zeros(n, 2),)]


def once(rows, columns, n):
    """Indices of a column, none twice."""
    return torch.stack([torch.randperm(rows, generator=gen(i))[:n] for i in range(columns)], 1) if columns else torch.zeros(n, 0, dtype=torch.int64)


@of("scatter.src")
def _(n):
    k = min(n, 7)
    return [(x(7, 3), 0, once(7, 3, k), x(k, 3, seed=1)), (x(n, 3), 1, torch.arange(3).expand(n, 3), x(n, 3, seed=1))]


@of("scatter.value")
def _(n):
    return [(x(7, 3), 0, places(7, n, 3), 2.5), (x(n, 3), 1, places(3, n, 1), 4), (ints(7), 0, places(7, n), 9)]


@of("scatter_add.default")
def _(n):
    return [(x(7, 3), 0, places(7, n, 3), x(n, 3, seed=1)), (ints(7), 0, places(7, n), ints(n)), (x(n, 3), 1, places(3, n, 2), x(n, 2, seed=1))]


@of("scatter_reduce.two")
def _(n):
    return [
        (x(7, 3), 0, places(7, n, 3), x(n, 3, seed=1), kind, {"include_self": own})
        for kind in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)
    ]


@of("select_scatter.default")
def _(n):
    return [(x(n, 3), x(n, seed=1), 1, 2), (x(n, 3), x(3, seed=1), 0, -1), (x(n, 3), x(n, seed=1), -1, 0)]


@of("slice_scatter.default")
def _(n):
    return [(x(n, 5), x(n, 3, seed=1), 1, 1, 4), (x(n, 5), x(n, 2, seed=1), 1, 0, 5, 3), (x(n), x(n, seed=1)), (x(7), x(2, seed=1), 0, -2)]


# Windows

@of("adaptive_avg_pool1d.default")
def _(n):
    return [(x(n, 2, 7), [3]), (x(2, n, 6), [4]), (x(n, 2, 5), [1])]


@of("_adaptive_avg_pool2d.default")
def _(n):
    return [(x(n, 2, 7, 5), [3, 2]), (x(2, n, 6, 4), [1, 1]), (x(n, 2, 4, 6), [4, 3])]


@of("_adaptive_avg_pool2d_backward.default")
def _(n):
    return [(x(n, 2, 3, 2), x(n, 2, 7, 5)), (x(2, n, 1, 1), x(2, n, 3, 4))]


@of("_adaptive_avg_pool3d.default")
def _(n):
    return [(x(n, 2, 4, 5, 3), [2, 3, 1]), (x(2, n, 3, 3, 3), [1, 1, 1])]


@of("avg_pool1d.default")
def _(n):
    return [(x(n, 2, 7), [3]), (x(n, 2, 7), [3], [2], [1]), (x(2, n, 7), [2], [2], [1], True, False)]


@of("avg_pool2d.default")
def _(n):
    return [(x(n, 2, 7, 6), [3, 2]), (x(n, 2, 7, 7), [3], [2], [1], True), (x(2, n, 5, 7), [2, 3], [2, 1], [1, 1], False, False), (x(n, 2, 5, 5), [2], [2], [0], False, True, 3)]


@of("avg_pool2d_backward.default")
def _(n):
    return [(x(n, 2, 3, 3), x(n, 2, 6, 6, seed=1), [2, 2], [2, 2], [0, 0], False, True, None), (x(n, 2, 4, 4), x(n, 2, 7, 7), [3, 3], [2, 2], [1, 1], False, False, None)]


@of("avg_pool3d.default")
def _(n):
    return [(x(n, 2, 4, 5, 4), [2, 3, 2]), (x(n, 2, 5, 5, 5), [3], [2], [1], True, False)]


@of("max_pool2d_with_indices.default")
def _(n):
    return [(distinct(n, 2, 6, 5), [2, 3]), (distinct(n, 2, 7, 7), [3], [2], [1]), (distinct(2, n, 7, 7), [2, 2], [2, 2], [0, 0], [2, 1], True)]


@of("max_pool2d_with_indices_backward.default")
def _(n):
    def one(shape, *window):
        data = distinct(*shape)
        made, at = aten.max_pool2d_with_indices(data, *window)
        return (x(*made.shape, seed=1), data, *window, at)

    return [one((n, 2, 6, 6), [2, 2], [2, 2], [0, 0], [1, 1], False), one((n, 2, 7, 7), [3, 3], [2, 2], [1, 1], [1, 1], False)]


@of("max_pool3d_with_indices.default")
def _(n):
    return [(distinct(n, 2, 4, 5, 4), [2, 3, 2]), (distinct(n, 2, 5, 5, 5), [3], [2], [1])]


@of("convolution.default")
def _(n):
    def conv(data, weight, bias, stride, pad, dilation, transposed, out, groups):
        return (data, weight, bias, stride, pad, dilation, transposed, out, groups)

    return [
        conv(x(n, 3, 9), x(4, 3, 3, seed=1), x(4), [1], [1], [1], False, [0], 1),
        conv(x(n, 4, 7, 6), x(6, 2, 3, 2, seed=1), None, [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
        conv(x(n, 3, 5, 5), x(3, 2, 3, 3, seed=1), x(2), [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
        conv(x(n, 2, 4, 5, 4), x(3, 2, 2, 2, 2, seed=1), x(3), [1, 1, 1], [0, 1, 0], [1, 1, 1], False, [0, 0, 0], 1),
        conv(x(2, 3, n), x(4, 3, 1, seed=1), x(4), [1], [0], [1], False, [0], 1),
    ]


@of("convolution_backward.default")
def _(n):
    return [
        (x(n, 4, 9, seed=2), x(n, 3, 9), x(4, 3, 3, seed=1), [4], [1], [1], [1], False, [0], 1, [True, True, True]),
        (x(n, 4, 3, 3, seed=2), x(n, 2, 6, 6), x(4, 2, 2, 2, seed=1), [4], [2, 2], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False]),
        (x(n, 4, 5, 5, seed=2), x(n, 4, 5, 5), x(4, 2, 3, 3, seed=1), [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 2, [True, True, True]),
        (x(n, 2, 5, 5, seed=2), x(n, 3, 3, 3), x(3, 2, 3, 3, seed=1), [2], [2, 2], [1, 1], [1, 1], True, [0, 0], 1, [True, True, True]),
    ]


@of("col2im.default")
def _(n):
    return [(x(n, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]), (x(n, 8, 4), [5, 5], [2, 2], [1, 1], [0, 0], [2, 2])]


@of("grid_sampler_2d.default")
def _(n):
    return [
        (x(n, 2, 5, 6), inside(n, 3, 4, 2, seed=1) * 1.2, mode, pad, corners)
        for mode, pad, corners in ((0, 0, False), (0, 1, True), (0, 2, False), (1, 0, True), (1, 1, False), (2, 0, False), (2, 1, True))
    ]


@of("upsample_bilinear2d.vec")
def _(n):
    return [(x(n, 2, 3, 4), [5, 7], False, None), (x(n, 2, 3, 4), [5, 7], True, None), (x(n, 2, 4, 4), None, False, [2.0, 1.5])]


@of("upsample_nearest2d.vec")
def _(n):
    return [(x(n, 2, 3, 4), [5, 7], None), (x(n, 2, 4, 4), None, [2.0, 1.5])]


# Normalisation

@of("_native_batch_norm_legit.default", call=lambda op: lambda x, w, b, m, v, *rest: op(x, w, b, m.clone(), v.clone(), *rest))
def _(n):
    return [(x(n, 3, 4), positive(3), x(3), x(3), positive(3), True, 0.1, 1e-5), (x(n, 3), None, None, x(3), positive(3), False, 0.1, 1e-5)]


@of("_native_batch_norm_legit.no_stats")
def _(n):
    return [(x(n, 3, 4), positive(3), x(3), True, 0.1, 1e-5), (x(n + 2, 3), None, None, True, 0.1, 1e-5)]


@of("_native_batch_norm_legit_no_training.default", call=lambda op: lambda *args: op(*args)[0])
def _(n):
    return [(x(n, 3, 4), positive(3), x(3), x(3), positive(3), 0.1, 1e-5), (x(n, 3), None, None, x(3), positive(3), 0.1, 1e-5)]


@of("native_group_norm.default")
def _(n):
    return [(x(n, 4, 5), x(4), x(4), n, 4, 5, 2, 1e-5), (x(n, 6, 2, 3), None, None, n, 6, 6, 3, 1e-5)]


@of("native_group_norm_backward.default")
def _(n):
    def one(weight, mask):
        data = x(n, 4, 5)
        _, mean, rstd = aten.native_group_norm(data, weight, None, n, 4, 5, 2, 1e-5)
        return (x(n, 4, 5, seed=1), data, mean, rstd, weight, n, 4, 5, 2, mask)

    return [one(x(4), [True, True, True]), one(None, [True, False, False])]


@of("native_layer_norm.default")
def _(n):
    return [(x(n, 5), [5], x(5), x(5), 1e-5), (x(n, 2, 5), [2, 5], None, None, 1e-5), (x(3, n + 2), [n + 2], None, None, 1e-5)]


@of("native_layer_norm_backward.default")
def _(n):
    def one(weight, bias, mask):
        data = x(n, 5)
        _, mean, rstd = aten.native_layer_norm(data, [5], weight, bias, 1e-5)
        return (x(n, 5, seed=1), data, [5], mean, rstd, weight, bias, mask)

    return [one(x(5), x(5), [True, True, True]), one(None, None, [True, False, False])]


# Fourier transforms, whose complex numbers are pairs where they begin and end.

@of("_fft_r2c.default", call=lambda op: lambda *args: torch.view_as_real(op(*args)))
def _(n):
    return [(x(n, 7), [1], 0, True), (x(n, 6), [1], 1, False), (x(2, n), [1], 2, True), (x(n, 3, 4), [1, 2], 0, True), (x(n, 4, 3), [0, 2], 0, False)]


@of("_fft_c2r.default", call=lambda op: lambda pairs, *rest: op(torch.view_as_complex(pairs), *rest))
def _(n):
    return [(x(n, 4, 2), [1], 0, 7), (x(n, 4, 2), [1], 2, 6), (x(n, 3, 4, 2), [1, 2], 1, 6), (x(2, n, 2), [1], 0, 2 * n - 1)]
