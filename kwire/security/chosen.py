"""Parts of a broker that its settings may ask for: imported only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.settings.error import ConfigError

if TYPE_CHECKING:
    from kwire.security.authority import Authority
    from kwire.security.tokens import TokenBook
    from kwire.settings import BrokerConfig

OLD_SECRET_SETTING = "delegation.token.master.key"
"""What Apache Kafka 3.9 takes as well, where the new name is not set."""


def authorizer(config: BrokerConfig) -> Authority | None:
    """Who is asked what clients may do.  Raises ConfigError."""
    if not config.authorizer_class_name.strip():
        return None
    from kwire.security.authority import configured

    return configured(config)


def tokens(config: BrokerConfig) -> TokenBook | None:
    """What knows of delegation tokens; without a secret there are none.  Raises ConfigError."""
    secret = config.delegation_token_secret_key or config.explicit.get(OLD_SECRET_SETTING)
    if not secret:
        return None
    if config.zookeeper_connect is not None:
        raise ConfigError(
            "delegation.token.secret.key: delegation tokens are not kept in ZooKeeper yet, so a "
            "member of its cluster cannot honour them"
        )
    from kwire.security.tokens import TokenBook

    return TokenBook(str(secret))
