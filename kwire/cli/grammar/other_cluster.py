"""The options of a second cluster, named as those of the first with `other-` before the name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from kwire.cli.grammar.commands import renamed_option
from kwire.cli.values import settings_option

C = TypeVar("C", bound=Callable[..., Any])

SERVER, CONFIG, KAFKA = "--other-bootstrap-server", "--other-command-config", "--other-kafka"


def other_cluster_options(
    *,
    whose: str,
    required: bool = False,
    old: Mapping[str, Sequence[str]],
) -> Callable[[C], C]:
    """Add the options of a second cluster, which the help calls `whose`.

    The command gets `other_server`, `other_config` and `other_kafka`.  `old` maps SERVER, CONFIG
    and KAFKA to their former names.
    """

    def decorate(command: C) -> C:
        """Adds the options to a command."""
        command = settings_option(
            KAFKA, "other_kafka", old=old.get(KAFKA, ()),
            help=f"Set a property of Spark's Kafka clients for {whose}.",
        )(command)  # fmt: skip
        command = renamed_option(
            CONFIG, "other_config", old=old.get(CONFIG, ()), metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help=f"File of client properties for {whose}, as --command-config.",
        )(command)  # fmt: skip
        return renamed_option(
            SERVER, "other_server", old=old.get(SERVER, ()), metavar="HOST:PORT[,...]",
            required=required, help=f"Addresses of brokers of {whose}.",
        )(command)  # fmt: skip

    return decorate
