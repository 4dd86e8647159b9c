"""YAML, read so that nothing in it means something else than it seems.

It is what people write of topics, and JSON is part of it.  But YAML 1.1, which PyYAML reads by
itself, makes a truth of `on`, 754 of `1362` with a zero before it and 90 of `1:30`: here only what
is JSON's own (null, true, false, numbers) is no text, as in YAML 1.2; names are always text; and
what is named twice is refused, where else the last one would win.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml

Path = tuple[str | int, ...]
"""Where in a document: names in mappings, numbers in lists."""


class DeclarationError(ValueError):
    """What is wrong with a declaration, a sentence a line, each with its place."""


@dataclass(slots=True)
class Document:
    """What a file says, and where each thing stands in it."""

    value: object
    source: str = "the declaration"
    lines: Mapping[Path, int] = field(default_factory=dict)

    def place(self, path: Path) -> str:
        """`cluster.yaml, line 3: topics.orders`."""
        line = next(
            (self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), 0
        )
        where = f"{self.source}, line {line}" if line else self.source
        return ": ".join(filter(None, (where, path_text(path))))


def path_text(path: Path) -> str:
    """`topics.orders.records[0]`; a name with dots of its own is quoted."""
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
"""What plain scalars are that are no text, the first that fits."""
TAG: Final = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - of its own, not PyYAML's


for _name, _pattern, _first in RESOLVED:
    _Loader.add_implicit_resolver(TAG + _name, re.compile(f"(?:{_pattern})\\Z"), _first)


def read(text: str, source: str) -> Document:
    """What a text says, which is called `source` in messages.  Raises DeclarationError."""
    try:
        node = yaml.compose(text, Loader=_Loader)
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
        reader = _Reader(source)
        document.value = reader.value(node, (), ())
        document.lines = reader.lines
    return document


class _Reader:
    """Makes plain values of nodes, and notes their lines."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[Path, int] = {}

    def value(self, node: yaml.Node, path: Path, above: tuple[yaml.Node, ...]) -> object:
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
        for each in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(each, yaml.MappingNode):
                self._refuse(node, "<< takes what another mapping has")
            found = self.value(each, path, above)
            assert isinstance(found, dict)
            yield found

    def _scalar(self, node: yaml.Node) -> object:
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
