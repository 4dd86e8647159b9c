"""Who may do what: the authorizer, and those who pass it by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.requests.context import ANONYMOUS
from kwire.security.authority import configured, super_users
from kwire.security.checkup.finding import SASL, Finding, Grade
from kwire.security.checkup.listeners import client_auth, plain_users
from kwire.security.listener_sasl import PLAIN
from kwire.settings import BrokerConfig, ConfigError
from kwire.settings.listener_security import security_of

SUPER_USERS: Final = "super.users"
EVERYONE: Final = "allow.everyone.if.no.acl.found"
AUTHORIZER: Final = "authorizer.class.name"


def of_rights(config: BrokerConfig) -> Iterator[Finding]:
    names = config.explicit.get(SUPER_USERS, "")
    if not config.authorizer_class_name.strip():
        yield Finding(Grade.OPEN, AUTHORIZER, "it is not set: whoever comes in may do everything")
        if names.strip():
            yield Finding(Grade.BROKEN, SUPER_USERS, "it does nothing without an authorizer")
        return
    try:
        configured(config)
        named = super_users(names)
    except ConfigError as problem:
        yield Finding(Grade.BROKEN, AUTHORIZER, str(problem))
        return
    if config.explicit.get(EVERYONE, "").strip().lower() == "true":
        yield Finding(Grade.OPEN, EVERYONE, "what has no ACL is everybody's to read and write")
    if not named:
        says = "it is not set: nobody may add the first ACL"
        yield Finding(Grade.BROKEN, SUPER_USERS, says)
    known = _known_users(config)
    for principal in named:
        yield from _of_super_user(principal, known)


def _known_users(config: BrokerConfig) -> set[str] | None:
    """Who may come in at all; None where that is not known from the settings alone."""
    known: set[str] = set()
    for endpoint in config.listeners:
        if endpoint.security_protocol not in SASL:
            if client_auth(config, endpoint) != "none":
                return None
            continue
        mechanisms = security_of(config, endpoint.listener).sasl_enabled_mechanisms
        if set(mechanisms) != {PLAIN}:
            return None
        try:
            known |= plain_users(config, endpoint.listener).keys()
        except ConfigError:
            return None
    return known


def _of_super_user(principal: str, known: set[str] | None) -> Iterator[Finding]:
    kind, _, name = principal.partition(":")
    if principal == ANONYMOUS:
        says = f"{ANONYMOUS} is among them: whoever does not log in may do everything"
        yield Finding(Grade.OPEN, SUPER_USERS, says)
    elif kind != "User":
        says = f"{principal}: who comes in is of the type User, so this is nobody"
        yield Finding(Grade.BROKEN, SUPER_USERS, says)
    elif name == "*":
        yield Finding(Grade.BROKEN, SUPER_USERS, "User:* stands for nobody here, only in ACLs")
    elif known is not None and name not in known:
        yield Finding(
            Grade.BROKEN, SUPER_USERS, f"{principal}: nobody who may come in is called so"
        )
