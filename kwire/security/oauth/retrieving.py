"""Where a client has its token from, by Kafka's client properties.

`sasl.oauthbearer.token.endpoint.url` is a file that has the token, or a server that gives one for
the client's credentials (RFC 6749, 4.4).  Without it the token is one that nobody has signed, from
the options of the login module.  All of it blocks.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.request
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from kwire.security.oauth.fetching import CannotFetch, ask, fetch, path_of, tls_of
from kwire.security.sasl.oauthbearer import unsecured_token
from kwire.security.tls.error import TlsError

__all__ = ["BadOptions", "CannotFetch", "token_of"]

URL: Final = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS: Final = "sasl.oauthbearer.client.credentials.client."
SCOPE: Final = "sasl.oauthbearer.scope"
_SUBJECT: Final = "unsecuredLoginStringClaim_sub"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
_LIFETIME_S: Final = 3600


class BadOptions(ValueError):
    """What is set gives no token."""


def token_of(properties: Mapping[str, str], options: Mapping[str, str], now_ms: int) -> str:
    """A token, by a client's properties and the options of its login module.

    Raises BadOptions, CannotFetch.
    """
    url = properties.get(URL, "").strip()
    if not url:
        return _unsecured(options, now_ms)
    if path_of(url) is not None:
        return fetch(url).decode().strip()
    return _token_in(ask(_request(url, properties, options), _tls(options)))


def check_options(properties: Mapping[str, str], options: Mapping[str, str]) -> None:
    """Whether there may be a token, without asking for one.  Raises BadOptions."""
    url = properties.get(URL, "").strip()
    if not url:
        _unsecured(options, 0)
    elif path_of(url) is None:
        _request(url, properties, options)
        _tls(options)


def _unsecured(options: Mapping[str, str], now_ms: int) -> str:
    subject = options.get(_SUBJECT)
    if not subject:
        raise BadOptions(f"OAUTHBEARER has neither {URL} nor the option {_SUBJECT}")
    try:
        lifetime_s = int(options.get(_LIFETIME, _LIFETIME_S))
    except ValueError:
        raise BadOptions(f"{_LIFETIME} is no number") from None
    return unsecured_token(subject, now_ms, now_ms + 1000 * lifetime_s)


def _request(
    url: str, properties: Mapping[str, str], options: Mapping[str, str]
) -> urllib.request.Request:
    client = _credential(properties, options, "id", "clientId")
    secret = _credential(properties, options, "secret", "clientSecret")
    grant = {"grant_type": "client_credentials"}
    scope = properties.get(SCOPE) or options.get("scope")
    if scope:
        grant["scope"] = scope
    basic = base64.b64encode(f"{client}:{secret}".encode()).decode()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {basic}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    try:
        return urllib.request.Request(url, urlencode(grant).encode(), headers, method="POST")
    except ValueError as problem:
        raise BadOptions(f"{URL}: {problem}") from None


def _tls(options: Mapping[str, str]) -> ssl.SSLContext | None:
    try:
        return tls_of(options)
    except TlsError as problem:
        raise BadOptions(f"sasl.jaas.config: {problem}") from None


def _credential(
    properties: Mapping[str, str], options: Mapping[str, str], name: str, option: str
) -> str:
    found = properties.get(CREDENTIALS + name) or options.get(option)
    if not found:
        raise BadOptions(f"OAUTHBEARER has neither {CREDENTIALS}{name} nor the option {option}")
    return found


def _token_in(answer: bytes) -> str:
    """Of what a server of tokens answers; an id token where there is no other, as Kafka does."""
    try:
        found = json.loads(answer)
    except ValueError:
        raise CannotFetch("it answers what is no JSON") from None
    said = found if isinstance(found, dict) else {}
    token = said.get("access_token") or said.get("id_token")
    if not isinstance(token, str):
        raise CannotFetch("it answers without access_token")
    return token
