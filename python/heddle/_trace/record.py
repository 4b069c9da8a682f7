"""Records operators, nested regions and calls while a function runs on fake tensors.

A value is known by the fake tensor that stands for it. A region is a graph of its own: what it reads of the regions around it becomes an
input and an operand. Changes in place are made functional: the tensor that is changed, what it is a view of and all other views of that
stand for new values from then on."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sympy
import torch
from torch._decomp import core_aten_decompositions
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode, UnsupportedOperatorException
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from . import lambdas, views
from .graph import ChangesConstant, Constants, Graph, Place, order_in_memory, scalar, unsupported

aten = torch.ops.aten

RECURRENT = {aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input}
# Operators that Heddle reads whole, where PyTorch would take them apart.
RESIZING = {
    aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec,
}
WHOLE = RECURRENT | RESIZING | {aten.scaled_dot_product_attention.default}
# Checks of sizes and values: Heddle has its own.
_CHECKS = ("aten._assert", "aten.sym_constrain_range")

# Operators that write to other arguments than the first, with the form that gives what is written behind its results.
_FUNCTIONAL = {aten._native_batch_norm_legit.default: (aten._native_batch_norm_legit_functional.default, ("running_mean", "running_var"))}

# What PyTorch says where it has an operator for fixed sizes only.
FIXED_ONLY = ("symbolic sizes/strides", "SymIntArrayRef")

# Operators that change a tensor's shape in place, and not its elements.
_RESHAPING = ("squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_")

_active = threading.local()


_fast_lock = threading.Lock()
# Recorders that are at work, in all threads, and PyTorch's setting before the first began.
_recording, _fast = 0, True


@contextmanager
def _without_fast_path() -> Iterator[None]:
    """PyTorch's fused layers of transformers are operators of their own. The setting is that of the process: the first thread that records
    turns them off, and the last one restores it."""
    global _recording, _fast
    with _fast_lock:
        if not _recording:
            _fast = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)
        _recording += 1
    try:
        yield
    finally:
        with _fast_lock:
            _recording -= 1
            if not _recording:
                torch.backends.mha.set_fastpath_enabled(_fast)


def active() -> Recorder | None:
    """The recorder of this thread, if it records."""
    return getattr(_active, "recorder", None)


def hint_of(size: torch.SymInt) -> int | None:
    """The number that a size of another tracer is in its example, if there is one."""
    return int(size.node.hint) if size.node.has_hint() else None


def _padded(x: torch.Tensor, pad: Sequence[Any], value: Any = 0) -> torch.Tensor:
    shape = list(x.shape)
    for i in range(len(pad) // 2):
        shape[-1 - i] = shape[-1 - i] + pad[2 * i] + pad[2 * i + 1]
    return x.new_empty(shape)


def _spectrum(x: torch.Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> torch.Tensor:
    shape = list(x.shape)
    if onesided:
        shape[dim[-1]] = shape[dim[-1]] // 2 + 1
    return x.new_empty(shape, dtype=x.dtype.to_complex())


def _signal(x: torch.Tensor, dim: Sequence[int], normalization: int, size: Any) -> torch.Tensor:
    shape = list(x.shape)
    shape[dim[-1]] = size
    return x.new_empty(shape, dtype=x.dtype.to_real())


def _complex(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape, dtype=x.dtype.to_complex())


# Operators whose fakes PyTorch makes for fixed sizes only, or so that sizes become fixed, or in a second by taking them apart.
_FAKES: dict[Any, Callable[..., torch.Tensor]] = {
    aten.constant_pad_nd.default: _padded, aten.masked_scatter.default: lambda x, mask, source: aten.where.self(mask, x, x),
    aten.addbmm.default: lambda x, a, b, **rest: x.new_empty((a.shape[1], b.shape[2])),
    aten.grid_sampler_2d.default: lambda x, grid, *rest: x.new_empty((*x.shape[:2], *grid.shape[1:3])),
    aten.polar.default: lambda x, angle: _complex(aten.add.Tensor(x, angle)),
    aten._fft_r2c.default: _spectrum, aten._fft_c2r.default: _signal, aten._fft_c2c.default: lambda x, *rest: x.new_empty(x.shape),
}


# Operators that PyTorch takes apart in a way that rounds or costs otherwise than the operator itself.
_KEPT = {aten.select_scatter.default, aten.linspace.default, aten.linspace.Scalar_Tensor, aten.linspace.Tensor_Scalar, aten.linspace.Tensor_Tensor}


@functools.cache
def decompositions() -> dict[Any, Any]:
    """How PyTorch takes operators apart. It lists them anew at each call, which takes longer than to record a small function."""
    return dict(core_aten_decompositions().items())


@functools.cache
def _taken_apart() -> dict[Any, Any]:
    return {op: how for op, how in decompositions().items() if op not in _KEPT}


def _draws(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Does a call of an operator draw random numbers? Dropout draws none in evaluation, and none if nothing is dropped."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    given = {a.name: a.default_value for a in func._schema.arguments} | dict(zip((a.name for a in func._schema.arguments), args)) | kwargs
    chance = "p" if func is aten.native_dropout.default else "dropout" if "dropout" in given else "dropout_p"
    return given.get(chance) != 0 and given.get("train", given.get("training")) is not False


class Region:
    """A graph under construction, in another one or a function's own."""

    def __init__(self, parent: Region | None, frame: Any) -> None:
        self.parent, self.frame, self.graph = parent, frame, Graph()
        #: Tensors of the regions around that it reads, with the inputs that stand for them.
        self.captures: list[tuple[torch.Tensor, dict[str, Any]]] = []
        self._captured: dict[int, dict[str, Any]] = {}
        #: Numbers that its checks let through, which are to go with its results.
        self.checks: list[torch.Tensor] = []
        #: Tensors that it changed in place, by the root of their views, with the line.
        self.changes: list[tuple[torch.Tensor, Place | None]] = []

    def capture(self, tensor: torch.Tensor) -> dict[str, Any]:
        """The input that stands for a tensor of a region around."""
        made = self._captured.get(id(tensor))
        if made is None:
            made = self._captured[id(tensor)] = self.graph.tensor("captured", tensor)
            self.captures.append((tensor, made))
        return {"value": made["id"]}

    def begins_in(self, outer: Region) -> bool:
        """Whether a region is this one or around it."""
        region: Region | None = self
        while region is not None and region is not outer:
            region = region.parent
        return region is outer


