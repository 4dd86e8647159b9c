"""What a SASL listener takes as proof of who a client is, by the broker's settings."""

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
"""Of chance in a server's nonce; Kafka has 130 bits."""

FindAccount = Callable[[str, str, bool], Account | None]
"""Who may log in by SCRAM: from a mechanism, a name, and whether that is a delegation token's."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One that a listener serves; `max_reauth_ms` is its `connections.max.reauth.ms`, or 0."""

    name: str
    begin: Callable[[], ServerExchange]
    max_reauth_ms: int


@dataclass(frozen=True, slots=True)
class SaslListener:
    """`mechanisms` are in the order in which clients are told of them."""

    mechanisms: Mapping[str, Mechanism]
    max_receive_size_bytes: int
    """`sasl.server.max.receive.size`: the longest request of a client that is not known yet."""
    failure_delay_ms: int
    """`connection.failed.authentication.delay.ms`."""


def sasl_of(
    config: BrokerConfig, listener: str, find: FindAccount, sources: KeySources | None = None
) -> SaslListener:
    """How `listener` is set up; `find` knows the users of SCRAM.

    `sources` has the keys of signed tokens, and gets those of a listener that it lacks.

    Raises ConfigError with what is missing or makes no sense.
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
    """The JAAS line, which says nothing but the module, may be left out, unlike in Apache Kafka."""
    if own_setting(config, listener, name, "sasl.jaas.config") is not None:
        login_module(config, listener, name, SCRAM_MODULE)
    return lambda: ScramServer(
        name, partial(find, name), lambda: secrets.token_urlsafe(NONCE_BYTES)
    )


def _oauthbearer(
    config: BrokerConfig, listener: str, sources: KeySources
) -> Callable[[], ServerExchange]:
    """Signed tokens where Apache Kafka's class for them is named, else those of nobody."""
    module = login_module(config, listener, OAUTHBEARER, OAUTHBEARER_MODULE)
    settings = security_of(config, listener, OAUTHBEARER)
    if settings.sasl_server_callback_handler_class == SIGNED_HANDLER:
        from kwire.security.oauth.listener import signed_tokens

        validate = signed_tokens(settings, listener, module.options, sources)
    else:
        validate = _unsecured_tokens(listener, module)
    return lambda: OAuthBearerServer(validate)


def _unsecured_tokens(listener: str, module: LoginModule) -> Validate:
    try:
        rules = UnsecuredRules.of(module.options)
    except ValueError:
        setting = own_name(listener, OAUTHBEARER, "sasl.jaas.config")
        raise ConfigError(
            f"{setting}: unsecuredValidatorAllowableClockSkewMs is no number"
        ) from None
    log.warning(
        "listener %s takes unsecured tokens (OAUTHBEARER): everybody may be anybody", listener
    )
    return lambda token: validate_unsecured(token, rules, time.time_ns() // 1_000_000)


def module_of(mechanism: str) -> str:
    """The class whose options a mechanism's JAAS line has."""
    if mechanism == OAUTHBEARER:
        return OAUTHBEARER_MODULE
    return PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE


def login_module(config: BrokerConfig, listener: str, mechanism: str, wanted: str) -> LoginModule:
    """What `sasl.jaas.config` has for a mechanism on a listener.  Raises ConfigError."""
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
