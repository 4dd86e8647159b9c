"""Every option of every command is given extreme and random values: none of them is a traceback.

A command ends with a documented status and takes no memory worth mentioning, whatever an option
says.  Commands that ask a cluster ask a broker.  Those that serve, or start processes of their own
(`serve`, `console`, `registry`, `pipeline`), are parsed alone.

KWIRE_OPTION_DRAWS=200 draws more values of each option; --seed draws others.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kwire.cli.app import app, run
from kwire.testing import BrokerProcess
from tests.conftest import finish

DRAWS = int(os.environ.get("KWIRE_OPTION_DRAWS", "2"))
STATUSES = {0, 1, 2}
MEMORY_BYTES_MAX = 400 << 20
"""How much more a command may take than those before it."""
ADDRESS_SPACE_BYTES = 6 << 30
"""What ends a command that takes all memory, before it takes the machine's."""
TIMEOUT = ["--timeout", "2"]

PARSED_ALONE = {
    ("serve",),
    ("console",),
    ("registry",),
    ("conformance", "run"),
    ("cluster", "up"),
    ("cluster", "adopt"),
    ("snapshot", "fork"),
    ("pipeline", "archive"),
    ("pipeline", "audit"),
    ("pipeline", "compare"),
    ("pipeline", "mirror"),
    ("pipeline", "query"),
    ("pipeline", "replay"),
}
"""They start brokers, Spark or an HTTP server."""
EXTRA: dict[tuple[str, ...], list[str]] = {
    ("consume",): ["-e", "-n", "1"],
    ("cluster", "reassign"): ["--dry-run"],
    ("doctor",): ["--security"],
}
"""So that a command ends, and asks nobody."""
GIVEN = {
    "setting": "retention.ms=1",
    "named_principal": "User:alice",
    "partitions": "0",
    "topic_partitions": "t:0",
    "broker_ids": "1",
    "duration_s": "1s",
    "offset_range": "t:0=0-1",
    "reference": "t=t:1",
}
"""What is given for a parameter that has to be there, by the function that reads it."""

INTEGERS = [-1, 0, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 99_999, "9" * 5000]
FRACTIONS = ["nan", "inf", "-inf", "1e308", "1e-320", "-0.0", "9" * 400, "0.1", "2147483", "1_0"]
DURATIONS = ["999999999999d", "-9999999999d", f"{'9' * 400}w", "0ms", "1e5s", "9223372036854775807"]
LISTS = ["0-99999999999", "0-2147483647", "4-1", ",", "0,,1", f"0-{'9' * 5000}", "t:0-99999999999"]
WORDS = [
    "",
    " ",
    "-",
    "=",
    ":",
    "=b",
    "a=",
    "User:",
    "*",
    "{}",
    "[",
    "t",
    "@",
    "%s",
    "a" * 40_000,
    f"t:{'9' * 5000}",
    "t:\u00b2",
    "http://[",
]
BEYOND_ASCII = ["\udcff", "a=\udcff", "User:\udcff", "\u202e", "\N{SNOWMAN}", "a\nb", "\x1b"]
EXTREMES = [*map(str, INTEGERS), *FRACTIONS, *DURATIONS, *LISTS, *WORDS, *BEYOND_ASCII]


def leaves(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each command that is no group, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        elif command is not None:
            yield (*path, name), command


COMMANDS = dict(leaves(app))


@pytest.fixture(scope="module")
def limited() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose topics and settings may become anything."""
    broker = BrokerProcess(tmp_path_factory.mktemp("asked"), {"num.partitions": "1"})
    broker.start()
    yield broker
    finish(broker)


@pytest.fixture
def folder(tmp_path: Path, asked: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory: what a command writes by a name that was drawn lies there."""
    file = tmp_path / "file"
    file.write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KWIRE_BOOTSTRAP_SERVERS", asked.bootstrap)
    # Nobody serves there.
    monkeypatch.setenv("KWIRE_CONTROL", "http://127.0.0.1:1")
    monkeypatch.setenv("KWIRE_SCHEMA_REGISTRY", "http://127.0.0.1:1")
    before = signal.getsignal(signal.SIGTERM)  # `consume` has a way of its own
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield tmp_path
    signal.signal(signal.SIGTERM, before)


def given(parameter: click.Parameter) -> str:
    """A value that the parameter takes."""
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return str(kind.choices[0])
    if isinstance(kind, click.IntRange | click.FloatRange):
        return str(kind.min if kind.min is not None else 1)
    if isinstance(kind, click.Path):
        return "." if not kind.file_okay else "file"
    return GIVEN.get(getattr(kind, "name", ""), "t")


def words_of(
    words: tuple[str, ...], command: click.Command, chosen: click.Parameter, value: str
) -> list[str]:
    """The command line in which that one parameter has that value."""
    line, arguments = [*words, *EXTRA.get(words, ())], []
    for parameter in command.params:
        if parameter is not chosen and not parameter.required:
            continue
        said = value if parameter is chosen else given(parameter)
        if isinstance(parameter, click.Argument):
            arguments.append(said)
        elif said or parameter is chosen:
            line += [max(parameter.opts, key=len), said]
    names = {name for parameter in command.params for name in parameter.opts}
    if "--timeout" in names and "--timeout" not in line:
        line += TIMEOUT
    if "--yes" in names and "--dry-run" not in line:
        line.append("--yes")
    return [*line, "--", *arguments]


def drawn(rng: random.Random) -> str:
    """An extreme value, or one that is put together of what options look at."""
    if rng.random() < 0.8:
        return rng.choice(EXTREMES)
    return "".join(rng.choice("0123456789-,:=.@tdms\N{SNOWMAN}") for _ in range(rng.randrange(12)))


def status_of(line: list[str]) -> int:
    """How the command ends in this process; what it raises is raised here."""
    sys.argv = ["kwire", *line]
    try:
        return run(app, "kwire")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0


def is_drawn(parameter: click.Parameter) -> bool:
    return not (
        isinstance(parameter.type, click.Choice | click.types.BoolParamType)
        or (isinstance(parameter, click.Option) and (parameter.is_flag or parameter.hidden))
    )


@pytest.mark.slow
@pytest.mark.usefixtures("limited", "folder")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_option_with_an_extreme_value_ends_with_a_sentence(
    words: tuple[str, ...], rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", sys.argv)
    command = COMMANDS[words]
    for parameter in filter(is_drawn, command.params):
        for _ in range(DRAWS):
            line = words_of(words, command, parameter, drawn(rng))
            shown = [word[:80] for word in line]
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            try:
                if words in PARSED_ALONE:
                    status = 0
                    command.make_context("kwire", line[len(words) :])
                else:
                    status = status_of(line)
            except click.ClickException as told:
                status = told.exit_code
            except Exception as error:
                raise AssertionError(f"{type(error).__name__} from kwire {shown}") from error
            grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert status in STATUSES, shown
            assert grown_kb * 1024 < MEMORY_BYTES_MAX, shown
