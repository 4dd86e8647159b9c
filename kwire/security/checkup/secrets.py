"""Secrets that are short, or that others may read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.security.checkup.finding import Finding, Grade
from kwire.security.chosen import OLD_SECRET_SETTING
from kwire.settings import BrokerConfig

SECRET_LENGTH_MIN: Final = 32
TOKEN_SECRET: Final = "delegation.token.secret.key"


def of_secrets(config: BrokerConfig) -> Iterator[Finding]:
    secret = config.delegation_token_secret_key
    if secret is None and OLD_SECRET_SETTING in config.explicit:
        secret = config.explicit[OLD_SECRET_SETTING]
        says = f"Apache Kafka 4 does not know it any longer: it is called {TOKEN_SECRET}"
        yield Finding(Grade.WEAK, OLD_SECRET_SETTING, says)
    if secret is not None and len(secret) < SECRET_LENGTH_MIN:
        says = f"it has {len(secret)} characters: who guesses it makes tokens of anybody"
        yield Finding(Grade.WEAK, TOKEN_SECRET, says)
    if config.zookeeper_connect and config.explicit.get("zookeeper.set.acl", "") != "true":
        says = "everybody who reaches ZooKeeper may read and change what users log in by"
        yield Finding(Grade.OPEN, "zookeeper.set.acl", says)


def has_secrets(config: BrokerConfig) -> bool:
    """Whether who reads the settings learns something that lets them in."""
    return any(
        name.endswith(("password", "jaas.config", "keystore.key", "secret.key", "master.key"))
        for name in config.explicit
    )
