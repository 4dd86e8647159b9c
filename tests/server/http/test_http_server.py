"""Requests over real sockets, and the limits of the server."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme

from kwire.server.http.messages import HttpError, HttpReply, HttpRequest, check_local
from kwire.server.http.process import TlsFiles
from kwire.server.http.server import HttpLimits, HttpServer

LIMITS = HttpLimits(body_bytes=100, connections=2, idle_s=30)


async def echo(request: HttpRequest) -> HttpReply:
    """Answer with what was asked."""
    try:
        if request.path == "/raw":
            return HttpReply(200, b"one line\n", "text/plain")
        if request.path == "/nothing":
            return HttpReply(204)
        if request.path == "/defect":
            raise ZeroDivisionError
        said = {
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "body": request.body.decode(),
            "accept": request.accept,
        }
        return HttpReply(200, said)
    except HttpError as error:
        return error.reply()


@asynccontextmanager
async def served(limits: HttpLimits = LIMITS) -> AsyncIterator[int]:
    """The port of a server of `echo`."""
    async with trio.open_nursery() as nursery:
        port: int = await nursery.start(HttpServer("test", echo, limits).serve, "127.0.0.1", 0)
        yield port
        nursery.cancel_scope.cancel()


async def reply_to(stream: trio.SocketStream, text: str) -> str:
    """Send `text`, and return what comes until the server closes or a whole reply is there."""
    await stream.send_all(text.encode())
    return await received(stream)


async def received(stream: trio.SocketStream) -> str:
    got = b""
    with trio.fail_after(60):
        while data := await stream.receive_some():
            got += data
            head, separator, body = got.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if separator and len(body) >= int(length or 0):
                break
    return got.decode()


async def test_request_reaches_the_function_and_the_connection_carries_another() -> None:
    async with served() as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for _ in range(2):
            reply = await reply_to(
                stream,
                "POST /a/?b=1&b=2 HTTP/1.1\r\nHost: x\r\nAccept: text/x\r\n"
                "Content-Length: 2\r\n\r\nhi",
            )
            assert reply.startswith("HTTP/1.1 200")
            assert "content-type: application/json" in reply
            assert '"method": "POST", "path": "/a", "query": {"b": "2"}, "body": "hi"' in reply
            assert '"accept": "text/x"' in reply


async def test_bytes_are_sent_as_they_are_and_none_is_no_body() -> None:
    async with served() as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        reply = await reply_to(stream, "GET /raw HTTP/1.1\r\nHost: x\r\n\r\n")
        assert "content-type: text/plain" in reply
        assert reply.endswith("\r\n\r\none line\n")
        reply = await reply_to(stream, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        assert reply.startswith("HTTP/1.1 204")


async def test_head_gets_the_headers_only() -> None:
    async with served() as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"HEAD /raw HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        got = b""
        while data := await stream.receive_some():
            got += data
        assert b"content-length: 9" in got
        assert got.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("\0\1 garbage\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n" + "x" * 101, 413),
        ("GET / HTTP/1.1\r\nHost: x\r\nLong: " + "x" * 70_000 + "\r\n\r\n", 431),
        ("GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ],
)
async def test_invalid_request_is_refused(text: str, status: int) -> None:
    async with served() as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        assert (await reply_to(stream, text)).startswith(f"HTTP/1.1 {status}")


async def test_exception_closes_the_connection_and_the_server_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            assert not await reply_to(stream, "GET /defect HTTP/1.1\r\nHost: x\r\n\r\n")
        assert "Unhandled error in the test" in caplog.text
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            assert "200" in await reply_to(stream, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")


async def test_connection_above_the_limit_is_refused_until_one_ends() -> None:
    async with served() as port:
        first = await trio.open_tcp_stream("127.0.0.1", port)
        second = await trio.open_tcp_stream("127.0.0.1", port)
        for stream in (first, second):
            assert "200" in await reply_to(stream, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        third = await trio.open_tcp_stream("127.0.0.1", port)
        assert (await received(third)).startswith("HTTP/1.1 503")
        await first.aclose()
        with trio.fail_after(60):
            while True:
                async with await trio.open_tcp_stream("127.0.0.1", port) as again:
                    reply = await reply_to(again, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    if reply.startswith("HTTP/1.1 200"):
                        break
        await second.aclose()
        await third.aclose()


async def test_client_that_sends_no_whole_request_in_time_is_closed() -> None:
    limits = LIMITS._replace(idle_s=0.01)
    async with served(limits) as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        assert not await reply_to(stream, "GET / HTTP/1.1\r\nHo")


async def test_requests_sent_at_once_are_answered_in_their_order() -> None:
    async with served() as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(
            b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(3))
        )
        got = ""
        while '"/2"' not in got:
            got += (await stream.receive_some()).decode()
        assert got.index('"/0"') < got.index('"/1"') < got.index('"/2"')


async def test_body_in_chunks_is_put_together() -> None:
    async with served() as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        reply = await reply_to(
            stream,
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n",
        )
        assert '"body": "abcde"' in reply


async def test_other_protocol_is_declined_and_the_connection_carries_on() -> None:
    """Java's HttpClient asks for HTTP/2 in its first request."""
    head = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    async with served() as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for _ in range(2):
            assert (await reply_to(stream, head)).startswith("HTTP/1.1 200")


