"""`cub`: Confluent's checks that a Kafka or a ZooKeeper is ready, and its derived listeners."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from typing import Final

import click

from kwire.cli.image.tools.options import Tool, carried_out, cluster_of, file_option

RETRY_S: Final = 0.5


@click.group("cub")
def command() -> None:
    """Confluent's utility of its images: kafka-ready, zk-ready and listeners."""


@command.command("kafka-ready", cls=Tool)
@click.argument("brokers", type=click.IntRange(1))
@click.argument("timeout", type=click.IntRange(1))
@click.option("-b", "--bootstrap-server", "--bootstrap_broker_list", required=True)
@click.option("-z", "--zookeeper", "zookeeper", hidden=True)
@click.option("-s", "--security-protocol", "protocol", hidden=True)
@file_option("-c", "--config")
def kafka_ready(
    brokers: int,
    timeout: int,
    bootstrap_server: str,
    zookeeper: str | None,
    protocol: str | None,
    command_config: Path | None,
) -> None:
    """Wait until BROKERS brokers are in the cluster, at most TIMEOUT seconds."""
    del zookeeper, protocol

    def work() -> None:
        from kwire.client.errors import ClientError

        deadline = time.monotonic() + timeout
        while True:
            try:
                with cluster_of(bootstrap_server, command_config, timeout_s=timeout) as cluster:
                    cluster.refresh([])
                    found = len(cluster.nodes)
                if found >= brokers:
                    return
                problem = f"{found} of {brokers} brokers are in the cluster"
            except ClientError as error:
                problem = str(error)
            if time.monotonic() >= deadline:
                raise click.ClickException(f"not ready after {timeout} s: {problem}")
            time.sleep(RETRY_S)

    carried_out(work)


@command.command("zk-ready", cls=Tool)
@click.argument("connect")
@click.argument("timeout", type=click.IntRange(1))
def zk_ready(connect: str, timeout: int) -> None:
    """Wait until one ZooKeeper of CONNECT accepts connections, at most TIMEOUT seconds."""
    deadline = time.monotonic() + timeout
    servers = [each.strip() for each in connect.partition("/")[0].split(",") if each.strip()]
    while True:
        for server in servers:
            host, _, port = server.rpartition(":")
            try:
                with socket.create_connection((host or server, int(port)), timeout=RETRY_S):
                    return
            except OSError as error:
                problem = f"{server}: {(error.strerror or str(error)).lower()}"
            except ValueError:
                raise click.UsageError(f"{server}: write HOST:PORT") from None
        if time.monotonic() >= deadline:
            raise click.ClickException(f"no ZooKeeper after {timeout} s: {problem}")
        time.sleep(RETRY_S)


@command.command("listeners", cls=Tool)
@click.argument("advertised")
def listeners(advertised: str) -> None:
    """Print the listeners for ADVERTISED ones: all interfaces, the same ports."""
    click.echo(re.sub(r"://(\[[^]]*\]|[^:,]*):", "://0.0.0.0:", advertised))
