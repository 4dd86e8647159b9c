"""A second cluster beside that of --bootstrap-server, whose options it has, with `other`."""

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
    """The options of a second cluster; `whose` says in their help which one it is.

    The command is given `other_server`, `other_config` and `other_kafka`.  `old` are former names
    of SERVER, CONFIG and KAFKA.
    """

    def decorate(command: C) -> C:
        command = settings_option(
            KAFKA, "other_kafka", old=old.get(KAFKA, ()),
            help=f"Set a property of Spark's Kafka clients, of {whose}.",
        )(command)  # fmt: skip
        command = renamed_option(
            CONFIG, "other_config", old=old.get(CONFIG, ()), metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help=f"Client properties of {whose}, as --command-config has those of the first.",
        )(command)  # fmt: skip
        return renamed_option(
            SERVER, "other_server", old=old.get(SERVER, ()), metavar="HOST:PORT[,...]",
            required=required, help=f"Where {whose} is.",
        )(command)  # fmt: skip

    return decorate
