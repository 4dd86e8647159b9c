"""Access control lists in ZooKeeper: paths and bytes, both ways, as Apache Kafka 3.9.2's
AclAuthorizer writes them.

    /kafka-acl/Topic/NAME                      the entries of a name
    /kafka-acl-extended/prefixed/Topic/PREFIX  those of all names that begin so
    /kafka-acl-changes/acl_changes_N           TOPIC:NAME has changed
    /kafka-acl-extended-changes/acl_changes_N  the same of a prefix, as an object of JSON

Names are in the paths as they are, so none has a `/`.  The order of a znode's entries is theirs
who wrote it: Apache Kafka keeps them in a set, and more than four in the order of hashes that are
others in each process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.stores.zookeeper.java_json import parsed, text_of

ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
FOLDERS: Final = {
    PatternType.LITERAL: ACL_CHANGES,
    PatternType.PREFIXED: EXTENDED_ACL_CHANGES,
}
"""Where changes are told."""
_CHANGE: Final = "/acl_changes_"
_STORES: Final = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
_VERSION: Final = 1


def _titled(name: str) -> str:
    """TRANSACTIONAL_ID is TransactionalId there."""
    return "".join(word.capitalize() for word in name.split("_"))


_TYPES: Final[Mapping[ResourceType, str]] = {
    kind: _titled(kind.name)
    for kind in ResourceType
    if kind not in (ResourceType.UNKNOWN, ResourceType.ANY)
}
_OPERATIONS: Final = {
    _titled(each.name): each
    for each in AclOperation
    if each not in (AclOperation.UNKNOWN, AclOperation.ANY)
}
_PERMISSIONS: Final = {
    _titled(each.name): each for each in (AclPermissionType.DENY, AclPermissionType.ALLOW)
}
_TYPES_SHOUTED: Final = {
    name.upper(): kind
    for kind, title in _TYPES.items()
    for name in (kind.name, title)  # the title alone is how brokers before 2.0 told it
}

TYPE_PATHS: Final = {
    f"{store}/{title}": (kind, pattern_type)
    for pattern_type, store in _STORES.items()
    for kind, title in _TYPES.items()
}
"""The folders of names, and what stands in each."""
PERSISTENT_PATHS: Final = (*TYPE_PATHS, *FOLDERS.values())
"""What each broker with an authorizer makes at its start where it is not there yet."""


def acl_path(pattern: ResourcePattern) -> str:
    store = _STORES[PatternType(pattern.pattern_type)]
    return f"{store}/{_TYPES[ResourceType(pattern.resource_type)]}/{pattern.name}"


def change_path(pattern: ResourcePattern) -> str:
    """Of a sequential znode: its number comes behind."""
    return FOLDERS[PatternType(pattern.pattern_type)] + _CHANGE


def encode_acls(entries: Iterable[AccessControlEntry]) -> bytes:
    said = [
        {
            "principal": each.principal,
            "permissionType": _titled(AclPermissionType(each.permission).name),
            "host": each.host,
            "operation": _titled(AclOperation(each.operation).name),
        }
        for each in sorted(entries)
    ]
    return text_of({"acls": said, "version": _VERSION})


def decode_acls(content: bytes) -> frozenset[AccessControlEntry]:
    """None of what is no JSON, as Apache Kafka has it.

    Raises ValueError, TypeError, LookupError for what cannot be understood.
    """
    said = parsed(content)
    if said is None:
        return frozenset()
    if not isinstance(said, dict) or said["version"] != _VERSION:
        raise ValueError(f"{said!r} are no access control lists of version {_VERSION}")
    return frozenset(map(_entry, said["acls"]))


def _entry(said: dict[str, Any]) -> AccessControlEntry:
    principal, host = said["principal"], said["host"]
    if not isinstance(principal, str) or ":" not in principal or not isinstance(host, str):
        raise ValueError(f"{said!r} is no access control entry")
    operation, permission = _OPERATIONS[said["operation"]], _PERMISSIONS[said["permissionType"]]
    return AccessControlEntry(principal, host, operation, permission)


def encode_change(pattern: ResourcePattern) -> bytes:
    kind = ResourceType(pattern.resource_type).name
    if pattern.pattern_type == PatternType.LITERAL:
        return f"{kind}:{pattern.name}".encode()
    said = {"version": _VERSION, "resourceType": kind, "name": pattern.name}
    return text_of(said | {"patternType": PatternType(pattern.pattern_type).name})


def decode_change(content: bytes, pattern_type: PatternType) -> ResourcePattern:
    """What has changed, by a notification in the folder of that type.

    Raises ValueError, TypeError, LookupError.
    """
    if pattern_type == PatternType.LITERAL:
        kind, colon, name = content.decode().partition(":")
        if not colon:
            raise ValueError(f"{content!r} names no resource")
    else:
        said = json.loads(content)
        kind, name = said["resourceType"], str(said["name"])
        pattern_type = PatternType[said["patternType"]]
    return ResourcePattern(_TYPES_SHOUTED[kind.upper()], pattern_type, name)
