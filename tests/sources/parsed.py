"""What the rules about form and imports look at in a module; a syntax tree is walked once.

The tree itself is not kept: the trees of all modules are millions of objects, through which the
garbage collector would look after each later test file of the same worker.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kwire.cluster.membership.collector import collector_paused


class Function(NamedTuple):
    """A function, also one inside a class or another function."""

    name: str
    line: int
    lines: int


class Parsed(NamedTuple):
    """A module.

    silent     Lines of the handlers of all exceptions that do nothing.
    imports    What it imports when it runs, anywhere in it; a relative import is named so.
    for_types  What it imports for types alone.
    """

    text: str
    docstring: str | None
    functions: list[Function]
    silent: list[int]
    classes: list[str]
    imports: set[str]
    for_types: set[str]


@cache
def parsed(path: Path) -> Parsed:
    """A module's facts.  The collector rests, because a tree has many objects and no cycle."""
    with collector_paused():
        text = path.read_text()
        tree = ast.parse(text)
        found = Parsed(text, ast.get_docstring(tree), [], [], [], set(), set())
        waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
        for node, is_for_types in waiting:
            _look_at(node, found, is_for_types)
            if isinstance(node, ast.If) and _is_for_type_checking(node.test):
                waiting += ((child, True) for child in node.body)
                waiting += ((child, is_for_types) for child in node.orelse)
            else:
                waiting += ((child, is_for_types) for child in _below(node))
        return found


def _below(node: ast.AST) -> list[ast.AST]:
    """The statements, handlers and cases right below; expressions have nothing that is needed."""
    below: list[ast.AST] = []
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        below += getattr(node, field, ())
    return below


def _look_at(node: ast.AST, found: Parsed, is_for_types: bool) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        assert node.end_lineno is not None
        lines = node.end_lineno - node.lineno + 1
        found.functions.append(Function(node.name, node.lineno, lines))
    elif isinstance(node, ast.ClassDef):
        found.classes.append(node.name)
    elif isinstance(node, ast.ExceptHandler):
        if _is_broad(node) and all(isinstance(statement, ast.Pass) for statement in node.body):
            found.silent.append(node.lineno)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        (found.for_types if is_for_types else found.imports).update(_imported(node))


def _is_broad(handler: ast.ExceptHandler) -> bool:
    kind = handler.type
    return kind is None or (
        isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"}
    )


def _imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if node.level == 0 and node.module:
        return {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {"a relative import"}


def _is_for_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"
