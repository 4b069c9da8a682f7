"""Plain Python as calls of `control` and `loops`, by diastatic-malt: statements get their state, test and body as functions."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from malt.converters import (
    break_statements, conditional_expressions, continue_statements, control_flow, functions, call_trees, logical_expressions,
    return_statements, variables,
)
from malt.core import converter, unsupported_features_checker
from malt.impl import api
from malt.operators import FunctionScope, Undefined, UndefinedReturnValue, ldu, with_function_scope
from malt.pyct import errors, origin_info
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules import module as _modules

from . import checks, control, index, lambdas, lists, loops
from .graph import Place, unsupported
from .record import Recorder, active

# Packages whose functions are called as they are.
_AS_THEY_ARE = {"torch", "numpy", "heddle", "malt", "functorch", "jax", "builtins", "sympy", "torchvision"}
_OPTIONS = converter.ConversionOptions(recursive=True, user_requested=True, optional_features=())
#: The attribute of functions that are converted already.
MARK = "autograph_info__"


class _Subscripts(ast.NodeTransformer):
    """Reads `x[i]` become `get_item(x, i)`, and `x[i] = y` becomes `x = set_item(x, i, y)`, so that `x` is known to change."""

    def __init__(self, own: set[str], first: str | None) -> None:
        self.own, self.first = own, first

    def visit_arguments(self, node: ast.arguments) -> Any:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        inner = _Subscripts(self.own | _names(node), self.first or _first(node))
        node.body = [s for b in node.body for s in _listed(inner.visit(b))]
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self.first is not None:
            node.args = [_at(ast.Name("__class__", ast.Load()), node), _at(ast.Name(self.first, ast.Load()), node)]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return node
        return self.visit(_at(ast.Assign(targets=[node.target], value=node.value), node))

    def visit_Assert(self, node: ast.Assert) -> Any:
        text = ast.unparse(node)
        self.generic_visit(node)
        message = ast.Constant(None) if node.msg is None else ast.Lambda(ast.arguments([], [], None, [], [], None, []), node.msg)
        return _at(ast.Expr(_call("assert_", node.test, message, ast.Constant(text))), node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        return _at(_call("get_item", node.value, _key(node.slice)), node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        if len(node.targets) == 1 and (name := self._stored(node.targets[0])):
            target = node.targets[0]
            made = _call("set_item", ast.Name(name, ast.Load()), _key(target.slice), node.value)  # type: ignore[attr-defined]
            return _at(ast.Assign(targets=[ast.Name(name, ast.Store())], value=made), node)
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        self.generic_visit(node)
        call = node.value
        if (
            isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append" and len(call.args) == 1
            and isinstance(call.func.value, ast.Name) and call.func.value.id in self.own
        ):
            name = call.func.value.id
            made = _call("append", ast.Name(name, ast.Load()), call.args[0])
            return _at(ast.Assign(targets=[ast.Name(name, ast.Store())], value=made), node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        kind = ast.Constant(type(node.op).__name__)
        if name := self._stored(node.target):
            key = _key(node.target.slice)  # type: ignore[attr-defined]
            made = _call("update_item", ast.Name(name, ast.Load()), key, kind, node.value)
            return _at(ast.Assign(targets=[ast.Name(name, ast.Store())], value=made), node)
        if isinstance(node.target, ast.Name):
            made = _call("update", ast.Name(node.target.id, ast.Load()), kind, node.value)
            return _at(ast.Assign(targets=[ast.Name(node.target.id, ast.Store())], value=made), node)
        return node

    def _stored(self, target: ast.expr) -> str | None:
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id in self.own:
            return target.value.id
        return None


def _names(node: ast.AST) -> set[str]:
    """Names that a function assigns, its parameters among them."""
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id)
        elif isinstance(inner, ast.arg):
            found.add(inner.arg)
    return found


def _first(node: ast.AST) -> str | None:
    """Name of the first parameter of a function."""
    arguments = getattr(node, "args", None)
    positional = [*arguments.posonlyargs, *arguments.args] if isinstance(arguments, ast.arguments) else []
    return positional[0].arg if positional else None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _at(made: Any, origin: Any) -> Any:
    ast.copy_location(made, origin)
    ast.fix_missing_locations(made)
    found = getattr(origin, "___pyct_anno", None)
    for inner in ast.walk(made):
        if found is not None and not hasattr(inner, "___pyct_anno"):
            inner.___pyct_anno = {k: v for k, v in found.items() if k == origin_info.anno.Basic.ORIGIN}
    return made


def _call(name: str, *args: Any) -> ast.Call:
    return ast.Call(func=ast.Attribute(ast.Name("ag__", ast.Load()), name, ast.Load()), args=list(args), keywords=[])


def _key(node: ast.expr) -> ast.expr:
    """A key as an expression: slices as calls of `slice`."""
    if isinstance(node, ast.Slice):
        parts = [p if p is not None else ast.Constant(None) for p in (node.lower, node.upper, node.step)]
        return _call("slice", *parts)
    if isinstance(node, ast.Tuple):
        return ast.Tuple(elts=[_key(e) for e in node.elts], ctx=ast.Load())
    return node


class _Transpiler(api.PyToPy):
    """Converts functions, each once."""

    def get_extra_locals(self) -> dict[str, Any]:
        if self._extra_locals is None:
            self._extra_locals = {"ag__": _operators()}
        return self._extra_locals

    def transform_ast(self, node: Any, ctx: Any) -> Any:
        node = _Subscripts(_names(node), _first(node)).visit(node)
        unsupported_features_checker.verify(node)
        node = self.initial_analysis(node, ctx)
        node = functions.transform(node, ctx)
        node = break_statements.transform(node, ctx)
        node = continue_statements.transform(node, ctx)
        node = return_statements.transform(node, ctx)
        node = call_trees.transform(node, ctx)
        node = control_flow.transform(node, ctx)
        node = conditional_expressions.transform(node, ctx)
        node = logical_expressions.transform(node, ctx)
        return variables.transform(node, ctx)


_transpiler = _Transpiler()
_sources: dict[str, tuple[Any, str]] = {}


def place_of_line(file: str, line: int) -> Place | None:
    """The user's line that a line of converted code comes from."""
    found = _sources.get(file)
    if found is None:
        return None
    source_map, origin = found
    info = source_map.get(origin_info.LineLocation(file, line))
    if info is None:
        return None
    return Place(lambdas.file_of(info.loc.filename), info.loc.lineno, (info.source_code_line or "").strip())


