"""Encodes and decodes the znodes of access control lists, as Apache Kafka 3.9.2's AclAuthorizer.

    /kafka-acl/Topic/NAME                      the entries of one resource name
    /kafka-acl-extended/prefixed/Topic/PREFIX  the entries of all names with a prefix
    /kafka-acl-changes/acl_changes_N           notification: the entries of TOPIC:NAME changed
    /kafka-acl-extended-changes/acl_changes_N  notification about a prefix, a JSON object

Paths have names unescaped, so a name cannot have a `/`.  The order of entries in a znode means
nothing: Apache Kafka keeps them in a set, whose order differs between processes when it has more
than four entries.
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
"""The folders of notifications."""
_CHANGE: Final = "/acl_changes_"
_STORES: Final = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
_VERSION: Final = 1


def _titled(name: str) -> str:
    """A name as the znodes spell it: TransactionalId for TRANSACTIONAL_ID."""
    return "".join(word.capitalize() for word in name.split("_"))


_TYPES: Final[Mapping[ResourceType, str]] = {
    kind: _titled(kind.name)
    for kind in ResourceType
    if kind not in (ResourceType.UNKNOWN, ResourceType.ANY)
}
_OPERATIONS: Final = {
    _titled(operation.name): operation
    for operation in AclOperation
    if operation not in (AclOperation.UNKNOWN, AclOperation.ANY)
}
_PERMISSIONS: Final = {
    _titled(permission.name): permission
    for permission in (AclPermissionType.DENY, AclPermissionType.ALLOW)
}
_TYPES_SHOUTED: Final = {
    name.upper(): kind
    for kind, title in _TYPES.items()
    for name in (kind.name, title)  # brokers before 2.0 wrote the title
}

TYPE_PATHS: Final = {
    f"{store}/{title}": (kind, pattern_type)
    for pattern_type, store in _STORES.items()
    for kind, title in _TYPES.items()
}
"""The folders of lists, with the resource type and pattern type of each."""
PERSISTENT_PATHS: Final = (*TYPE_PATHS, *FOLDERS.values())
"""Paths that each broker with an authorizer creates at its start."""


def acl_path(pattern: ResourcePattern) -> str:
    store = _STORES[PatternType(pattern.pattern_type)]
    return f"{store}/{_TYPES[ResourceType(pattern.resource_type)]}/{pattern.name}"


def change_path(pattern: ResourcePattern) -> str:
    """The path of a new notification, to which ZooKeeper appends a number."""
    return FOLDERS[PatternType(pattern.pattern_type)] + _CHANGE


def encode_acls(entries: Iterable[AccessControlEntry]) -> bytes:
    """Return the content of the znode that has all entries of one resource pattern."""
    acls = [
        {
            "principal": entry.principal,
            "permissionType": _titled(AclPermissionType(entry.permission).name),
            "host": entry.host,
            "operation": _titled(AclOperation(entry.operation).name),
        }
        for entry in sorted(entries)
    ]
    return text_of({"acls": acls, "version": _VERSION})


def decode_acls(content: bytes) -> frozenset[AccessControlEntry]:
    """Return the entries in `content`; none if it is not JSON (as in Apache Kafka).

    Raises ValueError, TypeError, LookupError for JSON of another form.
    """
    fields = parsed(content)
    if fields is None:
        return frozenset()
    if not isinstance(fields, dict) or fields["version"] != _VERSION:
        raise ValueError(f"{fields!r} is not an access control list of version {_VERSION}")
    return frozenset(map(_entry, fields["acls"]))


def _entry(fields: dict[str, Any]) -> AccessControlEntry:
    """Return one entry of a znode.  Raises ValueError, LookupError or TypeError if damaged."""
    principal, host = fields["principal"], fields["host"]
    if not isinstance(principal, str) or ":" not in principal or not isinstance(host, str):
        raise ValueError(f"{fields!r} is not an access control entry")
    operation = _OPERATIONS[fields["operation"]]
    permission = _PERMISSIONS[fields["permissionType"]]
    return AccessControlEntry(principal, host, operation, permission)


def encode_change(pattern: ResourcePattern) -> bytes:
    """Return the content of a notification about a resource pattern.

    That of a literal pattern has an older form than others, as in Kafka.
    """
    kind = ResourceType(pattern.resource_type).name
    if pattern.pattern_type == PatternType.LITERAL:
        return f"{kind}:{pattern.name}".encode()
    fields = {"version": _VERSION, "resourceType": kind, "name": pattern.name}
    return text_of(fields | {"patternType": PatternType(pattern.pattern_type).name})


def decode_change(content: bytes, pattern_type: PatternType) -> ResourcePattern:
    """Return the pattern that a notification in the folder of `pattern_type` names.

    Raises ValueError, TypeError, LookupError.
    """
    if pattern_type == PatternType.LITERAL:
        kind, colon, name = content.decode().partition(":")
        if not colon:
            raise ValueError(f"{content!r} names no resource")
    else:
        fields = json.loads(content)
        kind, name = fields["resourceType"], str(fields["name"])
        pattern_type = PatternType[fields["patternType"]]
    return ResourcePattern(_TYPES_SHOUTED[kind.upper()], pattern_type, name)
