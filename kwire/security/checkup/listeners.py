"""Checks the listeners: authentication, encryption and passwords."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kwire.cluster.metadata.image import Endpoint
from kwire.security.checkup.finding import SASL, TLS, Grade, SecurityFinding, is_of_this_machine
from kwire.security.listener_sasl import OAUTHBEARER, PLAIN, PLAIN_MODULE, login_module, sasl_of
from kwire.security.listener_tls import tls_options
from kwire.security.sasl.plain import users_of
from kwire.settings import BrokerConfig, ConfigError
from kwire.settings.listener_security import SIGNED_HANDLER, security_of

PASSWORD_LENGTH_MIN: Final = 12
_OLD_PROTOCOLS: Final = ("TLSv1", "TLSv1.1")


def of_listeners(config: BrokerConfig) -> Iterator[SecurityFinding]:
    """Yield what is wrong with the listeners' authentication and encryption."""
    for endpoint in config.listeners:
        if endpoint.security_protocol in SASL:
            yield from _of_sasl(config, endpoint)
        else:
            yield from _without_sasl(config, endpoint)
        if endpoint.security_protocol in TLS:
            yield from _of_protocols(config, endpoint)
        elif not is_of_this_machine(endpoint.host):
            says = "it has no TLS: anyone on the network can read and change its traffic"
            yield SecurityFinding(Grade.OPEN, _named(endpoint), says)


def _named(endpoint: Endpoint) -> str:
    return f"listener {endpoint.listener}"


def client_auth(config: BrokerConfig, endpoint: Endpoint) -> str:
    """The value of `ssl.client.auth`; `none` if the settings are invalid."""
    try:
        return tls_options(config, endpoint.listener, endpoint.security_protocol).client_auth
    except ConfigError:
        return "none"


def _without_sasl(config: BrokerConfig, endpoint: Endpoint) -> Iterator[SecurityFinding]:
    """Yield who can connect to the listener without authentication."""
    about = _named(endpoint)
    if endpoint.security_protocol == "SSL":
        requirement = client_auth(config, endpoint)
        if requirement == "none":
            says = "any client can connect as User:ANONYMOUS; set ssl.client.auth=required"
            yield SecurityFinding(Grade.OPEN, about, says)
        elif requirement == "requested":
            says = (
                "clients without a certificate connect as User:ANONYMOUS; "
                "set ssl.client.auth=required"
            )
            yield SecurityFinding(Grade.OPEN, about, says)
    elif is_of_this_machine(endpoint.host):
        says = "any process of this machine can connect as User:ANONYMOUS"
        yield SecurityFinding(Grade.WEAK, about, says)
    else:
        says = "it has no authentication: any client can connect as User:ANONYMOUS"
        yield SecurityFinding(Grade.OPEN, about, says)


def _of_protocols(config: BrokerConfig, endpoint: Endpoint) -> Iterator[SecurityFinding]:
    enabled = security_of(config, endpoint.listener).ssl_enabled_protocols
    old = [name for name in enabled if name in _OLD_PROTOCOLS]
    if old:
        says = f"ssl.enabled.protocols has {', '.join(old)}, which are insecure; remove them"
        yield SecurityFinding(Grade.WEAK, _named(endpoint), says)


def _of_sasl(config: BrokerConfig, endpoint: Endpoint) -> Iterator[SecurityFinding]:
    """Yield what is wrong with the SASL mechanisms of the listener."""
    about, in_clear = _named(endpoint), endpoint.security_protocol == "SASL_PLAINTEXT"
    try:
        mechanisms = sasl_of(config, endpoint.listener, lambda *_: None).mechanisms
    except ConfigError as problem:
        yield SecurityFinding(Grade.BROKEN, about, str(problem))
        return
    is_remote = not is_of_this_machine(endpoint.host)
    if PLAIN in mechanisms:
        if in_clear and is_remote:
            yield SecurityFinding(
                Grade.OPEN, about, "PLAIN sends passwords in clear text without TLS"
            )
        yield from _of_passwords(about, plain_users(config, endpoint.listener))
    if OAUTHBEARER in mechanisms:
        settings = security_of(config, endpoint.listener, OAUTHBEARER)
        if settings.sasl_server_callback_handler_class != SIGNED_HANDLER:
            says = "OAUTHBEARER accepts unsigned tokens: any client can claim any name"
            yield SecurityFinding(Grade.OPEN, about, says)
        elif in_clear and is_remote:
            yield SecurityFinding(
                Grade.OPEN, about, "OAUTHBEARER sends tokens in clear text without TLS"
            )
    if not any(mechanism.max_reauth_ms > 0 for mechanism in mechanisms.values()):
        says = (
            "clients stay connected after their password has changed; set connections.max.reauth.ms"
        )
        yield SecurityFinding(Grade.WEAK, about, says)


def plain_users(config: BrokerConfig, listener: str) -> Mapping[str, bytes]:
    """The passwords of the listener's PLAIN users, by name.  Raises ConfigError."""
    return users_of(login_module(config, listener, PLAIN, PLAIN_MODULE).options)


def _of_passwords(about: str, users: Mapping[str, bytes]) -> Iterator[SecurityFinding]:
    """Yield a finding if PLAIN has no users, and one with the users whose password is weak."""
    if not users:
        yield SecurityFinding(
            Grade.BROKEN, about, "PLAIN has no users: its JAAS line has no user_NAME"
        )
    short = sorted(
        user
        for user, password in users.items()
        if len(password) < PASSWORD_LENGTH_MIN or user.encode() in password
    )
    if short:
        says = f"passwords are short or contain the user's name: {', '.join(short)}"
        yield SecurityFinding(Grade.WEAK, about, says)
