"""The authorizer of a broker: its settings, its rules, and the audit log of its denials."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kwire.cluster.metadata.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclOperation,
    Acls,
    ResourcePattern,
    ResourceType,
)
from kwire.codecs.api_keys import ApiKey
from kwire.security.acls import check_for_zookeeper, check_new
from kwire.security.authorizer import AclAuthorizer, Ruling
from kwire.settings import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.requests.context import Context
    from kwire.settings import BrokerConfig

audit = logging.getLogger("kwire.security.audit")

STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZOOKEEPERS: Final = "kafka.security.authorizer.AclAuthorizer"
"""Apache Kafka 3.9's class for the same rules in a cluster on ZooKeeper."""
OWN_ZOOKEEPER: Final = "authorizer.zookeeper.url"
"""With this setting that class keeps its lists elsewhere than in zookeeper.connect."""

_TITLES: Final = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}


def configured(config: BrokerConfig) -> Authority | None:
    """Return the authorizer of the settings, or None if none is set.

    Raises ConfigError for a class that is not Apache Kafka's, or not for this kind of cluster.
    """
    name = config.authorizer_class_name.strip()
    if not name:
        return None
    if name not in (STANDARD, ZOOKEEPERS):
        raise ConfigError(
            f"authorizer.class.name {name} cannot be run here: {STANDARD} (or, in a cluster on "
            f"ZooKeeper, {ZOOKEEPERS}) asks for access control lists"
        )
    on_zookeeper = config.zookeeper_connect is not None
    if (name == ZOOKEEPERS) is not on_zookeeper:
        kept, wanted = ("in", ZOOKEEPERS) if on_zookeeper else ("without", STANDARD)
        raise ConfigError(
            f"authorizer.class.name {name}: {kept} a cluster on ZooKeeper it is {wanted} that asks "
            "for access control lists"
        )
    own = config.explicit.get(OWN_ZOOKEEPER, config.zookeeper_connect)
    if on_zookeeper and own != config.zookeeper_connect:
        raise ConfigError(f"{OWN_ZOOKEEPER}: access control lists are read of zookeeper.connect")
    everyone = config.explicit.get("allow.everyone.if.no.acl.found", "")
    return Authority(
        AclAuthorizer(
            super_users(config.explicit.get("super.users", "")),
            allow_everyone_if_no_acl_found=everyone.strip().lower() == "true",
            with_ranges=not on_zookeeper,
        ),
        check_for_zookeeper if on_zookeeper else check_new,
    )


def super_users(setting: str) -> list[str]:
    """Return the principals in a setting such as `User:a;User:b`.  Raises ConfigError."""
    principals = [part.strip() for part in setting.split(";") if part.strip()]
    for principal in principals:
        kind, colon, name = principal.partition(":")
        if not (kind and colon and name):
            raise ConfigError(
                "super.users: expected a string in format principalType:principalName but got "
                + principal
            )
    return principals


class Authority:
    """Answers guards and handlers whether a sender has a right, and logs denials."""

    def __init__(
        self,
        rules: AclAuthorizer,
        check_new: Callable[[ResourcePattern, AccessControlEntry, int], None] = check_new,
    ) -> None:
        """Decide by `rules`; `check_new` replaces the check of new ACLs."""
        self.rules = rules
        self.check_new = check_new
        """Raises Refusal if a new entry is invalid at a level of metadata.version."""

    def follow(self, acls: Acls) -> None:
        self.rules.follow(acls)

    def allows(
        self,
        context: Context,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        quiet: bool = False,
        count: int = 1,
    ) -> bool:
        """Return whether the request's sender may do `operation` on the resource.

        A denial is logged unless `quiet`.  `count`, the number of times that the request names the
        resource, is in the log.
        """
        ruling = self.rules.ruling(
            context.principal, context.client_host, operation, resource_type, name
        )
        if not ruling.allowed and not quiet:
            if audit.isEnabledFor(logging.INFO):
                audit.info(
                    "%s", _audit_line(ruling, context, operation, resource_type, name, count)
                )
        elif audit.isEnabledFor(logging.DEBUG):
            audit.debug("%s", _audit_line(ruling, context, operation, resource_type, name, count))
        return ruling.allowed

    def allows_any(
        self, context: Context, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return whether the sender may do `operation` on any resource of the type (KIP-679)."""
        return self.rules.allows_any(
            context.principal, context.client_host, operation, resource_type
        )

    def on_cluster(self, context: Context, operation: AclOperation, *, quiet: bool = False) -> bool:
        return self.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, quiet=quiet)

    def operations(self, context: Context, among: int, kind: ResourceType, name: str) -> int:
        """Return the operations among the bits `among` that the sender may do, as bits
        (KIP-430).
        """
        return sum(
            1 << operation
            for operation in AclOperation
            if among >> operation & 1 and self.allows(context, operation, kind, name, quiet=True)
        )


def _audit_line(
    ruling: Ruling,
    context: Context,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    count: int,
) -> str:
    """Return the line that Kafka's StandardAuthorizer writes into `kafka.authorizer.logger`."""
    request = "".join(word.title() for word in ApiKey(context.api_key).name.split("_"))
    return (
        f"Principal = {context.principal} is {'Allowed' if ruling.allowed else 'Denied'} "
        f"operation = {operation.name} from host = {context.client_host} on resource = "
        f"{_TITLES[kind]}:LITERAL:{name} for request = {request} with resourceRefCount = {count} "
        f"based on rule {ruling.rule}"
    )
