"""Models, programs and reports as tables, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import Model, Program, Report


def seconds(time: float) -> str:
    """A time in a unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if time >= size:
            return f"{time / size:.3g} {unit}"
    return f"{time / 1e-9:.0f} ns"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; all text is escaped."""
    lines = [f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"] if any(head) else []
    for row in rows:
        cells = (f"{cell:.1e}" if isinstance(cell, float) else "" if cell is None else str(cell) for cell in row)
        lines.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def of_model(model: Model) -> str:
    """A model's entries, inputs and outputs."""
    parts = [f"<b>heddle.Model</b> {escape(model.entry)}", _ports(model.inputs, model.outputs, model.optional_inputs)]
    others = [name for name in model.entries if name != model.entry]
    if others:
        parts.append(f"<p>other entries: {escape(', '.join(others))}</p>")
    parts.extend(f"<p>note: {escape(note)}</p>" for note in model.notes)
    return "".join(parts) + control_flow(model.outline())


def of_program(program: Program) -> str:
    """A program's inputs and outputs, and its report."""
    threads = f", {program.threads} threads" if program.device == "cpu" else ""
    head = f"<b>heddle.Program</b> on {escape(program.device)}{threads}"
    ports = _ports(program.inputs.items(), program.outputs.items(), ())
    return head + ports + control_flow(program.outline()) + of_report(program.report)


#: Details of a node of the tree that are not shown as such.
SHOWN = ("kind", "name", "ops", "inside", "interpreted", "change")


def control_flow(outline: Mapping[str, Any]) -> str:
    """An outline's loops, branches and calls as a tree whose nodes open and close."""
    functions = [function for function in outline["functions"] if function["control_flow"]]
    if not functions:
        return ""
    text = "<p>control flow:</p>"
    for function in functions:
        inside = "".join(map(_node, function["control_flow"]))
        is_only = len(outline["functions"]) == 1
        text += inside if is_only else _opened(f"@{escape(function['name'])}{escape(function['signature'])}", inside)
    for group in outline["recursion"]:
        text += f"<p>recursion: {escape(' → '.join(f'@{name}' for name in [*group, group[0]]))}</p>"
    return text


def _node(node: Mapping[str, Any]) -> str:
    head = f"<b>{escape(node['kind'])}</b> {escape(node['name'])}"
    if "ops" in node:
        head += f" {node['ops']} {'op' if node['ops'] == 1 else 'ops'}"
    if "interpreted" in node:
        reason = ": ".join(filter(None, (node["interpreted"], node.get("change"))))
        head += f" <i>interpreted: {escape(reason)}</i>"
    details = [(name, value) for name, value in node.items() if name not in SHOWN]
    rows = [(name, ", ".join(value) if isinstance(value, list) else value) for name, value in details]
    inside = (table(("", ""), rows) if rows else "") + "".join(map(_node, node.get("inside", ())))
    return _opened(head, inside) if inside else f"<div>{head}</div>"


def _opened(head: str, inside: str) -> str:
    return f'<details open style="margin-left: 1em"><summary>{head}</summary>{inside}</details>'


def of_report(report: Report) -> str:
    """Times, and what the interpreter runs with the reasons."""
    rows = [("reading", seconds(report["load"])), ("compiling", seconds(report["compile"]))]
    longest = sorted(report["stages"].items(), key=lambda stage: -stage[1])[:5]
    rows += [(f"— {stage}", seconds(time)) for stage, time in longest if time >= 1e-3]
    rows.append(("schedule", "proven sound" if report["verified"] else "not proven"))
    text = table(("", ""), rows)
    if report["interpreted"]:
        text += "<p>left to the interpreter:</p>"
        text += table(("node", "reason", "change of the model"), report["interpreted"])
    return text


def _ports(inputs: Iterable[tuple[str, str]], outputs: Iterable[tuple[str, str]], optional: Iterable[tuple[str, str]]) -> str:
    rows = [("input", *port) for port in inputs] + [("input with a default", *port) for port in optional]
    return table(("", "name", "type"), rows + [("output", *port) for port in outputs])
