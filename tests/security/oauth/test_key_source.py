"""Keys are fetched at the start, at intervals, and when a token names an unknown one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kwire.security.oauth.fetching import SIZE_BYTES_MAX
from kwire.security.oauth.key_source import (
    ASKED_FOR_MAX,
    KEY_NAME_MAX,
    KeySource,
    NoKeys,
    Refreshing,
)
from tests.inside import until
from tests.security.jwt_dialogues import jwk

HOUR_MS = 3_600_000
PATIENCE_S = 240.0


class Issuer:
    """A server of keys; `answer` is its next response, `asked` the number of requests."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = b""
        self.status = 200
        self.may_answer = threading.Event()
        self.may_answer.set()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                issuer.may_answer.wait(PATIENCE_S)
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(issuer.answer)))
                self.end_headers()
                self.wfile.write(issuer.answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"

    def has(self, *names: str) -> None:
        self.answer = keys(*names)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    found = Issuer()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.may_answer.set()
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def keys(*names: str) -> bytes:
    return json.dumps({"keys": [jwk(name) for name in names]}).encode()


def header(kid: str) -> dict[str, Any]:
    return {"alg": "ES256", "kid": kid}


async def source_of(issuer: Issuer, nursery: trio.Nursery, refreshing: Refreshing) -> KeySource:
    source = KeySource(issuer.url, refreshing)
    await source.begin()
    nursery.start_soon(source.follow)
    return source


def test_unknown_key_is_fetched_for_the_next_token(issuer: Issuer) -> None:
    async def run() -> None:
        issuer.has()
        async with trio.open_nursery() as nursery:
            source = await source_of(issuer, nursery, Refreshing(HOUR_MS))
            issuer.has("ES256")
            assert source.find(header("ES256")) is None
            await until(lambda: source.find(header("ES256")) is not None)
            assert issuer.asked == 2
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_keys_are_fetched_again_after_the_refresh_interval(issuer: Issuer) -> None:
    async def run() -> None:
        issuer.has("ES256")
        async with trio.open_nursery() as nursery:
            source = await source_of(issuer, nursery, Refreshing(20))
            issuer.has()
            await until(lambda: source.find(header("ES256")) is None)
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_missing_key_is_fetched_once_per_interval(issuer: Issuer) -> None:
    async def run() -> None:
        issuer.has("ES256")
        async with trio.open_nursery() as nursery:
            source = await source_of(issuer, nursery, Refreshing(HOUR_MS))
            source.find(header("x" * (KEY_NAME_MAX + 1)))
            for _ in range(3):
                source.find(header("made up"))
                await until(lambda: issuer.asked >= 2)
                await trio.testing.wait_all_tasks_blocked(0.05)
            assert issuer.asked == 2
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_key_source_remembers_a_limited_number_of_unknown_keys(issuer: Issuer) -> None:
    source = KeySource(issuer.url)
    for number in range(5 * ASKED_FOR_MAX):
        source.find(header(str(number)))
    assert len(source._asked_for) == ASKED_FOR_MAX


def test_event_loop_runs_while_keys_are_fetched(issuer: Issuer) -> None:
    async def run() -> None:
        issuer.has("ES256")
        async with trio.open_nursery() as nursery:
            source = await source_of(issuer, nursery, Refreshing(HOUR_MS))
            issuer.may_answer.clear()
            source.find(header("new"))
            await until(lambda: issuer.asked == 2)
            assert source.find(header("ES256")) is not None
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_keys_are_kept_if_a_refresh_fails(issuer: Issuer) -> None:
    async def run() -> None:
        issuer.has("ES256")
        async with trio.open_nursery() as nursery:
            source = await source_of(issuer, nursery, Refreshing(HOUR_MS, 1, 7))
            issuer.status = 500
            source.find(header("new"))
            await until(lambda: issuer.asked == 1 + 4)  # at once, after 1, 2 and 4 ms
            issuer.status, issuer.answer = 200, b"[]"
            source.find(header("newer"))
            await until(lambda: issuer.asked == 1 + 8)
            assert source.find(header("ES256")) is not None
            nursery.cancel_scope.cancel()

    trio.run(run)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"hello", "the document is not JSON"),
        (b"{}", 'the document has no list of "keys"'),
        (b"x" * (SIZE_BYTES_MAX + 1), f"it answers more than {SIZE_BYTES_MAX} bytes"),
    ],
)
def test_key_source_refuses_an_invalid_key_set(issuer: Issuer, answer: bytes, why: str) -> None:
    issuer.answer = answer
    with pytest.raises(NoKeys, match=why):
        trio.run(KeySource(issuer.url).begin)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:1/keys", "Connection refused"),
        ("file:///nowhere/keys.json", "No such file or directory"),
        ("https://", "no host given"),
    ],
)
def test_key_source_reports_an_unreachable_url(url: str, why: str) -> None:
    with pytest.raises(NoKeys, match=why):
        trio.run(KeySource(url).begin)


def test_keys_in_a_file_are_read_again_after_a_change(tmp_path: Path) -> None:
    async def run() -> None:
        file = tmp_path / "keys.json"
        file.write_bytes(keys("ES256"))
        source = KeySource(file.as_uri())
        await source.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(source.follow)
            new = tmp_path / "new.json"
            new.write_bytes(keys("ES384"))
            new.rename(file)
            await until(lambda: source.find(header("ES256")) is None)
            nursery.cancel_scope.cancel()

    trio.run(run)
