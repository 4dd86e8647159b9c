"""A proxy that changes a broker's responses, to test a comparison without a faulty broker."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from struct import Struct
from types import TracebackType
from typing import Any, Self

from kwire.codecs.api_keys import response_header_version
from kwire.codecs.messages import response_class

Address = tuple[str, int]
Spoil = Callable[[int, int, Any, bytes], bytes | None]
"""(API key, version, the response's message, its bytes) -> the bytes to send instead.

None closes the connection; empty bytes withhold the response."""

_SIZE = Struct(">i")
_REQUEST = Struct(">hhi")


def changed(key: int, change: Callable[[Any], None], version: int | None = None) -> Spoil:
    """Apply `change` to each response message of API `key`, in one version or all."""

    def spoil(api_key: int, at_version: int, message: Any, data: bytes) -> bytes:  # noqa: ANN401 - any response
        if api_key != key or version not in (None, at_version):
            return data
        header_size = 5 if response_header_version(api_key, at_version) else 4
        change(message)
        return data[:header_size] + bytes(message.encode(at_version))

    return spoil


class FaultProxy:
    """Forwards requests from `address` to `target`, and responses back through `spoil`."""

    def __init__(self, target: Address, spoil: Spoil) -> None:
        self._target = target
        self._spoil = spoil
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()[:2]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _start(self, run: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=run, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # the listener is closed at the end of the test
            broker = socket.create_connection(self._target)
            requests: dict[int, tuple[int, int]] = {}
            self._start(self._forward, client, broker, requests)
            self._start(self._return, client, broker, requests)

    def _forward(
        self, client: socket.socket, broker: socket.socket, requests: dict[int, tuple[int, int]]
    ) -> None:
        while (data := _frame(client)) is not None:
            key, version, correlation_id = _REQUEST.unpack_from(data)
            requests[correlation_id] = (key, version)
            broker.sendall(_SIZE.pack(len(data)) + data)
        _close_connection(broker)

    def _return(
        self, client: socket.socket, broker: socket.socket, requests: dict[int, tuple[int, int]]
    ) -> None:
        while (data := _frame(broker)) is not None:
            spoiled = self._spoiled(data, *requests[_SIZE.unpack_from(data)[0]])
            if spoiled is None:
                break
            if spoiled:
                client.sendall(_SIZE.pack(len(spoiled)) + spoiled)
        _close_connection(client)
        _close_connection(broker)
        client.close()
        broker.close()

    def _spoiled(self, data: bytes, key: int, version: int) -> bytes | None:
        response = response_class(key)
        if version not in response.READERS:
            return data  # the response to an unsupported version
        header_size = 5 if response_header_version(key, version) else 4
        return self._spoil(key, version, response.decode(data, version, header_size), data)


def _frame(source: socket.socket) -> bytes | None:
    """The next frame without its size; None at the end of the connection."""
    head = _exactly(source, _SIZE.size)
    return None if head is None else _exactly(source, _SIZE.unpack(head)[0])


def _exactly(source: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        try:
            piece = source.recv(size - len(data))
        except OSError:
            return None
        if not piece:
            return None
        data += piece
    return bytes(data)


def _close_connection(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other side has closed the connection already
