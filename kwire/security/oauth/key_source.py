"""The keys of one place, kept up: read anew now and then, and when a token names one that is new.

Apache Kafka's RefreshingHttpsJwks, without its thread: `follow` is a task that sleeps, and fetching
is done in a thread of trio's.  A file is looked at each second.
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
"""How long nobody is asked again about a key that was not to be had."""
ASKED_FOR_MAX: Final = 16
"""Such keys that are remembered, the last ones: whoever makes up names shall cost little."""
KEY_NAME_MAX: Final = 1000
"""Characters; a longer one is not asked for."""


class NoKeys(Exception):
    """There are none to begin with; the message says why."""


@dataclass(frozen=True, slots=True)
class Refreshing:
    """`sasl.oauthbearer.jwks.endpoint.*`: how often keys are fetched, and what if that fails."""

    interval_ms: int = 3_600_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000


class KeySource:
    """See the module."""

    def __init__(
        self, url: str, refreshing: Refreshing | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._url = url
        self._tls = tls
        self._refreshing = refreshing or Refreshing()
        self._file = path_of(url)
        self._written_ns: int | None = None
        self._keys = KeySet()
        self._asked_for: OrderedDict[str, float] = OrderedDict()
        self._wanted = trio.Event()

    def find(self, header: Mapping[str, Any]) -> PyJWK | None:
        """The key that a token means.  One that is not there is asked for, for the next token."""
        key = self._keys.find(header)
        if key is None and self._file is None:
            self._ask_for(header.get("kid"))
        return key

    def _ask_for(self, kid: str | None) -> None:
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
            raise NoKeys(f"there are no keys at {self._url}: {problem}") from None

    async def follow(self) -> None:
        """Keep the keys up, until cancelled."""
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
        """Fetch the keys; where that fails, a few times more, and then leave them as they are."""
        pause_ms, waited_ms = self._refreshing.retry_ms, 0
        while True:
            try:
                self._keys = await trio.to_thread.run_sync(self._fetched, abandon_on_cancel=True)
            except (CannotFetch, BadKeys) as problem:
                why = problem
            else:
                return
            if waited_ms + pause_ms > self._refreshing.retry_max_ms:
                log.warning("tokens are checked by the keys that are known: %s", why)
                return
            await trio.sleep(pause_ms / 1000)
            waited_ms += pause_ms
            pause_ms *= 2

    def _fetched(self) -> KeySet:
        self._is_written_anew()
        return read_keys(fetch(self._url, self._tls))

    def _is_written_anew(self) -> bool:
        """Whether the file is another than when it was last looked at."""
        if self._file is None:
            return False
        try:
            written_ns = self._file.stat().st_mtime_ns
        except OSError:  # between two of its kind, when it is replaced
            return False
        before, self._written_ns = self._written_ns, written_ns
        return before != written_ns
