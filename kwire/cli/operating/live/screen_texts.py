"""Texts of `kwire top` that are the same on a screen and in print.  No I/O."""

from __future__ import annotations

from kwire.cli.operating.live.rows import TopView
from kwire.cli.operating.live.tables import (
    byte_rate_text,
    count_text,
    rate_text,
    size_text,
)
from kwire.cli.text.output import counted

OFFLINE_NAMED_MAX = 5
"""Partitions without a leader that a line names; --json has all."""


def sums_of(view: TopView) -> str:
    """Two lines: the cluster, and its sums."""
    totals = view.totals
    return (
        f"cluster {view.cluster}: {counted(len(view.brokers), 'broker')},"
        f" {counted(totals.topics, 'topic')}, {counted(totals.partitions, 'partition')};"
        f" over {view.interval_s:.1f} s\n"
        f"records/s {rate_text(totals.records_in_per_s)}"
        f"  in {byte_rate_text(totals.bytes_in_per_s)}"
        f"  out {byte_rate_text(totals.bytes_out_per_s)}"
        f"  requests/s {rate_text(totals.requests_per_s)}"
        f"  errors/s {rate_text(totals.errors_per_s)}"
        f"  size {size_text(totals.size_bytes)}  lag {count_text(totals.lag)}"
    )


def problems_of(view: TopView) -> list[str]:
    """What is not well: brokers that are away or fail, and partitions."""
    found = [f"broker {each.broker}: {each.trouble}" for each in view.brokers if each.trouble]
    if view.offline:
        named = ", ".join(view.offline[:OFFLINE_NAMED_MAX])
        more = ", ..." if len(view.offline) > OFFLINE_NAMED_MAX else ""
        found.append(f"{counted(len(view.offline), 'partition')} offline: {named}{more}")
    if view.totals.under_replicated:
        found.append(f"{counted(view.totals.under_replicated, 'partition')} under-replicated")
    return found


def note_of(view: TopView) -> str | None:
    """What is not shown without metrics endpoints, or None if all brokers have one."""
    if view.with_metrics == len(view.brokers):
        return None
    if not view.with_metrics:
        return (
            "no latencies, requests and clients: no broker has a metrics endpoint"
            " (kwire serve --metrics PORT)"
        )
    missing = ", ".join(map(str, view.metrics_trouble))
    return f"latencies, requests and clients are without brokers {missing}: no metrics endpoint"
