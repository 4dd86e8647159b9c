"""Every `kwire` command that a page shows, in a block or in a line, has the options it is given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

import click
import pytest

from kwire.cli.app import app
from tests.test_snippets import ROOT, blocks

INLINE = re.compile(r"`(kwire [^`\n]+)`")
IN_BLOCK = re.compile(r"\bkwire [^\n]*")
PAGES = [
    "README.md",
    "docker/README.md",
    *(page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs").rglob("*.md"))),
]
ENDS = frozenset({"|", "||", "&&", ";", ">", ">>", "<<", "<<END", "2>&1", "..."})
"""Words after which a shell begins something else."""


class Shown(NamedTuple):
    page: str
    words: tuple[str, ...]


def shown() -> Iterator[Shown]:
    for page in PAGES:
        text = (ROOT / page).read_text()
        for command in INLINE.findall(text):
            yield Shown(page, words_of(command))
    for block in blocks():
        if block.language == "sh":
            for command in IN_BLOCK.findall(block.text.replace("\\\n", " ")):
                yield Shown(block.page, words_of(command))


def words_of(command: str) -> tuple[str, ...]:
    """The words after `kwire`, up to where the command ends; an open quote ends it, too."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        words.extend(takewhile(lambda word: word not in ENDS, lexer))
    except ValueError:  # a quoted text of several lines
        words = command.partition('"')[0].split()
    return tuple(words[1:])


def unknown_word(words: tuple[str, ...]) -> str | None:
    """The first subcommand or option in `words` that does not exist."""
    context = click.Context(app, info_name="kwire")
    command: click.Command = app
    rest = iter(words)
    for word in rest:
        options = {name: each for each in command.get_params(context) for name in names(each)}
        if word.startswith("-") and not word[1:2].isdigit() and len(word) > 1:
            option = options.get(word.partition("=")[0])
            if option is None:
                return word
            if "=" not in word and not is_flag(option):
                next(rest, None)
        elif isinstance(command, click.Group):
            found = command.get_command(context, word)
            if found is None:
                return word
            command, context = found, click.Context(found, parent=context, info_name=word)
    return None


def names(parameter: click.Parameter) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts]


def is_flag(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count)


def test_search_finds_the_commands_of_the_pages() -> None:
    commands = {found.words[:2] for found in shown()}
    assert {("topics", "create"), ("cluster", "adopt"), ("serve", "--secure")} <= commands
    assert len(commands) > 30


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        (("topcs", "list"), "topcs"),
        (("topics", "list", "--tpoic"), "--tpoic"),
        (("topics", "list", "-b", "localhost:9092", "--json"), None),
        (("serve", "--set", "a=b", "--port=1"), None),
    ],
)
def test_unknown_subcommand_or_option_is_found(words: tuple[str, ...], unknown: str | None) -> None:
    assert unknown_word(words) == unknown


def test_commands_of_the_pages_exist_with_their_options() -> None:
    wrong = {found: word for found in shown() if (word := unknown_word(found.words))}
    assert not wrong, wrong
