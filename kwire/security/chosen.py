"""Parts of a broker that its settings may ask for: imported only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """What knows of delegation tokens; without a secret there are none."""
    secret = token_secret(config)
    if secret is None:
        return None
    from kwire.security.tokens import TokenBook

    return TokenBook(secret)


def token_secret(config: BrokerConfig) -> str | None:
    """What delegation tokens are made of, if anything."""
    return config.delegation_token_secret_key or config.explicit.get(OLD_SECRET_SETTING) or None
