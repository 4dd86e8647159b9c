"""One word for one thing: the rules of CONTRIBUTING ("Add a command") for the command line.

The rules are checked on every command there is.  Former names still work, and are shown nowhere.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kwire.cli.app import app
from kwire.cli.grammar import asking
from kwire.cli.grammar.commands import Commands, RenamedOption
from tests.commands.forked import run_kwire

PAGE = (Path(__file__).parents[3] / "docs" / "commands.md").read_text()

VERBS = frozenset({
    "add", "adopt", "advance", "alter", "apply", "archive", "audit", "broker", "check", "clear",
    "client", "compare", "console", "consume", "create", "delete", "delete-offsets", "describe",
    "die", "doctor", "dump", "elect", "end", "expire", "export", "fork", "forks", "happened",
    "list", "load", "mcp", "mirror", "move-coordinator", "move-leader", "password", "ping",
    "produce", "query", "reassign", "register", "registry", "remove", "renew", "replay",
    "reset", "restore", "run", "serve", "set", "status", "subscriptions", "take", "top", "up",
    "verify",
})  # fmt: skip
"""What commands may be called.  A new word must be none for what another one says already: nothing
is shown, got or printed, for there are list and describe."""
LISTS = frozenset({"forks", "happened", "subscriptions"})
"""Lists of a second kind of things, called as the things are."""

ASKING = frozenset(
    {
        "kwire acls remove",
        "kwire apply",
        "kwire cluster elect",
        "kwire cluster reassign",
        "kwire groups delete",
        "kwire groups delete-offsets",
        "kwire groups reset",
        "kwire schemas delete",
        "kwire topics delete",
    }
)
"""What takes away what no command brings back, or works out itself what it changes."""

SHORT = {
    "-b": "--bootstrap-server",
    "-h": "--help",
    "-q": "--quiet",
    "-s": "--set",
    "-d": "--delete",
    "-y": "--yes",
}
"""Letters that mean the same in every command."""
NOT_SAID = frozenset({
    "--config", "--delete-config", "--against", "--with", "--bootstrap", "--target", "--force",
    "--execute", "--confirm", "--once", "--follow",
})  # fmt: skip
"""Other words for --set, --delete, --other-bootstrap-server, --yes and --continuous."""
GOES_ON = {"kwire top": {"--once"}}
"""A screen that goes on by itself, as `top` does everywhere, and the option that ends it."""


def tree(command: click.Command = app, path: str = "kwire") -> Iterator[tuple[str, click.Command]]:
    """Every command and group with its words."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from tree(found, f"{path} {name}")


TREE = dict(tree())
COMMANDS = {path: each for path, each in TREE.items() if not isinstance(each, click.Group)}


def shown(command: click.Command) -> Iterator[click.Option]:
    for each in command.params:
        if isinstance(each, click.Option) and not each.hidden:
            yield each


def names(command: click.Command) -> set[str]:
    return {name for option in shown(command) for name in (*option.opts, *option.secondary_opts)}


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words, prog_name="kwire")


def test_command_names_are_in_the_list_of_verbs() -> None:
    used = {path.split()[-1] for path in COMMANDS} | {"trace"}
    assert used - VERBS == {"trace"}, "another word for a thing that has one?"
    assert VERBS - used == set()


def test_all_groups_but_conformance_are_commands() -> None:
    groups = {path for path, each in TREE.items() if isinstance(each, click.Group)}
    plain = {path for path in groups if not isinstance(TREE[path], Commands)}
    assert plain == {"kwire conformance"}, "a room that knows nothing of the command line"


@pytest.mark.parametrize("word", sorted({"list", "describe", *LISTS}))
def test_commands_that_only_read_have_json(word: str) -> None:
    for path, command in COMMANDS.items():
        if path.split()[-1] == word:
            assert "--json" in names(command), path


def test_options_use_one_name_for_one_meaning() -> None:
    for path, command in COMMANDS.items():
        assert not names(command) & NOT_SAID - GOES_ON.get(path, set()), path
        for option in shown(command):
            for letter in set(option.opts) & SHORT.keys():
                assert SHORT[letter] in option.opts, f"{path} {letter}"


