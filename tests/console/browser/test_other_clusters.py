"""The same pages of clusters of another kind: Apache Kafka 4.4, and three brokers of kwire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing import KafkaCluster
from tests.console.browser.asking import findings
from tests.console.browser.chromium import watched_page
from tests.console.consoles import ConsoleProcess
from tests.console.crawling import found_pages
from tests.console.lively import GROUPS, SETTINGS, lively

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.long]


@contextmanager
def apache_kafka(folder: Path) -> Iterator[str]:
    """One node of Apache Kafka."""
    with ApacheKafka(folder / "apache", settings=SETTINGS) as node:
        yield node.bootstrap


@contextmanager
def three_brokers(_: Path) -> Iterator[str]:
    """Three brokers of kwire."""
    with KafkaCluster(3, SETTINGS) as cluster:
        yield cluster.bootstrap


@pytest.mark.parametrize(
    "cluster",
    [pytest.param(apache_kafka, marks=pytest.mark.java), three_brokers],
    ids=["Apache Kafka", "three brokers"],
)
def test_pages_show_a_cluster_of_another_kind(
    cluster: Callable[[Path], AbstractContextManager[str]], tmp_path: Path, browser: Browser
) -> None:
    with cluster(tmp_path) as bootstrap, lively(bootstrap):
        console = ConsoleProcess(bootstrap, tmp_path)
        console.start()
        pages = found_pages(console.origin, per_route=1)
        assert not [(page.status, page.target) for page in pages if page.status != 200]
        text = " ".join(page.text for page in pages)
        for name in ("orders", "page-views", *GROUPS):
            assert name in text
        found: list[str] = []
        with watched_page(browser, console.origin) as (page, _):
            for each in pages:
                page.goto(each.target, wait_until="load")
                seen = findings(page, "marks", "structure", "overflow")
                found += [f"{each.target[:200]}: {finding}" for finding in seen]
        assert not found, "\n".join(found)
        console.finish()
