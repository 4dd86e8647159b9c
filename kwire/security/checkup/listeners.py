"""Who may come in by each listener, and who may read what goes over it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kwire.cluster.metadata.image import Endpoint
from kwire.security.checkup.finding import SASL, TLS, Finding, Grade, is_of_this_machine
from kwire.security.listener_sasl import OAUTHBEARER, PLAIN, PLAIN_MODULE, login_module, sasl_of
from kwire.security.listener_tls import tls_options
from kwire.security.sasl.plain import users_of
from kwire.settings import BrokerConfig, ConfigError
from kwire.settings.listener_security import SIGNED_HANDLER, security_of

PASSWORD_LENGTH_MIN: Final = 12
_OLD_PROTOCOLS: Final = ("TLSv1", "TLSv1.1")


def of_listeners(config: BrokerConfig) -> Iterator[Finding]:
    for endpoint in config.listeners:
        if endpoint.security_protocol in SASL:
            yield from _of_sasl(config, endpoint)
        else:
            yield from _without_sasl(config, endpoint)
        if endpoint.security_protocol in TLS:
            yield from _of_protocols(config, endpoint)
        elif not is_of_this_machine(endpoint.host):
            says = "what goes over it, records too, can be read and changed on the way: no TLS"
            yield Finding(Grade.OPEN, _named(endpoint), says)


def _named(endpoint: Endpoint) -> str:
    return f"listener {endpoint.listener}"


def client_auth(config: BrokerConfig, endpoint: Endpoint) -> str:
    """Whether clients must show a certificate; `none` where the settings make no sense."""
    try:
        return tls_options(config, endpoint.listener, endpoint.security_protocol).client_auth
    except ConfigError:
        return "none"


def _without_sasl(config: BrokerConfig, endpoint: Endpoint) -> Iterator[Finding]:
    about = _named(endpoint)
    if endpoint.security_protocol == "SSL":
        asked = client_auth(config, endpoint)
        if asked == "none":
            says = "everybody may come in, as User:ANONYMOUS: ssl.client.auth=required asks for"
            yield Finding(Grade.OPEN, about, f"{says} certificates")
        elif asked == "requested":
            says = "who shows no certificate comes in as User:ANONYMOUS: ssl.client.auth=requested"
            yield Finding(Grade.OPEN, about, says)
    elif is_of_this_machine(endpoint.host):
        says = "every process of this machine may come in, as User:ANONYMOUS"
        yield Finding(Grade.WEAK, about, says)
    else:
        yield Finding(Grade.OPEN, about, "everybody may come in, as User:ANONYMOUS: no login")


def _of_protocols(config: BrokerConfig, endpoint: Endpoint) -> Iterator[Finding]:
    enabled = security_of(config, endpoint.listener).ssl_enabled_protocols
    old = [name for name in enabled if name in _OLD_PROTOCOLS]
    if old:
        says = f"ssl.enabled.protocols has {', '.join(old)}, which nobody should speak any longer"
        yield Finding(Grade.WEAK, _named(endpoint), says)


def _of_sasl(config: BrokerConfig, endpoint: Endpoint) -> Iterator[Finding]:
    about, in_clear = _named(endpoint), endpoint.security_protocol == "SASL_PLAINTEXT"
    try:
        mechanisms = sasl_of(config, endpoint.listener, lambda *_: None).mechanisms
    except ConfigError as problem:
        yield Finding(Grade.BROKEN, about, str(problem))
        return
    reached = not is_of_this_machine(endpoint.host)
    if PLAIN in mechanisms:
        if in_clear and reached:
            yield Finding(Grade.OPEN, about, "PLAIN sends passwords as they are, and without TLS")
        yield from _of_passwords(about, plain_users(config, endpoint.listener))
    if OAUTHBEARER in mechanisms:
        settings = security_of(config, endpoint.listener, OAUTHBEARER)
        if settings.sasl_server_callback_handler_class != SIGNED_HANDLER:
            says = "OAUTHBEARER takes tokens that nobody has signed: everybody may be anybody"
            yield Finding(Grade.OPEN, about, says)
        elif in_clear and reached:
            yield Finding(Grade.OPEN, about, "OAUTHBEARER sends tokens as they are, without TLS")
    if not any(each.max_reauth_ms > 0 for each in mechanisms.values()):
        says = "who is in stays in, also without their password: no connections.max.reauth.ms"
        yield Finding(Grade.WEAK, about, says)


def plain_users(config: BrokerConfig, listener: str) -> Mapping[str, bytes]:
    """Who logs in by PLAIN there.  Raises ConfigError."""
    return users_of(login_module(config, listener, PLAIN, PLAIN_MODULE).options)


def _of_passwords(about: str, users: Mapping[str, bytes]) -> Iterator[Finding]:
    if not users:
        yield Finding(Grade.BROKEN, about, "PLAIN knows nobody: its JAAS line has no user_NAME")
    short = sorted(
        user
        for user, password in users.items()
        if len(password) < PASSWORD_LENGTH_MIN or user.encode() in password
    )
    if short:
        says = f"passwords that are short or hold the user's name: {', '.join(short)}"
        yield Finding(Grade.WEAK, about, says)
