"""Formats the state of a cluster as a declaration, which gives an empty cluster the same state.

Brokers do not return passwords.  So the text names an environment variable for the password of each
user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from kwire.cli.declared_state.document import RESOLVED, TAG
from kwire.cli.declared_state.state import DeclaredAcl, FoundState, FoundTopic, is_kafkas_own

WIDTH: Final = 100


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes each text which PyYAML or `document` would not read as text."""

    yaml_implicit_resolvers: dict[str, Any] = {  # noqa: RUF012 - a copy of PyYAML's
        first: list(known) for first, known in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: object) -> bool:
        return True


for _name, _pattern, _first in RESOLVED:
    _Dumper.add_implicit_resolver(TAG + _name, re.compile(f"(?:{_pattern})\\Z"), _first)


def text_of(found: FoundState, records: Mapping[str, str] | None = None) -> str:
    """The text of a declaration; `records` maps topics to the files of their records."""
    notes = [f"# {section}: not told, {why}\n" for section, why in found.untold.items()]
    if found.users:
        notes.append(
            "# Brokers tell nobody a password: each is read from the variable named here.\n"
        )
    return "".join(notes) + yaml.dump(
        content_of(found, records or {}),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=WIDTH,
    )


def content_of(found: FoundState, records: Mapping[str, str]) -> dict[str, object]:
    """The content of a declaration, without sections that the cluster did not return."""
    sections: dict[str, object] = {
        "topics": {
            name: _topic(topic, records.get(name))
            for name, topic in sorted(found.topics.items())
            if not is_kafkas_own(name, topic)
        },
        "users": _users(found.users),
        "acls": _acls(found.acls),
        "quotas": [
            {**dict(entity), **{name: _short(rate) for name, rate in sorted(rates.items())}}
            for entity, rates in sorted(found.quotas.items(), key=str)
        ],
        "groups": _settings(found.groups),
        "client-metrics": _settings(found.client_metrics),
    }
    return {name: content for name, content in sections.items() if name not in found.untold}


def _topic(topic: FoundTopic, records: str | None) -> dict[str, object]:
    """Return a topic as a declaration has it; `records` is the file with its records, or None."""
    told: dict[str, object] = {"partitions": topic.partitions, "replication": topic.replication}
    if topic.configs:
        told["configs"] = dict(sorted(topic.configs.items()))
    if records is not None:
        told["records"] = {"file": records, "format": "records"}
    return told


def _users(users: Mapping[str, Mapping[str, int]]) -> dict[str, object]:
    """Return the users as a declaration has them, each with an environment variable for its
    password."""
    told: dict[str, object] = {}
    taken: set[str] = set()
    for name, mechanisms in sorted(users.items()):
        told[name] = {
            "password": {"env": variable_of(name, taken)},
            "mechanisms": dict(sorted(mechanisms.items())),
        }
    return told


def variable_of(user: str, taken: set[str]) -> str:
    """A variable name for a user that is not in `taken`, to which it is added."""
    plain = "PASSWORD_OF_" + re.sub(r"[^A-Z0-9]", "_", user.upper())
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    taken.add(name)
    return name


def _acls(acls: frozenset[DeclaredAcl]) -> list[dict[str, object]]:
    """The ACLs as entries; those that differ only in the operation become one entry."""
    together: dict[DeclaredAcl, list[str]] = {}
    for acl in sorted(acls):
        together.setdefault(acl._replace(operation=""), []).append(acl.operation)
    return [
        {
            "principal": acl.principal,
            acl.resource: True if acl.resource == "cluster" else acl.name,
            "pattern": acl.pattern,
            "operations": operations,
            "host": acl.host,
            "permission": acl.permission,
        }
        for acl, operations in together.items()
    ]


def _settings(found: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
    return {name: dict(sorted(settings.items())) for name, settings in sorted(found.items())}


def _short(rate: float) -> float | int:
    return int(rate) if rate.is_integer() else rate
