"""Gets a client's token, by Kafka's client properties.

`sasl.oauthbearer.token.endpoint.url` is a file with the token, or a server that returns one for the
client's credentials (RFC 6749, 4.4).  Without it the token is an unsecured one, made from the
options of the login module.  Everything here blocks.
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
    """The properties or options do not give a token."""


def token_of(properties: Mapping[str, str], options: Mapping[str, str], now_ms: int) -> str:
    """Return a token for a client's properties and the options of its login module.

    Raises BadOptions, CannotFetch.
    """
    url = properties.get(URL, "").strip()
    if not url:
        return _unsecured(options, now_ms)
    if path_of(url) is not None:
        return fetch(url).decode().strip()
    return _token_in(ask(_request(url, properties, options), _tls(options)))


def check_options(properties: Mapping[str, str], options: Mapping[str, str]) -> None:
    """Check the properties and options without fetching a token.  Raises BadOptions."""
    url = properties.get(URL, "").strip()
    if not url:
        _unsecured(options, 0)
    elif path_of(url) is None:
        _request(url, properties, options)
        _tls(options)


def _unsecured(options: Mapping[str, str], now_ms: int) -> str:
    """Return an unsigned token for the subject in the JAAS options; raises BadOptions."""
    subject = options.get(_SUBJECT)
    if not subject:
        raise BadOptions(f"OAUTHBEARER has neither {URL} nor the option {_SUBJECT}")
    try:
        lifetime_s = int(options.get(_LIFETIME, _LIFETIME_S))
    except ValueError:
        raise BadOptions(f"{_LIFETIME} is not a number") from None
    return unsecured_token(subject, now_ms, now_ms + 1000 * lifetime_s)


def _request(
    url: str, properties: Mapping[str, str], options: Mapping[str, str]
) -> urllib.request.Request:
    """Return the token request of the grant `client_credentials`; raises BadOptions."""
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
    """Return the client's id or secret, from the properties or the JAAS option; raises
    BadOptions."""
    credential = properties.get(CREDENTIALS + name) or options.get(option)
    if not credential:
        raise BadOptions(f"OAUTHBEARER has neither {CREDENTIALS}{name} nor the option {option}")
    return credential


def _token_in(answer: bytes) -> str:
    """Return the access token in a server's response; like Kafka, else its id token."""
    try:
        value = json.loads(answer)
    except ValueError:
        raise CannotFetch("the response is not JSON") from None
    fields = value if isinstance(value, dict) else {}
    token = fields.get("access_token") or fields.get("id_token")
    if not isinstance(token, str):
        raise CannotFetch("the response has no access_token")
    return token
