"""`kwire telemetry`: lists and describes the metrics that clients push (KIP-714)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kwire.cli.app import connected
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.streams import ReaderGone, reader_is_gone
from kwire.cli.text.output import json_option, json_text, print_json, print_table, printable, say
from kwire.cli.values import iso_time

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.telemetry import DataPoint, PushedMetrics

LISTING = Listing(
    130,
    "List and describe the metrics that clients push.",
    "list the clients that push metrics (KIP-714), and describe the metrics and the subscriptions",
)

POLL_S = 0.5


@click.group("telemetry", cls=Commands, old={"show": "describe"})
def command() -> None:
    """List and describe the metrics that clients push (KIP-714), and the subscriptions.

    Clients push the metrics that subscriptions name.  A client that connected before the first
    subscription learns of it when it connects again.  A kwire broker stores the metrics in the
    topic __client_telemetry, where any OpenTelemetry collector can read them.

    \b
      kwire configs alter client-metrics all --set metrics=* --set interval.ms=10000
      kwire telemetry list
      kwire telemetry describe rdkafka --metric org.apache.kafka.producer.
      kwire telemetry describe --watch
      kwire telemetry subscriptions
    """


@command.command("subscriptions")
@json_option
@connected
def subscriptions_command(cluster: Cluster, as_json: bool) -> None:
    """List the subscriptions: which metrics which clients push, and how often."""
    from kwire.client.telemetry import subscriptions

    found = subscriptions(cluster)
    if as_json:
        print_json([{"subscription": name, **settings} for name, settings in found.items()])
        return
    rows = [
        (name, settings.get("metrics"), settings.get("interval.ms"), settings.get("match") or "all")
        for name, settings in found.items()
    ]
    print_table(["subscription", "metrics", "interval (ms)", "clients"], rows)
    if not rows:
        say(
            "there are no subscriptions: `kwire configs alter client-metrics NAME --set metrics=*`"
            " adds one"
        )


@command.command("list")
@json_option
@connected
def list_command(cluster: Cluster, as_json: bool) -> None:
    """List the clients that have pushed metrics, with the time of the last push."""
    latest: dict[str, PushedMetrics] = {}
    counts: dict[str, int] = {}
    for push in _pushes(cluster, follow=False):
        latest[push.instance_id] = push
        counts[push.instance_id] = counts.get(push.instance_id, 0) + 1
    if as_json:
        print_json([{**_whose(each), "pushes": counts[name]} for name, each in latest.items()])
        return
    rows = [
        (
            push.client_id,
            name,
            push.software,
            push.address,
            counts[name],
            iso_time(push.time_ms),
            "ended" if push.is_last else "",
        )
        for name, push in sorted(latest.items(), key=lambda item: item[1].time_ms)
    ]
    columns = ["client id", "instance", "software", "address", "pushes", "last push", ""]
    print_table(columns, rows)


@command.command("describe")
@click.argument("client", required=False)
@click.option(
    "-m", "--metric", "prefix", default="", metavar="PREFIX",
    help="Only metrics whose names begin with PREFIX.",
)  # fmt: skip
@click.option("-w", "--watch", is_flag=True, help="Show new pushes as they arrive, until Ctrl-C.")
@json_option
@connected
def describe_command(
    cluster: Cluster, client: str | None, prefix: str, watch: bool, as_json: bool
) -> None:
    """Describe the metrics of the last push of each client.

    CLIENT is a client id or a client instance id, and selects one client.  With --json each push
    is one line.
    """
    pushes = (
        each
        for each in _pushes(cluster, follow=watch)
        if client is None or client in (each.client_id, each.instance_id)
    )
    shown = pushes if watch else {each.instance_id: each for each in pushes}.values()
    for push in shown:
        _show(push, prefix, as_json)


def _show(push: PushedMetrics, prefix: str, as_json: bool) -> None:
    """Prints the metrics of one push whose names begin with `prefix`.  A push that is not OTLP is
    reported, and does not end the command."""
    from kwire.client.telemetry import NotOtlp, data_points

    try:
        points = [each for each in data_points(push.payload) if each.name.startswith(prefix)]
    except NotOtlp as problem:
        say(f"{push.client_id} ({push.instance_id}): {problem}")
        return
    if as_json:
        click.echo(json_text({**_whose(push), "metrics": [_point(each) for each in points]}))
    else:
        _print_push(push, points)
    sys.stdout.flush()


def _print_push(push: PushedMetrics, points: list[DataPoint]) -> None:
    """Prints the metrics of one push as a table."""
    title = f"{push.client_id} ({push.instance_id}), {iso_time(push.time_ms)}"
    rows = [
        (
            each.name,
            ", ".join(f"{name}={value}" for name, value in sorted(each.labels.items())),
            each.value,
            "since the last push" if each.is_difference else "",
        )
        for each in points
    ]
    print_table(["metric", "of", "value", ""], rows, title=printable(title))


def _whose(push: PushedMetrics) -> dict[str, object]:
    return {"time_ms": push.time_ms, "client_instance_id": push.instance_id, **push.attributes}


def _point(point: DataPoint) -> dict[str, object]:
    """Return a data point as a JSON object.  `delta`: the value counts since the client's last
    push."""
    return {
        "name": point.name,
        "labels": dict(point.labels),
        "value": point.value,
        "delta": point.is_difference,
    }


def _pushes(cluster: Cluster, *, follow: bool) -> Iterator[PushedMetrics]:
    """All pushes that the topic holds; with `follow`, new pushes until Ctrl-C."""
    from kwire.client.consumer import Consumer
    from kwire.client.errors import BrokerRefused
    from kwire.client.offsets import end_offsets, start_offsets
    from kwire.client.telemetry import PARTITION, pushed
    from kwire.codecs.errors import ErrorCode

    consumer = Consumer(cluster)
    try:
        begin = end_offsets if follow else start_offsets
        consumer.assign(begin(cluster, [PARTITION]))
        while follow or not consumer.is_at_end:
            records = consumer.poll(POLL_S)
            for record in records:
                yield pushed(record)
            if not records and reader_is_gone():
                raise ReaderGone
    except BrokerRefused as refused:
        if refused.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        say("no client has pushed metrics yet: `kwire telemetry subscriptions` lists what to push")
    except KeyboardInterrupt:
        pass  # Ctrl-C is the normal end.
    finally:
        consumer.close()
