"""Lambdas that share a line, which no parser can tell apart by line: rebuilt as functions whose source is theirs alone."""

from __future__ import annotations

import ast
import linecache
import types
from typing import Any

_MARK = "#lambda"


def file_of(name: str) -> str:
    """The user's file of a rebuilt lambda's."""
    return name.partition(_MARK)[0]


def rebuilt(function: types.FunctionType) -> types.FunctionType | None:
    """The same lambda with a source of its own, or None if it can't be found."""
    code = function.__code__
    positions = getattr(code, "co_positions", None)
    if positions is None:
        return None
    spans = [p for p in positions() if None not in p and p[2:] != (0, 0)]
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return None
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and all(_holds(n, span) for span in spans)]
    if not spans or not found:
        return None
    node = min(found, key=lambda n: ((n.end_lineno or 0) - n.lineno, (n.end_col_offset or 0) - n.col_offset))
    # Defaults come from the function itself.
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [d and ast.Constant(None) for d in node.args.kw_defaults]
    free = code.co_freevars
    source = "\n".join([
        *[""] * (node.lineno - 3), f"def outer({', '.join(free)}):", f"    def lambda_({ast.unparse(node.args)}):",
        f"        return {ast.unparse(node.body)}", "    return lambda_", "",
    ])
    name = f"{code.co_filename}{_MARK}{node.lineno}.{node.col_offset}"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"__name__": function.__globals__.get("__name__", "")}
    exec(compile(source, name, "exec"), scope)
    inner = scope["outer"](*[None] * len(free)).__code__
    cells = dict(zip(free, function.__closure__ or ()))
    if set(inner.co_freevars) - set(cells):
        return None
    made = types.FunctionType(
        inner, function.__globals__, "lambda_", function.__defaults__, tuple(cells[v] for v in inner.co_freevars),
    )
    made.__kwdefaults__, made.__module__ = function.__kwdefaults__, function.__module__
    return made


def _holds(node: ast.Lambda, span: tuple[Any, ...]) -> bool:
    line, end_line, column, end_column = span
    body = node.body
    return (body.lineno, body.col_offset) <= (line, column) and (end_line, end_column) <= (body.end_lineno or 0, body.end_col_offset or 0)
