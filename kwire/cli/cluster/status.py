"""`kwire cluster status`: shows the brokers of a cluster and its problems."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kwire.cli.app import connected_within
from kwire.cli.grammar.bounds import TIMEOUT_S
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import (
    Cell,
    bytes_text,
    counted,
    json_option,
    json_text,
    print_json,
    print_table,
    say,
)
from kwire.cli.values import partitions_text

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster, TopicPartition
    from kwire.client.inspection.health import BrokerHealth, ClusterHealth
    from kwire.client.inspection.quorum import ControllerQuorum, QuorumMember
    from kwire.client.reassignments import Reassignment

PATIENCE_S = 5.0
"""The timeout of each broker: short, so that a broker that hangs is found soon."""
INTERVAL_S = 2.0
TOPICS_SHOWN_MAX = 20
LAGS_SHOWN_MAX = 20


@click.command("status")
@click.option("-w", "--watch", is_flag=True, help="Show the status repeatedly, until Ctrl-C.")
@click.option(
    "-i", "--interval", type=TIMEOUT_S, metavar="SECONDS", default=INTERVAL_S,
    show_default=True, help="With --watch: the pause between two views.",
)  # fmt: skip
@json_option
@connected_within(PATIENCE_S)
def command(cluster: Cluster, watch: bool, interval: float, as_json: bool) -> None:
    """Show the brokers of a cluster, what each leads and stores, and all problems.

    \b
      kwire cluster status
      kwire cluster status --watch --interval 1
      kwire cluster status --json | jq .under_replicated

    The command asks all brokers at the same time, and names a broker that does not answer within
    --timeout seconds.  LED BY OTHERS counts the partitions whose preferred leader (first replica)
    is the broker, and that another broker leads: kwire cluster elect changes that.  LAG is the
    number of records by which all replicas on the broker are behind their leaders.

    In a cluster with controllers of its own the quorum is shown, too: its leader and epoch, and how
    far the other controllers (voters) and the brokers (observers) are behind the leader.

    Exits with 1 if a broker is absent, does not answer, has lost a log directory or has a full
    disk, if there is no controller or one does not follow the quorum, or if a partition is offline,
    under min.insync.replicas or under-replicated.  It also warns about disks that are nearly full.
    With --json and --watch each view is one line.
    """
    from kwire.client.inspection.health import health_of
    from kwire.client.inspection.survey import survey

    if watch:
        _watched(cluster, interval, as_json)
    health = health_of(survey(cluster))
    if as_json:
        print_json(as_object(health))
    else:
        show(health)
    if health.ailments:
        raise SystemExit(EXIT_FAILURE)


def _watched(cluster: Cluster, interval_s: float, as_json: bool) -> None:
    """Shows the health every `interval_s` seconds until Ctrl-C, also after a failed request."""
    from kwire.client.errors import ClientError
    from kwire.client.inspection.health import health_of
    from kwire.client.inspection.survey import survey

    while True:
        try:
            health = health_of(survey(cluster))
        except ClientError as error:
            say(f"kwire: {error}")
        else:
            if as_json:
                click.echo(json_text(as_object(health)))
            else:
                click.clear()  # It does nothing if the output is not a terminal.
                click.echo(time.strftime("%H:%M:%S  "), nl=False)
                show(health)
        time.sleep(interval_s)


# -- for people


def show(health: ClusterHealth) -> None:
    """Print tables, and a last line that says whether all is well."""
    click.echo(
        f"cluster {health.cluster_id}: {counted(len(health.brokers), 'broker')},"
        f" {counted(health.topics, 'topic')}, {counted(health.partitions, 'partition')}"
    )
    columns = [
        "broker", "address", "rack", "controller", "leaders", "led by others", "replicas", "lag",
        "size", "trouble",
    ]  # fmt: skip
    print_table(columns, [_row(each, health) for each in health.brokers])
    _show_quorum(health)
    for places, what in (
        (health.offline, "offline, without a leader"),
        (health.under_min_isr, "under min.insync.replicas, where acks=all is refused"),
        (health.under_replicated, "under-replicated"),
        (health.not_preferred, "not led by the preferred leader, which is in sync"),
    ):
        _name(what, places)
    _show_lags(health)
    _show_reassignments(health.reassignments)
    levels = ", ".join(f"{name} {level}" for name, level in sorted(health.features.items()))
    click.echo(f"features: {levels or 'none'}")
    verdict = "; ".join(health.ailments)
    warnings = "; ".join(health.warnings)
    if warnings:
        click.echo(f"warnings: {warnings}")
    click.echo(f"problems: {verdict}" if verdict else "all is well")


def _row(broker: BrokerHealth, health: ClusterHealth) -> tuple[Cell, ...]:
    """Return the row of a broker in the table of brokers; its last cell lists its problems."""
    trouble = [] if broker.address else ["away"]
    trouble += [broker.trouble] if broker.trouble else []
    trouble += [f"lost {directory}" for directory in broker.failed_dirs]
    trouble += [f"full: {directory}" for directory in broker.full_dirs]
    trouble += [f"nearly full: {directory}" for directory in broker.nearly_full_dirs]
    return (
        broker.broker,
        broker.address,
        broker.rack,
        "yes" if broker.broker == health.controller_id else "",
        broker.leaders,
        broker.preferred_led_by_others,
        broker.replicas,
        broker.lag_records,
        None if broker.size_bytes is None else bytes_text(broker.size_bytes),
        "; ".join(trouble),
    )


def _show_quorum(health: ClusterHealth) -> None:
    """Prints the quorum, unless its one voter is a broker of the table above, which says as much.

    One voter is all that a single node has, and a cluster of `kwire serve --brokers`.
    """
    quorum = health.quorum
    if quorum is None:
        return
    brokers = {each.broker for each in health.brokers if each.address}
    if len(quorum.voters) == 1 and quorum.leader_id in brokers:
        return
    click.echo(f"quorum: led by {quorum.leader_id} in epoch {quorum.leader_epoch}")
    columns = ["member", "role", "address", "end offset", "records behind", "seconds behind"]
    print_table(columns, [_member_row(each, quorum.leader_id) for each in quorum.members])


def _member_row(member: QuorumMember, leader_id: int) -> tuple[Cell, ...]:
    """Return the row of a voter or an observer in the table of the quorum."""
    role = "observer"
    if member.is_voter:
        role = "leader" if member.member_id == leader_id else "voter"
    seconds = member.seconds_behind
    return (
        member.member_id,
        role,
        member.address,
        member.end_offset,
        member.records_behind,
        None if seconds is None else f"{seconds:.1f}",
    )


def _name(what: str, places: Iterable[TopicPartition]) -> None:
    """Prints the partitions by topic under the headline `what`; prints nothing if there are
    none."""
    by_topic: dict[str, list[int]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(place.partition)
    if not by_topic:
        return
    click.echo(f"{what}:")
    for topic in list(by_topic)[:TOPICS_SHOWN_MAX]:
        click.echo(f"  {partitions_text(topic, by_topic[topic])}")
    if len(by_topic) > TOPICS_SHOWN_MAX:
        click.echo(f"  and {len(by_topic) - TOPICS_SHOWN_MAX} more topics (--json has all)")


def _show_lags(health: ClusterHealth) -> None:
    """Prints the followers that lag most, those out of sync first."""
    worst = sorted(health.lags, key=lambda lag: (lag.in_sync, -lag.records))[:LAGS_SHOWN_MAX]
    rows: list[tuple[Cell, ...]] = [
        (str(lag.partition), lag.broker, lag.records, "yes" if lag.in_sync else "no")
        for lag in worst
    ]
    if rows:
        print_table(["partition", "follower", "records behind", "in sync"], rows)
    if len(health.lags) > len(worst):
        click.echo(f"and {len(health.lags) - len(worst)} more (--json has all)")


def _show_reassignments(reassignments: list[Reassignment] | None) -> None:
    """Prints the reassignments in progress.  None means that the controller does not support the
    request."""
    if reassignments is None:
        click.echo("reassignments: the controller does not say")
    elif reassignments:
        print_table(
            ["reassigned", "replicas now", "adding", "removing"],
            [
                (str(each.partition), *(_listed(ids) for ids in each[1:]))
                for each in reassignments[:LAGS_SHOWN_MAX]
            ],
        )
    if reassignments and len(reassignments) > LAGS_SHOWN_MAX:
        click.echo(f"and {len(reassignments) - LAGS_SHOWN_MAX} more (--json has all)")


def _listed(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


# -- for programs


def as_object(health: ClusterHealth) -> dict[str, Any]:
    """The health of a cluster as JSON."""
    reassignments = health.reassignments
    return {
        "cluster": health.cluster_id,
        "well": not health.ailments,
        "ailments": health.ailments,
        "warnings": health.warnings,
        "controller": health.controller_id if health.controller_id >= 0 else None,
        "quorum": None if health.quorum is None else _quorum_object(health.quorum),
        "topics": health.topics,
        "partitions": health.partitions,
        "features": health.features,
        "brokers": [_broker_object(each) for each in health.brokers],
        "offline": _places(health.offline),
        "under_min_isr": _places(health.under_min_isr),
        "under_replicated": _places(health.under_replicated),
        "not_preferred": _places(health.not_preferred),
        "reassignments": None
        if reassignments is None
        else [_reassignment_object(each) for each in reassignments],
        "lags": [
            {**_place(lag.partition), "broker": lag.broker, "records": lag.records,
             "in_sync": lag.in_sync}
            for lag in health.lags
        ],
    }  # fmt: skip


def _broker_object(broker: BrokerHealth) -> dict[str, Any]:
    """Return the health of a broker as a JSON object; docs/commands.md documents the fields."""
    return {
        "broker": broker.broker,
        "address": broker.address,
        "rack": broker.rack,
        "leaders": broker.leaders,
        "preferred": broker.preferred,
        "preferred_led_by_others": broker.preferred_led_by_others,
        "replicas": broker.replicas,
        "size_bytes": broker.size_bytes,
        "lag_records": broker.lag_records,
        "failed_dirs": broker.failed_dirs,
        "volumes": [
            {"dir": each.log_dir, "total_bytes": each.total_bytes,
             "usable_bytes": each.usable_bytes, "state": each.fullness.value}
            for each in broker.volumes
        ],
        "trouble": broker.trouble,
    }  # fmt: skip


def _quorum_object(quorum: ControllerQuorum) -> dict[str, Any]:
    """Return the quorum as a JSON object."""
    return {
        "leader": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [_member_object(each) for each in quorum.voters],
        "observers": [_member_object(each) for each in quorum.observers],
    }


def _member_object(member: QuorumMember) -> dict[str, Any]:
    return {
        "id": member.member_id,
        "address": member.address,
        "end_offset": member.end_offset,
        "records_behind": member.records_behind,
        "seconds_behind": member.seconds_behind,
    }


def _reassignment_object(each: Reassignment) -> dict[str, Any]:
    """Return a reassignment as a JSON object."""
    return {
        **_place(each.partition),
        "replicas": list(each.replicas),
        "adding": list(each.adding),
        "removing": list(each.removing),
    }


def _place(place: TopicPartition) -> dict[str, Any]:
    return {"topic": place.topic, "partition": place.partition}


def _places(places: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [_place(place) for place in places]
