"""Loads a BrokerConfig from a server.properties file, the environment and the command line."""

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
    """Return the configuration of a broker.  `overrides` win over `environ`, and `environ` over the
    file.

    Unknown names in the file and in `environ` become `notes` of the result, since a file for
    another version of Kafka has them.  An unknown name in `overrides` is an error.  Raises
    ConfigError.
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
    """Whether `name` is a setting of brokers or of one of Apache Kafka's own plug-ins.

    Some settings in `given` define prefixes for the names of others.
    """
    return definition_of(name) is not None or owner_of(name, given) is not None


def unknown_sentence(name: str, known: Iterable[str] = ()) -> str:
    """Return the error message for an unknown setting, with the nearest known name if there is
    one.
    """
    from difflib import get_close_matches  # The import takes 3 ms, and only an error needs it.

    close = get_close_matches(name, list(known) or [*BrokerConfig.DEFINITIONS, *NAMES], n=1)
    hint = f": did you mean {close[0]}?" if close else ""
    return f"unknown setting {name}{hint}"


def _quorum_notes(given: Mapping[str, str]) -> list[str]:
    """Return a note if the settings name other controllers of a node that is one itself.

    Raises ConfigError if the node shall be a controller only.
    """
    roles = [role.strip() for role in given.get("process.roles", "").split(",")]
    if roles == ["controller"]:
        raise ConfigError("process.roles=controller: add broker, for kwire cannot be a controller")
    voters = [voter for voter in given.get("controller.quorum.voters", "").split(",") if voter]
    if len(voters) > 1 and roles != ["broker"]:
        return [
            "this broker does not join the KRaft quorum, it keeps its own metadata: "
            "process.roles=broker makes it join"
        ]
    return []
