"""Where the control is, and its refusals as a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any, Final, TypeVar

import click

from kwire.cli.grammar.bounds import PARTITION
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.serve import PORTS
from kwire.cli.text.output import printable
from kwire.testing.control import ControlClient, ControlError

R = TypeVar("R")

ADDRESS: Final = "http://127.0.0.1:9644"


def controlling(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the option that says where the control is, and a client of it."""

    @click.option(
        "-c", "--control", "address", metavar="ADDRESS", envvar="KWIRE_CONTROL", default=ADDRESS,
        show_default=True, help="Of `kwire serve --control`; $KWIRE_CONTROL if not given.",
    )  # fmt: skip
    def run(*args: Any, address: str, **kwargs: Any) -> R:  # noqa: ANN401 - whatever the command takes
        try:
            return command(ControlClient(address), *args, **kwargs)
        except ControlError as error:
            click.echo(f"kwire: {printable(str(error))}", err=True)
            raise SystemExit(EXIT_FAILURE) from error

    return update_wrapper(run, command)


def controls_from(first: ControlClient, brokers: int) -> list[ControlClient]:
    """Those of so many brokers: as `kwire serve --brokers` has them, at one port after the other.

    Raises ControlError where there are not so many ports.
    """
    if first.port + brokers > PORTS:
        raise ControlError(f"there are no {brokers} ports from {first.port} on")
    return [first, *(first.at_port(first.port + number) for number in range(1, brokers))]


WHICH: Final = (
    click.option("--api", "apis", multiple=True, metavar="NAME", help="Produce, Fetch ...; again."),
    click.option("--topic", metavar="NAME", help="That are about this topic."),
    click.option("--partition", type=PARTITION, metavar="N", help="And partition."),
    click.option("--client", metavar="ID", help="Of this client id; * stands for anything."),
    click.option("--group", metavar="ID", help="That are about this group."),
    click.option("--transactional-id", metavar="ID", help="And about this transactional id."),
)


def which_requests(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that say which requests are meant."""
    for option in reversed(WHICH):
        command = option(command)
    return command


def asked_for(apis: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of JSON that such options, and others beside them, stand for."""
    said = {
        name: value for name, value in given.items() if value is not None and value is not False
    }
    return {**said, **({"api": list(apis)} if apis else {})}
