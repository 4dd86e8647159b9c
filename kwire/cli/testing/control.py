"""Options and errors that the commands on a broker's HTTP control have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any, Final, TypeVar

import click

from kwire.cli.grammar.bounds import PARTITION
from kwire.cli.grammar.options import with_options
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.serve import PORTS
from kwire.cli.text.output import printable
from kwire.testing.control import ControlClient, ControlError

R = TypeVar("R")

ADDRESS: Final = "http://127.0.0.1:9644"


def controlling(command: Callable[..., R]) -> Callable[..., R]:
    """Add --control, and pass a client of the broker's control to the command."""

    @click.option(
        "-c", "--control", "address", metavar="ADDRESS", envvar="KWIRE_CONTROL", default=ADDRESS,
        show_default=True, help="Address of `kwire serve --control`; or $KWIRE_CONTROL.",
    )  # fmt: skip
    def run(*args: Any, address: str, **kwargs: Any) -> R:  # noqa: ANN401 - whatever the command takes
        """Runs the command with a client of the control.  A ControlError becomes a message."""
        try:
            return command(ControlClient(address), *args, **kwargs)
        except ControlError as error:
            click.echo(f"kwire: {printable(str(error))}", err=True)
            raise SystemExit(EXIT_FAILURE) from error

    return update_wrapper(run, command)


def controls_from(first: ControlClient, brokers: int) -> list[ControlClient]:
    """The control clients of the brokers of `kwire serve --brokers`, at consecutive ports.

    Raises ControlError if there are not enough ports.
    """
    if first.port + brokers > PORTS:
        raise ControlError(
            f"{brokers} brokers need {brokers} ports from {first.port}, and ports end at "
            f"{PORTS - 1}"
        )
    return [first, *(first.at_port(first.port + number) for number in range(1, brokers))]


WHICH: Final = (
    click.option(
        "--api", "apis", multiple=True, metavar="NAME",
        help="Only requests of this API (Produce, Fetch ...); may be given several times.",
    ),
    click.option("--topic", metavar="NAME", help="Only requests about this topic."),
    click.option("--partition", type=PARTITION, metavar="N", help="Only this partition of it."),
    click.option("--client", metavar="ID", help="Only this client id; * matches any characters."),
    click.option("--group", metavar="ID", help="Only requests about this group."),
    click.option("--transactional-id", metavar="ID", help="Only this transactional id."),
)  # fmt: skip


def which_requests(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options that select requests."""
    return with_options(command, WHICH)


def asked_for(apis: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON fields for these options and others."""
    fields = {
        name: value for name, value in given.items() if value is not None and value is not False
    }
    return {**fields, **({"api": list(apis)} if apis else {})}
