"""Rules of form that every hand-written module keeps."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kwire.cluster.membership.collector import collector_paused

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("codecs", "conformance", "docker", "groups", "kwire", "log", "tests", "tools", "txn")

FUNCTION_LINES_MAX = 70
"""One screen: what one function does can be seen at once."""
MODULE_LINES_MAX = 600
"""One noun a module; above this there are two.  Well above what a module should aim at, so that it
is the meaning that decides where code goes and not the count."""
LINE_COLUMNS_MAX = 100

GENERATED_BANNER = re.compile(r"generated", re.IGNORECASE)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
THIS_FILE = "tests/test_tidy.py"


def is_generated(path: Path, text: str) -> bool:
    """Generated modules say so in their first lines, and live in `codecs/`."""
    in_place = path.is_relative_to(ROOT / "codecs")
    return in_place and any(GENERATED_BANNER.search(line) for line in text.splitlines()[:3])


LookedAt = ast.FunctionDef | ast.AsyncFunctionDef | ast.ExceptHandler | ast.ClassDef


class Source(NamedTuple):
    """A hand-written module."""

    path: str
    text: str
    docstring: str | None
    nodes: list[LookedAt]
    """What the tests look at, found in one walk."""


@cache
def sources() -> tuple[Source, ...]:
    """Every hand-written module; the collector would look through millions of nodes meanwhile."""
    with collector_paused():
        return tuple(read())


def read() -> Iterator[Source]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if not is_generated(path, text):
                tree = ast.parse(text)
                nodes = [node for node in statements(tree) if isinstance(node, LookedAt)]
                name = path.relative_to(ROOT).as_posix()
                yield Source(name, text, ast.get_docstring(tree), nodes)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All but expressions, in which nothing is that the tests look at."""
    waiting = [tree]
    for node in waiting:
        yield node
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            below = getattr(node, field, None)
            if isinstance(below, list):  # of a lambda it is an expression
                waiting += below


def test_functions_fit_a_screen() -> None:
    long = []
    for source in sources():
        for function in source.nodes:
            if isinstance(function, ast.ExceptHandler | ast.ClassDef):
                continue
            assert function.end_lineno is not None
            lines = function.end_lineno - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                long.append(f"{source.path}:{function.lineno} {function.name}: {lines} lines")
    assert not long, "\n".join(long)


def test_modules_are_not_too_long() -> None:
    long = [
        f"{source.path}: {lines} lines"
        for source in sources()
        if (lines := source.text.count("\n")) > MODULE_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_lines_fit_the_window() -> None:
    """Less an ignore and its reason, which must stand on the line they are about."""
    pragma = re.compile(r"\s+# (noqa|type: ignore).*")
    wide = [
        f"{source.path}:{number}"
        for source in sources()
        for number, line in enumerate(source.text.splitlines(), 1)
        if len(pragma.sub("", line)) > LINE_COLUMNS_MAX
    ]
    assert not wide, "\n".join(wide)


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{source.path}:{number} {line.strip()}"
        for source in sources()
        if source.path != THIS_FILE
        for number, line in enumerate(source.text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert not found, "\n".join(found)


def test_no_broad_except_only_passes() -> None:
    """`except: pass` hides defects; `contextlib.suppress` names the exception it ignores."""
    found = []
    for source in sources():
        for node in source.nodes:
            if not isinstance(node, ast.ExceptHandler):
                continue
            broad = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
            )
            silent = all(isinstance(statement, ast.Pass) for statement in node.body)
            if broad and silent:
                found.append(f"{source.path}:{node.lineno}")
    assert not found, "\n".join(found)


def test_no_test_changes_the_clock_of_the_whole_process() -> None:
    """Members of a session's cluster live in threads of the process and read the same clock.

    A test replaces the name `time` in the module that it tests instead.
    """
    pattern = re.compile(r"""setattr\(\s*(time\b|["'][\w.]*\.time\.)""")
    found = [
        f"{source.path}:{source.text.count(chr(10), 0, match.start()) + 1} {match[0]}"
        for source in sources()
        for match in pattern.finditer(source.text)
    ]
    assert not found, "\n".join(found)


def test_modules_open_with_a_docstring() -> None:
    bare = [each.path for each in sources() if each.text.strip() and each.docstring is None]
    assert not bare, "\n".join(bare)


def test_ignores_say_which_rule_and_why() -> None:
    """`# noqa: CODE - reason` and `# type: ignore[code]  # reason`: a bare one hides the next."""
    rule = re.compile(r"#\s*(noqa: [A-Z0-9, ]+\S* - \S+|type: ignore\[[\w, -]+\]\s+# \S+)")
    found = []
    ignore = re.compile(r"#\s*(noqa|type:\s*ignore)")
    for source in sources():
        if not ignore.search(source.text):
            continue
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            is_ignore = token.type == tokenize.COMMENT and ignore.match(token.string)
            if is_ignore and not rule.match(token.string):
                found.append(f"{source.path}:{token.start[0]} {token.string}")
    assert not found, "\n".join(found)


def test_generated_modules_stay_where_they_are_made() -> None:
    """The only hand-written modules among the generated ones are their package files."""
    strangers = [
        path
        for path, *_ in sources()
        if path.startswith("codecs/messages/") and not path.endswith("__init__.py")
    ]
    assert not strangers, "\n".join(strangers)


CLASS_FOLDERS = ("codecs/", "conformance/", "groups/", "kwire/", "log/", "txn/")
SHARED_CLASS_NAMES = {
    "Kafka": "users of kwire.testing and of kwire.pipeline write it, each for its own Kafka",
    "Record": "users of kwire.testing write it; for codecs/ it is Kafka's word for its records",
}
"""Names that stand for two classes, and why."""


def test_class_names_are_unique() -> None:
    """A reader who searches for a class finds one.  Generated messages have Kafka's names."""
    places: dict[str, list[str]] = {}
    for source in sources():
        if source.path.startswith(CLASS_FOLDERS):
            for node in source.nodes:
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(source.path)
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert shared.keys() == SHARED_CLASS_NAMES.keys(), shared