def convert(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with its control flow as calls. A method stays bound."""
    bound = getattr(function, "__self__", None)
    plain = function.__func__ if inspect.ismethod(function) else function
    if hasattr(plain, MARK):
        # It stands in a function that was converted.
        return function
    made = getattr(plain, "__heddle_converted__", None) if plain.__closure__ is None else None
    if made is None:
        try:
            made, module, source_map = _transpiler.transform(plain, converter.ProgramContext(options=_OPTIONS))
        except errors.UnsupportedLanguageElementError as error:
            other = lambdas.rebuilt(plain) if plain.__name__ == "<lambda>" else None
            if other is None:
                raise _not_converted(plain, error) from error
            return convert(other)
        except (errors.PyCTError, NotImplementedError, SyntaxError, ValueError, OSError) as error:
            raise _not_converted(plain, error) from error
        _sources[module.__file__] = (source_map, plain.__code__.co_filename)
        if plain.__closure__ is None:
            try:
                plain.__heddle_converted__ = made  # type: ignore[attr-defined]
            except AttributeError:
                pass
    return made if bound is None else functools.partial(made, bound)


def _not_converted(function: Any, error: BaseException) -> Exception:
    code = function.__code__
    place = Place(code.co_filename, code.co_firstlineno, "")
    return unsupported(f"{function.__qualname__} can't be converted: {str(error).strip() or type(error).__name__}", place)


# What converted code calls


def converted_call(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, scope: Any = None, options: Any = None) -> Any:
    """A call in converted code."""
    kwargs = kwargs or {}
    rec = active()
    if rec is None:
        return f(*args, **kwargs)
    special = _specials().get(_hashed(f))
    if special is not None:
        return special(*args, **kwargs)
    if getattr(f, "__heddle_function__", False):
        return f(*args, **kwargs)
    if isinstance(f, functools.partial):
        return converted_call(f.func, f.args + tuple(args), {**f.keywords, **kwargs})
    if isinstance(f, torch.nn.Module):
        return _module(f, args, kwargs)
    owner = getattr(f, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, torch.autograd.Function) and f.__name__ == "apply":
        # Its backward pass is not recorded, for which nothing is to be saved.
        with torch.no_grad():
            return f(*args, **kwargs)
    if type(owner) in lists.CHANGING and f.__name__ in lists.CHANGING[type(owner)]:
        lists.change(owner, f.__name__)
    method = _tensor_method(f)
    if method is not None:
        return method(*args, **kwargs)
    if is_users(f):
        return convert(f)(*args, **kwargs)
    if (getattr(f, "__module__", None) or "").startswith("torch"):
        # An option that is a condition on sizes, which PyTorch wants as a bool: it holds from then on.
        args = tuple(bool(a) if isinstance(a, torch.SymBool) else a for a in args)
        kwargs = {name: bool(a) if isinstance(a, torch.SymBool) else a for name, a in kwargs.items()}
    return f(*args, **kwargs)


def _hashed(f: Any) -> Any:
    try:
        hash(f)
    except TypeError:
        return None
    return f


def is_users(f: Any) -> bool:
    """Whether a function is one that is to be converted."""
    if not (inspect.isfunction(f) or inspect.ismethod(f)) or hasattr(f, MARK):
        return False
    if inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f):
        return False
    module = (getattr(f, "__module__", None) or "").partition(".")[0]
    if module in _AS_THEY_ARE or (module in sys.stdlib_module_names and module != "__main__"):
        return False
    plain = f.__func__ if inspect.ismethod(f) else f
    return not plain.__code__.co_filename.startswith("<")


def _module(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A module's call: its `forward` and its hooks are converted, unless it is PyTorch's own."""
    forward = functools.partial(_sequence, module) if type(module) is torch.nn.Sequential else module.forward
    if not (isinstance(forward, functools.partial) or is_users(forward) or getattr(forward, "__heddle_function__", False)):
        return module(*args, **kwargs)
    if module._forward_hooks or module._forward_pre_hooks or _modules._global_forward_hooks or _modules._global_forward_pre_hooks:
        return _with_hooks(module, forward, args, kwargs)
    return converted_call(forward, args, kwargs)


def _sequence(parts: Any, value: Any) -> Any:
    """The `forward` of `nn.Sequential`."""
    for part in parts:
        value = converted_call(part, (value,), {})
    return value


setattr(_sequence, MARK, True)


def _with_hooks(module: torch.nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of `forward` with hooks around it, as `Module.__call__` makes it."""
    before = {**_modules._global_forward_pre_hooks, **module._forward_pre_hooks}
    for key, hook in before.items():
        if key in module._forward_pre_hooks_with_kwargs:
            changed = converted_call(hook, (module, args, kwargs), {})
            args, kwargs = (args, kwargs) if changed is None else changed
        else:
            changed = converted_call(hook, (module, args), {})
            args = args if changed is None else changed if isinstance(changed, tuple) else (changed,)
    result = converted_call(forward, args, kwargs)
    with_kwargs = {*_modules._global_forward_hooks_with_kwargs, *module._forward_hooks_with_kwargs}
    for key, hook in {**_modules._global_forward_hooks, **module._forward_hooks}.items():
        changed = converted_call(hook, (module, args, kwargs, result) if key in with_kwargs else (module, args, result), {})
        result = result if changed is None else changed
    return result


def _tensor_method(f: Any) -> Any:
    """Methods of tensors that give numbers of Python."""
    tensor = getattr(f, "__self__", None)
    if not isinstance(tensor, torch.Tensor):
        return None
    name = getattr(f, "__name__", "")
    if name == "item":
        return lambda: _number(tensor, None)
    if name == "tolist" and tensor.dim() == 0:
        return lambda: _number(tensor, None)
    return None


def _number(value: Any, kind: Any) -> Any:
    """`int(x)`, `float(x)`, `bool(x)`, `x.item()`: a tensor without axes that stands for a number of Python."""
    rec = active()
    if rec is None or not isinstance(value, torch.Tensor):
        return value if kind is None else kind(value)
    value = value.reshape(())
    floats = value.dtype.is_floating_point
    if kind is bool:
        return control.predicate(rec, value)
    if kind is int and floats:
        message = "a float that is NaN or infinite has no integer"
        (value,) = checks.checked(rec, torch.isfinite(value), message, [value], rec.place())
    dtype = torch.bool if kind is None and value.dtype == torch.bool else torch.float64 if kind is float or (kind is None and floats) else torch.int64
    made = torch.ops.aten._to_copy.default(value, dtype=dtype) if value.dtype != dtype else torch.ops.aten.clone.default(value)
    return made if dtype == torch.bool else rec.set_weak(made)


def _int(value: Any = 0, *more: Any) -> Any:
    return _number(value, int) if isinstance(value, torch.Tensor) else value if isinstance(value, torch.SymInt) else int(value, *more)


def _float(value: Any = 0.0) -> Any:
    return _number(value, float) if isinstance(value, torch.Tensor) else float(value)


def _bool(value: Any = False) -> Any:
    return _number(value, bool) if isinstance(value, torch.Tensor) else value if isinstance(value, torch.SymBool) else bool(value)


def _len(value: Any) -> Any:
    if isinstance(value, loops.Items):
        return value.length
    if isinstance(value, lists.Grown):
        return value.data.shape[0]
    return value.shape[0] if isinstance(value, torch.Tensor) and value.dim() else len(value)


def _extreme(name: str) -> Callable[..., Any]:
    plain, of_tensors = getattr(builtins, name), {"max": torch.maximum, "min": torch.minimum}[name]

    def extreme(*args: Any, **kwargs: Any) -> Any:
        values = args if len(args) > 1 else list(args[0])
        rec = active()
        if kwargs or rec is None or not any(isinstance(v, torch.Tensor) for v in values):
            return plain(*args, **kwargs)
        made = control.as_tensor(rec, values[0])
        for value in values[1:]:
            other = control.as_tensor(rec, value)
            dtype, weak = control.common_type(rec, name, made, other, rec.place())
            made = of_tensors(control.as_tensor(rec, made, dtype), control.as_tensor(rec, other, dtype))
            if weak:
                rec.set_weak(made)
        return made

    return extreme


def _truths(name: str) -> Callable[[Any], Any]:
    def truths(values: Any) -> Any:
        if isinstance(values, torch.Tensor):
            return getattr(torch, name)(values)
        made: Any = name == "all"
        for value in values:
            made = (control.and_ if name == "all" else control.or_)(lambda: made, lambda: value)  # noqa: B023
        return made

    return truths


@functools.cache
def _specials() -> dict[Any, Any]:
    """Functions that mean something else where tensors decide."""
    from . import higher

    return {
        range: loops.range_, enumerate: loops.enumerate_, zip: loops.zip_, int: _int, float: _float, bool: _bool, len: _len,
        max: _extreme("max"), min: _extreme("min"), any: _truths("any"), all: _truths("all"),
        **higher.SPECIALS, **lists.SPECIALS,
    }


class _Scope(FunctionScope):
    """A function's scope, which gives its result."""

    def ret(self, value: Any, did_return: Any) -> Any:
        rec = active()
        if rec is not None and control.is_staged(did_return):
            raise unsupported("a function returns a value on some of its paths only", rec.place(), "return a value on all paths")
        return super().ret(value, did_return)


def update(value: Any, kind: str, other: Any) -> Any:
    """`value += other`, and the like."""
    rec = active()
    if rec is None or not isinstance(value, torch.Tensor) or not isinstance(value, FakeTensor):
        return _IN_PLACE[kind](value, other)
    if rec.is_weak(value):
        return _PLAIN[kind](value, other)
    if not rec.is_own(value):
        made = _PLAIN[kind](value, other)
        made = made.to(value.dtype) if made.dtype != value.dtype else made
        rec.replaced(value, made)
        return made
    return _IN_PLACE[kind](value, other)


_OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "Mod": "mod", "Pow": "pow", "MatMult": "matmul",
    "BitAnd": "and_", "BitOr": "or_", "BitXor": "xor", "LShift": "lshift", "RShift": "rshift",
}
_PLAIN = {kind: getattr(operator, name) for kind, name in _OPERATORS.items()}
_IN_PLACE = {kind: getattr(operator, "i" + name.rstrip("_")) if name in ("and_", "or_") else getattr(operator, "i" + name)
             for kind, name in _OPERATORS.items()}


def update_item(target: Any, key: Any, kind: str, value: Any) -> Any:
    """`target[key] += value`, and the like."""
    return index.set_item(target, key, _PLAIN[kind](index.get_item(target, key), value))


def _operators() -> types.ModuleType:
    """The module that converted code knows as `ag__`."""
    made = types.ModuleType("heddle._trace.operators")
    made.__dict__.update(
        if_stmt=control.if_stmt, if_exp=control.if_exp, while_stmt=loops.while_stmt, for_stmt=loops.for_stmt, and_=control.and_,
        or_=control.or_, not_=control.not_, converted_call=converted_call, get_item=index.get_item, set_item=index.set_item,
        update_item=update_item, update=update, append=lists.append, slice=slice, Undefined=Undefined, UndefinedReturnValue=UndefinedReturnValue,
        ld=checks.read, ldu=ldu, assert_=checks.assert_,
        FunctionScope=_Scope, with_function_scope=with_function_scope, ConversionOptions=converter.ConversionOptions,
        STD=converter.STANDARD_OPTIONS, Feature=converter.Feature, autograph_artifact=api.autograph_artifact,
    )
    return made


def users_place(rec: Recorder, error: BaseException) -> Place | None:
    """The user's line in an error's traceback."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame
        place = rec.place_of(code.f_code.co_filename, trace.tb_lineno, code.f_globals.get("__name__", ""))
        found = place or found
        trace = trace.tb_next
    return found
