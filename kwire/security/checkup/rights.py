"""Checks the authorizer and its super users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.requests.context import ANONYMOUS
from kwire.security.authority import configured, super_users
from kwire.security.checkup.finding import SASL, Grade, SecurityFinding
from kwire.security.checkup.listeners import client_auth, plain_users
from kwire.security.listener_sasl import PLAIN
from kwire.settings import BrokerConfig, ConfigError
from kwire.settings.listener_security import security_of

SUPER_USERS: Final = "super.users"
EVERYONE: Final = "allow.everyone.if.no.acl.found"
AUTHORIZER: Final = "authorizer.class.name"


def of_rights(config: BrokerConfig) -> Iterator[SecurityFinding]:
    """Yield what is wrong with the authorizer and `super.users`."""
    names = config.explicit.get(SUPER_USERS, "")
    if not config.authorizer_class_name.strip():
        yield SecurityFinding(
            Grade.OPEN, AUTHORIZER, "it is not set: every client may do everything"
        )
        if names.strip():
            yield SecurityFinding(
                Grade.BROKEN, SUPER_USERS, "it does nothing without an authorizer"
            )
        return
    try:
        configured(config)
        principals = super_users(names)
    except ConfigError as problem:
        yield SecurityFinding(Grade.BROKEN, AUTHORIZER, str(problem))
        return
    if config.explicit.get(EVERYONE, "").strip().lower() == "true":
        says = "every client may read and write resources that have no ACL"
        yield SecurityFinding(Grade.OPEN, EVERYONE, says)
    if not principals:
        says = "it is not set: no client may add the first ACL"
        yield SecurityFinding(Grade.BROKEN, SUPER_USERS, says)
    known_users = _known_users(config)
    for principal in principals:
        yield from _of_super_user(principal, known_users)


def _known_users(config: BrokerConfig) -> set[str] | None:
    """Return all users that can connect; None if the settings alone do not say."""
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


def _of_super_user(principal: str, known: set[str] | None) -> Iterator[SecurityFinding]:
    """Yield what is wrong with one super user; `known` has the users, None if they are unknown."""
    kind, _, name = principal.partition(":")
    if principal == ANONYMOUS:
        says = f"it has {ANONYMOUS}: clients without authentication may do everything"
        yield SecurityFinding(Grade.OPEN, SUPER_USERS, says)
    elif kind != "User":
        says = f"{principal} matches no client: all clients have the type User"
        yield SecurityFinding(Grade.BROKEN, SUPER_USERS, says)
    elif name == "*":
        says = "User:* matches no client: the star has its meaning only in ACLs"
        yield SecurityFinding(Grade.BROKEN, SUPER_USERS, says)
    elif known is not None and name not in known:
        says = f"{principal} matches no client: no listener has a user with this name"
        yield SecurityFinding(Grade.BROKEN, SUPER_USERS, says)
