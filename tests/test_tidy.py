"""What a reader may count on in every file; style that is not tested is a wish."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("codecs", "conformance", "docker", "groups", "kwire", "log", "tests", "tools", "txn")

FUNCTION_LINES_MAX = 70
"""One screen: what one function does can be seen at once."""
MODULE_LINES_MAX = 500
"""One noun a module; above this there are two."""
LINE_COLUMNS_MAX = 100

GENERATED_BANNER = re.compile(r"generated", re.IGNORECASE)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
THIS_FILE = "tests/test_tidy.py"


def is_generated(path: Path, text: str) -> bool:
    """Generated modules say so in their first lines, and live in `codecs/`."""
    in_place = path.is_relative_to(ROOT / "codecs")
    return in_place and any(GENERATED_BANNER.search(line) for line in text.splitlines()[:3])


@cache
def sources() -> tuple[tuple[str, str, ast.Module], ...]:
    """(path, text, tree) of every hand-written module."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if not is_generated(path, text):
                found.append((path.relative_to(ROOT).as_posix(), text, ast.parse(text)))
    return tuple(found)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_functions_fit_a_screen() -> None:
    long = []
    for path, _, tree in sources():
        for function in functions(tree):
            assert function.end_lineno is not None
            lines = function.end_lineno - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                long.append(f"{path}:{function.lineno} {function.name}: {lines} lines")
    assert not long, "\n".join(long)


def test_modules_hold_one_noun() -> None:
    long = [
        f"{path}: {text.count(chr(10))} lines"
        for path, text, _ in sources()
        if text.count("\n") > MODULE_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_lines_fit_the_window() -> None:
    """Less an ignore and its reason, which must stand on the line they are about."""
    pragma = re.compile(r"\s+# (noqa|type: ignore).*")
    wide = [
        f"{path}:{number}"
        for path, text, _ in sources()
        for number, line in enumerate(text.splitlines(), 1)
        if len(pragma.sub("", line)) > LINE_COLUMNS_MAX
    ]
    assert not wide, "\n".join(wide)


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{path}:{number} {line.strip()}"
        for path, text, _ in sources()
        if path != THIS_FILE
        for number, line in enumerate(text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert not found, "\n".join(found)


def test_no_error_is_swallowed_without_a_word() -> None:
    """`except: pass` hides faults; a named exception with `contextlib.suppress` says which."""
    found = []
    for path, _, tree in sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            broad = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
            )
            silent = all(isinstance(statement, ast.Pass) for statement in node.body)
            if broad and silent:
                found.append(f"{path}:{node.lineno}")
    assert not found, "\n".join(found)


def test_modules_open_with_a_docstring() -> None:
    bare = [
        path for path, text, tree in sources() if text.strip() and ast.get_docstring(tree) is None
    ]
    assert not bare, "\n".join(bare)


def test_ignores_say_which_rule_and_why() -> None:
    """`# noqa: CODE - reason` and `# type: ignore[code]  # reason`: a bare one hides the next."""
    rule = re.compile(r"#\s*(noqa: [A-Z0-9, ]+\S* - \S+|type: ignore\[[\w, -]+\]\s+# \S+)")
    found = []
    for path, text, _ in sources():
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            is_ignore = re.match(r"#\s*(noqa|type:\s*ignore)", token.string)
            if token.type == tokenize.COMMENT and is_ignore and not rule.match(token.string):
                found.append(f"{path}:{token.start[0]} {token.string}")
    assert not found, "\n".join(found)


def test_generated_modules_stay_where_they_are_made() -> None:
    """Nothing hand-written hides among the generated modules, except their package files."""
    strangers = [
        path
        for path, _, _ in sources()
        if path.startswith("codecs/messages/") and not path.endswith("__init__.py")
    ]
    assert not strangers, "\n".join(strangers)
