"""What all tests share: brokers, async tests on trio, script files, seeds, and what is missing."""

from __future__ import annotations

import gc
import inspect
import logging
import os
import random
import signal
import subprocess
import warnings
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import trio
import trio.testing
from hypothesis.internal.conjecture import providers

from kwire import pipeline
from kwire.conformance import java
from kwire.pipeline.session import AVRO
from kwire.testing import BrokerProcess, registry, sharing
from kwire.testing.hosting import process
from tests.commands import servers
from tests.console.browser import chromium
from tests.ordering import ByPiece, drawn
from tests.shaking import Shaking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

pytest_plugins = ["kwire.conformance.pytest_apache"]

SEEDS = ("seed", "order")
"""Options that may be `random`."""

# Two cores are shared with brokers and Java: how long an example or its drawing takes says nothing.
UNTIMED = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("kwire", UNTIMED, derandomize=True)
hypothesis.settings.register_profile("quick", UNTIMED, derandomize=True, max_examples=50)
hypothesis.settings.register_profile("explore", UNTIMED, max_examples=2_000)
hypothesis.settings.load_profile("kwire")

# Else it draws constants of all modules that are imported by then, and so other examples after
# other tests; and each worker parses every module for them.
pytest.MonkeyPatch().setattr(providers, "_get_local_constants", lambda: providers._local_constants)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what script files' inputs give as expected"
    )
    parser.addoption(
        "--seed",
        default="1",
        help="seed of the tests that draw at random; `random` takes a new one",
    )
    parser.addoption(
        "--shaken", help="run the async tests alone, with pauses of the loop drawn from this seed"
    )
    parser.addoption(
        "--order", help="seed of the order of the test files; `random` takes a new one [--seed's]"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seeds once; workers of xdist take the controller's, for they parse the same options.

    A shell's background job ignores Ctrl-C, and so would all that the tests start and interrupt.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The examples are the same in each run, so half of them do for every change; a release has all.
    if "not long" in config.option.markexpr and not config.option.hypothesis_profile:
        hypothesis.settings.load_profile("quick")
    given = getattr(config, "workerinput", {})
    for name in SEEDS:
        if name in given:
            setattr(config.option, name, given[name])
        elif getattr(config.option, name) == "random":
            setattr(config.option, name, str(int.from_bytes(os.urandom(4))))
    if config.option.order is None:
        config.option.order = config.option.seed


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a worker of xdist the seeds that were drawn."""
    node.workerinput |= {name: getattr(node.config.option, name) for name in SEEDS}


def pytest_report_header(config: pytest.Config) -> list[str]:
    seed, order = config.option.seed, config.option.order
    seeds = f"seed: {seed}, order: {order} (again: --seed={seed} --order={order})"
    return [line for line in (seeds, java_lacks(), browser_lacks()) if line]


def java_lacks() -> str | None:
    """What is skipped and why, loudly; None where Java is here."""
    missing = java.why_missing()
    return missing and f"Apache Kafka's tools and Spark are NOT TESTED: {missing}"


def browser_lacks() -> str | None:
    """What is skipped and why, loudly; None where a browser is here."""
    missing = chromium.why_missing()
    return missing and f"The console's pages are NOT TESTED in a browser: {missing}"


HEAVY = ("java", "spark", "browser", "slow", "long")
"""Marks of tests that make their file a long one."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that is collected goes before the end, so the collector never looks through it.

    It did so again and again while thousands of tests were collected, in each worker: two fifths
    of the time that this took; and then at each full collection of the run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # other plugins mark what needs Java
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.shaken:
        items[:] = [item for item in items if is_async(item)]
    order_files(config, items)
    skip_marked(items, java_lacks(), "java", "spark")
    skip_marked(items, browser_lacks(), "browser")


def order_files(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files into the order of their seed, unless they were named one by one.

    xdist hands them out in this order, the same on all workers (with `--no-loadscope-reorder`).
    """
    if all(Path(argument.partition("::")[0]).is_file() for argument in config.args):
        return
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    is_long = {
        name: any(mark.name in HEAVY for item in held for mark in item.iter_markers())
        for name, held in files.items()
    }
    items[:] = [item for name in drawn(is_long, config.option.order) for item in files[name]]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByPiece | None:
    return ByPiece(config, log) if config.option.dist == "loadfile" else None


def is_async(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj)


def skip_marked(items: list[pytest.Item], reason: str | None, *marks: str) -> None:
    """Skip the tests with one of these marks, if there is a reason."""
    if reason is None:
        return
    for item in items:
        if any(item.get_closest_marker(mark) for mark in marks):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason in (java_lacks(), browser_lacks()):
        if reason:
            terminalreporter.write_line(reason, red=True, bold=True)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests on trio; an `autojump_clock` argument makes their time jump."""
    if not is_async(pyfuncitem):
        return None
    function = pyfuncitem.obj
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(function).parameters}
    clocks = [value for value in arguments.values() if isinstance(value, trio.abc.Clock)]
    shaken = pyfuncitem.config.option.shaken
    trio.run(
        partial(function, **arguments),
        clock=clocks[0] if clocks else None,
        instruments=[Shaking(f"{shaken} {pyfuncitem.nodeid}")] if shaken else (),
    )
    return True


@pytest.fixture(scope="module", autouse=True)
def what_a_file_left_open_is_closed() -> Iterator[None]:
    """Clients, and the descriptors of brokers and logs, end with the tests of a file.

    The collector closes what is part of a cycle.  Left alone, it comes by after minutes: a worker
    then has over a thousand descriptors, and the warning about a socket that a test left open fails
    another test.  An exception that was expected holds its test's frame, and that the exception, so
    a client of librdkafka goes on asking for a broker that is gone.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def threads() -> Iterator[str]:
    """The names of this process' threads, of C libraries too; none where Linux does not tell."""
    for file in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it has ended
            yield file.read_text().strip()


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """A clock that jumps to the next deadline when all tasks sleep."""
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.fixture
def silence() -> Iterator[None]:
    """Nothing is logged in the test: pytest would keep it, and what it refers to, to its end.

    `logging.disable` has loggers forget which levels are on; to set the level of their manager does
    not, and then they would stay silent in later tests.
    """
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


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


@pytest.fixture(scope="session", autouse=True)
def brokers_are_forked() -> Iterator[None]:
    """kwire.testing forks the brokers that it starts (`tests.commands.servers`).

    To start Python and to import a broker takes most of a short-lived broker's processor time.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (process, registry, sharing):
            patch.setattr(module, "Popen", servers.start)
        yield


@pytest.fixture
def brokers_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """kwire.testing starts its brokers as it does for its users, in a Python of their own."""
    for module in (process, registry, sharing):
        monkeypatch.setattr(module, "Popen", subprocess.Popen)


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


SPARK_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.defaultJavaOptions": "",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
}
"""Small data, once: compiling takes longer than what it saves.  The session writes no archive of
classes at its end, which would go on after that of the tests."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores with the connector and Avro; one for all tests: it starts slowly, and a
    process has one session, so that two ways to make it would depend on which test comes first."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    options = pipeline.SparkOptions("local[2]", SPARK_SETTINGS, log, modules=(AVRO,))
    with pipeline.session("tests", options) as session:
        yield session


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name for topics and groups that no other test uses."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60]
    return f"{name}-{zlib.crc32(request.node.nodeid.encode()):08x}"
