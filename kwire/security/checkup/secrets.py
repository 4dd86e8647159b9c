"""Checks secrets: short ones, and those that others may read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.security.checkup.finding import Grade, SecurityFinding
from kwire.security.chosen import OLD_SECRET_SETTING
from kwire.settings import BrokerConfig

SECRET_LENGTH_MIN: Final = 32
TOKEN_SECRET: Final = "delegation.token.secret.key"


def of_secrets(config: BrokerConfig) -> Iterator[SecurityFinding]:
    """Yield what is wrong with the delegation token secret and with ZooKeeper's access."""
    secret = config.delegation_token_secret_key
    if secret is None and OLD_SECRET_SETTING in config.explicit:
        secret = config.explicit[OLD_SECRET_SETTING]
        says = f"Apache Kafka 4 no longer has this setting; use {TOKEN_SECRET}"
        yield SecurityFinding(Grade.WEAK, OLD_SECRET_SETTING, says)
    if secret is not None and len(secret) < SECRET_LENGTH_MIN:
        says = (
            f"it has only {len(secret)} characters: a client that guesses it can make tokens of "
            "any user"
        )
        yield SecurityFinding(Grade.WEAK, TOKEN_SECRET, says)
    if config.zookeeper_connect and config.explicit.get("zookeeper.set.acl", "") != "true":
        says = "anyone who reaches ZooKeeper may read and change the users' credentials"
        yield SecurityFinding(Grade.OPEN, "zookeeper.set.acl", says)


def has_secrets(config: BrokerConfig) -> bool:
    """Whether the settings contain a secret with which a reader could authenticate."""
    return any(
        name.endswith(("password", "jaas.config", "keystore.key", "secret.key", "master.key"))
        for name in config.explicit
    )
