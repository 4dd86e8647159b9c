"""`kwire cluster`: runs and manages clusters of several brokers, one module for each command."""

from __future__ import annotations

import click

from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing

LISTING = Listing(
    210,
    "Run and manage a cluster of several brokers.",
    "run several brokers on this machine; check any cluster, elect leaders, move replicas",
)

TASKS: dict[str, str] = {
    "status": "Show brokers, leaders and replicas, and all problems.",
    "elect": "Have the controller elect leaders.",
    "reassign": "Move replicas to other brokers.",
    "up": "Run a cluster of several brokers on this machine.",
    "adopt": "Move data directories into a cluster on ZooKeeper, or beside KRaft controllers.",
}
"""The summary of each command.  The command is `command` in the module of its name."""


@click.group(
    "cluster", cls=Commands, summaries=TASKS,
    modules={name: f"kwire.cli.cluster.{name}" for name in TASKS},
)  # fmt: skip
def command() -> None:
    """Run a cluster on this machine, and manage any cluster.

    \b
      kwire cluster up --brokers 3
      kwire cluster status --watch
      kwire cluster elect --all
      kwire cluster reassign --off 2 --throttle 20MB
      kwire cluster adopt --kraft 100@localhost:9093=controller kwire-data
    """
