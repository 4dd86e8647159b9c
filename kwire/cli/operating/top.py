"""`kwire top`: what a cluster does now, as a live screen, as tables or as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from kwire.cli.app import connected_within
from kwire.cli.grammar.bounds import TIMEOUT_S
from kwire.cli.grammar.listing import Listing
from kwire.cli.text.output import counted, json_option, json_text, print_json, print_table, say

if TYPE_CHECKING:
    from kwire.cli.operating.live.rows import TopView
    from kwire.cli.operating.live.sample import TopSample
    from kwire.client.cluster import Cluster

LISTING = Listing(
    195,
    "Show what a cluster does now.",
    "show [what a cluster does now](operations.md#kwire-top): rates, lag, latencies, the slowest"
    " requests, the busiest clients",
)

PATIENCE_S: Final = 5.0
"""The timeout of each broker: short, so that a broker that hangs does not stop the screen."""
INTERVAL_S: Final = 2.0
ROWS_MAX: Final = 20
"""The most rows of a table that is printed; --json has all."""


@click.command("top")
@click.option(
    "-i", "--interval", type=TIMEOUT_S, metavar="SECONDS", default=INTERVAL_S, show_default=True,
    help="The time between two samples, over which rates are computed.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Take two samples, print what they show, and end.")
@click.option(
    "--metrics", "urls", multiple=True, metavar="ID=URL",
    help="Read the metrics of broker ID at http://HOST:PORT, instead of asking the brokers where "
    "their metrics are.",
)  # fmt: skip
@json_option
@connected_within(PATIENCE_S)
def command(
    cluster: Cluster, interval: float, once: bool, urls: tuple[str, ...], as_json: bool
) -> None:
    """Show what a cluster does now: rates, lag, latencies, slow requests and busy clients.

    \b
      kwire top
      kwire top -b broker:9092 --interval 5
      kwire top --once
      kwire top --once --json | jq '.groups[] | select(.lag > 1000)'
      kwire top --metrics 1=http://broker:7071     Apache Kafka with a JMX exporter

    On a terminal it is a screen that goes on until q. Keys choose a table (t topics, g groups, b
    brokers, r requests, s slowest requests, c clients, o overview), the order (>, <) and a filter
    (/). Otherwise it prints tables again and again; with --json, each view is one line.

    Records per second, lag and sizes come from any Apache Kafka. Bytes per second, latencies,
    requests and clients come from the brokers' metrics: kwire serve --metrics PORT.
    """
    from kwire.cli.operating.live.taking import SampleTaker

    taker = SampleTaker(cluster, _urls(urls))
    if once:
        _show(_two_samples(taker.take, interval), as_json=as_json, indent=True)
        return
    from kwire.cli.operating.live.terminal import has_keys

    if has_keys() and not as_json:
        from kwire.cli.operating.live.loop import run

        run(taker.take, interval)
        return
    for view in _views(taker.take, interval):
        _show(view, as_json=as_json, indent=False)


def _urls(texts: Sequence[str]) -> dict[int, str]:
    """The endpoints that --metrics gives, by broker id."""
    found = {}
    for text in texts:
        broker_id, equals, url = text.partition("=")
        if not equals or not broker_id.isdigit() or "://" not in url:
            raise click.BadParameter(
                f"{text!r} is not like 1=http://HOST:PORT", param_hint="--metrics"
            )
        found[int(broker_id)] = url.removesuffix("/metrics").rstrip("/")
    return found


def _two_samples(take: Callable[[], TopSample], interval_s: float) -> TopView:
    from kwire.cli.operating.live.view import view_of

    before = take()
    time.sleep(interval_s)
    return view_of(before, take())


def _views(take: Callable[[], TopSample], interval_s: float) -> Iterator[TopView]:
    """Yield a view after each interval, also after a failed request, which is shown."""
    from kwire.cli.operating.live.view import view_of
    from kwire.client.errors import ClientError

    before = take()
    while True:
        time.sleep(interval_s)
        try:
            after = take()
        except ClientError as error:
            say(f"kwire: {error}")
        else:
            yield view_of(before, after)
            before = after


def _show(view: TopView, *, as_json: bool, indent: bool) -> None:
    """Print a view as JSON, or as tables with the largest rows."""
    if as_json and indent:
        print_json(as_object(view))
    elif as_json:
        click.echo(json_text(as_object(view)))
    else:
        _print_tables(view)


def as_object(view: TopView) -> dict[str, Any]:
    """A view as JSON; docs/operations.md documents the fields.  A field is null if unknown."""
    from kwire.cli.operating.live.screen_texts import problems_of

    found = asdict(view)
    found["metrics_trouble"] = {str(key): why for key, why in view.metrics_trouble.items()}
    found["problems"] = problems_of(view)
    return found


def _print_tables(view: TopView) -> None:
    """Print each table that has rows, sorted as on the screen at first."""
    from kwire.cli.operating.live.screen_texts import note_of, problems_of, sums_of
    from kwire.cli.operating.live.tables import TABLES, chosen, used_columns

    click.echo(sums_of(view))
    for table in TABLES:
        rows = chosen(view, table, table.sorted_by)
        if not rows:
            continue
        columns = used_columns(rows, table)
        texts = [[each.text(getattr(row, each.field)) for each in columns] for row in rows]
        click.echo()
        print_table([each.title for each in columns], texts[:ROWS_MAX], title=table.title)
        if len(rows) > ROWS_MAX:
            click.echo(f"and {counted(len(rows) - ROWS_MAX, 'more row')} (--json has all)")
    click.echo()
    if note := note_of(view):
        click.echo(note)
    problems = "; ".join(problems_of(view))
    click.echo(f"problems: {problems}" if problems else "all partitions are well")
