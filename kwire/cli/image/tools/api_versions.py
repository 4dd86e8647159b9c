"""`kafka-broker-api-versions`: the versions that each broker answers; a usual health check."""

from __future__ import annotations

from pathlib import Path

import click

from kwire.cli.image.tools.options import (
    Tool,
    bootstrap_of,
    carried_out,
    cluster_of,
    cluster_options,
    file_option,
)


@click.command("kafka-broker-api-versions", cls=Tool)
@cluster_options
@file_option("--command-config")
def command(
    bootstrap_server: str | None, zookeeper: str | None, command_config: Path | None
) -> None:
    """Print the API keys and versions of each broker, as Kafka's tool does."""
    bootstrap = bootstrap_of(bootstrap_server, zookeeper)

    def work() -> None:
        from kwire.codecs.messages import API_NAMES

        with cluster_of(bootstrap, command_config) as cluster:
            cluster.retrying(lambda: cluster.refresh([]))
            for number, node in sorted(cluster.nodes.items()):
                versions = cluster.node(number).versions
                lines = [
                    f"\t{API_NAMES.get(key, 'UNKNOWN')}({key}): "
                    + (f"{low}" if low == high else f"{low} to {high}")
                    + f" [usable: {high}]"
                    for key, (low, high) in sorted(versions.items())
                ]
                rack = "null" if node.rack is None else node.rack
                head = f"{node.host}:{node.port} (id: {number} rack: {rack} isFenced: false) -> ("
                click.echo("\n".join([head, ",\n".join(lines), ")"]))

    carried_out(work)
