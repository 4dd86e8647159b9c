"""`python -m kwire.conformance.metrics`: compares metrics with Apache Kafka's under one load."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from kwire.conformance.metrics.compared import rows_for
from kwire.conformance.metrics.comparing import compare, measure
from kwire.conformance.metrics.reporting import write_report
from kwire.conformance.metrics.subjects import apache, kwire


def main() -> int:
    """Compare one broker with one, or three with three; return 1 if a metric differs."""
    parser = argparse.ArgumentParser(prog="python -m kwire.conformance.metrics")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--report", type=Path, help="a file for the table of all values")
    given = parser.parse_args()
    rows = rows_for(given.brokers)
    with tempfile.TemporaryDirectory(prefix="kwire-metrics-") as folder:
        with kwire(Path(folder, "kwire"), given.brokers) as subject:
            measured = measure(subject, rows)
        with apache(Path(folder, "apache"), given.brokers) as oracle:
            reference = measure(oracle, rows)
    verdicts = list(compare(measured, reference, rows))
    if given.report:
        write_report(given.report, verdicts, given.brokers)
    differ = [verdict for verdict in verdicts if verdict.problem]
    for verdict in differ:
        print(
            f"{verdict.metric} {verdict.labels}: {verdict.problem}"
            f" (kwire {verdict.subject:g}, Apache Kafka {verdict.oracle:g})"
        )
    print(f"{len(rows)} metrics, {len(verdicts)} values, {len(differ)} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
