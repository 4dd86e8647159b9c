"""`kwire snapshot`: keep what a broker holds at a moment, go back to it, begin others with it.

A broker that was started with `--control` is asked; with `--data` the files are worked on, as of a
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

R = TypeVar("R")

ALONE: Final = "--beside goes with --port and --fork-control only: it has its broker's settings"
LOOK_AGAIN_S: Final = 0.05
RESTORED_WITHIN_S: Final = 120.0
"""A broker ends within 10 s and begins in one; a machine at work on other things takes longer."""


def of_data(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command `data`, and refusals as a sentence."""

    @click.option(
        "--data", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
        help="Of the broker with its data in this folder, whether it runs or not.",
    )  # fmt: skip
    @controlling
    def run(*args: Any, **kwargs: Any) -> R:  # noqa: ANN401 - whatever the command takes
        try:
            return command(*args, **kwargs)
        except SnapshotError as problem:
            click.echo(f"kwire: {printable(str(problem))}", err=True)
            raise SystemExit(EXIT_FAILURE) from problem

    return update_wrapper(run, command)


@click.group(cls=Commands)
def command() -> None:
    """Keep what a broker holds at a moment, and go back to it, or begin others with it.

    All of it: topics and records, groups, transactions, users and rules. The broker has to be
    started for it: kwire serve --control 9644

    \b
      kwire snapshot take seeded
      kwire snapshot fork seeded --port 9093        a second broker, from there on
      kwire snapshot restore seeded                 the first one as it was

    Snapshots are kept beside the data, in kwire-data-snapshots, up to 100 of them. Records that
    were there already take no room of their own, until the broker deletes them.
    """


@command.command()
@click.argument("name")
@controlling
def take(control: ControlClient, name: str) -> None:
    """Keep what the broker holds now, as NAME.

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
    """List the snapshots that are kept.

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
    """Have the broker go on with what snapshot NAME holds, and forget what came since.

    It ends and begins again, at the same ports, without the faults and traces it had. With --data
    it does not run: it begins so the next time.

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
            raise ControlError(f"it was not there again within {RESTORED_WITHIN_S:g} s")
        time.sleep(LOOK_AGAIN_S)


def _check_of_one_broker(data: Path) -> None:
    """SnapshotError where the snapshot of one broker would take the place of a cluster's data."""
    from kwire.log import LogDirError
    from kwire.storage.data_folder.admission import ServingWay, admit

    try:
        admit(data, ServingWay.ALONE)
    except LogDirError as error:
        raise SnapshotError(str(error)) from error


def _is_restored(control: ControlClient, before: int) -> bool:
    try:
        return bool(control.get("/snapshots")["restored"] > before)
    except ControlError:  # it is between its two lives
        return False


@command.command()
@click.argument("name")
@of_data
def remove(control: ControlClient, name: str, data: Path | None) -> None:
    """Keep snapshot NAME no longer. Brokers that were begun with it are none the worse.

    \b
      kwire snapshot remove seeded
    """
    if data is None:
        control.delete(f"/snapshots/{name}")
    else:
        SnapshotFolder(beside(data)).remove(name)


@command.command()
@click.argument("name")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, metavar="N", help="[a free one]")
@click.option("--into", type=click.Path(path_type=Path), metavar="FOLDER", help="Keep its data.")
@click.option(
    "--fork-control", type=click.IntRange(0, 65_535), metavar="PORT", help="As serve --control."
)
@settings_option("-s", "--set", "settings", help="A setting of its own, by Kafka's name.")
@click.option("--exit-on-eof", is_flag=True, help="Stop when standard input ends, too.")
@click.option(
    "--beside", is_flag=True, help="Have the first broker run it, and return: it ends with that."
)
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
    """Run a second broker that begins with what snapshot NAME holds, until Ctrl-C.

    NAME is one of the broker's, or the folder of one. It has the settings of the broker that it was
    taken of, but listens in plain at localhost, and its data is gone with it unless --into says
    where.

    \b
      kwire snapshot fork seeded --port 9093
      kwire snapshot fork kwire-data-snapshots/seeded --into other-data
      kwire snapshot fork seeded --beside                its address is told
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
    """One of the snapshot in that folder, until it is told to stop.  SnapshotError."""
    from kwire.cli.serve import developed, run, start_logging

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
    """One that the broker runs.  ControlError."""
    asked: dict[str, object] = {"snapshot": name, "port": port, "control": fork_control}
    if (folder := Path(name)).is_dir():
        asked |= {"snapshot": folder.name, "folder": str(folder.absolute().parent)}
    said = control.post("/forks", asked)
    click.echo(f"fork {said['fork']}: {said['bootstrap']}, controlled at {said['control']}")


@command.command()
@json_option
@controlling
def forks(control: ControlClient, as_json: bool) -> None:
    """List the brokers that run beside the first one.

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
    """End fork NUMBER, which runs beside the broker; its data is gone with it.

    \b
      kwire snapshot end 1
    """
    control.delete(f"/forks/{number}")


def _found(control: ControlClient, name: str, data: Path | None) -> Path:
    """The folder of a snapshot, by its name or by itself."""
    if Path(name).is_dir():
        return Path(name)
    if data is not None:
        return SnapshotFolder(beside(data)).find(name)
    told = {each["snapshot"]: each["path"] for each in control.get("/snapshots")["snapshots"]}
    if name not in told:
        there = f"there are {', '.join(told)}" if told else "there are none"
        raise SnapshotError(f"there is no snapshot {name!r}: {there}")
    return Path(told[name])