def test_options_of_a_second_cluster_are_named_after_those_of_the_first() -> None:
    """No other option takes HOST:PORT: --to and --from are topics, folders and brokers' ids."""
    for path, command in COMMANDS.items():
        servers = {
            option.opts[-1] for option in shown(command) if "HOST:PORT" in (option.metavar or "")
        }
        allowed = {"--bootstrap-server", "--other-bootstrap-server", "--zookeeper", "--kraft"}
        assert servers <= allowed, path
        for name in names(command):
            if name.startswith("--other-"):
                assert f"--{name.removeprefix('--other-')}" in names(command), f"{path} {name}"


def test_options_of_settings_are_set_and_delete() -> None:
    of_others = {"--kafka", "--other-kafka", "--spark", "--append", "--subtract", "--header"}
    for path, command in COMMANDS.items():
        for option in shown(command):
            if option.metavar == "NAME=VALUE":
                assert {"-s", "--set"} <= set(option.opts) or of_others & set(option.opts), path


def test_commands_that_ask_have_dry_run_and_yes() -> None:
    asks = {path for path, command in COMMANDS.items() if "--yes" in names(command)}
    assert asks == ASKING
    for path in asks:
        assert {"-y", "--yes", "--dry-run"} <= names(COMMANDS[path]), path


def test_only_asking_py_asks_the_user() -> None:
    found = [
        str(path)
        for path in (Path(__file__).parents[3] / "kwire").rglob("*.py")
        if "click.confirm(" in path.read_text()
    ]
    assert [Path(path).name for path in found] == ["asking.py"]


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [("y\n", 0, "done"), ("n\n", 1, "nothing is changed"), ("", 130, "")],
)
def test_must_agree_continues_only_at_yes(
    monkeypatch: pytest.MonkeyPatch, answer: str, status: int, said: str
) -> None:
    monkeypatch.setattr(asking, "has_terminal", lambda: True)

    @click.command()
    @asking.asking_options()
    def command(dry_run: bool, yes: bool) -> None:
        asking.must_agree("Do it?", yes=yes)
        click.echo("done", err=True)

    from kwire.cli.app import run as run_command

    @click.command()
    def whole() -> None:
        raise SystemExit(run_command(command, "x"))

    monkeypatch.setattr(sys, "argv", ["x"])
    done = CliRunner().invoke(whole, [], input=answer)
    assert done.exit_code == status, done.output
    assert said in done.stderr


def test_commands_that_run_until_ctrl_c_have_continuous_or_watch() -> None:
    """Jobs are --continuous, views are shown again by --watch; consume and trace always go on."""
    for path, command in COMMANDS.items():
        for option in shown(command):
            if "until Ctrl-C" in (option.help or ""):
                assert option.opts[-1] in {"--continuous", "--watch"}, path
    jobs = {path for path, command in COMMANDS.items() if "--continuous" in names(command)}
    assert jobs == {f"kwire pipeline {job}" for job in ("archive", "mirror", "query")}


def test_help_of_list_and_describe_begins_with_that_word() -> None:
    for path, command in TREE.items():
        word = path.split()[-1]
        if word in {"list", "describe"}:
            assert (command.help or "").startswith(f"{word.capitalize()} "), path
    summaries = [line for line in PAGE.splitlines() if line.startswith("| `kwire ")]
    for line in summaries:
        group = line.split("`")[1]
        if isinstance(TREE[group], click.Group) and group != "kwire trace":
            for verb in ("show", "get"):
                assert not re.search(rf"\| {verb}\b|\b{verb} and\b", line), line


OLD_NAMES = {
    "kwire groups reset": {"--execute"},
    "kwire pipeline compare": {"--with", "--with-kafka"},
    "kwire pipeline mirror": {"--to", "--target-config", "--target"},
    "kwire pipeline query": {"-s"},
    "kwire pipeline replay": {"--config"},
    "kwire topics alter": {"-c", "--config", "--delete-config"},
    "kwire topics create": {"-c", "--config"},
}


