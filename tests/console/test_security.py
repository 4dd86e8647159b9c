"""Who may ask the console."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kwire.console.security import AccessRules, access_rules, host_of, is_loopback, refusal

LOCAL = AccessRules()
REMOTE = AccessRules(frozenset({"console.example"}), "secret")


def status(rules: AccessRules, method: str, headers: Mapping[str, str]) -> int | None:
    refused = refusal(rules, method, headers)
    return None if refused is None else refused.status_code


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "127.0.0.1:9", "[::1]:8080", "127.9.9.9"]
)
def test_loopback_host_is_answered(host: str) -> None:
    assert status(LOCAL, "GET", {"host": host}) is None


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"],
)
def test_forged_host_is_refused(host: str) -> None:
    assert status(LOCAL, "GET", {"host": host}) == 421


def test_remote_console_answers_to_its_names_and_to_addresses() -> None:
    assert status(REMOTE, "GET", {"host": "CONSOLE.example:8080"}) is None
    assert status(REMOTE, "GET", {"host": "10.0.0.1:8080"}) is None
    assert status(REMOTE, "GET", {"host": "evil.example"}) == 421


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost",
        "http://localhost:8081",
        "localhost:8080",
        "",
    ],
)
def test_change_from_another_origin_is_refused(origin: str) -> None:
    assert status(LOCAL, "POST", {"host": "localhost:8080", "origin": origin}) == 403


def test_change_without_an_origin_is_refused() -> None:
    assert status(LOCAL, "POST", {"host": "localhost:8080"}) == 403


def test_change_from_a_page_of_the_console_is_allowed() -> None:
    headers = {"host": "localhost:8080", "origin": "http://localhost:8080"}
    assert status(LOCAL, "POST", headers) is None
    assert status(LOCAL, "POST", {**headers, "sec-fetch-site": "same-origin"}) is None
    assert status(LOCAL, "POST", {**headers, "sec-fetch-site": "cross-site"}) == 403


def test_other_site_may_link_to_a_page_but_not_read_it() -> None:
    headers = {"host": "localhost:8080", "sec-fetch-site": "cross-site"}
    assert status(LOCAL, "GET", {**headers, "sec-fetch-mode": "navigate"}) is None
    assert status(LOCAL, "GET", {**headers, "sec-fetch-mode": "no-cors"}) == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "TRACE", "OPTIONS", "BREW"])
def test_other_method_is_refused(method: str) -> None:
    assert status(LOCAL, method, {"host": "localhost"}) == 405


def test_console_elsewhere_than_on_loopback_has_a_token() -> None:
    assert access_rules("127.0.0.1", 8080).token is None
    assert access_rules("::1", 8080).token is None
    first, second = (access_rules("0.0.0.0", 8080).token for _ in range(2))
    assert first
    assert first != second


def test_only_the_token_itself_is_allowed() -> None:
    assert REMOTE.allows_token("secret")
    assert not REMOTE.allows_token("secre")
    assert not REMOTE.allows_token("\ud800")
    assert not LOCAL.allows_token("")


@pytest.mark.parametrize(
    ("authority", "host"),
    [("a.b:80", "a.b"), ("[::1]:80", "[::1]"), ("[::1", "[::1]"), ("A", "a"), (":80", "")],
)
def test_host_is_the_authority_without_its_port(authority: str, host: str) -> None:
    assert host_of(authority) == host


def test_loopback_is_a_name_or_any_of_its_addresses() -> None:
    assert is_loopback("127.8.8.8")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("localhost.example")
