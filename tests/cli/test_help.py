"""`--help` teaches, everywhere, and costs nothing that it does not need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from kwire.cli.app import app
from kwire.cli.grammar.command_table import SUMMARIES
from tests.commands.forked import run_kwire


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, the groups among them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (*path, name)
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def help_of(*words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--help"], prog_name="kwire")
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("words", list(commands(app)), ids=" ".join)
def test_help_of_each_command_has_a_summary(words: tuple[str, ...]) -> None:
    text = help_of(*words)
    assert text.startswith(f"Usage: kwire {' '.join(words)}")
    summary = text.splitlines()[2].strip()
    assert summary.endswith((".", ",")) or len(summary) > 20


@pytest.mark.parametrize("name", SUMMARIES)
def test_help_of_each_main_command_has_an_example(name: str) -> None:
    examples = help_of(name).split("\n", 1)[1]
    assert re.search(rf"^ +(.*\| )?kwire {name}\b", examples, re.MULTILINE), "an example below \\b"
    assert SUMMARIES[name] in help_of()


def test_help_explains_each_option() -> None:
    for words in commands(app):
        command: click.Command = app
        for word in words:
            assert isinstance(command, click.Group)
            found = command.get_command(click.Context(command), word)
            assert found is not None
            command = found
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                explained = option.help or isinstance(option.type, click.Choice)
                assert explained, f"{' '.join(words)} {option.opts}"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nosuch"], "No such command 'nosuch'"),
        (["topcs"], "No such command 'topcs': did you mean topics?"),
        (["topics", "lst"], "No such command 'lst': did you mean list?"),
        (["pipeline", "audti"], "No such command 'audti': did you mean audit?"),
        (["cluster", "x"], "No such command 'x': there are status, elect, reassign, up, adopt"),
        (["consume", "t", "--form-beginning"], "--from-beginning"),
        (["groups", "list", "--type", "bogus"], "'classic', 'consumer', 'share', 'streams'"),
        (["groups", "list", "--state", "bogus"], "'stable', 'empty', 'dead'"),
        (["consume", "t", "--since", "-9999999999d"], "is before 1970"),
        (["groups", "reset", "g", "--to-datetime", "1969-12-31"], "is before 1970"),
        (["consume", "t", "--since", "9223372036854775808"], "later than a timestamp can be"),
        (["quotas", "set", "--user", "a", "producer_byte_rate=nan"], "must be a number"),
        (["topics", "create"], "Missing argument 'TOPIC...'"),
        (["topics", "create", "t", "--config", "x"], "'x' is not name=value"),
        (["topics", "alter", "t"], "nothing to alter"),
        (["consume", "t", "--from-beginning", "-o", "1"], "give one of"),
        (["consume", "t", "-g", "g", "-o", "1"], "a group has its own offsets"),
        (["consume", "t", "-k", ":", "-f", "json"], "--key-separator is for --format text"),
        (["consume", "t", "-o", "first"], "'first' is not earliest, latest or an offset"),
        (
            ["produce", "t", "-k", ":", "-f", "json"],
            "--key-separator and --null are for --format text",
        ),
        (["produce", "t", "-k", ":", "--key", "k"], "give one of --key and --key-separator"),
        (["produce", "t", "--keep-partitions"], "--keep-partitions is for --format json"),
        (["serve", "--port", "0", "--set", "listeners=x"], "give --port or --set listeners"),
        (["serve", "--data", "d", "--set", "log.dir=e"], "give --data or --set log.dir"),
        (["groups", "reset", "g", "--all-topics"], "give one of --to-earliest"),
        (["groups", "reset", "g", "--to-latest"], "give --topic"),
        (["configs", "alter", "topic", "t"], "nothing to alter"),
        (["configs", "describe", "planet", "t"], "'planet' is not one of"),
        (["consume", "t", "-p", "0-99999999999"], "numbers end at 2147483647"),
        (["consume", "t", "-p", "0-2147483647"], "names more than 1,000,000 partitions"),
        (["topics", "create", "t", "-p", "99999999999"], "not in the range 1<=x<=2147483647"),
        (["topics", "create", "t", "-r", "99999"], "not in the range 1<=x<=32767"),
        (["topics", "list", "--timeout", "nan"], "'nan' is not a finite number"),
        (["topics", "list", "--timeout", "inf"], "not in the range 0.1<=x<=2147483"),
        (["tokens", "create", "--max-life", "999999999999d"], "longer than 1000 years"),
        (["certs", "client", "x", "--days", "99999999999"], "not in the range 1<=x<=36500"),
        (["produce", "t", "-k", ""], "the separator is empty"),
        (["quotas", "set", "--user", "a", "producer_byte_rate=nan"], "must be a number like"),
    ],
)
def test_wrong_command_line_gives_status_2_and_a_message(words: list[str], complaint: str) -> None:
    done = CliRunner().invoke(app, words, prog_name="kwire")
    assert done.exit_code == 2, done.output
    assert complaint in done.output


def test_help_imports_no_module_of_a_command() -> None:
    """`kwire --help` imports no client, no codec, no table printer."""
    code = (
        "import sys\n"
        "from kwire.cli.app import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "kwire.cli.app" in loaded
    unneeded = {
        "rich",
        "trio",
        "socket",
        "logging",
        "kwire.codecs",
        "kwire.client",
        "kwire.settings",
    }
    assert not loaded & unneeded


def test_shell_completion_works_as_the_help_says() -> None:
    (told,) = re.findall(r'eval "\$\((\w+)=(bash)_source kwire\)"', help_of())
    environ = os.environ | {told[0]: f"{told[1]}_complete", "COMP_CWORD": "2"}
    done = run_kwire(environment=environ | {"COMP_WORDS": "kwire topics de"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["plain,delete", "plain,describe"]
