"""What a reader of variables collects: settings with their origin, topics, users, and notes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.settings.environment import PREFIX
from kwire.settings.error import ConfigError


class ImageTopic(NamedTuple):
    """A topic to create at the start; None is the broker's default."""

    partitions: int | None = None
    replicas: int | None = None
    configs: Mapping[str, str] = {}


@dataclass(slots=True)
class ImageUser:
    """A user with a password that is stored with SCRAM, and the mechanisms."""

    password: str = field(repr=False)
    mechanisms: tuple[str, ...]


@dataclass(slots=True)
class VariableReading:
    """What has been read of an environment."""

    environ: dict[str, str]
    """All variables, those of commands and files resolved."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings by Kafka's names."""
    origins: dict[str, str] = field(default_factory=dict)
    """The variable that gives a setting, by the setting's name."""
    cluster_id: str = ""
    cluster_id_origin: str = ""
    topics: dict[str, ImageTopic] = field(default_factory=dict)
    users: dict[str, ImageUser] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    """Why a variable has no effect, by its name."""

    def give(self, setting: str, value: str, variable: str) -> None:
        """Set a setting.  Raises ConfigError if another variable gives it another value."""
        if setting in self.settings and self.settings[setting] != value:
            raise ConfigError(
                f"{self.origins[setting]} and {variable} give {setting} two different values: "
                "leave one of them out"
            )
        self.settings[setting] = value
        self.origins.setdefault(setting, variable)

    def default(self, setting: str, value: str, variable: str) -> None:
        """Set a setting that follows from `variable`, unless it is given."""
        if setting not in self.settings:
            self.give(setting, value, variable)

    def drop(self, setting: str, reason: str) -> None:
        """Remove a setting, and note why its variable has no effect."""
        if setting in self.settings:
            del self.settings[setting]
            self.ignored[self.origins.pop(setting)] = reason

    def identify(self, value: str, variable: str) -> None:
        """Set the cluster id.  Raises ConfigError if another variable gives another one."""
        if self.cluster_id and self.cluster_id != value:
            raise ConfigError(
                f"{self.cluster_id_origin} and {variable} give two different cluster ids: leave "
                "one of them out"
            )
        self.cluster_id, self.cluster_id_origin = value, variable

    def given(self, name: str) -> str:
        """The value of a variable without spaces around it; empty if it is not set."""
        return self.environ.get(name, "").strip()

    def as_variables(self) -> dict[str, str]:
        """The settings as variables of the apache/kafka image."""
        return {variable_name(name): value for name, value in self.settings.items()}

    def explained(self, problem: str) -> str:
        """A message about settings, with the variables that they come from."""
        named = {
            f"{setting} comes from {variable}"
            for setting, variable in self.origins.items()
            if variable not in problem
            and re.search(rf"(?<![\w.-]){re.escape(setting)}(?![\w-]|\.\w)", problem)
        }
        return f"{problem} ({', '.join(sorted(named))})" if named else problem


def variable_name(setting: str) -> str:
    """`KAFKA_LOG_DIRS` for `log.dirs`: the opposite of kwire.settings.environment.setting_name."""
    name = setting.replace("_", "__").replace("-", "___").replace(".", "_")
    return PREFIX + name.upper()


def protocols_of(reading: VariableReading) -> dict[str, str]:
    """The security protocol by the name of each listener that clients or brokers connect to."""
    text = reading.settings.get("listener.security.protocol.map", "")
    mapped = {
        name.strip().upper(): protocol.strip().upper()
        for name, _, protocol in (entry.rpartition(":") for entry in text.split(","))
    }
    listeners = reading.settings.get("listeners") or reading.settings.get(
        "advertised.listeners", ""
    )
    names = [entry.partition("://")[0].strip().upper() for entry in listeners.split(",")]
    controllers = reading.settings.get("controller.listener.names", "").upper().split(",")
    return {name: mapped.get(name, name) for name in names if name and name not in controllers}


def read_file(path: str, variable: str) -> str:
    """The text of a file that a variable names.  Raises ConfigError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"{variable}: cannot read {path}: {reason}. Mount it there") from None
