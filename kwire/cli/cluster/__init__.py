"""`kwire cluster`: what is done with a cluster of several brokers, one module each."""

from __future__ import annotations

import click

from kwire.cli.grammar.commands import Commands

TASKS: dict[str, str] = {
    "status": "Show brokers, leaders and replicas, and what is not well.",
    "elect": "Have the controller elect leaders.",
    "reassign": "Move replicas to other brokers.",
    "up": "Run a cluster of several brokers on this machine.",
    "adopt": "Take a single node's data directory into a cluster.",
}
"""Each is `command` in the module of its name; none is imported to list them."""


@click.group(
    "cluster", cls=Commands, summaries=TASKS,
    modules={name: f"kwire.cli.cluster.{name}" for name in TASKS},
)  # fmt: skip
def command() -> None:
    """Run a cluster of several brokers, and look after any brokers.

    \b
      kwire cluster up --brokers 3
      kwire cluster status --watch
      kwire cluster elect --all
      kwire cluster reassign --off 2 --throttle 20MB
      kwire cluster adopt --zookeeper localhost:2181 kwire-data
    """
