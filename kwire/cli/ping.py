"""`kwire ping`: checks whether each broker of a cluster answers at its advertised address."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kwire.cli.app import connected
from kwire.cli.grammar.bounds import PAUSE_S
from kwire.cli.grammar.listing import Listing
from kwire.cli.text.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster, ClusterNode
    from kwire.client.errors import ClientError

LISTING = Listing(
    220,
    "Check whether the brokers of a cluster answer.",
    "report whether a cluster answers, and which addresses it gives to clients",
)

RETRY_S = 0.1


@click.command("ping")
@click.option(
    "-w", "--wait", type=PAUSE_S, default=0.0, metavar="SECONDS",
    help="Wait so long for the first answer, for scripts that start a broker.",
)  # fmt: skip
@click.option("--container", is_flag=True, hidden=True, help="The broker in this container.")
@json_option
@connected
def command(cluster: Cluster, wait: float, container: bool, as_json: bool) -> None:
    """Check whether each broker of a cluster answers at its advertised address.

    \b
      kwire ping
      kwire ping -b broker:9092 --wait 30 && ./run-tests

    Exits with 1 if no broker answers, or if a broker advertises an address that this machine
    cannot reach.
    """
    if container:
        _check_container(cluster)
        return
    _first_reply(cluster, wait)
    rows = [_asked(cluster, node) for _, node in sorted(cluster.nodes.items())]
    if as_json:
        print_json({"cluster": cluster.cluster_id, "brokers": rows})
    else:
        columns = ["broker", "address", "rack", "ms", "trouble"]
        title = f"cluster {cluster.cluster_id}"
        print_table(columns, [tuple(row.values()) for row in rows], title=title)
    if any(row["trouble"] for row in rows):
        raise SystemExit(1)


def _check_container(cluster: Cluster) -> None:
    """Exit with 1 if the broker in this container does not answer, or its scripts still run."""
    import os

    from kwire.cli.image.init_scripts import pending
    from kwire.cli.image.settings import own_address, own_config
    from kwire.settings import ConfigError

    try:
        config = own_config(os.environ)
    except ConfigError as problem:
        raise click.ClickException(str(problem)) from None
    cluster.bootstrap = [own_address(config)]
    cluster.any()
    if scripts := pending(config.log_dirs[0]):
        raise click.ClickException(f"{scripts[0].parent}: the scripts are not done")


def _first_reply(cluster: Cluster, wait_s: float) -> None:
    """Waits at most `wait_s` seconds until any broker answers.  Then raises the last
    ClientError."""
    from kwire.client.errors import ClientError

    deadline = time.monotonic() + wait_s
    while True:
        try:
            cluster.refresh([])
            return
        except ClientError as error:
            if time.monotonic() >= deadline:
                raise
            cluster.tell_of_trouble(error)
            time.sleep(RETRY_S)


def _asked(cluster: Cluster, node: ClusterNode) -> dict[str, Any]:
    """The result for one broker: its address, and the time of a request in ms or the error.

    The time does not include the set-up of the connection.
    """
    from kwire.client.errors import ClientError
    from kwire.codecs.messages.api_versions import ApiVersionsRequest

    taken_ms: float | None = None
    trouble: ClientError | None = None
    try:
        connection = cluster.node(node.node_id)
        start = time.perf_counter()
        connection.call(
            ApiVersionsRequest(client_software_name="kwire", client_software_version="1")
        )
        taken_ms = round((time.perf_counter() - start) * 1000, 2)
    except ClientError as error:
        trouble = error
    return {
        "broker": node.node_id,
        "address": f"{node.host}:{node.port}",
        "rack": node.rack,
        "ms": taken_ms,
        "trouble": None if trouble is None else str(trouble),
    }
