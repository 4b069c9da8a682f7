"""PyTorch's samples of its own operators (OpInfo) beside eager, interpreted, in f32, i64 and bool: none may be wrong. Operators that Heddle does
not support are counted.

Tried is the first sample of every sixth operator; `HEDDLE_OPINFO=all` tries all samples of all operators, `HEDDLE_OPINFO=FIRST:STEP:SAMPLES`
another selection. The selection is tried in parts, which pytest-xdist gives to its processes. `pytest -s` prints the counts."""

import os
import time
import warnings
from collections import Counter
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from test_aten import Calls, same  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import heddle  # noqa: E402

DTYPES = (torch.float32, torch.int64, torch.bool)
PARTS = 16
# Memory that nothing has written.
UNWRITTEN = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
# Operators that give places, which may be others among equal elements, with the position of the axis among their arguments.
PLACES = {"argsort": 1, "kthvalue": 2, "median": 1, "mode": 1, "sort": 1, "topk": 2}


def selection():
    asked = os.environ.get("HEDDLE_OPINFO", "0:6:1")
    first, step, samples = (0, 1, 1 << 30) if asked == "all" else map(int, asked.split(":"))
    return op_db[first::step], samples


class Shapes:
    """Compares types and shapes only."""

    @staticmethod
    def holds(_):
        return True


def compare(info, function, args, kwargs, found, wanted, draws):
    if info.name in UNWRITTEN or is_drawn(function, args, kwargs, wanted, seeds=16 if draws else 1):
        return same(found, wanted, Shapes)
    found, wanted = pytree.tree_leaves(found), pytree.tree_leaves(wanted)
    if info.name in PLACES and wanted[-1].dtype == torch.int64 and (info.name == "argsort" or len(wanted) == 2):
        compare_places(info, args, kwargs, found.pop(), wanted.pop())
    try:
        same(found, wanted, None)
    except AssertionError:
        # Sums in another order round otherwise.
        if not is_as_exact(found, wanted, function, args, kwargs):
            raise


def is_drawn(function, args, kwargs, wanted, seeds):
    """True if results differ from seed to seed. An operator that draws may give the same for all, as where nothing is dropped."""
    for seed in range(1, seeds + 1):
        torch.manual_seed(seed)
        # OpInfo gives some operators a seed of its own.
        with mock.patch.object(torch, "manual_seed"):
            again = function(*pytree.tree_map(copied, args), **kwargs)
        if not agree(again, wanted):
            return True
    return False


def compare_places(info, args, kwargs, found, wanted):
    """The same elements lie at the places, and no place is there twice along the axis."""
    same(found, wanted, None if kwargs.get("stable") else Shapes)
    x, at = args[0], PLACES[info.name]
    axis = args[at] if len(args) > at else kwargs.get("dim", -1)
    if x.dim() == 0:
        x, found, wanted, axis = x[None], found[None], wanted[None], 0
    if found.dim() < x.dim():
        found, wanted = found.unsqueeze(axis), wanted.unsqueeze(axis)
    assert bool(((found >= 0) & (found < x.shape[axis])).all()), f"places {found} of {x.shape[axis]} elements"
    lies = [torch.take_along_dim(x, places, axis) for places in (found, wanted)]
    torch.testing.assert_close(*lies, rtol=0, atol=0, equal_nan=True)
    assert bool((found.sort(axis).values.diff(dim=axis) > 0).all()), f"places {found} are not distinct"


def is_as_exact(found, wanted, function, args, kwargs):
    """True if results are at most twice as far as PyTorch's own from those that it computes in f64."""
    args, kwargs = pytree.tree_map(lambda a: a.double() if isinstance(a, torch.Tensor) and a.dtype == torch.float32 else a, (args, kwargs))
    try:
        exact = function(*args, **kwargs)
    except RuntimeError:
        return False
    leaves = [pytree.tree_leaves(r) for r in (found, wanted, exact)]
    return len(leaves[0]) == len(leaves[1]) and all(agree(a, b) or is_nearer(a, b, exact) for a, b, exact in zip(*leaves))


def is_nearer(a, b, exact):
    if not all(isinstance(t, torch.Tensor) for t in (a, b, exact)) or not a.shape == b.shape == exact.shape:
        return False
    if [t.dtype for t in (a, b, exact)] != [torch.float32, torch.float32, torch.float64]:
        return False
    return bool((a - exact).abs().max() <= 2 * (b - exact).abs().max())


def agree(a, b):
    try:
        same(a, b, None)
    except AssertionError:
        return False
    return True


def detached(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def calls(info, dtype, limit):
    """Calls of an operator."""
    torch.manual_seed(0)
    try:
        samples = iter(info.sample_inputs("cpu", dtype, requires_grad=False))
    except (RuntimeError, NotImplementedError, AssertionError):
        return
    for _ in range(limit):
        try:
            sample = next(samples, None)
        except (RuntimeError, NotImplementedError, AssertionError):
            return
        if sample is None:
            return
        yield pytree.tree_map(detached, ((sample.input, *sample.args), dict(sample.kwargs)))


@pytest.mark.parametrize("part", range(PARTS))
def test_samples_of_pytorch(part):
    selected, limit = selection()
    operators = selected[part::PARTS]
    right, wrong, left, began = 0, [], Counter(), time.monotonic()
    warnings.simplefilter("ignore")
    for info in operators:
        for dtype in DTYPES:
            if not info.supports_dtype(dtype, "cpu"):
                continue
            for number, (args, kwargs) in enumerate(calls(info, dtype, limit)):
                name = f"{info.name}{'.' + info.variant_test_name if info.variant_test_name else ''} {dtype} {number}"
                torch.manual_seed(0)
                try:
                    wanted = info.op(*pytree.tree_map(copied, args), **kwargs)
                except Exception:
                    # PyTorch refuses this sample outside of its own tests.
                    continue
                try:
                    program = heddle.compile(Calls(info.op), [(args, kwargs)], device="interp")
                    found = program([(args, kwargs)])[0]
                except heddle.Unsupported:
                    left[info.name] += 1
                    continue
                except Exception as error:
                    wrong.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
                    continue
                try:
                    compare(info, info.op, args, kwargs, found, wanted, program.trace.random is not None)
                    right += 1
                except AssertionError as error:
                    wrong.append(f"{name}: {str(error)[:300]}")
    print(f"\n{right} calls right, {len(wrong)} wrong, {sum(left.values())} calls of {len(left)} operators not supported, {time.monotonic() - began:.0f} s")
    print(", ".join(f"{name} {count}" for name, count in left.most_common()))
    assert not wrong, "\n".join(wrong)
    # A part of few operators may hold none that Heddle supports.
    assert right >= len(operators) or len(selected) < 4 * PARTS


def copied(value):
    return value.clone() if isinstance(value, torch.Tensor) else value
