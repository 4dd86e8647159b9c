"""From a server.properties, the environment and the command line to a BrokerConfig."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kwire.settings.broker import BrokerConfig, definition_of
from kwire.settings.environment import settings_from
from kwire.settings.error import ConfigError
from kwire.settings.plugins import NAMES, owner_of
from kwire.settings.properties import read_properties

NOTHING: Mapping[str, str] = {}


def load(
    path: Path | None = None,
    overrides: Mapping[str, str] = NOTHING,
    environ: Mapping[str, str] = NOTHING,
) -> BrokerConfig:
    """The configuration of a broker: what `overrides` say, else `environ`, else the file.

    Unknown names in file and environment are told in the `notes` of the result, since files
    written for another version have them; in `overrides` they are mistakes.  Raises ConfigError.
    """
    notes: list[str] = []
    file = read_properties(path) if path is not None else {}
    given = {**file, **settings_from(environ), **overrides}
    for name in [name for name in given if not is_known(name, given)]:
        if name in overrides:
            raise ConfigError(unknown_sentence(name))
        notes.append(unknown_sentence(name))
        del given[name]
    return BrokerConfig(given, notes=[*notes, *_quorum_notes(given)])


def is_known(name: str, given: Mapping[str, str] = NOTHING) -> bool:
    """Whether it is a broker's or that of a class of Apache Kafka's, beside what else is given."""
    return definition_of(name) is not None or owner_of(name, given) is not None


def unknown_sentence(name: str, known: Iterable[str] = ()) -> str:
    """`name` is unknown; did you mean ...?"""
    from difflib import get_close_matches  # 3 ms, and only a mistake needs it

    close = get_close_matches(name, list(known) or [*BrokerConfig.DEFINITIONS, *NAMES], n=1)
    hint = f": did you mean {close[0]}?" if close else ""
    return f"unknown setting {name}{hint}"


def _quorum_notes(given: Mapping[str, str]) -> list[str]:
    """What a file written for a KRaft cluster asks of a broker that has its own store."""
    roles = [role.strip() for role in given.get("process.roles", "").split(",")]
    if roles == ["controller"]:
        raise ConfigError("process.roles=controller: kwire is a broker and needs that role")
    voters = [voter for voter in given.get("controller.quorum.voters", "").split(",") if voter]
    if len(voters) > 1 or roles == ["broker"]:
        return ["the KRaft quorum is not joined: this broker keeps its own metadata"]
    return []
