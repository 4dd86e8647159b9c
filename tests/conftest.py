"""What all tests share: brokers, async tests on trio, script files, seeds, and what needs Java."""

from __future__ import annotations

import inspect
import os
import random
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path

import hypothesis
import pytest
import trio
import trio.testing

from kwire.testing import BrokerProcess

JAVA_VERSION_MIN = 17
"""Apache Kafka 4 and Spark 4 run on Java 17 and newer."""

# Two cores are shared with brokers and Java: how long an example takes says nothing.
hypothesis.settings.register_profile("kwire", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2_000)
hypothesis.settings.load_profile("kwire")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what script files' inputs give as expected"
    )
    parser.addoption(
        "--seed",
        default="1",
        help="seed of the tests that draw at random; `random` takes a new one",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed once; workers of xdist are given the controller's options, so it too."""
    if config.option.seed == "random":
        config.option.seed = str(int.from_bytes(os.urandom(4)))


def pytest_report_header(config: pytest.Config) -> list[str]:
    java = java_version()
    lines = [f"seed: {config.option.seed} (again with --seed={config.option.seed})"]
    if java < JAVA_VERSION_MIN:
        lines.append(f"NO JAVA {JAVA_VERSION_MIN}+: {java_lacks(java)}")
    return lines


@cache
def java_version() -> int:
    """The major version of the Java that would be used; 0 where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        return 0
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    quoted = done.stderr.partition('version "')[2].partition('"')[0]
    major = quoted.removeprefix("1.").split(".")[0].split("-")[0]
    return int(major) if major.isdigit() else 0


def java_lacks(version: int) -> str:
    found = f"Java {version} was found" if version else "no Java was found"
    return (
        f"tests against Apache Kafka's tools and Spark are SKIPPED, they need Java "
        f"{JAVA_VERSION_MIN} or newer and {found}; install one or set JAVA_HOME"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if java_version() >= JAVA_VERSION_MIN:
        return
    skip = pytest.mark.skip(reason=java_lacks(java_version()))
    for item in items:
        if item.get_closest_marker("java") or item.get_closest_marker("spark"):
            item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if java_version() < JAVA_VERSION_MIN:
        terminalreporter.write_line(java_lacks(java_version()), red=True, bold=True)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests on trio; an `autojump_clock` argument makes their time jump."""
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(function).parameters}
    clocks = [value for value in arguments.values() if isinstance(value, trio.abc.Clock)]
    trio.run(partial(function, **arguments), clock=clocks[0] if clocks else None)
    return True


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """A clock that jumps to the next deadline when all tasks sleep."""
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of the run's seed and this test's own name, whatever else runs."""
    seed = f"{request.config.option.seed}:{request.node.nodeid}"
    return random.Random(zlib.crc32(seed.encode()))


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether script files are to be renewed instead of compared (`pytest --rewrite`)."""
    return bool(request.config.option.rewrite)


CheckScript = Callable[[Path, Callable[[str], list[str]]], None]


@pytest.fixture
def check_script(rewrite: bool) -> CheckScript:
    """Compare a script file with what its inputs give now, or renew it.

    A line at the margin is an input; the indented lines under it are what is expected of it.
    Empty lines and lines that begin with `#` are kept as they are.
    """

    def check(path: Path, run: Callable[[str], list[str]]) -> None:
        before = path.read_text()
        after: list[str] = []
        for line in before.splitlines():
            if line.startswith("  "):
                continue
            after.append(line)
            if line and not line.startswith("#"):
                after += [f"  {output}".rstrip() for output in run(line)]
        text = "\n".join(after) + "\n"
        if rewrite:
            path.write_text(text)
        assert text.splitlines() == path.read_text().splitlines(), f"{path.name} (or --rewrite)"

    return check


BrokerFactory = Callable[..., BrokerProcess]

UNHANDLED = ("Traceback (most recent call last)", "ERROR unhandled")
"""What no broker may have logged by the end of a test."""


def finish(broker: BrokerProcess) -> None:
    """Stop a test's broker and see that it ended well."""
    was_running = broker.running
    status = broker.stop()
    log = broker.log
    print(log)  # shown with a test that failed
    assert not any(sign in log for sign in UNHANDLED), log
    assert not was_running or status == 0, f"the broker ended with status {status}:\n{log}"


@pytest.fixture
def broker_factory(tmp_path: Path) -> Iterator[BrokerFactory]:
    """Start brokers with settings of the test's own: `broker_factory({"num.partitions": "3"})`."""
    brokers: list[BrokerProcess] = []

    def start(settings: Mapping[str, str] | None = None) -> BrokerProcess:
        broker = BrokerProcess(tmp_path / f"broker-{len(brokers)}", settings)
        brokers.append(broker)
        broker.start()
        return broker

    yield start
    for broker in brokers:
        finish(broker)


@pytest.fixture
def broker(broker_factory: BrokerFactory) -> BrokerProcess:
    """A broker of this test's own, with default settings, that has just been started."""
    return broker_factory()


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that only use topics and groups of their own (see `unique`)."""
    broker = BrokerProcess(tmp_path_factory.mktemp("shared-broker"))
    broker.start()
    yield broker
    finish(broker)


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name for topics and groups that no other test uses."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60]
    return f"{name}-{zlib.crc32(request.node.nodeid.encode()):08x}"