def test_options_keep_their_former_names() -> None:
    found = {
        path: {
            old for each in command.params if isinstance(each, RenamedOption) for old in each.old
        }
        for path, command in COMMANDS.items()
    }
    assert {path: old for path, old in found.items() if old} == OLD_NAMES


@pytest.mark.parametrize(
    ("words", "parameter", "value"),
    [
        ("topics create t --config a=b -c c=d", "configs", (("a", "b"), ("c", "d"))),
        ("topics alter t --delete-config a -d b", "deleted", ("a", "b")),
        ("groups reset g --execute", "yes", True),
        ("pipeline compare a --with b:1", "other_server", "b:1"),
        ("pipeline compare a --with-kafka a=b", "other_kafka", (("a", "b"),)),
        ("pipeline mirror t --to b:1 --target a=b", "other_server", "b:1"),
        ("pipeline mirror t --to b:1 --target a=b", "other_kafka", (("a", "b"),)),
        ("pipeline mirror t --to b:1 --target-config FILE", "other_server", "b:1"),
        ("pipeline replay --from / --config a=b", "configs", (("a", "b"),)),
    ],
)
def test_former_name_of_an_option_sets_the_same_parameter(
    words: str, parameter: str, value: object
) -> None:
    path, arguments = words.replace("FILE", __file__).split(), list[str]()
    while " ".join(["kwire", *path]) not in COMMANDS:
        arguments.insert(0, path.pop())
    command = COMMANDS[" ".join(["kwire", *path])]
    context = command.make_context(path[-1], arguments)
    assert context.params[parameter] == value


@pytest.mark.parametrize("words", [("telemetry", "show"), ("clock", "show"), ("schemas", "show")])
def test_former_name_of_a_command_runs_the_command(words: tuple[str, str]) -> None:
    assert run(*words, "--help").output.startswith(f"Usage: kwire {' '.join(words)}")
    group = TREE[f"kwire {words[0]}"]
    assert isinstance(group, Commands)
    assert words[1] not in group.list_commands(click.Context(group))


@pytest.mark.parametrize(("path", "old"), sorted(OLD_NAMES.items()))
def test_help_does_not_show_former_names(path: str, old: set[str]) -> None:
    told = run(*path.split()[1:], "--help").output
    listed = set(re.findall(r"(?m)^ +(-\w|--[\w-]+)", told)) | set(
        re.findall(r", (--[\w-]+)", told)
    )
    assert not listed & old


def test_completion_offers_names_but_no_former_names() -> None:
    for typed, given in (
        ("kwire topics create --", ["--set", "--partitions", "--dry-run"]),
        ("kwire pipeline compare --", ["--other-bootstrap-server"]),
    ):
        environ = os.environ | {"_KWIRE_COMPLETE": "bash_complete", "COMP_WORDS": typed}
        done = run_kwire(environment=environ | {"COMP_CWORD": str(len(typed.split()) - 1)})
        assert done.returncode == 0, done.stderr
        options = {line.partition(",")[2] for line in done.stdout.splitlines()}
        assert set(given) <= options
        assert not options & {"--config", "--with"}


# -- exit statuses


def test_page_documents_exit_statuses() -> None:
    assert "Commands exit with 0 when all went well, 1 when the cluster refused" in PAGE
    assert "2 when the check could not be made" in PAGE


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("topics list --timeout 0.1", 1),
        ("apply FILE --dry-run --timeout 0.1", 1),
        ("apply FILE --check --timeout 0.1", 2),
        ("apply BAD --check", 2),
        ("apply BAD --yes", 1),
        ("trace replay FILE --timeout 0.1", 2),
        ("pipeline compare a b --command-config BAD", 2),
        ("pipeline audit a --command-config BAD", 2),
        ("pipeline archive a --to x --command-config BAD", 1),
    ],
)
def test_exit_status_distinguishes_findings_from_failures(
    words: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / "FILE").write_text("topics: {t: }\n")
    (tmp_path / "BAD").write_text("topics: [\n\\u12\n")
    given = [str(tmp_path / each) if each in {"FILE", "BAD"} else each for each in words.split()]
    done = run(*given, "-b", "127.0.0.1:1")  # nobody listens there
    assert done.exit_code == status, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