def admit(request: HttpRequest) -> HttpReply | None:
    """Refuse all bodies except those at /taken."""
    return None if request.path == "/taken" else HttpReply(401, b"no")


async def test_refused_body_is_passed_over_and_the_connection_carries_another() -> None:
    limits = LIMITS._replace(passed_over_bytes=1_000)
    server = HttpServer("test", echo, limits, admit=admit)
    async with trio.open_nursery() as nursery:
        port: int = await nursery.start(server.serve, "127.0.0.1", 0)
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            for path, size, status in (("/", 900, 401), ("/taken", 900, 413), ("/taken", 9, 200)):
                head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
                reply = await reply_to(stream, head + "x" * size)
                assert reply.startswith(f"HTTP/1.1 {status}")
            head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n"
            assert "connection: close" in (await reply_to(stream, head + "x" * 1001)).lower()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("path", "first"), [("/", "401"), ("/taken", "100")])
async def test_client_that_waits_with_its_body_learns_whether_it_is_taken(
    path: str, first: str
) -> None:
    server = HttpServer("test", echo, LIMITS, admit=admit)
    async with trio.open_nursery() as nursery:
        port: int = await nursery.start(server.serve, "127.0.0.1", 0)
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
            reply = await reply_to(stream, f"{head}Expect: 100-continue\r\n\r\n")
            assert reply.startswith(f"HTTP/1.1 {first}")
            if first == "100":
                assert '"body": "hi"' in await reply_to(stream, "hi")
        nursery.cancel_scope.cancel()


async def test_https_client_is_answered(tmp_path: Path) -> None:
    authority = trustme.CA()
    both = tmp_path / "both.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(both))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    server = HttpServer("test", echo, LIMITS, tls=TlsFiles(str(both), str(both)).context())
    async with trio.open_nursery() as nursery:
        port: int = await nursery.start(server.serve, "127.0.0.1", 0)
        stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=context)
        await stream.send_all(b"GET /raw HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        got = b""
        while data := await stream.receive_some():
            got += data
        assert got.endswith(b"one line\n")
        await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()


async def test_stop_closes_idle_connections_and_ends_begun_requests() -> None:
    begun, released = trio.Event(), trio.Event()

    async def answer(request: HttpRequest) -> HttpReply:
        begun.set()
        await released.wait()
        return HttpReply(200, b"late")

    stopped = trio.Event()
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpServer("test", answer, LIMITS).serve_until, listener, stopped, 60)
        idle = await trio.open_tcp_stream("127.0.0.1", port)
        busy = await trio.open_tcp_stream("127.0.0.1", port)
        await busy.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await begun.wait()
        stopped.set()
        assert await idle.receive_some() == b""
        released.set()
        assert (await received(busy)).endswith("late")
        assert await busy.receive_some() == b""
        await idle.aclose()
        await busy.aclose()


async def test_occupied_port_is_an_error_that_names_it() -> None:
    async with served() as port:
        with pytest.RaisesGroup(
            pytest.RaisesExc(OSError, match=f"port {port}: "), flatten_subgroups=True
        ):
            async with trio.open_nursery() as nursery:
                await nursery.start(HttpServer("test", echo, LIMITS).serve, "127.0.0.1", port)


@pytest.mark.parametrize("host", ["localhost", "localhost:80", "127.0.0.1:9", "[::1]", "[::1]:9"])
def test_local_host_is_accepted(host: str) -> None:
    check_local(host)


@pytest.mark.parametrize("host", ["", "example.org", "example.org:80", "localhost.example.org"])
def test_other_host_is_refused(host: str) -> None:
    with pytest.raises(HttpError, match="must name localhost") as refused:
        check_local(host)
    assert refused.value.status == 403
