"""Where a client has its token from: its own words, a file, or a server that is asked for one."""

from __future__ import annotations

import base64
import json
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from kwire.security.oauth import retrieving
from kwire.security.oauth.retrieving import BadOptions, CannotFetch, check_options, token_of
from kwire.security.sasl.oauthbearer import Token, UnsecuredRules, expires_ms_of, validate_unsecured

NOW_MS = 1_800_000_000_000
URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = "sasl.oauthbearer.client.credentials.client."
SERVER = {URL: " http://h:1/token ", f"{CLIENT}id": "me", f"{CLIENT}secret": "hidden"}


class Server:
    """Answers in the place of a server of tokens, and notes what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
        self.asked: list[urllib.request.Request] = []
        self.tls: list[object] = []
        self._answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        monkeypatch.setattr(retrieving, "ask", self._ask)

    def _ask(self, request: urllib.request.Request, tls: object) -> bytes:
        self.asked.append(request)
        self.tls.append(tls)
        return self._answer


def test_token_is_the_clients_own_words_where_there_is_no_server() -> None:
    token = token_of({URL: " "}, {"unsecuredLoginStringClaim_sub": "alice"}, NOW_MS)
    found = validate_unsecured(token, UnsecuredRules(), NOW_MS)
    assert found == Token("alice", NOW_MS + 3_600_000)
    options = {"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginLifetimeSeconds": "60"}
    assert expires_ms_of(token_of({}, options, NOW_MS)) == NOW_MS + 60_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, f"OAUTHBEARER has neither {URL} nor the option unsecuredLoginStringClaim_sub"),
        (
            {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "x"},
            "unsecuredLoginLifetimeSeconds is no number",
        ),
    ],
)
def test_own_words_that_make_no_token_are_refused(options: dict[str, str], said: str) -> None:
    for give in (lambda: token_of({}, options, NOW_MS), lambda: check_options({}, options)):
        with pytest.raises(BadOptions, match=said):
            give()


def test_token_is_what_stands_in_a_file(tmp_path: Path) -> None:
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
def test_server_is_asked_with_the_clients_credentials(
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


@pytest.mark.parametrize("missing", ["id", "secret"])
def test_server_is_not_asked_without_credentials(missing: str) -> None:
    properties = {name: value for name, value in SERVER.items() if name != CLIENT + missing}
    option = f"client{missing.capitalize()}"
    said = f"OAUTHBEARER has neither {CLIENT}{missing} nor the option {option}"
    for give in (
        lambda: token_of(properties, {}, NOW_MS),
        lambda: check_options(properties, {}),
    ):
        with pytest.raises(BadOptions, match=said):
            give()


def test_url_and_stores_that_cannot_be_are_refused_before_anybody_is_asked() -> None:
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
def test_answer_of_a_server_has_a_token(
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,  # noqa: ANN401 - any JSON
    token: str | None,
) -> None:
    Server(monkeypatch, answer)
    if token is not None:
        assert token_of(SERVER, {}, NOW_MS) == token
        return
    with pytest.raises(CannotFetch, match="it answers without access_token"):
        token_of(SERVER, {}, NOW_MS)


def test_answer_that_is_no_json_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, b"<html>")
    with pytest.raises(CannotFetch, match="it answers what is no JSON"):
        token_of(SERVER, {}, NOW_MS)
