"""Senders of requests: an anonymous client, users with one right each, and a super user."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.codecs.messages.create_acls import AclCreation

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = 2, 3, 4, 5, 6, 7
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
OPERATIONS = {
    "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8,
    "CLUSTER_ACTION": 9, "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12,
    "CREATE_TOKENS": 13, "DESCRIBE_TOKENS": 14, "ALL": 2,
}  # fmt: skip
ON = {
    TOPIC: ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS",
            "ALTER_CONFIGS"),
    GROUP: ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    CLUSTER: ("CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS",
              "ALTER_CONFIGS", "IDEMPOTENT_WRITE"),
    TRANSACTIONAL_ID: ("WRITE", "DESCRIBE"),
    DELEGATION_TOKEN: ("DESCRIBE",),
    USER: ("CREATE_TOKENS", "DESCRIBE_TOKENS"),
}  # fmt: skip
"""The operations that exist for each resource type."""
WORDS = {
    TOPIC: "topic", GROUP: "group", CLUSTER: "cluster", TRANSACTIONAL_ID: "transaction",
    DELEGATION_TOKEN: "token", USER: "user",
}  # fmt: skip
NAMES = {CLUSTER: "kafka-cluster"}
"""The resource names of the rights; rights on other types are on all resources (`*`)."""

ADMIN = "admin"
NOBODY = "nobody"
ANONYMOUS = ""
MIXED, READER, WITNESS = "mixed", "reader", "witness"
"""Users whose rights change during the scenes."""


@dataclass(frozen=True, slots=True)
class UserRight:
    resource_type: int
    operation: str

    @property
    def user(self) -> str:
        return f"{WORDS[self.resource_type]}-{self.operation}"

    def acl(self) -> AclCreation:
        """Return the rule that gives the user this right, from any host."""
        name = NAMES.get(self.resource_type, "*")
        operation = OPERATIONS[self.operation]
        return AclCreation(
            self.resource_type, name, LITERAL, f"User:{self.user}", "*", operation, ALLOW
        )


RIGHTS = tuple(UserRight(kind, name) for kind, operations in ON.items() for name in operations)
SENDERS = (ANONYMOUS, NOBODY, *(right.user for right in RIGHTS), ADMIN)
"""Names of users; the empty name is a client of the listener without SASL."""


def jaas() -> str:
    """Return the value of `plain.sasl.jaas.config` with all users; each password is the user's
    name."""
    users = " ".join(f'user_{name}="{name}"' for name in (*SENDERS, MIXED, READER, WITNESS) if name)
    return (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{ADMIN}" password="{ADMIN}" {users};'
    )
