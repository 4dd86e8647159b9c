"""The messages of a topic: a page of them, a live tail, a search, and a download."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any, Final

import trio
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError
from kwire.console.decoding.decoder import DECODER, FORMS, Decoder
from kwire.console.messages.query import (
    LIMITS,
    LIVE,
    NAMES,
    NEWEST,
    OFFSET,
    OLDEST,
    TIME,
    BadQuery,
    MessageQuery,
    message_query,
    positions_text,
)
from kwire.console.messages.rows import cell, csv_lines, json_line
from kwire.console.messages.scan import SCAN_S, MessagePage, message_page
from kwire.console.messages.tail import Tail
from kwire.console.site import SitePage, Visit
from kwire.console.views.topics import topic_values

STARTS: Final = (
    (NEWEST, "Newest first"),
    (OLDEST, "Oldest first"),
    (OFFSET, "From an offset"),
    (TIME, "From a time"),
    (LIVE, "Live: as they arrive"),
)
TAILS_MAX: Final = 16
"""Live tails at the same time; each takes a thread for most of the time."""
DOWNLOAD_SCAN_S: Final = 10.0
"""How long a download searches."""
TAIL_TYPE: Final = "application/x-ndjson"
TAILS: Final = "threads of tails"
OPEN_TAILS: Final = "open tails"


def decoder_of(visit: Visit) -> Decoder:
    """The decoder that all pages share."""
    found = visit.site.parts.setdefault(DECODER, Decoder())
    assert isinstance(found, Decoder)
    return found


def now_ms() -> int:
    """The time in ms since 1970."""
    return time.time_ns() // 1_000_000


def read_page(
    cluster: Cluster, topic: str, query: MessageQuery, decoder: Decoder, scan_s: float
) -> MessagePage:
    """The page of messages, in a thread, decoded: a registry may have to be asked."""
    found = message_page(cluster, topic, query, decoder, scan_s=scan_s)
    for record in found.records:
        record.decode()
    return found


async def messages(visit: Visit) -> Response:
    """A page of messages.  A search that takes longer goes on with the link of the next page."""
    topic = visit.path["topic"]
    try:
        query = message_query(visit.query, now_ms())
    except BadQuery as problem:
        return await _page(visit, topic, None, None, problem)
    if query.start == LIVE:
        return await _page(visit, topic, query, None, None)
    found = await visit.ask(read_page, topic, query, decoder_of(visit), SCAN_S)
    return await _page(visit, topic, query, found, None)


async def _page(
    visit: Visit,
    topic: str,
    query: MessageQuery | None,
    found: MessagePage | None,
    problem: BadQuery | None,
) -> Response:
    """The page with its form, and with records unless the query is wrong or live."""
    shown = query or MessageQuery(given={name: visit.query[name] for name in visit.query})
    next_link = None
    if found is not None and not found.is_complete:
        next_link = shown.link(at=positions_text(found.at))
    return visit.page(
        "messages.html",
        status=200 if problem is None else 400,
        query=shown,
        given={name: shown.given.get(name, "") for name in NAMES},
        found=found,
        problem=problem,
        is_live=query is not None and query.start == LIVE,
        next_link=next_link,
        starts=STARTS,
        forms=[(form, form) for form in FORMS],
        limits=[(str(limit), str(limit)) for limit in LIMITS],
        cell=cell,
        download=_joined(shown.link(at=visit.query.get("at", ""))),
        first_link=shown.link() if visit.query.get("at") else None,
        command=command_of(visit, topic, shown),
        **topic_values(visit, "/messages"),
    )


def _joined(query: str) -> str:
    """The query of a URL, ready for one parameter more."""
    return query if query == "?" else f"{query}&"


def command_of(visit: Visit, topic: str, query: MessageQuery) -> str:
    """The `kwire` command that prints the same records, without the filter."""
    words = ["kwire", "consume", topic]
    if query.start == OFFSET:
        words += ["--offset", str(query.offset)]
    elif query.start == TIME:
        words += ["--since", query.given.get("time", "")]
    elif query.start == NEWEST:
        words += ["--offset", str(-query.limit)]
    elif query.start == OLDEST:
        words += ["--from-beginning"]
    if query.given.get("partitions"):
        words += ["--partitions", query.given["partitions"]]
    if query.start != LIVE:
        words += ["--exit"]
    return shlex.join([*words, "--format", "json"]) + visit.site.command_options


async def download(visit: Visit) -> Response:
    """The records of a page as a file: JSON lines, or CSV."""
    topic = visit.path["topic"]
    try:
        query = message_query(visit.query, now_ms())
    except BadQuery as problem:
        return await _page(visit, topic, None, None, problem)
    found = await visit.ask(read_page, topic, query, decoder_of(visit), DOWNLOAD_SCAN_S)
    if visit.query.get("as") == "csv":
        content, kind, suffix = csv_lines(found.records), "text/csv", "csv"
    else:
        content = "".join(map(json_line, found.records))
        kind, suffix = "application/x-ndjson", "jsonl"
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in topic)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}
    return Response(content.encode("utf-8", "replace"), media_type=kind, headers=headers)


async def live(visit: Visit) -> Response:
    """The live tail: a line of JSON for each piece, until the visitor leaves."""
    try:
        query = message_query(visit.query, now_ms())
    except BadQuery as problem:
        return visit.json({"error": str(problem)}, 400)
    if visit.request.method == "HEAD":
        return Response(media_type=TAIL_TYPE)
    threads = visit.site.parts.setdefault(TAILS, trio.CapacityLimiter(TAILS_MAX))
    assert isinstance(threads, trio.CapacityLimiter)
    open_tails = visit.site.parts.setdefault(OPEN_TAILS, set())
    if len(open_tails) >= TAILS_MAX:
        return visit.json({"error": f"{TAILS_MAX} live tails run already: close one."}, 503)
    tail = Tail(visit.site.pool.connect(), visit.path["topic"], query, decoder_of(visit))
    return LiveResponse(tail, threads, open_tails)


class LiveResponse(Response):
    """A response that goes on until the visitor leaves or the cluster fails."""

    def __init__(self, tail: Tail, threads: trio.CapacityLimiter, open_tails: set[Tail]) -> None:
        """`tail` is closed at the end, and is among `open_tails` until then."""
        super().__init__(media_type=TAIL_TYPE)
        del self.headers["content-length"]
        self._tail = tail
        self._threads = threads
        self._open_tails = open_tails

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces.  A visitor who reads slowly makes the tail wait, and miss records."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        self._open_tails.add(self._tail)
        try:
            await send(start)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_when_gone, receive, nursery.cancel_scope)
                await self._send_pieces(send)
                nursery.cancel_scope.cancel()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._open_tails.discard(self._tail)
            self._tail.close()

    async def _send_pieces(self, send: Send) -> None:
        """A first piece when the tail is at the end of the topic, then one for each step."""
        try:
            await trio.to_thread.run_sync(self._tail.start, limiter=self._threads)
            await send(_chunk({"rows": [], "seen": 0, "found": 0, "left_out": 0}))
            while True:
                piece = await trio.to_thread.run_sync(self._tail.step, limiter=self._threads)
                await send(_chunk(piece))
        except ClientError as error:
            await send(_chunk({"error": str(error)}))


async def _cancel_when_gone(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel when the visitor's connection is closed."""
    while (await receive())["type"] != "http.disconnect":
        continue
    scope.cancel()


def _chunk(piece: dict[str, Any]) -> Message:
    body = (json.dumps(piece) + "\n").encode()
    return {"type": "http.response.body", "body": body, "more_body": True}


PAGES = (
    SitePage("/topics/{topic}/messages", messages),
    SitePage("/topics/{topic}/messages/live", live),
    SitePage("/topics/{topic}/messages/download", download),
)
