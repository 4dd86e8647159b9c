"""What the commands share: the cluster that their options name, and refusals of other options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kwire.cli.app import (
    client_properties,
    in_words,
    security_of,
)

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
TIMEOUT_S: Final = 30.0
_SINGLE_DASH = re.compile(r"-[a-z][a-z.-]+(=.*)?", re.DOTALL)


class Tool(click.Command):
    """A command that says of an unknown option which ones it has."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Kafka's tools take -topic for --topic, and compose files write it so.
        args = [f"-{arg}" if _SINGLE_DASH.fullmatch(arg) else arg for arg in args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as problem:
            known = sorted(
                each.opts[0] for each in self.params if not getattr(each, "hidden", False)
            )
            raise click.UsageError(
                f"this {ctx.info_name} is kwire's and has no option {problem.option_name}. It has "
                f"{', '.join(known)}; for more see kwire --help",
                ctx,
            ) from None


def cluster_options(command: F) -> F:
    """Add the options that name the cluster."""
    for option in (
        click.option("--bootstrap-server", "--broker-list", metavar="HOST:PORT[,...]"),
        click.option("--zookeeper", hidden=True),
    ):
        command = option(command)
    return command


def file_option(*names: str) -> Callable[[F], F]:
    """An option for a file of client properties."""
    return click.option(
        *names, "command_config", metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
    )  # fmt: skip


def bootstrap_of(bootstrap_server: str | None, zookeeper: str | None) -> str:
    """The bootstrap servers.  Raises UsageError for --zookeeper, and if there are none."""
    if zookeeper is not None:
        raise click.UsageError(
            "Kafka 3.0 removed --zookeeper: write --bootstrap-server HOST:PORT with a broker"
        )
    if not bootstrap_server:
        raise click.UsageError("write --bootstrap-server HOST:PORT")
    return ",".join(address for address in bootstrap_server.replace(" ", "").split(",") if address)


@contextmanager
def cluster_of(
    bootstrap: str,
    command_config: Path | None,
    given: Iterable[tuple[str, str]] = (),
    timeout_s: float = TIMEOUT_S,
) -> Iterator[Cluster]:
    """A connected cluster, with the client properties of a file and of the command line."""
    from kwire.client.cluster import Cluster

    properties = client_properties(command_config, given)
    with Cluster(
        bootstrap, client_id="kwire-tools", timeout_s=timeout_s, security=security_of(properties)
    ) as cluster:
        yield cluster


def carried_out(work: Callable[[], R]) -> R:
    """The result of `work`.  A failure of the client becomes a message and exit status 1."""
    return in_words(work)


def pair(text: str) -> tuple[str, str]:
    """(name, value) of NAME=VALUE.  Raises UsageError."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise click.UsageError(f"{text!r}: write NAME=VALUE")
    return name.strip(), value
