"""The SASL mechanisms of a listener, from the broker's settings."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.security.sasl.exchange import ServerExchange
from kwire.security.sasl.jaas import JaasError, LoginModule, parse_module
from kwire.security.sasl.oauthbearer import (
    OAuthBearerServer,
    UnsecuredRules,
    Validate,
    validate_unsecured,
)
from kwire.security.sasl.plain import PlainServer, users_of
from kwire.security.sasl.scram import HASHES, Account, ScramServer
from kwire.settings import BrokerConfig, ConfigError
from kwire.settings.listener_security import (
    SIGNED_HANDLER,
    check_no_java,
    own_name,
    own_setting,
    security_of,
)

if TYPE_CHECKING:
    from kwire.security.oauth.listener import KeySources

log = logging.getLogger("kwire.security.listener_sasl")

PLAIN: Final = "PLAIN"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER: Final = "OAUTHBEARER"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SERVED: Final = (PLAIN, *HASHES, OAUTHBEARER)

NONCE_BYTES: Final = 24
"""Random bytes in a server's nonce; Kafka has 130 bits."""

FindAccount = Callable[[str, str, bool], Account | None]
"""Finds a SCRAM account by mechanism, user name, and whether the name is a token's id."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism that a listener serves; `begin` starts an exchange.

    `max_reauth_ms` is `connections.max.reauth.ms`, 0 if sessions do not end.
    """

    name: str
    begin: Callable[[], ServerExchange]
    max_reauth_ms: int


@dataclass(frozen=True, slots=True)
class SaslListener:
    """The SASL settings of a listener; clients see `mechanisms` in this order."""

    mechanisms: Mapping[str, Mechanism]
    max_receive_size_bytes: int
    """`sasl.server.max.receive.size`: the largest request before a client has authenticated."""
    failure_delay_ms: int
    """`connection.failed.authentication.delay.ms`."""


def sasl_of(
    config: BrokerConfig, listener: str, find: FindAccount, sources: KeySources | None = None
) -> SaslListener:
    """Return the SASL settings of `listener`; `find` finds the users of SCRAM.

    `sources` are the key sources of signed tokens; a missing one is added.

    Raises ConfigError that says which setting is missing or invalid.
    """
    settings = security_of(config, listener)
    names = settings.sasl_enabled_mechanisms
    if not names:
        raise ConfigError(f"sasl.enabled.mechanisms of listener {listener} names no mechanism")
    return SaslListener(
        {name: _mechanism(config, listener, name, find, sources) for name in names},
        settings.sasl_server_max_receive_size,
        config.connection_failed_authentication_delay_ms,
    )


def _mechanism(
    config: BrokerConfig,
    listener: str,
    name: str,
    find: FindAccount,
    sources: KeySources | None,
) -> Mechanism:
    """Return the mechanism of a listener by its name; raises ConfigError.

    `find` finds SCRAM accounts. `sources` shares the signing keys of OAUTHBEARER between listeners.
    """
    settings = security_of(config, listener, name)
    check_no_java(settings, listener, name)
    if name == PLAIN:
        begin = _plain(config, listener)
    elif name in HASHES:
        begin = _scram(config, listener, name, find)
    elif name == OAUTHBEARER:
        begin = _oauthbearer(config, listener, {} if sources is None else sources)
    else:
        raise ConfigError(
            f"sasl.enabled.mechanisms of listener {listener} names {name}, which is not served: "
            f"set it to one of {', '.join(SERVED)}"
        )
    return Mechanism(name, begin, settings.connections_max_reauth_ms)


def _plain(config: BrokerConfig, listener: str) -> Callable[[], ServerExchange]:
    users = users_of(login_module(config, listener, PLAIN, PLAIN_MODULE).options)
    return lambda: PlainServer(users)


def _scram(
    config: BrokerConfig, listener: str, name: str, find: FindAccount
) -> Callable[[], ServerExchange]:
    """Return a function that begins a SCRAM exchange; raises ConfigError.

    Unlike in Apache Kafka the JAAS line may be missing: it has only the name of the module.
    """
    if own_setting(config, listener, name, "sasl.jaas.config") is not None:
        login_module(config, listener, name, SCRAM_MODULE)
    return lambda: ScramServer(
        name, partial(find, name), lambda: secrets.token_urlsafe(NONCE_BYTES)
    )


def _oauthbearer(
    config: BrokerConfig, listener: str, sources: KeySources
) -> Callable[[], ServerExchange]:
    """Return a function that begins an OAUTHBEARER exchange; raises ConfigError.

    It takes signed tokens if the settings name Apache Kafka's class for them, else unsigned ones.
    """
    module = login_module(config, listener, OAUTHBEARER, OAUTHBEARER_MODULE)
    settings = security_of(config, listener, OAUTHBEARER)
    if settings.sasl_server_callback_handler_class == SIGNED_HANDLER:
        from kwire.security.oauth.listener import signed_tokens

        validate = signed_tokens(settings, listener, module.options, sources)
    else:
        validate = _unsecured_tokens(listener, module)
    return lambda: OAuthBearerServer(validate)


def _unsecured_tokens(listener: str, module: LoginModule) -> Validate:
    """Return a check of unsigned OAUTHBEARER tokens, and warn of it; raises ConfigError."""
    try:
        rules = UnsecuredRules.of(module.options)
    except ValueError:
        setting = own_name(listener, OAUTHBEARER, "sasl.jaas.config")
        raise ConfigError(
            f"{setting}: unsecuredValidatorAllowableClockSkewMs is not a number"
        ) from None
    log.warning(
        "Listener %s accepts unsecured OAUTHBEARER tokens: any client can claim any name. "
        "Set sasl.server.callback.handler.class to check signatures.",
        listener,
    )
    return lambda token: validate_unsecured(token, rules, time.time_ns() // 1_000_000)


def module_of(mechanism: str) -> str:
    """The login module class in the JAAS line of a mechanism."""
    if mechanism == OAUTHBEARER:
        return OAUTHBEARER_MODULE
    return PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE


def login_module(config: BrokerConfig, listener: str, mechanism: str, wanted: str) -> LoginModule:
    """Return the login module in `sasl.jaas.config` of a mechanism on a listener.

    Raises ConfigError.
    """
    setting = own_name(listener, mechanism, "sasl.jaas.config")
    line = own_setting(config, listener, mechanism, "sasl.jaas.config")
    if line is None:
        raise ConfigError(f"{setting} is not set: it is a line such as {wanted} required ...;")
    try:
        module = parse_module(line)
    except JaasError as problem:
        raise ConfigError(f"{setting}: {problem}") from None
    if module.name != wanted:
        raise ConfigError(f"{setting} names the module {module.name}, not {wanted}")
    return module
