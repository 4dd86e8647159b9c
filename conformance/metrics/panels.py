"""`python -m kwire.conformance.metrics.panels`: asks a real Prometheus the dashboard's queries.

It starts brokers, sends them the load, and lets Prometheus read their metrics.  Each query of each
panel must have a value.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kwire.conformance.metrics import coordinated, load
from kwire.conformance.metrics.dashboard import panels
from kwire.conformance.metrics.load import Load
from kwire.conformance.metrics.prometheus import Prometheus
from kwire.conformance.metrics.subjects import Subject, kwire

RATE_INTERVAL: Final = "1m"
PATIENCE_S: Final = 60.0
"""How long a query may stay empty: rates need two scrapes of a series."""
POLL_S: Final = 1.0


def main() -> int:
    """Print the queries without a value; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m kwire.conformance.metrics.panels")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kwire-dashboard-") as folder,
        kwire(Path(folder, "kwire"), given.brokers) as subject,
        Prometheus(Path(folder, "prometheus"), targets(subject)) as prometheus,
    ):
        sender = Load(subject.bootstrap)
        sender.prepare()
        time.sleep(3 * POLL_S)  # rates need a scrape from before the load
        for step in (*load.STEPS, *coordinated.STEPS):
            step(sender)
        empty = list(empty_queries(prometheus, sender))
        sender.finish()
    for title, query in empty:
        print(f"{title}: no value: {query}")
    print(f"{len(panels())} panels, {len(empty)} queries without a value")
    return 1 if empty else 0


def targets(subject: Subject) -> list[str]:
    """Return HOST:PORT of each endpoint."""
    return [urllib.parse.urlsplit(url).netloc for url in subject.urls]


def empty_queries(prometheus: Prometheus, sender: Load) -> Iterator[tuple[str, str]]:
    """Yield the title and the query for each query that has no value in time.

    Clients go on meanwhile: a rate needs requests between two scrapes.
    """
    deadline = time.monotonic() + PATIENCE_S
    for panel in panels():
        for query in panel.queries:
            asked = query.replace("$__rate_interval", RATE_INTERVAL)
            while not any(not math.isnan(value) for _, value in prometheus.query(asked)):
                if time.monotonic() > deadline:
                    yield panel.title, asked
                    break
                load.list_offsets_and_metadata(sender)
                time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main())
