"""A lively cluster, a console that shows it, and pages of a browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from kwire.testing import Kafka
from tests.console.browser.chromium import Watch, launched, watched_page, why_missing
from tests.console.consoles import ConsoleProcess, visit
from tests.console.lively import SETTINGS, lively
from tests.inside import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ConsoleFactory = Callable[..., ConsoleProcess]


def control_of(kafka: Kafka) -> str:
    """The option of a console that shows the broker's control, too."""
    return f"--control=http://127.0.0.1:{kafka.control_port}"


def wait_for_metrics(console: ConsoleProcess) -> None:
    """Wait until the console has found the brokers' metrics, with which its menu is complete."""
    deadline = time.monotonic() + PATIENCE_S
    while 'href="/clients"' not in visit(console, "/topics").text:
        assert time.monotonic() < deadline, "the menu has no page of clients"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Kafka]:
    """One broker with something of everything.  Tests only add what they alone use."""
    with Kafka(SETTINGS) as kafka, lively(kafka.bootstrap):
        yield kafka


@pytest.fixture(scope="session")
def console(cluster: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console of the lively cluster."""
    folder = tmp_path_factory.mktemp("console")
    with ConsoleProcess(cluster.bootstrap, folder, control_of(cluster)) as started:
        wait_for_metrics(started)
        yield started


@pytest.fixture
def console_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleFactory]:
    """Start consoles of the test's own: `console_factory(bootstrap, "--host=0.0.0.0")`."""
    processes: list[ConsoleProcess] = []

    def start(bootstrap: str, *options: str) -> ConsoleProcess:
        process = ConsoleProcess(bootstrap, tmp_path_factory.mktemp("console"), *options)
        process.start()
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.finish()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser.  It ends with the file's tests, since its asyncio loop would disturb others."""
    missing = why_missing()
    if missing:
        pytest.skip(f"NOT TESTED: {missing}")
    with launched() as browser:
        yield browser


@pytest.fixture
def watched(browser: Browser, console: ConsoleProcess) -> Iterator[tuple[Page, Watch]]:
    """A page of the lively cluster's console, and its watch."""
    with watched_page(browser, console.origin) as (page, watch):
        yield page, watch
    console.check_log()


@pytest.fixture
def page(watched: tuple[Page, Watch]) -> Page:
    """A page of the lively cluster's console.

    The test fails if the browser's console has an error, a script throws, the content security
    policy is violated, or anything is requested of another origin.
    """
    return watched[0]


@pytest.fixture
def watch(watched: tuple[Page, Watch]) -> Watch:
    """What watches the test's page."""
    return watched[1]
