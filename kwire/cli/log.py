"""`kwire log`: dumps and verifies the files of a broker's log directory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.grammar.statuses import EXIT_FAILURE, checks
from kwire.cli.text.output import counted
from kwire.cli.text.records import text_of

if TYPE_CHECKING:
    from kwire.codecs.batches import Record
    from kwire.log.inspection.dump import Entry
    from kwire.log.inspection.inspection import Inspector

LISTING = Listing(
    200,
    "Dump and verify the files of a log directory.",
    "print and verify the files of a log directory, written by kwire or by Apache Kafka",
)

paths_argument = click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...",
    type=click.Path(exists=True, path_type=Path),
)  # fmt: skip


@click.group("log", cls=Commands)
def command() -> None:
    """Dump and verify the files of a log directory of kwire or Apache Kafka.

    \b
      kwire log verify kwire-data
      kwire log dump kwire-data/greetings-0/00000000000000000000.log --records
      kwire log dump kwire-data/recovery-point-offset-checkpoint

    The broker may run or not.  Nothing is changed.
    """


@command.command("dump")
@paths_argument
@click.option("--records", is_flag=True, help="Print the records of each batch too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def dump_command(paths: tuple[Path, ...], records: bool, as_json: bool) -> None:
    """Print the contents of files, one entry a line.

    PATH is a segment (.log), an index (.index, .timeindex, .txnindex), a producer snapshot
    (.snapshot), a checkpoint, a partition.metadata or a meta.properties file; or a folder, for all
    of these files in it.  In the data folder of a cluster, the files of all brokers are printed.
    Records of __consumer_offsets, __transaction_state and __share_group_state are decoded.
    """
    _dump(paths, records, as_json)


def _dump(paths: Iterable[Path], with_records: bool, as_json: bool) -> None:
    """Prints the entries of files.  An unreadable file is reported, and the others are still
    printed; then the command exits with a failure."""
    from kwire.log.error import CorruptFile, LogDirError
    from kwire.log.inspection.dump import entries

    failed = False
    for path in _files(paths):
        if not as_json:
            click.echo(f"{path}:")
        try:
            for entry in entries(path, _record_reader(path) if with_records else None):
                click.echo(json.dumps(_plain(entry)) if as_json else "  " + _line(entry))
        except (CorruptFile, LogDirError, ValueError) as error:
            click.echo(f"kwire: {error}", err=True)
            failed = True
    if failed:
        sys.exit(EXIT_FAILURE)


def _files(paths: Iterable[Path]) -> Iterable[Path]:
    """Yield the files to read: a file itself, and of a folder all readable files.  The folder is a
    log directory or the folder of one partition."""
    from kwire.log.inspection.dump import is_readable

    for path in paths:
        if not path.is_dir():
            yield path
            continue
        folders = _log_dirs(path) or [path]
        found = [
            each for folder in folders for each in sorted(folder.iterdir()) if is_readable(each)
        ]
        if not found:
            raise click.UsageError(f"{path} holds no file of a log directory")
        yield from found


def _log_dirs(path: Path) -> list[Path]:
    """The log directories that a folder is or holds: the folder of a cluster has one per broker.

    Empty for the folder of a partition.  Raises UsageError if the folder cannot be read.
    """
    from kwire.storage.data_folder.kinds import look

    try:
        return look(path).log_dirs()
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error


def _line(entry: Entry) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in _plain(entry).items())


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a record holds
    """A value as JSON types: objects become their fields, enums their names, bytes hexadecimal."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return {name: _plain(getattr(value, name)) for name in value.__slots__}


def _record_reader(path: Path) -> Callable[[Record], Entry]:
    """Return the function that decodes records of a file, by its topic: Kafka's internal topics
    have formats of their own; other records are shown as text."""
    topic = path.parent.name.rpartition("-")[0]
    if topic == "__consumer_offsets":
        return lambda record: _decoded(record, _of_groups(record))
    if topic == "__transaction_state":
        from kwire.txn.records import decode as decode_transaction

        return lambda record: _decoded(record, decode_transaction(record.key, record.value))
    if topic == "__share_group_state":
        from kwire.coordinators.share.records import decode as decode_state

        return lambda record: _decoded(record, decode_state(record.key, record.value))
    return _as_text


def _of_groups(record: Record) -> object | None:
    """A decoded record of `__consumer_offsets`."""
    from kwire.groups.offset_record import OffsetCommit
    from kwire.groups.records import decode

    decoded = decode(record.key, record.value)
    if isinstance(decoded, OffsetCommit):
        key, value = decoded.as_messages()
        return {"key": key, "value": value}
    return decoded


def _decoded(record: Record, decoded: object | None) -> Entry:
    """The fields of a record and its type, the number at the beginning of its key."""
    if decoded is None or record.key is None:
        return _as_text(record)
    return {"type": int.from_bytes(record.key[:2], "big"), **_plain(decoded)}


def _as_text(record: Record) -> Entry:
    """Return the key, value and headers of a record as text."""
    told = {"key": text_of(record.key), "value": text_of(record.value)}
    if record.headers:
        told["headers"] = ", ".join(f"{name}={text_of(value)}" for name, value in record.headers)
    return told


@command.command("verify")
@paths_argument
@click.option("--shallow", is_flag=True, help="Check only the CRC of batches, not each record.")
@checks
def verify_command(paths: tuple[Path, ...], shallow: bool) -> None:
    """Verify segments, indexes, snapshots and checkpoints, and print each problem.

    PATH is a log directory, the data folder of a cluster of kwire (all brokers are verified), the
    folder of a partition, or a segment (.log) with its indexes.
    The command checks CRCs, records, the order of offsets and epochs, each index entry against the
    batch it points to, aborted transactions against their markers, snapshots and checkpoints.
    It exits with 1 if there is a problem.

    After a kill, the end of the last segment and its indexes may be incomplete.  A broker repairs
    both when it starts.
    """
    from kwire.log.inspection.inspection import Inspector

    inspector = Inspector(deep=not shallow)
    for path in paths:
        _verify(inspector, path)
    for problem in inspector.problems:
        click.echo(str(problem))
    click.echo(
        f"{counted(inspector.segments, 'segment')} with {counted(inspector.records, 'record')}"
        f" in {inspector.size_bytes / 1e6:.1f} MB: {counted(len(inspector.problems), 'problem')}",
        err=True,
    )
    if inspector.problems:
        sys.exit(EXIT_FAILURE)


def _verify(inspector: Inspector, path: Path) -> None:
    """Verify the files at a path.  Raises UsageError if they are not those of a broker."""
    from kwire.storage.data_folder.kinds import SEGMENT_NAME

    if SEGMENT_NAME.fullmatch(path.name) and path.is_file():
        inspector.segment(path)
    elif not path.is_dir():
        raise click.UsageError(f"{path} is neither a folder nor a segment (20 digits and .log)")
    elif log_dirs := _log_dirs(path):
        for log_dir in log_dirs:
            inspector.log_dir(log_dir)
    elif any(SEGMENT_NAME.fullmatch(each.name) for each in path.iterdir()):
        inspector.folder(path)
    else:
        raise click.UsageError(
            f"{path} holds no partitions or segments: it is not a log directory, and not the "
            "folder of a partition or of a cluster"
        )
