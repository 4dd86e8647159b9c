"""Who may ask the console: the Host, the Origin, the token, and what a page may load.

A page of another site can send requests to a console on this machine, and can make a name of its
own point to it (DNS rebinding).  So each request must name a known host, a change must come from a
page of the console, and pages may load nothing from elsewhere.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A record of 1 MB is 3 MB in a form, if each of its bytes is escaped."""
TARGET_LENGTH_MAX: Final = 16_384
"""Characters of a URL.  A search has the position in each partition in its URL."""
TOKEN_BYTES: Final = 24
TOKEN_PARAMETER: Final = "token"
SAFE_METHODS: Final = ("GET", "HEAD")
METHODS: Final = (*SAFE_METHODS, "POST")

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
STATIC_CACHED: Final = "private, max-age=60"
"""How long a browser keeps a style sheet or a script: who clicks through pages need not wait for
them, and a newer kwire at the same address is there after a minute."""
HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer, browsers would send "null" as the Origin of our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine only."""
    if host.strip("[]").casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def host_of(authority: str) -> str:
    """The host of `host:port`, in lower case.  An IPv6 address keeps its brackets."""
    if authority.startswith("["):
        return authority.partition("]")[0].casefold() + "]"
    return authority.partition(":")[0].casefold()


@dataclass(frozen=True)
class AccessRules:
    """Who may ask.  Without a token, only this machine may."""

    hosts: frozenset[str] = frozenset()
    """Names besides those of loopback that a request may have as its Host."""
    token: str | None = None
    cookie: str = "kwire-console"
    """The name of the cookie with the token.  Browsers share cookies between ports, so consoles on
    one machine need different names."""

    def allows_host(self, authority: str) -> bool:
        """Whether a request may name this host.

        With a token an address is allowed, too: a site that wants to rebind a name has a name.
        """
        host = host_of(authority)
        if not host:
            return False
        if is_loopback(host) or host in self.hosts:
            return True
        return self.token is not None and _is_address(host)

    def allows_token(self, given: str) -> bool:
        """Whether this is the token.  The time that the comparison takes tells nothing about it."""
        return self.token is not None and secrets.compare_digest(
            given.encode("utf-8", "replace"), self.token.encode()
        )


def access_rules(bound_host: str, port: int, hosts: Iterable[str] = ()) -> AccessRules:
    """The rules of a console that listens on a host: a new token unless it is loopback."""
    cookie = f"kwire-console-{port}"
    names = {name.casefold() for name in hosts}
    if is_loopback(bound_host):
        return AccessRules(frozenset(names), None, cookie)
    names |= {bound_host.casefold(), socket.gethostname().casefold()}
    return AccessRules(frozenset(names), secrets.token_urlsafe(TOKEN_BYTES), cookie)


def refusal(rules: AccessRules, method: str, headers: Mapping[str, str]) -> Response | None:
    """The response to a request that may not be answered, or None.  The token is not checked."""
    if method not in METHODS:
        return _refused(405, f"The console has no method {method[:20]!r}.")
    authority = headers.get("host", "")
    if not rules.allows_host(authority):
        return _refused(
            421,
            "The console does not answer to this host name. Use an address that it printed at its "
            "start, or start it with --allow-host NAME.",
        )
    site = headers.get("sec-fetch-site", "")
    if method in SAFE_METHODS:
        navigates = headers.get("sec-fetch-mode", "navigate") == "navigate"
        if site in ("cross-site", "same-site") and not navigates:
            return _refused(403, "Another site may not read from the console.")
        return None
    origin = headers.get("origin")
    own = (f"http://{authority}", f"https://{authority}")
    if origin not in own or site not in ("", "same-origin"):
        return _refused(403, "A change must come from a page of the console (Origin).")
    return None


def _refused(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)


class Gatekeeper:
    """ASGI middleware that refuses requests by the rules, and adds headers to each response."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        """`app` gets the requests that the rules allow."""
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        response = self._response_of(scope)
        with_headers = _adding_headers(scope, send)
        if response is not None:
            await response(scope, receive, with_headers)
            return
        await self._app(scope, _limited(receive), with_headers)

    def _response_of(self, scope: Scope) -> Response | None:
        """The response to a request that is not passed on, or None."""
        headers = Headers(scope=scope)
        if len(scope["path"]) + len(scope["query_string"]) > TARGET_LENGTH_MAX:
            return _refused(414, "The URL is too long.")
        if (refused := refusal(self._rules, scope["method"], headers)) is not None:
            return refused
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 15:
            return _refused(400, "Content-Length is not a number.")
        if int(length) > BODY_SIZE_BYTES_MAX:
            return _refused(413, f"A request has at most {BODY_SIZE_BYTES_MAX:,} bytes.")
        return None if self._rules.token is None else self._token_response(scope, headers)

    def _token_response(self, scope: Scope, headers: Headers) -> Response | None:
        """The response to a request without the token, or to the first link, which has it."""
        given = parse_qsl(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
        tokens = [value for name, value in given if name == TOKEN_PARAMETER]
        if scope["method"] in SAFE_METHODS and any(map(self._rules.allows_token, tokens)):
            rest = urlencode([pair for pair in given if pair[0] != TOKEN_PARAMETER])
            path = "/" + scope["path"].lstrip("/\\")
            response = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            response.set_cookie(
                self._rules.cookie, self._rules.token or "", httponly=True, samesite="strict"
            )
            return response
        cookie: SimpleCookie = SimpleCookie()
        try:
            cookie.load(headers.get("cookie", ""))
        except CookieError:
            cookie = SimpleCookie()
        morsel = cookie.get(self._rules.cookie)
        if morsel is not None and self._rules.allows_token(morsel.value):
            return None
        return _refused(401, "Open the link that the console printed at its start: it has a token.")


def _adding_headers(scope: Scope, send: Send) -> Send:
    """`send` that adds the headers of every response."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            is_static = message["status"] == 200 and scope["path"].startswith("/static/")
            headers.setdefault("cache-control", STATIC_CACHED if is_static else "no-store")
        await send(message)

    return sending


class BodyTooLarge(Exception):
    """A request has more bytes than BODY_SIZE_BYTES_MAX, and did not say so in its headers."""


def _limited(receive: Receive) -> Receive:
    """`receive` that raises BodyTooLarge past the limit."""
    received = 0

    async def receiving() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > BODY_SIZE_BYTES_MAX:
            raise BodyTooLarge
        return message

    return receiving
