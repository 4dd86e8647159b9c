"""A client of a registry from addresses and Kafka's client properties.

The properties are those of Confluent's serializers: `schema.registry.url`, `basic.auth.user.info`
and `schema.registry.ssl.*`, which have the values of Kafka's `ssl.*`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from kwire.client.errors import Misuse
from kwire.registry.client.rest import RegistryClient
from kwire.security.tls.context import client_context
from kwire.security.tls.error import TlsError
from kwire.security.tls.options import read_options

URL: Final = "schema.registry.url"
URL_DEFAULT: Final = "http://localhost:8081"
"""Where Confluent's registry listens if nothing else is said."""
PREFIX: Final = "schema.registry."
USER_INFO: Final = "basic.auth.user.info"


def client_of(urls: str | None, properties: Mapping[str, str]) -> RegistryClient:
    """The client for the addresses, or for those of the properties if `urls` is None.

    Raises Misuse for what is no URL and for invalid properties.
    """
    chosen = urls or properties.get(URL, "").strip() or URL_DEFAULT
    try:
        return RegistryClient(chosen, context=_context(properties), login=_login(properties))
    except (ValueError, TlsError) as problem:
        raise Misuse(str(problem)) from None


def _context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """The context of `schema.registry.ssl.*`, or None for what the system trusts."""
    own = {
        name.removeprefix(PREFIX): value
        for name, value in properties.items()
        if name.startswith(f"{PREFIX}ssl.")
    }
    return client_context(read_options(own)) if own else None


def _login(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """The user and the password of the properties.  Raises Misuse if there is no colon."""
    text = properties.get(f"{PREFIX}{USER_INFO}") or properties.get(USER_INFO)
    if not text:
        return None
    user, colon, password = text.strip().partition(":")
    if not colon:
        raise Misuse(f"{USER_INFO} is not like user:password")
    return user, password
