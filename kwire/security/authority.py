"""The authorizer of a broker: the rules by its settings, and the audit log of what was denied."""

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
"""What the same rules are called in a cluster on ZooKeeper, of Apache Kafka 3.9."""
OWN_ZOOKEEPER: Final = "authorizer.zookeeper.url"
"""Where that class may keep its lists instead of zookeeper.connect."""

_TITLES: Final = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}


def configured(config: BrokerConfig) -> Authority | None:
    """The authorizer that the settings ask for, None where they ask for none.

    Raises ConfigError for a class that is none of Apache Kafka's own.
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
        ),
        check_for_zookeeper if on_zookeeper else check_new,
    )


def super_users(said: str) -> list[str]:
    """`User:a;User:b`.  Raises ConfigError."""
    names = [each.strip() for each in said.split(";") if each.strip()]
    for each in names:
        kind, colon, name = each.partition(":")
        if not (kind and colon and name):
            raise ConfigError(
                "super.users: expected a string in format principalType:principalName but got "
                + each
            )
    return names


class Authority:
    """Asked by guards and handlers for each thing that a request names."""

    def __init__(
        self,
        rules: AclAuthorizer,
        check_new: Callable[[ResourcePattern, AccessControlEntry], None] = check_new,
    ) -> None:
        self.rules = rules
        self.check_new = check_new
        """Raises Refusal for an entry that cannot be."""

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
        """May the request's sender do it?  A denial is logged unless `quiet`; `count` is how often
        the request names the resource."""
        ruling = self.rules.ruling(
            context.principal, context.client_host, operation, resource_type, name
        )
        if not ruling.allowed and not quiet:
            if audit.isEnabledFor(logging.INFO):
                audit.info("%s", _told(ruling, context, operation, resource_type, name, count))
        elif audit.isEnabledFor(logging.DEBUG):
            audit.debug("%s", _told(ruling, context, operation, resource_type, name, count))
        return ruling.allowed

    def allows_any(
        self, context: Context, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether there is anything of that type on which the sender may do it (KIP-679)."""
        return self.rules.allows_any(
            context.principal, context.client_host, operation, resource_type
        )

    def on_cluster(self, context: Context, operation: AclOperation, *, quiet: bool = False) -> bool:
        return self.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, quiet=quiet)

    def operations(self, context: Context, among: int, kind: ResourceType, name: str) -> int:
        """Those of the operations `among` (as bits) that the sender may do (KIP-430)."""
        return sum(
            1 << operation
            for operation in AclOperation
            if among >> operation & 1 and self.allows(context, operation, kind, name, quiet=True)
        )


def _told(
    ruling: Ruling,
    context: Context,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    count: int,
) -> str:
    """As Kafka's StandardAuthorizer writes it into `kafka.authorizer.logger`."""
    request = "".join(word.title() for word in ApiKey(context.api_key).name.split("_"))
    return (
        f"Principal = {context.principal} is {'Allowed' if ruling.allowed else 'Denied'} "
        f"operation = {operation.name} from host = {context.client_host} on resource = "
        f"{_TITLES[kind]}:LITERAL:{name} for request = {request} with resourceRefCount = {count} "
        f"based on rule {ruling.rule}"
    )
