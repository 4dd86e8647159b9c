"""Rules of form that every hand-written module keeps."""

from __future__ import annotations

import io
import re
import tokenize
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tests.sources.parsed import Parsed, parsed

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


def is_generated(path: Path) -> bool:
    """Generated modules say so in their first lines, and live in `codecs/`."""
    if not path.is_relative_to(ROOT / "codecs"):
        return False
    with path.open() as module:
        return any(GENERATED_BANNER.search(line) for line in islice(module, 3))


class Source(NamedTuple):
    """A hand-written module."""

    path: str
    module: Parsed


@cache
def sources() -> tuple[Source, ...]:
    """Every hand-written module."""
    return tuple(
        Source(path.relative_to(ROOT).as_posix(), parsed(path))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not is_generated(path)
    )


def test_functions_fit_a_screen() -> None:
    long = [
        f"{source.path}:{function.line} {function.name}: {function.lines} lines"
        for source in sources()
        for function in source.module.functions
        if function.lines > FUNCTION_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_modules_are_not_too_long() -> None:
    long = [
        f"{source.path}: {lines} lines"
        for source in sources()
        if (lines := source.module.text.count("\n")) > MODULE_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_lines_fit_the_window() -> None:
    """Less an ignore and its reason, which must stand on the line they are about."""
    pragma = re.compile(r"\s+# (noqa|type: ignore).*")
    wide = [
        f"{source.path}:{number}"
        for source in sources()
        for number, line in enumerate(source.module.text.splitlines(), 1)
        if len(pragma.sub("", line)) > LINE_COLUMNS_MAX
    ]
    assert not wide, "\n".join(wide)


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{source.path}:{number} {line.strip()}"
        for source in sources()
        if source.path != THIS_FILE
        for number, line in enumerate(source.module.text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert not found, "\n".join(found)


def test_no_broad_except_only_passes() -> None:
    """`except: pass` hides defects; `contextlib.suppress` names the exception it ignores."""
    found = [f"{source.path}:{line}" for source in sources() for line in source.module.silent]
    assert not found, "\n".join(found)


def test_no_test_changes_the_clock_of_the_whole_process() -> None:
    """Members of a session's cluster live in threads of the process and read the same clock.

    A test replaces the name `time` in the module that it tests instead.
    """
    pattern = re.compile(r"""setattr\(\s*(time\b|["'][\w.]*\.time\.)""")
    found = [
        f"{source.path}:{source.module.text.count(chr(10), 0, match.start()) + 1} {match[0]}"
        for source in sources()
        for match in pattern.finditer(source.module.text)
    ]
    assert not found, "\n".join(found)


def test_modules_open_with_a_docstring() -> None:
    bare = [path for path, module in sources() if module.text.strip() and module.docstring is None]
    assert not bare, "\n".join(bare)


def test_ignores_say_which_rule_and_why() -> None:
    """`# noqa: CODE - reason` and `# type: ignore[code]  # reason`: a bare one hides the next."""
    rule = re.compile(r"#\s*(noqa: [A-Z0-9, ]+\S* - \S+|type: ignore\[[\w, -]+\]\s+# \S+)")
    found = []
    ignore = re.compile(r"#\s*(noqa|type:\s*ignore)")
    for source in sources():
        lines = (line for line in source.module.text.splitlines() if ignore.search(line))
        if all(len(ignore.findall(line)) == len(rule.findall(line)) for line in lines):
            continue  # without reading its tokens, which takes long
        for token in tokenize.generate_tokens(io.StringIO(source.module.text).readline):
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
            for name in source.module.classes:
                places.setdefault(name, []).append(source.path)
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert shared.keys() == SHARED_CLASS_NAMES.keys(), shared
