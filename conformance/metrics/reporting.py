"""Writes the comparison as a page: every metric, with its values and how far they are apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from kwire.conformance.apache_kafka import VERSION
from kwire.conformance.metrics.comparing import TOLERANCE, Verdict


def write_report(path: Path, verdicts: Sequence[Verdict], brokers: int) -> None:
    """Write a Markdown page with one row for each metric, and one for each value that differs."""
    differ = [verdict for verdict in verdicts if verdict.problem]
    cluster = "one broker" if brokers == 1 else f"{brokers} brokers"
    lines = [
        "# Metrics beside Apache Kafka's",
        "",
        f"The same load to {cluster} of kwire and of Apache Kafka {VERSION}. Values may differ by"
        f" {TOLERANCE:.0%}.",
        f"{len(verdicts)} values were compared, {len(differ)} differ.",
        "",
        "| metric | values | sum, kwire | sum, Apache Kafka | differ |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for metric, group in groupby(verdicts, key=lambda verdict: verdict.metric):
        rows = list(group)
        subject, oracle = sum(row.subject for row in rows), sum(row.oracle for row in rows)
        wrong = sum(bool(row.problem) for row in rows)
        lines.append(f"| `{metric}` | {len(rows)} | {subject:g} | {oracle:g} | {wrong} |")
    if differ:
        lines += [
            "",
            "| metric | labels | kwire | Apache Kafka | |",
            "| --- | --- | ---: | ---: | --- |",
        ]
        lines += [
            f"| `{row.metric}` | {row.labels} | {row.subject:g} | {row.oracle:g} | {row.problem} |"
            for row in differ
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
