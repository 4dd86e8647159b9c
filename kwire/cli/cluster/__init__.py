"""`kwire cluster`: what is done with a cluster of several brokers, one module each."""

from __future__ import annotations

from importlib import import_module

import click

TASKS: dict[str, str] = {
    "status": "Show brokers, leaders and replicas, and what is not well.",
    "elect": "Have the controller elect leaders.",
    "reassign": "Move replicas to other brokers.",
    "up": "Run a cluster of several brokers on this machine.",
    "adopt": "Take a single node's data directory into a cluster.",
}
"""Each is `command` in the module of its name; none is imported to list them."""


class Tasks(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(TASKS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in TASKS:
            return None
        command: click.Command = import_module(f"kwire.cli.cluster.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(TASKS.items()))


@click.group("cluster", cls=Tasks)
def command() -> None:
    """Run a cluster of several brokers, and look after any brokers.

    \b
      kwire cluster up --brokers 3
      kwire cluster status --watch
      kwire cluster elect --all
      kwire cluster reassign --off 2 --throttle 20MB
      kwire cluster adopt --zookeeper localhost:2181 kwire-data
    """
