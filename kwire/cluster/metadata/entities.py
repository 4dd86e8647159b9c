"""Users, clients and addresses: what quotas and credentials are set on.

ConfigResource.Type has none of them, so they are a kind of resource of their own, named as
Apache Kafka names them in ZooKeeper, by the path below /config: `users/alice`,
`users/alice/clients/<default>`, `clients/app`, `ips/10.0.0.1`.  What is set on one are its configs:
quotas (kwire.security.quotas), and of a user the SCRAM credentials as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from kwire.cluster.metadata.image import ResourceKey

ENTITY_RESOURCE: Final = 1 << 16

DEFAULT_ENTITY: Final = "<default>"
"""Stands for whoever has nothing of their own."""

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity = Mapping[str, str | None]
"""The name by USER, CLIENT_ID or IP; None is the default of that kind.  USER and CLIENT_ID may
stand together."""

_FOLDERS: Final = {USER: "users", CLIENT_ID: "clients", IP: "ips"}
_KINDS: Final = {folder: kind for kind, folder in _FOLDERS.items()}


def entity_key(entity: Entity) -> ResourceKey:
    """Where what is set on `entity` is kept: in ClusterImage.configs, and below /config."""
    parts = [
        f"{folder}/{_shown(entity[kind])}" for kind, folder in _FOLDERS.items() if kind in entity
    ]
    return ENTITY_RESOURCE, "/".join(parts)


def entity_of(key: ResourceKey) -> Entity | None:
    """Whose configs are kept there; None if that is no entity that is known."""
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
    """As Kafka's Sanitizer: what a path and a metric's name can hold."""
    if name == DEFAULT_ENTITY:
        return name
    return quote(name, safe="").replace("~", "%7E")


def unsanitized(name: str) -> str:
    return unquote(name)
