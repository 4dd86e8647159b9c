"""The HTTP endpoint of one broker: /metrics, /healthz, /readyz and /slow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import trio

from kwire.server.http.messages import HttpError, HttpReply, HttpRequest, check_local
from kwire.server.http.server import HttpLimits
from kwire.server.metrics.samples import content_type, is_open_metrics

if TYPE_CHECKING:
    from kwire.groups.effects import Rebalance
    from kwire.server.metrics.health import Health
    from kwire.server.metrics.meters import Meters
    from kwire.server.metrics.samples import Samples

LIMITS: Final = HttpLimits(body_bytes=0, connections=64, idle_s=75)
"""Scrapers keep their connection for the next scrape, most often a minute later at most."""

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""Values of `metrics.host` with which only clients of this machine can connect."""

PATHS: Final = ("/metrics", "/healthz", "/readyz", "/slow")


class MetricsEndpoint:
    """Answers the requests of one endpoint.

    `scrape` returns the values of some metrics, or of all; it is None until the broker is open.
    """

    def __init__(self, host: str, health: Health, meters: Meters) -> None:
        """`host` is that of `metrics.host`; on a loopback address other Host headers are refused,
        because a web page may reach the address by a name of its own."""
        self._is_local = host in LOOPBACK
        self._health = health
        self._meters = meters
        self.scrape: Callable[[Collection[str] | None], Awaitable[Samples]] | None = None
        self.rebalances: Mapping[str, Rebalance] = {}
        """The last rebalance of groups, by group, in the order in which they began."""

    async def answer(self, request: HttpRequest) -> HttpReply:
        """The response to any request; errors become responses, too."""
        try:
            if self._is_local:
                check_local(request.host)
            if request.path not in PATHS and request.path != "/":
                raise HttpError(404, f"there is no {request.path[:200]}: see {', '.join(PATHS)}")
            if request.method not in ("GET", "HEAD"):
                raise HttpError(405, f"{request.path} takes GET")
            return await self._reply(request)
        except HttpError as refused:
            return refused.reply()

    async def _reply(self, request: HttpRequest) -> HttpReply:
        if request.path == "/metrics":
            return await self._metrics(request.accept, request.queries.get("name[]"))
        if request.path == "/healthz":
            return self._health.alive_reply()
        if request.path == "/readyz":
            return self._health.ready_reply()
        if request.path == "/slow":
            return HttpReply(200, self._slow())
        return HttpReply(200, {"paths": PATHS})

    async def _metrics(self, accept: str, names: Collection[str] | None) -> HttpReply:
        """One scrape of all metrics, or of `names`.

        The parameter `name[]` may be repeated, as with Prometheus' client libraries.  Other tasks
        run between the pieces of the text.
        """
        if self.scrape is None:
            raise HttpError(503, self._health.phase.value)
        samples = await self.scrape(names)
        pieces: list[bytes] = []
        for piece in samples.text(open_metrics=is_open_metrics(accept)):
            pieces.append(piece)
            await trio.lowlevel.checkpoint()
        return HttpReply(200, b"".join(pieces), content_type(accept))

    def _slow(self) -> dict[str, Any]:
        """The slowest requests and the busiest clients of the last two minutes, with times in ns,
        and why groups rebalanced last, the newest first."""
        meters = self._meters
        meters.fold_connections()
        return {
            "window_s": meters.window_s(),
            "requests": [
                {**request._asdict(), "blamed": request.blamed}
                for request in meters.slowest.listed()
            ],
            "clients": [
                {**key._asdict(), **asdict(load)} for key, load in meters.clients.busiest()
            ],
            "rebalances": [each._asdict() for each in [*self.rebalances.values()][::-1]],
        }
