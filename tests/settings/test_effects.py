"""A setting that is said to act is read by the code; one that is said to do nothing is not.

What counts as read, by the syntax tree of every module but those that only check:
- `….config.log_dirs`: an attribute of what is named a configuration;
- `….given("socket.send.buffer.bytes")`: a value that is asked for by name, also of a function
  that is handed the configuration;
- a field of that name in a class of another room's (`CleanerSettings`), if it is used there;
- a broker setting whose topic config acts, as that one's default.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kwire.settings import groups
from kwire.settings.broker import BrokerConfig
from kwire.settings.client_metrics_settings import ClientMetricsSettings
from kwire.settings.definition import Settings
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.definitions.topics import SYNONYMS
from kwire.settings.rules import BOUNDED
from kwire.settings.topic_settings import TopicSettings

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = (
    *(f"kwire/settings/{name}.py" for name in ("rules", "check", "groups", "load", "plugins")),
    *(f"kwire/{name}/" for name in ("client", "demo", "pipeline")),
    "kwire/security/oauth/retrieving.py",
)
"""What is compared with a bound, or told, has not acted by that; clients have settings of their
own."""
CONFIGURATIONS = ("config", "_config", "settings", "_settings", "limits", "_limits")
SELF = ("kwire/settings/broker.py", "log/config.py", "log/compaction/settings.py")
"""Modules whose `self` is a configuration."""


class Use(NamedTuple):
    """`kind` is attribute, topic (an attribute of a log's), name, field, or text: any string."""

    room: str
    kind: str
    word: str


def modules() -> Iterator[Path]:
    for room in ("kwire", "log", "groups", "txn"):
        for path in (ROOT / room).rglob("*.py"):
            if not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT):
                yield path


def nodes(tree: ast.AST, place: str) -> Iterator[ast.AST]:
    """All of a module, but of kwire/settings not what functions do that only check."""
    for node in ast.iter_child_nodes(tree):
        name = node.name.lstrip("_") if isinstance(node, ast.FunctionDef) else ""
        if not (name.startswith("check") and place.startswith("kwire/settings/")):
            yield node
            yield from nodes(node, place)


def is_configuration(node: ast.AST, place: str) -> bool:
    name = ast.unparse(node).rpartition(".")[2]
    return name in CONFIGURATIONS or (name == "self" and place in SELF)


def words_in(node: ast.AST, place: str) -> Iterator[tuple[str, str]]:
    """(kind, word) of one node."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        if is_configuration(node.value, place):
            of_log = ast.unparse(node.value).endswith("log.config")
            yield "topic" if of_log else "attribute", node.attr
    elif isinstance(node, ast.Call):
        asked = isinstance(node.func, ast.Attribute) and node.func.attr in ("given", "text", "get")
        if asked or any(is_configuration(argument, place) for argument in node.args):
            for word in node.args:
                if isinstance(word, ast.Constant):
                    yield "name", str(word.value)
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield "field", node.target.id
    elif isinstance(node, ast.Subscript) and place in SELF and isinstance(node.slice, ast.Constant):
        yield "attribute", str(node.slice.value)  # values["log_dir"]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield "text", node.value


@cache
def uses() -> frozenset[Use]:
    found = set()
    for path in modules():
        place = path.relative_to(ROOT).as_posix()
        room = place.partition("/")[0]
        for node in nodes(ast.parse(path.read_text()), place):
            found |= {Use(room, kind, word) for kind, word in words_in(node, place)}
    return frozenset(found)


def is_field_that_is_used(attribute: str) -> bool:
    """Of a class in another room: it is read there as an attribute, or by its name."""
    return any(
        Use(room, "field", attribute) in uses()
        and (Use(room, "attribute", attribute) in uses() or Use(room, "text", attribute) in uses())
        for room in ("log", "groups", "txn")
    )


def is_read(name: str, attribute: str, room: str, kind: str = "attribute") -> bool:
    return Use(room, kind, attribute) in uses() or Use(room, "name", name) in uses()


def acting_topic_settings() -> set[str]:
    return {
        name
        for name, definition in TopicSettings.DEFINITIONS.items()
        if is_read(name, definition.attribute, "log")
        or any(Use(room, "topic", definition.attribute) in uses() for room in ("kwire", "log"))
        or Use("kwire", "name", name) in uses()  # by its name, as the controller does
        or definition.internal  # handed on by topic_log_config under another name
    }


def acting_broker_settings() -> set[str]:
    of_topics = {each.name for name in acting_topic_settings() for each in SYNONYMS.get(name, ())}
    of_groups = behind_group_settings()
    return (of_topics | of_groups) | {
        name
        for name, definition in BrokerConfig.DEFINITIONS.items()
        if is_read(name, definition.attribute, "kwire")
        or is_field_that_is_used(definition.attribute)
    }


def acting_group_settings() -> set[str]:
    return {
        name
        for name, definition in GroupResourceSettings.DEFINITIONS.items()
        if is_read(name, definition.attribute, "kwire")
    }


def behind_group_settings() -> set[str]:
    """The defaults and bounds of what a group may set: they act as it does."""
    acting = acting_group_settings()
    pairs = (pair for name, pair in BOUNDED.items() if name in acting)
    bounds = {name for pair in pairs for name in pair if name is not None}
    defaults = {groups.SYNONYMS[name] for name in acting} & BrokerConfig.DEFINITIONS.keys()
    return bounds | defaults


def said_to_act(settings: type[Settings]) -> set[str]:
    return {name for name, definition in settings.DEFINITIONS.items() if definition.effect.acts}


def assert_true(settings: type[Settings], acting: set[str]) -> None:
    said = said_to_act(settings)
    assert not said - acting, "no code reads them: give them an effect, or read them"
    assert not acting - said, "code reads them: take the effect from their declaration"


def test_broker_settings() -> None:
    assert_true(BrokerConfig, acting_broker_settings())


def test_topic_settings() -> None:
    assert_true(TopicSettings, acting_topic_settings())


def test_group_settings() -> None:
    assert_true(GroupResourceSettings, acting_group_settings())


def test_settings_of_client_metrics() -> None:
    acting = {
        name
        for name, definition in ClientMetricsSettings.DEFINITIONS.items()
        if is_read(name, definition.attribute, "kwire")
    }
    assert_true(ClientMetricsSettings, acting)