class _Value:
    """What a fake tensor stands for: an argument in a region. A view knows what it is a view of."""

    __slots__ = ("region", "arg", "parent", "again", "weak", "weight")

    def __init__(self, region: Region | None, arg: dict[str, Any]) -> None:
        self.region, self.arg = region, arg
        self.parent: torch.Tensor | None = None
        self.again: tuple[Any, Any, Any] | None = None
        #: It stands for a number of Python, whose type gives way to that of an array.
        self.weak = False
        #: The constant that it is, which is an argument of each function that reads it.
        self.weight: torch.Tensor | None = None


class Recorder(TorchDispatchMode):
    """Records what PyTorch is asked to do, into the region that is open."""

    def __init__(self, lifts: Callable[[torch.Tensor], bool] = lambda tensor: False) -> None:
        super().__init__()
        #: Constants that are to be arguments of the functions that read them.
        self.lifts = lifts
        #: It met tensors of another tracer, which have no elements.
        self.is_foreign = False
        #: The first line that draws random numbers.
        self.random: Place | None = None
        self.env = ShapeEnv()
        self.fake = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)
        self.constants = Constants()
        self.functions: dict[str, Any] = {}
        #: Functions by signature, and those that are recorded now, the outermost first.
        self.frames: dict[Any, list[Any]] = {}
        self.stack: list[Any] = []
        #: Functions that are recorded in place.
        self.inlined: list[Any] = []
        #: Names of constants, by the identity of their tensors.
        self.names: dict[int, str] = {}
        self.region = Region(None, None)
        self._values: Any = WeakIdKeyDictionary()
        self._views: Any = WeakIdKeyDictionary()
        #: For inputs of loops the tensors that they begin as, for arguments of functions their frame and position.
        self.given: Any = WeakIdKeyDictionary()
        #: For values in a branch or loop the tensor outside that they are, changed in place.
        self.stands: Any = WeakIdKeyDictionary()
        #: For results of `not` what they negate.
        self.negated: Any = WeakIdKeyDictionary()
        #: Names of sizes that began in the region that was just recorded.
        self.local: set[sympy.Symbol] = set()
        self._real: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._table = _taken_apart()
        #: Files of converted code, with the places of their lines.
        self.places: Callable[[str, int], Place | None] = lambda file, line: None

    # Values

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Records what this thread does."""
        before, grad = active(), torch.is_grad_enabled()
        _active.recorder = self
        try:
            # Python may ask if gradients are on.
            with _without_fast_path(), torch.inference_mode(), torch.set_grad_enabled(grad), self.fake, self:
                yield
        finally:
            _active.recorder = before

    @contextmanager
    def inside(self, region: Region) -> Iterator[Region]:
        """Records into a region."""
        before, self.region = self.region, region
        try:
            yield region
        finally:
            self.region = before

    def nested(self) -> Region:
        """A new region in the one that is open."""
        return Region(self.region, self.region.frame)

    def fresh(self, dtype: torch.dtype, shape: Sequence[Any]) -> torch.Tensor:
        """A new fake tensor, which stands for nothing yet."""
        with torch.utils._python_dispatch._disable_current_modes(), torch.inference_mode(), self.fake:
            return torch.empty(list(shape), dtype=dtype)

    def input(self, region: Region, name: str, dtype: torch.dtype, shape: Sequence[Any], weak: bool = False) -> torch.Tensor:
        """A new tensor that is an input of a region."""
        tensor = self.fresh(dtype, shape)
        made = region.graph.tensor(name, tensor)
        region.graph.inputs.append(made)
        self.bind(tensor, {"value": made["id"]}, region, weak)
        return tensor

    def bind(self, tensor: torch.Tensor, arg: dict[str, Any], region: Region | None = None, weak: bool = False) -> None:
        value = _Value(region or self.region, arg)
        value.weak = weak
        self._values[tensor] = value

    def is_weak(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor stands for a number of Python."""
        value = self._values.get(tensor)
        return value is not None and value.weak

    def set_weak(self, tensor: torch.Tensor) -> torch.Tensor:
        self._values[tensor].weak = True
        return tensor

    def open_size(self) -> torch.SymInt:
        """A size that only the run knows."""
        size = self.env.create_unbacked_symint()
        torch._check(size >= 0)
        return size

    @property
    def born(self) -> set[sympy.Symbol]:
        """All names of sizes."""
        return set(self.env.var_to_range)

    def symbolic(self, shape: Sequence[Any]) -> list[Any]:
        """The shape of an input: sizes of 2 and more are open, and so are those that another tracer does not know."""
        hints = [s if isinstance(s, int) else hint_of(s) for s in shape]
        made = self.fake.from_tensor(
            torch.empty([0 if h is None else h for h in hints], dtype=torch.bool),
            symbolic_context=StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * len(hints)),
        )
        return [self.open_size() if h is None else s for h, s in zip(hints, made.shape)]

    def held(self, tensor: torch.Tensor) -> torch.Tensor:
        """The fake tensor of a real one, which is a constant."""
        found = self._real.get(id(tensor))
        if found is None:
            with torch.utils._python_dispatch._disable_current_modes():
                if tensor.device.type != "cpu" or tensor.layout != torch.strided:
                    raise unsupported(f"a constant on {tensor.device} with layout {tensor.layout}", self.place())
                foreign = isinstance(tensor, (FakeTensor, FunctionalTensor))
                self.is_foreign |= foreign
                lifted = self.lifts(tensor)
                name = "" if lifted or foreign else self.constants.name(tensor, self.names.get(id(tensor), "constant"))
                fake = None if foreign else self.fake.from_tensor(tensor.detach(), static_shapes=True)
            if fake is None:
                fake = self.fresh(tensor.dtype, [int(s) for s in tensor.shape])
            found = self._real[id(tensor)] = (fake, tensor)
            self.bind(fake, {"constant": name}, None)
            self._values[fake].region = None
            self._values[fake].weight = tensor if lifted else None
        return found[0]

    def constants_read(self) -> list[torch.Tensor]:
        """All constants that it met."""
        return [tensor for _, tensor in self._real.values()]

    def owns(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is one of this recorder's."""
        return isinstance(tensor, FakeTensor) and tensor.fake_mode is self.fake

    def weight(self, tensor: torch.Tensor, region: Region) -> dict[str, Any]:
        """The argument that a lifted constant is in a region: an input of its function."""
        held, path = self.held(tensor), []
        while region.parent is not None:
            path.append(region)
            region = region.parent
        weights = region.frame.weights
        if id(tensor) not in weights or weights[id(tensor)][1] is not region:
            made = region.graph.tensor(self.names.get(id(tensor), "weight"), held)
            region.graph.inputs.append(made)
            weights[id(tensor)] = (tensor, region, {"value": made["id"]})
        arg = weights[id(tensor)][2]
        for inner in reversed(path):
            arg = inner.capture(held)
        return arg

    def read(self, tensor: torch.Tensor, region: Region | None = None) -> dict[str, Any]:
        """The argument that a tensor is in a region."""
        region = region or self.region
        if not self.owns(tensor):
            tensor = self.held(tensor)
        value = self._values.get(tensor)
        if value is None:
            raise unsupported("a tensor that was made while nothing was recorded", self.place())
        if value.weight is not None:
            return self.weight(value.weight, region)
        self._check_unchanged(tensor, value, region)
        if value.region is None or value.region is region:
            return value.arg
        if not region.begins_in(value.region):
            raise unsupported("a tensor of a branch or loop is used outside of it", self.place(), "assign it to a variable in front of it")
        path = []
        inner: Region | None = region
        while inner is not value.region:
            assert inner is not None
            path.append(inner)
            inner = inner.parent
        arg = value.arg
        for inner in reversed(path):
            arg = inner.capture(tensor)
        return arg

    def is_outer(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is known in the region that is open."""
        value = self._values.get(tensor)
        return value is not None and (value.region is None or self.region.begins_in(value.region))

    # Operators

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(func)
        if name.startswith("prim.") or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        if name.startswith(_CHECKS):
            return None
        args, kwargs = pytree.tree_map(self._fake, (args, kwargs))
        if name.startswith("heddle."):
            # The operators of `prepare` have no arguments for training.
            whole, args = (aten.lstm.input, args) if name == "heddle.lstm.default" else (getattr(aten, args[0]).input, args[1:])
            with self:
                return whole(*args[:5], 0.0, False, *args[5:])
        if func in (aten.lift_fresh.default, aten.lift_fresh_copy.default):
            with self:
                return aten.clone.default(args[0])
        if func is aten.detach_.default:
            return args[0]
        if func._schema.is_mutable:
            return self._in_place(func, args, kwargs)
        if func in (aten.detach.default, aten.alias.default):
            return self._alias(func, args[0])
        args, kwargs, weak = self._strengthen(func, args, kwargs)
        if func not in WHOLE:
            taken_apart = self._table[func] if func in self._table else None
            if taken_apart is None and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
                taken_apart = func.decompose
            if taken_apart is not None:
                with self:
                    result = taken_apart(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        if self.random is None and _draws(func, args, kwargs):
            self.random = self.place()
        if func in RECURRENT:
            result: Any = self._recurrent(func, args)
        elif func in RESIZING:
            result = self._resized(args[0], args[1], args[-1])
        else:
            result = _FAKES[func](*args, **kwargs) if func in _FAKES else self._faked(func, args, kwargs)
        if isinstance(result, (bool, int, float)):
            # What follows from what is known of shapes.
            return result
        if func is aten.as_strided.default:
            args, kwargs = self._strided(args, kwargs)
        self.node(str(func), args, kwargs, result)
        if weak and isinstance(result, torch.Tensor):
            self._values[result].weak = True
        if views.is_view(func) and isinstance(result, torch.Tensor) and isinstance(args[0], torch.Tensor) and result is not args[0]:
            self.is_view(result, args[0], (func, args[1:], kwargs))
        return result

    def _strided(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments of `as_strided`, whose operand is brought to the order of its memory."""
        order = order_in_memory(args[0])
        if order is None:
            raise unsupported("as_strided of a view that is not all of its memory", self.place(), "x.contiguous() in front of it")
        if order != list(range(len(order))):
            with self:
                args = (aten.permute.default(args[0], order), *args[1:])
        return args, kwargs | {"dense": True}

    def _faked(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What an operator gives on fake tensors."""
        try:
            return func(*args, **kwargs)
        except DataDependentOutputException as error:
            raise unsupported(f"{func} gives Python what only the run knows", self.place()) from error
        except (UnsupportedOperatorException, DynamicOutputShapeException, NotImplementedError, RuntimeError) as error:
            if type(error) is RuntimeError and not any(part in str(error) for part in FIXED_ONLY):
                # A fault of the arguments.
                raise
            raise unsupported(f"{func} on arrays whose sizes are open", self.place()) from error

    def _recurrent(self, func: Any, args: Any) -> tuple[torch.Tensor, ...]:
        """What a recurrent layer gives: PyTorch's own fake of it would fix the length."""
        data, state = args[0], args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
        width = state[0].shape[-1] * (2 if args[7] else 1)
        return tuple(self.fresh(data.dtype, shape) for shape in ((*data.shape[:-1], width), *(h.shape for h in state)))

    def _resized(self, data: torch.Tensor, sizes: Any, factors: Any) -> torch.Tensor:
        """What an image becomes: by a factor that is no integer, of a size that only the run knows."""
        if sizes is None:
            sizes = [
                n * int(f) if f == int(f) else int(n * f) if isinstance(n, int) else self.open_size() for n, f in zip(data.shape[2:], factors)
            ]
        return self.fresh(data.dtype, (*data.shape[:2], *sizes))

    def _fake(self, value: Any) -> Any:
        return self.held(value) if isinstance(value, torch.Tensor) and not self.owns(value) else value

    def _alias(self, func: Any, tensor: torch.Tensor) -> torch.Tensor:
        result = func(tensor)
        if result is not tensor:
            old = self._values[tensor]
            self.bind(result, self.read(tensor), self.region if old.region is not None else None, old.weak)
            if old.region is None:
                self._values[result].region, self._values[result].weight = None, old.weight
            self.is_view(result, tensor, (aten.alias.default, (), {}))
        return result

    def node(self, target: str, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Records an operator whose result on fake tensors is known."""
        place = self.place()
        graph = self.region.graph
        packed = [self.arg(a) for a in args]
        named = {k: self.arg(a) for k, a in kwargs.items() if k not in ("device", "layout", "pin_memory")}
        made = []
        for i, leaf in enumerate(result if isinstance(result, (tuple, list)) else (result,)):
            if isinstance(leaf, torch.Tensor):
                made.append(graph.tensor(target.split(".")[1] if "." in target else target, leaf, place))
                self.bind(leaf, {"value": made[-1]["id"]})
            elif isinstance(leaf, torch.SymInt):
                made.append(graph.value(str(leaf.node.expr), "size"))
            elif leaf is None:
                made.append(graph.value("none", "f32", (0,)))
            elif isinstance(leaf, torch.SymBool):
                raise unsupported(
                    "Python asks if a tensor is true, which only the run knows", place,
                    "`if`, `while`, `and`, `or`, `not` and conditional expressions are converted; an `assert` is not",
                )
            else:
                raise unsupported(f"{target} gives a {type(leaf).__name__} that only the run knows", place)
        graph.node(target, packed, named, made, place)

    def arg(self, value: Any) -> dict[str, Any]:
        """An argument of an operator."""
        if isinstance(value, torch.Tensor):
            return self.read(value)
        if isinstance(value, (tuple, list)):
            return {"list": [self.arg(v) for v in value]}
        if isinstance(value, torch.SymInt):
            self.region.frame.uses.append(value)
            return {"size": value}
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise unsupported("a number that follows from sizes", self.place())
        if isinstance(value, complex):
            return {"constant": self.constants.number(value)}
        return scalar(value)

    def _strengthen(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any, bool]:
        """Numbers of Python in elementwise operators take the type of the arrays. Says whether the result is a number, too."""
        if torch.Tag.pointwise not in func.tags:
            return args, kwargs, False
        tensors = [a for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        numbers = [a for a in tensors if self.is_weak(a)]
        if not numbers:
            return args, kwargs, False
        if len(numbers) == len(tensors):
            result = func(*args, **kwargs)
            if result.dtype == torch.get_default_dtype() and result.dtype != torch.float64:
                args, kwargs = pytree.tree_map(lambda a: self._cast(a, torch.float64), (args, kwargs))
            return args, kwargs, True
        wanted = [t.dtype for t in tensors if not self.is_weak(t)][0]
        for tensor in tensors:
            if not self.is_weak(tensor):
                wanted = torch.promote_types(wanted, tensor.dtype)

        def fit(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not self.is_weak(value):
                return value
            if value.is_complex():
                return self._cast(value, torch.result_type(torch.empty(1, dtype=wanted), 1j))
            if wanted.is_complex:
                # The precision of the parts.
                return self._cast(value, wanted.to_real())
            if wanted.is_floating_point or (value.dtype == torch.int64 and wanted != torch.bool):
                return self._cast(value, wanted)
            return self._cast(value, torch.get_default_dtype()) if value.dtype == torch.float64 else value

        args, kwargs = pytree.tree_map(fit, (args, kwargs))
        return args, kwargs, False

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype == dtype or value.dtype == torch.bool:
            return value
        with self:
            return aten._to_copy.default(value, dtype=dtype)

    # Changes in place

    def is_view(self, result: torch.Tensor, parent: torch.Tensor, again: tuple[Any, Any, Any]) -> None:
        """Says that a tensor shares its memory with another one, from which `again` makes it."""
        value = self._values[result]
        value.parent, value.again = parent, again
        root = self._root(parent)
        found = self._views.get(root)
        if found is None:
            found = self._views[root] = WeakIdKeyDictionary()
        found[result] = True

    def _root(self, tensor: torch.Tensor) -> torch.Tensor:
        while (parent := self._values[tensor].parent) is not None:
            tensor = parent
        return tensor

    def _in_place(self, func: Any, args: Any, kwargs: Any) -> Any:
        target = args[0]
        if func._schema.name.removeprefix("aten::") in _RESHAPING:
            return self._reshape(func, target, args[1:], kwargs)
        written = [a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        if func in _FUNCTIONAL or all(name in kwargs for name in written):
            return self._written(func, written, args, kwargs)
        if written != [func._schema.arguments[0].name] or not isinstance(target, torch.Tensor):
            raise unsupported(f"{func} writes to its arguments", self.place(), "leave out `out=`")
        with self:
            made = views.functional(func, args, kwargs, self.place())
            if made.dtype != target.dtype:
                made = aten._to_copy.default(made, dtype=target.dtype)
            if made is target:
                return target
            self._rebind(target, made)
        return target

    def _written(self, func: Any, written: list[str], args: Any, kwargs: Any) -> Any:
        """An operator that writes to arguments behind its first: they stand for what its functional form gives."""
        names = [a.name for a in func._schema.arguments]
        given = dict(zip(names, args)) | kwargs
        if func in _FUNCTIONAL:
            functional, written = _FUNCTIONAL[func]
            with self:
                made = functional(*(given[n] for n in names))
            made, results = made[-len(written) :], made[: -len(written)]
        else:
            overload = func._overloadname.removesuffix("out").removesuffix("_") or "default"
            packet = func.overloadpacket
            if overload not in packet.overloads():
                raise unsupported(f"{func} has no form that leaves its arguments as they are", self.place(), "leave out `out=`")
            with self:
                made = getattr(packet, overload)(*args, **{n: v for n, v in kwargs.items() if n not in written})
            made = made if isinstance(made, (tuple, list)) else (made,)
            results = None
        for name, value in zip(written, made):
            target = given[name]
            if target.dtype != value.dtype or list(target.shape) != list(value.shape):
                raise unsupported(f"{func} writes {value.dtype}{list(value.shape)} to {target.dtype}{list(target.shape)}", self.place())
            self._rebind(target, value)
        if results is not None:
            return results
        return given[written[0]] if len(written) == 1 else tuple(given[name] for name in written)

    def _rebind(self, tensor: torch.Tensor, made: torch.Tensor) -> None:
        """From now on the tensor stands for another value, and so does all that shares its memory."""
        root = self._root(tensor)
        held = self._values[root]
        if held.region is None:
            place = self.place()
            error = ChangesConstant(f"{place}: a constant is changed in place")
            error.place, error.hint = str(place), "give it as an argument, or write x = x + y for x += y"
            raise error
        if held.region is not self.region:
            raise unsupported(
                "a tensor from outside of a branch or loop is changed in place inside", self.place(), "write x = x + y, or x[i] = y",
            )
        self._on_change(root)
        chain = {id(tensor)}
        self._set(tensor, made)
        while (parent := self._values[tensor].parent) is not None:
            func, args, kwargs = self._values[tensor].again
            made = views.write_back(func, parent, made, args, kwargs, self.place())
            tensor = parent
            self._set(tensor, made)
            chain.add(id(tensor))
        for view in list(self._views.get(root) or ()):
            if id(view) not in chain:
                self._renew(view, chain)

    def _reshape(self, func: Any, tensor: torch.Tensor, args: Any, kwargs: Any) -> torch.Tensor:
        """Changes a tensor's shape in place: it becomes a view of what it was, for which another tensor stands from now on."""
        old, root = self._values[tensor], self._root(tensor)
        if old.region is not self.region or tensor in self.given or tensor in self.stands:
            raise unsupported(
                f"{func} changes the shape of an argument, a constant, or a tensor from outside of a branch or loop", self.place(),
                "write x = x.transpose(0, 1) for x.transpose_(0, 1)",
            )
        before = aten.alias.default(tensor)
        self._values[before] = old
        views = self._views.pop(tensor, None) if root is tensor else self._views[root]
        if root is tensor:
            root = before
            self._views[root] = views = WeakIdKeyDictionary() if views is None else views
            for region in self._regions():
                region.changes = [(before if changed is tensor else changed, place) for changed, place in region.changes]
        else:
            views[before] = True
        for view in list(views):
            if self._values[view].parent is tensor:
                self._values[view].parent = before
        with self:
            made = getattr(aten, func._schema.name.removeprefix("aten::").removesuffix("_"))(before, *args, **kwargs)
        func(tensor, *args, **kwargs)
        self._values[tensor] = self._values[made]
        views[tensor] = True
        return tensor

    def _regions(self) -> Iterator[Region]:
        """The open region and those around it."""
        region: Region | None = self.region
        while region is not None:
            yield region
            region = region.parent

    def _renew(self, view: torch.Tensor, done: set[int]) -> None:
        parent = self._values[view].parent
        if id(parent) not in done:
            self._renew(parent, done)
        func, args, kwargs = self._values[view].again
        made = self._values[view]
        result = func(parent, *args, **kwargs)
        made.arg, made.region = self._values[result].arg, self.region
        done.add(id(view))

    def _set(self, tensor: torch.Tensor, made: torch.Tensor) -> None:
        value = self._values[tensor]
        value.arg, value.region = self.read(made), self.region

    def _on_change(self, root: torch.Tensor) -> None:
        """An input of a region is changed: so is the tensor that the region was given."""
        given = self.given.get(root)
        if given is None:
            return
        if not isinstance(given, torch.Tensor):
            frame, position = given
            frame.changed.add(position)
            return
        if not self.owns(given):
            given = self.held(given)
        self.region.changes.append((self._root(given), self.place()))

    def change(self, tensor: torch.Tensor, made: torch.Tensor, others: Sequence[Any]) -> None:
        """A call changes an argument in place."""
        if not self.owns(tensor):
            tensor = self.held(tensor)
        for other in others:
            if isinstance(other, torch.Tensor) and self.owns(other) and self._root(other) is self._root(tensor):
                raise unsupported("a call changes an argument in place that shares its memory with another one", self.place(), "x.clone()")
        with self:
            self._rebind(tensor, made)

    def replaced(self, tensor: torch.Tensor, made: torch.Tensor) -> None:
        """A tensor of a region around is changed in place in this one, by a value that takes its place under one name only."""
        root = self._root(tensor)
        self.stands[made] = tensor
        self.region.changes.append((root, self.place()))

    def is_successor(self, value: Any, tensor: Any) -> bool:
        """Whether a value in a branch or loop is a tensor outside, changed in place."""
        return isinstance(value, torch.Tensor) and value is not tensor and self.stands.get(value) is tensor

    def renewed(self, tensor: Any, ends: Sequence[tuple[Region, Any, Any]], result: Any) -> Any:
        """What a variable is behind a branch or loop that it enters as `tensor`. If it is the same tensor behind all ways through, changed in
        place, then it still is, and all other names see the change. `ends` are the regions, with what the variable is at their beginning and
        end."""
        if not isinstance(tensor, torch.Tensor) or not self.owns(tensor) or not isinstance(result, torch.Tensor):
            return result
        root = self._root(tensor)
        held = self._values[root].region
        touched = [any(changed is root for changed, _ in region.changes) for region, _, _ in ends]
        if held is None or not any(touched):
            return result
        for (_, begin, end), is_touched in zip(ends, touched):
            stands = isinstance(end, torch.Tensor) and (self.stands.get(end) is tensor or end is begin and begin is not tensor)
            if not (stands if is_touched else end is begin):
                return result
        places = []
        for region, _, _ in ends:
            places += [place for changed, place in region.changes if changed is root]
            region.changes = [change for change in region.changes if change[0] is not root]
        if held is self.region:
            with self:
                self._rebind(tensor, result)
            return tensor
        self.stands[result] = tensor
        self.region.changes.append((root, places[0]))
        return result

    def is_own(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor may be changed in place here."""
        return self._values[self._root(tensor)].region is self.region

    def finish(self, regions: list[Region]) -> None:
        """Closes regions: what they changed in place can't be read any more, but by the names that they give back."""
        for region in regions:
            for root, place in region.changes:
                self.region.changes.append((root, place))
                value = self._values.get(root)
                if value is None or value.region is not self.region:
                    continue
                given = self.given.get(root)
                if given is not None and not isinstance(given, torch.Tensor):
                    raise unsupported(
                        "an argument is changed in place in a branch or loop, by a name that stands for something else behind it", place,
                        "x = x.clone() in front",
                    )
                self._on_change(root)

    def _check_unchanged(self, tensor: torch.Tensor, value: _Value, region: Region | None) -> None:
        if value.region is None:
            return
        root = self._root(tensor)
        while region is not None:
            for changed, place in region.changes:
                if changed is root:
                    raise unsupported(
                        f"a tensor that {place or 'a loop or branch'} changes in place is read by another name", self.place(),
                        "write x = x + y for x += y",
                    )
            region = region.parent

    # Places

    def place(self) -> Place | None:
        """The line of the user's Python that runs."""
        frame = sys._getframe(1)
        while frame is not None:
            found = self.place_of(frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__", ""))
            if found is not None:
                return found
            frame = frame.f_back  # type: ignore[assignment]
        return None

    def place_of(self, file: str, line: int, module: str) -> Place | None:
        """The place of a line that runs, if it is the user's."""
        found = self.places(file, line)
        if found is not None:
            return found
        root = module.partition(".")[0]
        if root in ("torch", "heddle", "malt", "functorch") or root in sys.stdlib_module_names - {"__main__"} or file.startswith("<"):
            return None
        if "__autograph_generated_file" in file:
            return None
        import linecache

        file = lambdas.file_of(file)
        return Place(file, line, linecache.getline(file, line).strip())
