"""`kafka-console-producer`: writes each line of standard input as a record."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kwire.cli.image.tools.options import Tool, bootstrap_of, cluster_options, file_option, pair

SEPARATOR_DEFAULT: Final = "\t"
COMPRESSION_DEFAULT: Final = "gzip"
"""The codec of --compression-codec without a value."""
OF_READER: Final = ("parse.key", "key.separator", "null.marker")
OF_PRODUCER: Final = ("acks", "compression.type")


@click.command("kafka-console-producer", cls=Tool)
@click.option("--topic", required=True, metavar="NAME")
@click.option(
    "--property", "--reader-property", "properties", multiple=True, metavar="NAME=VALUE",
    help=f"{', '.join(OF_READER)}",
)  # fmt: skip
@click.option(
    "--producer-property", "--command-property", "of_producer", multiple=True,
    metavar="NAME=VALUE", help=f"{', '.join(OF_PRODUCER)}",
)  # fmt: skip
@click.option("--request-required-acks", "acks", type=click.Choice(["all", "-1", "0", "1"]))
@click.option(
    "--compression-codec", "compression", is_flag=False, flag_value=COMPRESSION_DEFAULT,
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
)  # fmt: skip
@click.option("--sync", is_flag=True, help="Without effect: every record is waited for.")
@cluster_options
@file_option("--producer.config", "--command-config")
def command(
    topic: str,
    properties: tuple[str, ...],
    of_producer: tuple[str, ...],
    acks: str | None,
    compression: str | None,
    sync: bool,
    bootstrap_server: str | None,
    zookeeper: str | None,
    command_config: Path | None,
) -> None:
    """Write each line of standard input to a topic, by `kwire produce`."""
    del sync
    arguments = [topic, "--bootstrap-server", bootstrap_of(bootstrap_server, zookeeper)]
    if command_config is not None:
        arguments += ["--command-config", str(command_config)]
    given = dict(pair(each) for each in properties)
    producer = dict(pair(each) for each in of_producer)
    for names, known, option in (
        (given, OF_READER, "--property"),
        (producer, OF_PRODUCER, "--producer-property"),
    ):
        for name in names:
            if name not in known:
                raise click.UsageError(f"{option} {name}: it can be {', '.join(known)}")
    if given.get("parse.key", "false").lower() == "true":
        arguments += ["--key-separator", given.get("key.separator", SEPARATOR_DEFAULT)]
    if "null.marker" in given:
        arguments += ["--null", given["null.marker"]]
    wanted = acks or producer.get("acks")
    if wanted:
        arguments += ["--acks", wanted.replace("-1", "all")]
    codec = compression or producer.get("compression.type")
    if codec:
        arguments += ["--compression", codec]
    from kwire.cli.produce import command as produce

    produce.main(arguments, prog_name="kafka-console-producer", standalone_mode=False)
