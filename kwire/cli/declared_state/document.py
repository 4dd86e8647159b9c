"""Parses YAML without its surprises.

PyYAML reads YAML 1.1, in which `on` is a boolean, `01362` is 754 and `1:30` is 90.  Here, as in
YAML 1.2, only the values of JSON (null, true, false, numbers) are not text.  Names are always text.
A name that stands twice in a mapping is an error, where PyYAML takes the last one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml

Path = tuple[str | int, ...]
"""A place in a document: names in mappings, indexes in lists."""


class DeclarationError(ValueError):
    """Errors in a declaration; the message has one line for each, with its place."""


@dataclass(slots=True)
class Document:
    """A parsed file, with the line number of each value."""

    value: object
    source: str = "the declaration"
    lines: Mapping[Path, int] = field(default_factory=dict)

    def place(self, path: Path) -> str:
        """A place as text: `cluster.yaml, line 3: topics.orders`."""
        line = next(
            (self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), 0
        )
        where = f"{self.source}, line {line}" if line else self.source
        return ": ".join(filter(None, (where, path_text(path))))


def path_text(path: Path) -> str:
    """A path as text: `topics.orders.records[0]`.  A name with dots is quoted."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (f'"{step}"' if "." in step else step)
    return text


RESOLVED: Final = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    (
        "float",
        r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?",
        list("-0123456789"),
    ),
    ("merge", r"<<", ["<"]),
)
"""The types of plain scalars that are not text.  The first pattern that matches applies."""
TAG: Final = "tag:yaml.org,2002:"


class _DocumentLoader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - of its own, not PyYAML's


for _name, _pattern, _first in RESOLVED:
    _DocumentLoader.add_implicit_resolver(TAG + _name, re.compile(f"(?:{_pattern})\\Z"), _first)


def read(text: str, source: str) -> Document:
    """The parsed text, which messages call `source`.  Raises DeclarationError."""
    try:
        node = yaml.compose(text, Loader=_DocumentLoader)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        where = f"{source}, line {mark.line + 1}" if mark else source
        told = ", ".join(filter(None, (problem.context, problem.problem)))
        raise DeclarationError(f"{where}: not YAML: {told}") from None
    except (yaml.YAMLError, RecursionError) as problem:
        told = " ".join(str(problem).split())
        raise DeclarationError(f"{source}: not YAML: {told}") from None
    document = Document(None, source)
    if node is not None:
        reader = _DocumentReader(source)
        document.value = reader.value(node, (), ())
        document.lines = reader.lines
    return document


class _DocumentReader:
    """Converts YAML nodes to plain values, and records their lines."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[Path, int] = {}

    def value(self, node: yaml.Node, path: Path, above: tuple[yaml.Node, ...]) -> object:
        """Return the value of a YAML node, and stores the line of its path.  `above` are the nodes
        that contain it: an alias to one of them would have no end, and is refused."""
        self.lines.setdefault(path, node.start_mark.line + 1)
        if any(node is each for each in above):
            self._refuse(node, "an alias that stands within what it means")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            return [
                self.value(each, (*path, number), (*above, node))
                for number, each in enumerate(node.value)
            ]
        return self._scalar(node)

    def _mapping(
        self, node: yaml.MappingNode, path: Path, above: tuple[yaml.Node, ...]
    ) -> dict[str, object]:
        """Return a mapping.  Its own names override those that it merges by `<<`.  A name that
        stands twice is refused, since YAML parsers disagree on which one is valid."""
        own: dict[str, object] = {}
        merged: dict[str, object] = {}
        for key, value in node.value:
            if key.tag == TAG + "merge":
                for each in self._merged(value, path, above):
                    merged = {**each, **merged}
                continue
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(key, "a name is a text")
            if key.value in own:
                self._refuse(key, f"{key.value!r} stands there twice")
            self.lines[*path, key.value] = key.start_mark.line + 1
            own[key.value] = self.value(value, (*path, key.value), above)
        return {**merged, **own}

    def _merged(
        self, node: yaml.Node, path: Path, above: tuple[yaml.Node, ...]
    ) -> Iterable[dict[str, object]]:
        """Yield the mappings that `<<` merges: one, or each of a list."""
        for each in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(each, yaml.MappingNode):
                self._refuse(node, "<< takes what another mapping has")
            found = self.value(each, path, above)
            assert isinstance(found, dict)
            yield found

    def _scalar(self, node: yaml.Node) -> object:
        """Return a text, number, boolean or None by the tag of the node.  Refuses other tags."""
        text = str(node.value)
        tag = node.tag.removeprefix(TAG)
        if tag == "str" or (tag == "merge" and text == "<<"):
            return text
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() == "true"
        try:
            if tag == "int":
                return int(text)
            if tag == "float":
                return float(text)
        except ValueError:
            self._refuse(node, f"{text!r} is no number")
        self._refuse(node, f"{node.tag} is not understood here")

    def _refuse(self, node: yaml.Node, problem: str) -> NoReturn:
        line = node.start_mark.line + 1
        raise DeclarationError(f"{self.source}, line {line}: {problem}")
