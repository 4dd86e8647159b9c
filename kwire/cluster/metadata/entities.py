"""Users, client ids and IP addresses, on which quotas and credentials are set.

ConfigResource.Type does not have them, so they are a resource type of their own.  Their names are
the paths below /config that Apache Kafka uses in ZooKeeper: `users/alice`,
`users/alice/clients/<default>`, `clients/app`, `ips/10.0.0.1`.  The configs of an entity are its
quotas (kwire.security.quotas), and the SCRAM credentials of a user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from kwire.cluster.metadata.image import ResourceKey

ENTITY_RESOURCE: Final = 1 << 16

DEFAULT_ENTITY: Final = "<default>"
"""The default for entities that have no configs of their own."""

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity = Mapping[str, str | None]
"""The names by USER, CLIENT_ID or IP; None means the default entity of that kind.  USER and
CLIENT_ID can be combined."""

_FOLDERS: Final = {USER: "users", CLIENT_ID: "clients", IP: "ips"}
_KINDS: Final = {folder: kind for kind, folder in _FOLDERS.items()}


def entity_key(entity: Entity) -> ResourceKey:
    """The resource key of an entity's configs; its name is also the path below /config."""
    parts = [
        f"{folder}/{_shown(entity[kind])}" for kind, folder in _FOLDERS.items() if kind in entity
    ]
    return ENTITY_RESOURCE, "/".join(parts)


def entity_of(key: ResourceKey) -> Entity | None:
    """The entity with this resource key, or None if the key names none."""
    resource, path = key
    parts = path.split("/")
    if resource != ENTITY_RESOURCE or len(parts) not in {2, 4}:
        return None
    kinds = tuple(_KINDS.get(folder) for folder in parts[::2])
    if kinds not in {(USER,), (CLIENT_ID,), (IP,), (USER, CLIENT_ID)}:
        return None
    names = (None if name == DEFAULT_ENTITY else unsanitized(name) for name in parts[1::2])
    return {str(kind): name for kind, name in zip(kinds, names, strict=True)}


def _shown(name: str | None) -> str:
    return DEFAULT_ENTITY if name is None else sanitized(name)


def sanitized(name: str) -> str:
    """The name encoded as by Kafka's Sanitizer, for paths and metric names."""
    if name == DEFAULT_ENTITY:
        return name
    return quote(name, safe="").replace("~", "%7E")


def unsanitized(name: str) -> str:
    """The name that `sanitized` encoded."""
    return unquote(name)
