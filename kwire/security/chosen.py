"""Optional parts of a broker, which are imported only if its settings need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.security.authority import Authority
    from kwire.security.tokens import TokenBook
    from kwire.settings import BrokerConfig

OLD_SECRET_SETTING = "delegation.token.master.key"
"""The former name of the setting, which Apache Kafka 3.9 reads if the new one is not set."""


def authorizer(config: BrokerConfig) -> Authority | None:
    """Return the authorizer, or None if none is set.  Raises ConfigError."""
    if not config.authorizer_class_name.strip():
        return None
    from kwire.security.authority import configured

    return configured(config)


def tokens(config: BrokerConfig) -> TokenBook | None:
    """Return the book of delegation tokens, or None if no secret key is set."""
    secret = token_secret(config)
    if secret is None:
        return None
    from kwire.security.tokens import TokenBook

    return TokenBook(secret)


def token_secret(config: BrokerConfig) -> str | None:
    """The secret key of delegation tokens, or None if they are not enabled."""
    return config.delegation_token_secret_key or config.explicit.get(OLD_SECRET_SETTING) or None
