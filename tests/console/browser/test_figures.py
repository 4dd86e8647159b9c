"""How soon a page is there, and whether a live tail keeps up: `make console-figures`.

Before a release the tests measure little and set no limit in time, so that they pass on a busy
machine; other tests see that a tail stays small.  The target measures 1,000 and 10,000 topics, and
a tail of 5,000 records a second for a minute.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kwire.client.cluster import Cluster
from kwire.client.errors import check
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.testing import Kafka
from tests.console.browser.chromium import watched_page
from tests.console.browser.figures import IS_WRITING, keep, machine, spread
from tests.console.conftest import ConsoleFactory

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.long]

TOPICS = (1_000, 10_000) if IS_WRITING else (300,)
VISITS = 15 if IS_WRITING else 2
ROOT = Path(__file__).resolve().parents[3]
ROWS_MAX = 500
"""Rows that a live tail shows."""
RATE = 5_000 if IS_WRITING else 500
TAIL_S = 60.0 if IS_WRITING else 2.0
CREATED_AT_ONCE = 250

PAINTS_JS = """() => new Promise((done) => {
  const paints = performance.getEntriesByType("paint");
  const first = paints.find((each) => each.name === "first-contentful-paint");
  new PerformanceObserver((list) => {
    const largest = list.getEntries().at(-1);
    done([first?.startTime ?? largest.startTime, largest.startTime,
      performance.getEntriesByType("navigation")[0].responseEnd]);
  }).observe({ type: "largest-contentful-paint", buffered: true });
})"""
"""Times since the navigation began, in ms: the first paint with content, the largest (here the
table), and the end of the response."""


class Paints(NamedTuple):
    """When a page was painted, in ms since the navigation began."""

    first: float
    largest: float
    response: float


def painted(page: Page, target: str) -> Paints:
    """Visit a page, and return its times by the browser's own clock."""
    page.goto(target, wait_until="load")
    return Paints(*page.evaluate(PAINTS_JS))


def create_topics(bootstrap: str, first: int, end: int) -> None:
    """Create the topics with these numbers, of one partition each."""
    cluster = Cluster(bootstrap, timeout_s=300)
    for start in range(first, end, CREATED_AT_ONCE):
        numbers = range(start, min(end, start + CREATED_AT_ONCE))
        topics = [CreatableTopic(f"topic-{number:05}", 1, 1) for number in numbers]
        request = CreateTopicsRequest(topics=topics, timeout_ms=300_000)
        reply: CreateTopicsResponse = cluster.any().call(request)
        for topic in reply.topics:
            check(topic.error_code, f"create {topic.name}")
    cluster.close()


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """A broker for many topics and many records."""
    with Kafka({"log.cleaner.enable": "false"}) as kafka:
        yield kafka


def test_first_page_of_topics_is_painted_with_many_topics(
    browser: Browser, kafka: Kafka, console_factory: ConsoleFactory
) -> None:
    created = 0
    if IS_WRITING:
        keep("measured on", machine())
    for count in TOPICS:
        create_topics(kafka.bootstrap, created, count)
        created = count
        console = console_factory(kafka.bootstrap)
        paints = []
        for _ in range(VISITS):
            # A new profile: nothing is in the browser's cache.
            with watched_page(browser, console.origin) as (page, _):
                paints.append(painted(page, "/topics"))
                assert page.get_by_role("row").count() > 25
                assert f"{count:,} topics" in page.inner_text("main")
        name = f"{count:,} topics: the list is painted"
        keep(f"{name}, the first visit", f"{paints[0].largest:,.0f} ms")
        keep(f"{name}, later visits", spread([each.largest for each in paints[1:]], "ms"))


class Size(NamedTuple):
    """What a tail takes at a moment."""

    elements: int
    """Elements of the page."""
    heap_mb: float
    """The heap of the page's scripts after a collection."""
    console_mb: float
    """Resident memory of the console's process."""


def size_of(page: Page, console_pid: int) -> Size:
    """What the page and the console take now."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {
        each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]
    }
    session.detach()
    status = Path(f"/proc/{console_pid}/status").read_text()
    resident_kb = next(line.split()[1] for line in status.splitlines() if line[:6] == "VmRSS:")
    elements: int = page.evaluate("() => document.querySelectorAll('*').length")
    return Size(elements, metrics["JSHeapUsedSize"] / 1e6, int(resident_kb) / 1000)


def seen_by(page: Page) -> int:
    """How many records the live tail has counted."""
    return int(page.locator("[data-count=seen]").inner_text().replace(",", ""))


def test_live_tail_keeps_up_and_does_not_grow(
    browser: Browser, kafka: Kafka, console_factory: ConsoleFactory
) -> None:
    topic = kafka.create_topic("steady", partitions=4)
    console = console_factory(kafka.bootstrap)
    with watched_page(browser, console.origin) as (page, _):
        page.goto(f"/topics/{topic}/messages?from=live")
        page.locator(".live[data-state=on]").wait_for()
        command = [sys.executable, "-m", "tests.console.producing", kafka.bootstrap, topic.name]
        with subprocess.Popen(
            [*command, str(RATE), str(TAIL_S)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as producing:
            assert producing.stdout is not None
            page.locator("#rows tr").nth(ROWS_MAX - 1).wait_for()
            sizes = [size_of(page, console.pid)]
            while producing.poll() is None:
                page.wait_for_timeout(500)
                sizes.append(size_of(page, console.pid))
            written = int(producing.stdout.read())
        ended = time.monotonic()
        page.locator("[data-count=seen]", has_text=f"{written:,}").wait_for()
        behind_s = time.monotonic() - ended
        assert seen_by(page) == written
        sizes.append(size_of(page, console.pid))
    name = f"live tail of {RATE:,} records/s for {TAIL_S:.0f} s"
    early, last = sizes[: len(sizes) // 2 + 1], sizes[-1]
    assert last.elements <= max(each.elements for each in early) * 1.1
    if IS_WRITING:
        assert last.heap_mb < max(each.heap_mb for each in early) + 5
        assert last.console_mb < max(each.console_mb for each in early) + 20
    keep(f"{name}: the page has all after the last was written", f"{behind_s:.1f} s")
    keep(f"{name}: heap of the page, largest", f"{max(each.heap_mb for each in sizes):.1f} MB")
    memory = f"{sizes[0].console_mb:.0f} MB, then {last.console_mb:.0f} MB"
    keep(f"{name}: memory of the console", memory)
