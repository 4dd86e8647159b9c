"""`kwire snapshot`: takes, restores and forks snapshots of a broker.

The commands control a broker started with `--control`.  With `--data` they work on the files of a
broker that does not run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import update_wrapper
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from kwire.cli.grammar.bounds import POSITIVE_COUNT
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.serve import Hosting
from kwire.cli.testing.control import controlling
from kwire.cli.text.output import bytes_text, json_option, print_json, print_table, printable
from kwire.cli.values import iso_time, settings_option
from kwire.testing.control import ControlClient, ControlError
from kwire.testing.hooks.snapshots.kept import (
    SnapshotError,
    SnapshotFolder,
    beside,
    description_of,
)
from kwire.testing.hooks.snapshots.laying import lay_out
from kwire.testing.hooks.snapshots.laying import restore as restore_files
from kwire.testing.hosting.folders import Folder

LISTING = Listing(
    170,
    "Create, restore and fork snapshots of a broker.",
    "save the state of a broker, restore it, or start a second broker from it",
)

R = TypeVar("R")

ALONE: Final = (
    "--beside goes with --port and --fork-control only: the fork has the settings of its broker"
)
LOOK_AGAIN_S: Final = 0.05
RESTORED_WITHIN_S: Final = 120.0
"""A broker stops within 10 s and starts within 1 s; a busy machine needs longer."""


def of_data(command: Callable[..., R]) -> Callable[..., R]:
    """Add --data and --control, and print a SnapshotError as a message."""

    @click.option(
        "--data", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
        help="Work on the snapshots of the broker whose data is in FOLDER.",
    )  # fmt: skip
    @controlling
    def run(*args: Any, **kwargs: Any) -> R:  # noqa: ANN401 - whatever the command takes
        """Runs the command.  A SnapshotError becomes a message."""
        try:
            return command(*args, **kwargs)
        except SnapshotError as problem:
            click.echo(f"kwire: {printable(str(problem))}", err=True)
            raise SystemExit(EXIT_FAILURE) from problem

    return update_wrapper(run, command)


@click.group(cls=Commands)
def command() -> None:
    """Take snapshots of a broker, restore them, and run other brokers from them.

    A snapshot holds everything: topics and records, groups, transactions, users and ACLs. The
    broker must run with --control: kwire serve --control 9644

    \b
      kwire snapshot take seeded
      kwire snapshot fork seeded --port 9093        run a second broker from the snapshot
      kwire snapshot restore seeded                 reset the first broker to the snapshot

    Up to 100 snapshots are stored next to the data, in kwire-data-snapshots. A snapshot shares the
    space of its records with the broker until the broker deletes them.
    """


@command.command()
@click.argument("name")
@controlling
def take(control: ControlClient, name: str) -> None:
    """Take a snapshot of the broker under NAME.

    \b
      kwire snapshot take seeded
    """
    said = control.post("/snapshots", {"name": name})
    size = bytes_text(said["size_bytes"])
    click.echo(f"{said['path']}: {said['partitions']} partitions, {size}")


@command.command("list")
@json_option
@of_data
def list_(control: ControlClient, as_json: bool, data: Path | None) -> None:
    """List the snapshots.

    \b
      kwire snapshot list
      kwire snapshot list --data kwire-data --json
    """
    if data is None:
        told = control.get("/snapshots")["snapshots"]
    else:
        told = SnapshotFolder(beside(data)).public()
    if as_json:
        print_json(told)
        return
    rows = [
        [
            each["snapshot"],
            iso_time(each["taken_ms"]),
            each["partitions"],
            bytes_text(each["size_bytes"]),
        ]
        for each in told
    ]
    print_table(["snapshot", "taken", "partitions", "size"], rows)


@command.command()
@click.argument("name")
@of_data
def restore(control: ControlClient, name: str, data: Path | None) -> None:
    """Reset the broker to snapshot NAME.  Everything that came later is lost.

    The broker restarts on the same ports, without its faults and traces. With --data the broker
    must not run, and has the data of the snapshot at its next start.

    \b
      kwire snapshot restore seeded
      kwire snapshot restore seeded --data kwire-data
    """
    if data is not None:
        _check_of_one_broker(data)
        restore_files(SnapshotFolder(beside(data)).find(name), [data])
        return
    before = control.post(f"/snapshots/{name}/restore")["restored"]
    deadline = time.monotonic() + RESTORED_WITHIN_S
    while not _is_restored(control, before):
        if time.monotonic() > deadline:
            raise ControlError(f"the broker did not restart within {RESTORED_WITHIN_S:g} s")
        time.sleep(LOOK_AGAIN_S)


def _check_of_one_broker(data: Path) -> None:
    """Raise SnapshotError if the folder holds the data of a cluster."""
    from kwire.log import LogDirError
    from kwire.storage.data_folder.admission import ServingWay, admit

    try:
        admit(data, ServingWay.ALONE)
    except LogDirError as error:
        raise SnapshotError(str(error)) from error


def _is_restored(control: ControlClient, before: int) -> bool:
    """Whether the broker was restored more than `before` times."""
    try:
        return bool(control.get("/snapshots")["restored"] > before)
    except ControlError:  # The broker is restarting.
        return False


@command.command()
@click.argument("name")
@of_data
def remove(control: ControlClient, name: str, data: Path | None) -> None:
    """Remove snapshot NAME.  Brokers that were started from it are not affected.

    \b
      kwire snapshot remove seeded
    """
    if data is None:
        control.delete(f"/snapshots/{name}")
    else:
        SnapshotFolder(beside(data)).remove(name)


@command.command()
@click.argument("name")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, metavar="N",
    help="Listen on localhost:N. [a free port]",
)  # fmt: skip
@click.option(
    "--into", type=click.Path(path_type=Path), metavar="FOLDER", help="Store its data in FOLDER."
)
@click.option(
    "--fork-control", type=click.IntRange(0, 65_535), metavar="PORT",
    help="Port of its control, as serve --control.",
)  # fmt: skip
@settings_option("-s", "--set", "settings", help="Set a setting by Kafka's name.")
@click.option("--exit-on-eof", is_flag=True, help="Stop also when standard input ends.")
@click.option(
    "--beside", is_flag=True,
    help="Let the first broker run it, and return; it ends with the first broker.",
)  # fmt: skip
@of_data
def fork(
    control: ControlClient,
    name: str,
    port: int,
    into: Path | None,
    fork_control: int | None,
    settings: tuple[tuple[str, str], ...],
    exit_on_eof: bool,
    beside: bool,
    data: Path | None,
) -> None:
    """Run a second broker from snapshot NAME, until Ctrl-C.

    NAME is the name of a snapshot or its folder. The new broker has the settings of the broker
    that the snapshot is of, but listens on localhost without TLS. Its data is deleted at the end
    unless --into names a folder.

    \b
      kwire snapshot fork seeded --port 9093
      kwire snapshot fork kwire-data-snapshots/seeded --into other-data
      kwire snapshot fork seeded --beside                prints its address
      kwire snapshot forks
      kwire snapshot end 1
    """
    if beside:
        if into is not None or settings or exit_on_eof or data is not None:
            raise click.UsageError(ALONE)
        fork_beside(control, name, port, fork_control or 0)
        return
    path = _found(control, name, data)
    run_fork(path, port, into, Hosting(exit_on_eof, fork_control), dict(settings))


def run_fork(
    path: Path, port: int, into: Path | None, hosting: Hosting, settings: dict[str, str]
) -> None:
    """Run a broker from the snapshot in a folder until it is stopped.  Raises SnapshotError."""
    from kwire.cli.repeats import start_logging
    from kwire.cli.serve import developed, run

    said = description_of(path)
    start_logging("info")
    with ExitStack() as until_then:
        if into is None:
            folder = Folder()
            until_then.callback(folder.remove)
            into = folder.path / "data"
        folders = [into / str(n) if said.log_dirs > 1 else into for n in range(said.log_dirs)]
        lay_out(path, folders)
        listener = {"listeners": f"PLAINTEXT://localhost:{port}"}
        log_dirs = {"log.dirs": ",".join(map(str, folders))}
        wanted = developed({**said.settings, **listener, **log_dirs, **settings})
        run(None, wanted, {}, hosting._replace(ahead_ms=said.ahead_ms))


def fork_beside(control: ControlClient, name: str, port: int, fork_control: int) -> None:
    """Let the controlled broker run a fork.  Raises ControlError."""
    asked: dict[str, object] = {"snapshot": name, "port": port, "control": fork_control}
    if (folder := Path(name)).is_dir():
        asked |= {"snapshot": folder.name, "folder": str(folder.absolute().parent)}
    said = control.post("/forks", asked)
    click.echo(f"fork {said['fork']}: {said['bootstrap']}, controlled at {said['control']}")


@command.command()
@json_option
@controlling
def forks(control: ControlClient, as_json: bool) -> None:
    """List the forks that run beside the broker.

    \b
      kwire snapshot forks
    """
    told = control.get("/forks")["forks"]
    if as_json:
        print_json(told)
        return
    rows = [
        [
            each["fork"],
            each["snapshot"] or "-",
            each["bootstrap"],
            each["control"],
            "runs" if each["running"] else "has died",
        ]
        for each in told
    ]
    print_table(["fork", "snapshot", "bootstrap", "control", "state"], rows)


@command.command()
@click.argument("number", type=POSITIVE_COUNT)
@controlling
def end(control: ControlClient, number: int) -> None:
    """Stop fork NUMBER, which runs beside the broker, and delete its data.

    \b
      kwire snapshot end 1
    """
    control.delete(f"/forks/{number}")


def _found(control: ControlClient, name: str, data: Path | None) -> Path:
    """The folder of a snapshot, from its name or the folder itself.  Raises SnapshotError."""
    if Path(name).is_dir():
        return Path(name)
    if data is not None:
        return SnapshotFolder(beside(data)).find(name)
    told = {each["snapshot"]: each["path"] for each in control.get("/snapshots")["snapshots"]}
    if name not in told:
        there = f"there are {', '.join(told)}" if told else "there are none"
        raise SnapshotError(f"there is no snapshot {name!r}: {there}")
    return Path(told[name])
