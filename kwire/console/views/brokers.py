"""Brokers and replicas: the list, one broker, and what is not well and why."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from kwire.client.errors import Misuse
from kwire.client.inspection.health import BrokerHealth
from kwire.codecs.volumes import Volume
from kwire.console.cluster.commands import command_line
from kwire.console.cluster.health import (
    HeldReplica,
    ReplicaRow,
    broker_page,
    brokers_health,
    cluster_health,
)
from kwire.console.history.sampler import (
    BROKER_SIZE,
    CLUSTER_RATE,
    CLUSTER_SIZE,
    REQUEST_RATE,
    REQUEST_TIME,
)
from kwire.console.listing import TableColumn, shown_table
from kwire.console.site import SitePage, Visit

BROKER_COLUMNS: Final[tuple[TableColumn[BrokerHealth], ...]] = (
    TableColumn("broker", "Broker", lambda broker: broker.broker),
    TableColumn("address", "Address", lambda broker: broker.address),
    TableColumn("rack", "Rack", lambda broker: broker.rack),
    TableColumn(
        "leaders", "Leads", lambda broker: broker.leaders, is_number=True,
        title="Partitions that it leads, and how many it should lead",
    ),
    TableColumn("replicas", "Replicas", lambda broker: broker.replicas, is_number=True),
    TableColumn("size", "Size", lambda broker: broker.size_bytes, is_number=True),
    TableColumn(
        "lag", "Behind", lambda broker: broker.lag_records, is_number=True,
        title="Records by which its followers are behind their leaders",
    ),
    TableColumn("disk", "Disks"),
)  # fmt: skip

HELD_COLUMNS: Final[tuple[TableColumn[HeldReplica], ...]] = (
    TableColumn("partition", "Partition", lambda held: held.partition),
    TableColumn("role", "Role", lambda held: not held.is_leader),
    TableColumn("size", "Size", lambda held: held.size_bytes, is_number=True),
    TableColumn("lag", "Behind", lambda held: held.lag, is_number=True),
)

REPLICA_COLUMNS: Final[tuple[TableColumn[ReplicaRow], ...]] = (
    TableColumn("partition", "Partition", lambda row: row.partition),
    TableColumn("problem", "Problem", lambda row: row.problems[0]),
    TableColumn("leader", "Leader", lambda row: row.leader_id, is_number=True),
    TableColumn("replicas", "Replicas"),
    TableColumn("why", "Why", lambda row: " ".join(row.reasons) or None),
)


async def brokers(visit: Visit) -> Response:
    """The list of brokers, with what they lead and hold."""
    page = await visit.cached(brokers_health)
    table = shown_table(
        page.health.brokers,
        BROKER_COLUMNS,
        visit.table(),
        lambda broker: f"{broker.broker} {broker.address or ''} {broker.rack or ''}",
    )
    return visit.page(
        "brokers.html",
        page=page,
        table=table,
        plots=plots(visit),
        command=command_line(["cluster", "status"], visit.site.command_options),
    )


def plots(visit: Visit) -> list[tuple[str, str]]:
    """The title and the kind of each plot of the cluster."""
    found = [
        ("Records written", CLUSTER_RATE),
        ("Size of all replicas, by broker", BROKER_SIZE),
    ]
    if visit.site.metrics:
        found += [
            ("Requests", REQUEST_RATE),
            ("Time of requests, 99th percentile", REQUEST_TIME),
        ]
    return found


async def broker(visit: Visit) -> Response:
    """One broker: its disks, its replicas, what it leads."""
    text = visit.path["broker"]
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise Misuse(f"a broker has a number, not {text[:60]!r}")
    page = await visit.ask(broker_page, int(text))
    table = shown_table(
        page.replicas,
        HELD_COLUMNS,
        visit.table(),
        lambda held: f"{held.partition} {'leader' if held.is_leader else 'follower'}",
    )
    return visit.page(
        "broker.html",
        page=page,
        table=table,
        size_kind=BROKER_SIZE,
        used=used_share,
        move_command=command_line(
            ["cluster", "reassign", "--off", text], visit.site.command_options
        ),
    )


def used_share(volume: Volume) -> int | None:
    """How much of a disk is used, in percent; None if it is unknown."""
    if volume.total_bytes <= 0 or volume.usable_bytes < 0:
        return None
    return round(100 * (volume.total_bytes - volume.usable_bytes) / volume.total_bytes)


async def health(visit: Visit) -> Response:
    """What is not well, why, and what to do."""
    page = await visit.cached(cluster_health)
    table = shown_table(
        page.replicas,
        REPLICA_COLUMNS,
        visit.table(),
        lambda row: f"{row.partition} {' '.join(row.problems)} {' '.join(row.reasons)}",
    )
    options = visit.site.command_options
    return visit.page(
        "health.html",
        page=page,
        table=table,
        commands={
            finding.what: command_line(finding.words, options)
            for finding in page.findings
            if finding.words
        },
        command=command_line(["cluster", "status"], options),
        total_kind=CLUSTER_SIZE,
    )


PAGES = (
    SitePage("/health", health, label="Health", position=30),
    SitePage("/brokers", brokers, label="Brokers", position=40),
    SitePage("/brokers/{broker}", broker),
)
