"""The source of a client's token: its own options, a file, or a token endpoint."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from kwire.security.oauth import retrieving
from kwire.security.oauth.retrieving import BadOptions, CannotFetch, check_options, token_of
from kwire.security.sasl.oauthbearer import (
    UnsecuredRules,
    ValidatedToken,
    expires_ms_of,
    validate_unsecured,
)
from tests.security.tls.authority import Authority

NOW_MS = 1_800_000_000_000
URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = "sasl.oauthbearer.client.credentials.client."
SERVER = {URL: " http://h:1/token ", f"{CLIENT}id": "me", f"{CLIENT}secret": "hidden"}


class Server:
    """A token endpoint with fixed responses; records the requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
        self.asked: list[urllib.request.Request] = []
        self.tls: list[object] = []
        self._answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        monkeypatch.setattr(retrieving, "ask", self._ask)

    def _ask(self, request: urllib.request.Request, tls: object) -> bytes:
        self.asked.append(request)
        self.tls.append(tls)
        return self._answer


def test_token_is_unsecured_without_a_token_endpoint() -> None:
    token = token_of({URL: " "}, {"unsecuredLoginStringClaim_sub": "alice"}, NOW_MS)
    found = validate_unsecured(token, UnsecuredRules(), NOW_MS)
    assert found == ValidatedToken("alice", NOW_MS + 3_600_000)
    options = {"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginLifetimeSeconds": "60"}
    assert expires_ms_of(token_of({}, options, NOW_MS)) == NOW_MS + 60_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, f"OAUTHBEARER has neither {URL} nor the option unsecuredLoginStringClaim_sub"),
        (
            {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "x"},
            "unsecuredLoginLifetimeSeconds is not a number",
        ),
    ],
)
def test_invalid_options_of_an_unsecured_token_are_refused(
    options: dict[str, str], said: str
) -> None:
    for give in (lambda: token_of({}, options, NOW_MS), lambda: check_options({}, options)):
        with pytest.raises(BadOptions, match=said):
            give()


def test_token_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(" a.b.c\n")
    assert token_of({URL: path.as_uri()}, {}, NOW_MS) == "a.b.c"
    check_options({URL: path.as_uri()}, {})


@pytest.mark.parametrize(
    ("properties", "options", "client", "scope"),
    [
        ({}, {}, "me:hidden", None),
        ({"sasl.oauthbearer.scope": "s t"}, {"scope": "u"}, "me:hidden", "s t"),
        (
            {f"{CLIENT}id": "", f"{CLIENT}secret": ""},
            {"clientId": "you", "clientSecret": "x", "scope": "u"},
            "you:x",
            "u",
        ),
    ],
)
def test_token_endpoint_gets_the_clients_credentials(
    monkeypatch: pytest.MonkeyPatch,
    properties: dict[str, str],
    options: dict[str, str],
    client: str,
    scope: str | None,
) -> None:
    server = Server(monkeypatch, {"access_token": "a.b.c", "id_token": "d.e.f"})
    assert token_of({**SERVER, **properties}, options, NOW_MS) == "a.b.c"
    (request,) = server.asked
    assert (request.full_url, request.get_method()) == ("http://h:1/token", "POST")
    assert dict(request.header_items()) == {
        "Accept": "application/json",
        "Authorization": f"Basic {base64.b64encode(client.encode()).decode()}",
        "Content-type": "application/x-www-form-urlencoded",
    }
    assert isinstance(request.data, bytes)
    grant = {"grant_type": ["client_credentials"]}
    assert parse_qs(request.data.decode()) == grant | ({"scope": [scope]} if scope else {})
    assert server.tls == [None]


def test_token_endpoint_is_trusted_by_the_stores_of_the_login_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(monkeypatch, {"access_token": "a.b.c"})
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": Authority().pem}
    assert token_of(SERVER, trust, NOW_MS) == "a.b.c"
    [context] = server.tls
    assert isinstance(context, ssl.SSLContext)
    assert context.cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize("missing", ["id", "secret"])
def test_token_endpoint_is_not_called_without_credentials(missing: str) -> None:
    properties = {name: value for name, value in SERVER.items() if name != CLIENT + missing}
    option = f"client{missing.capitalize()}"
    said = f"OAUTHBEARER has neither {CLIENT}{missing} nor the option {option}"
    for give in (
        lambda: token_of(properties, {}, NOW_MS),
        lambda: check_options(properties, {}),
    ):
        with pytest.raises(BadOptions, match=said):
            give()


def test_invalid_url_and_stores_are_refused_before_the_request() -> None:
    with pytest.raises(BadOptions, match=URL):
        check_options({**SERVER, URL: "nowhere"}, {})
    with pytest.raises(BadOptions, match=r"sasl\.jaas\.config: "):
        check_options(SERVER, {"ssl.truststore.location": "/none", "ssl.truststore.type": "PEM"})
    check_options(SERVER, {})


@pytest.mark.parametrize(
    ("answer", "token"),
    [
        ({"id_token": "d.e.f"}, "d.e.f"),
        ({"access_token": "", "id_token": "d.e.f"}, "d.e.f"),
        ({"access_token": 7}, None),
        ({}, None),
        (["access_token"], None),
    ],
)
def test_token_is_read_from_the_endpoints_response(
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,  # noqa: ANN401 - any JSON
    token: str | None,
) -> None:
    Server(monkeypatch, answer)
    if token is not None:
        assert token_of(SERVER, {}, NOW_MS) == token
        return
    with pytest.raises(CannotFetch, match="the response has no access_token"):
        token_of(SERVER, {}, NOW_MS)


def test_response_that_is_not_json_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, b"<html>")
    with pytest.raises(CannotFetch, match="the response is not JSON"):
        token_of(SERVER, {}, NOW_MS)
