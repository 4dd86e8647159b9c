"""Code reads each setting that is declared to act, and reads no setting that is declared not to.

The test searches the syntax trees of all modules, except modules that only check settings.  These
uses count as reading a setting:
- `….config.log_dirs`: an attribute of an object with the name of a configuration;
- `….given("socket.send.buffer.bytes")`: a call with the name, also of a function that gets the
  configuration as another argument;
- a used field of that name in a class of another room (`CleanerSettings`);
- for a broker setting that is the default of a topic config: any use of the topic config.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kwire.cluster.membership.collector import collector_paused
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
"""Modules that only check or report settings, and clients, which have settings of their own."""
CONFIGURATIONS = ("config", "_config", "settings", "_settings", "limits", "_limits")
SELF = ("kwire/settings/broker.py", "log/config.py", "log/compaction/settings.py")
"""Modules in which `self` is a configuration."""


class Use(NamedTuple):
    """A use of a word in a room.

    `kind` is attribute, topic (an attribute of a log's configuration), name, field, or text (any
    string).
    """

    room: str
    kind: str
    word: str


def modules() -> Iterator[Path]:
    for room in ("kwire", "log", "groups", "txn"):
        for path in (ROOT / room).rglob("*.py"):
            if not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT):
                yield path


def nodes(tree: ast.AST, place: str) -> Iterator[ast.AST]:
    """All nodes of a module, except functions of kwire/settings that only check."""
    of_settings = place.startswith("kwire/settings/")
    waiting = [tree]
    for node in waiting:
        for child in ast.iter_child_nodes(node):
            if not (of_settings and only_checks(child)):
                waiting.append(child)
                yield child


def only_checks(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith("check")


def is_configuration(node: ast.AST, place: str) -> bool:
    name = last_name(node)
    return name in CONFIGURATIONS or (name == "self" and place in SELF)


def last_name(node: ast.AST) -> str:
    """`config` of `broker.config`; empty for what is no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def words_in(node: ast.AST, place: str) -> Iterator[tuple[str, str]]:
    """(kind, word) of each use in one node."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        if is_configuration(node.value, place):
            owner = node.value.value if isinstance(node.value, ast.Attribute) else node.value
            of_log = last_name(node.value) == "config" and last_name(owner).endswith("log")
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
    found: set[Use] = set()
    for path in modules():
        place = path.relative_to(ROOT).as_posix()
        room = place.partition("/")[0]
        with collector_paused():  # a tree has many objects and no cycle
            for node in nodes(ast.parse(path.read_text()), place):
                found.update(Use(room, *each) for each in words_in(node, place))
    return frozenset(found)


def is_field_that_is_used(attribute: str) -> bool:
    """Whether a class in another room has a field of that name, and that room reads it."""
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
        or Use("kwire", "name", name) in uses()  # The controller reads configs by name.
        or definition.internal  # topic_log_config passes it on under another name.
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
    """The broker settings that are the default or a bound of an acting group config."""
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


def test_broker_settings_act_exactly_if_code_reads_them() -> None:
    assert_true(BrokerConfig, acting_broker_settings())


def test_topic_configs_act_exactly_if_code_reads_them() -> None:
    assert_true(TopicSettings, acting_topic_settings())


def test_group_configs_act_exactly_if_code_reads_them() -> None:
    assert_true(GroupResourceSettings, acting_group_settings())


def test_client_metrics_configs_act_exactly_if_code_reads_them() -> None:
    acting = {
        name
        for name, definition in ClientMetricsSettings.DEFINITIONS.items()
        if is_read(name, definition.attribute, "kwire")
    }
    assert_true(ClientMetricsSettings, acting)
