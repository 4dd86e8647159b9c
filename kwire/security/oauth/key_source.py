"""The signing keys at one URL, refreshed at intervals and when a token names an unknown key.

It does what Apache Kafka's RefreshingHttpsJwks does, but without a thread of its own: `follow` is a
task, and a trio worker thread fetches the keys.  A file is checked for changes every second.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import trio
from jwt import PyJWK

from kwire.security.oauth.fetching import CannotFetch, fetch, path_of
from kwire.security.oauth.key_set import BadKeys, KeySet, read_keys

log = logging.getLogger("kwire.security.oauth")

FILE_LOOK_INTERVAL_S: Final = 1.0

ASKED_AGAIN_AFTER_S: Final = 60.0
"""For how long an unknown key id does not cause another fetch."""
ASKED_FOR_MAX: Final = 16
"""The number of unknown key ids that are remembered: a client can invent any number of them."""
KEY_NAME_MAX: Final = 1000
"""Longest key id, in characters, that causes a fetch."""


class NoKeys(Exception):
    """The first fetch of the keys has failed; the message says why."""


@dataclass(frozen=True, slots=True)
class Refreshing:
    """`sasl.oauthbearer.jwks.endpoint.*`: the refresh interval, and the backoff of retries."""

    interval_ms: int = 3_600_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000


class KeySource:
    """The keys at one URL; see the module."""

    def __init__(
        self, url: str, refreshing: Refreshing | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """Describe the keys at `url`, which are not fetched yet; `tls` is for https."""
        self._url = url
        self._tls = tls
        self._refreshing = refreshing or Refreshing()
        self._file = path_of(url)
        self._written_ns: int | None = None
        self._keys = KeySet()
        self._asked_for: OrderedDict[str, float] = OrderedDict()
        self._wanted = trio.Event()

    def find(self, header: Mapping[str, Any]) -> PyJWK | None:
        """Return the key that a token's header selects, or None.

        An unknown key starts a refresh, so that a later token may find it.
        """
        key = self._keys.find(header)
        if key is None and self._file is None:
            self._ask_for(header.get("kid"))
        return key

    def _ask_for(self, kid: str | None) -> None:
        """Have the keys refreshed because a token names the unknown key `kid`.

        The same key causes one refresh in `ASKED_AGAIN_AFTER_S`, and few keys are remembered:
        clients choose the names.
        """
        now_s = time.monotonic()
        if kid is None or len(kid) > KEY_NAME_MAX or self._asked_for.get(kid, 0.0) > now_s:
            return
        self._asked_for[kid] = now_s + ASKED_AGAIN_AFTER_S
        self._asked_for.move_to_end(kid)
        if len(self._asked_for) > ASKED_FOR_MAX:
            self._asked_for.popitem(last=False)
        self._wanted.set()

    async def begin(self) -> None:
        """Fetch the keys for the first time.  Raises NoKeys."""
        try:
            self._keys = await trio.to_thread.run_sync(self._fetched, abandon_on_cancel=True)
        except (CannotFetch, BadKeys) as problem:
            raise NoKeys(f"cannot fetch keys from {self._url}: {problem}") from None

    async def follow(self) -> None:
        """Refresh the keys until cancelled."""
        while True:
            with trio.move_on_after(self._interval_s()):
                await self._wanted.wait()
            self._wanted = trio.Event()
            if self._file is None or await trio.to_thread.run_sync(self._is_written_anew):
                await self._refresh()

    def _interval_s(self) -> float:
        if self._file is not None:
            return FILE_LOOK_INTERVAL_S
        return max(self._refreshing.interval_ms, 1) / 1000

    async def _refresh(self) -> None:
        """Fetch the keys, with retries; if all fail, keep the present keys."""
        pause_ms, waited_ms = self._refreshing.retry_ms, 0
        while True:
            try:
                self._keys = await trio.to_thread.run_sync(self._fetched, abandon_on_cancel=True)
            except (CannotFetch, BadKeys) as problem:
                failure = problem
            else:
                return
            if waited_ms + pause_ms > self._refreshing.retry_max_ms:
                log.warning(
                    "Cannot refresh the keys that sign tokens: %s. Using the present keys.", failure
                )
                return
            await trio.sleep(pause_ms / 1000)
            waited_ms += pause_ms
            pause_ms *= 2

    def _fetched(self) -> KeySet:
        self._is_written_anew()
        return read_keys(fetch(self._url, self._tls))

    def _is_written_anew(self) -> bool:
        """Return whether the file has changed since the last call."""
        if self._file is None:
            return False
        try:
            written_ns = self._file.stat().st_mtime_ns
        except OSError:  # it may be missing for a moment while it is replaced
            return False
        before, self._written_ns = self._written_ns, written_ns
        return before != written_ns
