"""TCP proxies between local processes that cut connections as a broken network does.

Clients connect to a `Line` instead of the target process, and threads of this process forward the
data.  While a client is cut off, the line forwards nothing of its connections in one or both
directions, and closes none of them: the client's requests time out.  Data that was held back is
delivered once the line is mended, as TCP does after a network failure.  One thing differs from a
broken network: a connection attempt succeeds during a cut.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from kwire.testing.hosting.ports import free_port

Address = tuple[str, int]

HERE: Final = "127.0.0.1"
SOCKETS: Final = Path("/proc/net/tcp")
CHUNK_BYTES: Final = 65536


class Direction(Enum):
    """Direction of data on a line: from the client to the target, or back."""

    TO_TARGET = "to target"
    TO_CLIENT = "to client"


BOTH_DIRECTIONS: Final = (Direction.TO_TARGET, Direction.TO_CLIENT)


class Line:
    """A TCP proxy on `port` that forwards to `target` and can hold data back per client.

    `client_of` returns the id of the client of a connection, or raises ConnectionError.  `port`
    stays the same through `close` and `open`.
    """

    def __init__(self, target: Address, client_of: Callable[[socket.socket], int]) -> None:
        """Reserves a port for a proxy to `target`.  `client_of` returns the id of the client of a
        connection, so that a cut can be limited to one client."""
        self.port = free_port()
        self._target = target
        self._client_of = client_of
        self._changed = threading.Condition()
        self._cuts: Counter[tuple[int, Direction]] = Counter()
        """Number of cuts per client and direction: overlapping cuts are mended one by one."""
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        """Accept connections."""
        assert self._listener is None, "The line is open."
        self._listener = socket.create_server((HERE, self.port))
        self._start(self._accept, self._listener)

    def close(self) -> None:
        """Close all connections, accept no more, and forget all cuts."""
        if self._listener is None:
            return
        with self._changed:
            listener, self._listener = self._listener, None
            self._cuts.clear()
            self._changed.notify_all()
            for connection in (listener, *self._connections):
                _shut_down(connection)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        listener.close()

    def cut(self, client: int, *directions: Direction) -> None:
        """Hold back this client's data in these directions, by default in both.

        A closed line ignores this; it has no cuts when it opens.
        """
        with self._changed:
            if self._listener is not None:
                self._cuts.update((client, each) for each in directions or BOTH_DIRECTIONS)

    def mend(self, client: int, *directions: Direction) -> None:
        """Undo one `cut` and deliver held data; no error if `close` already ended the cut."""
        with self._changed:
            for direction in directions or BOTH_DIRECTIONS:
                self._cuts[client, direction] = max(0, self._cuts[client, direction] - 1)
            self._changed.notify_all()

    def mend_all(self) -> None:
        """Undo all cuts and deliver held data."""
        with self._changed:
            self._cuts.clear()
            self._changed.notify_all()

    # -- the threads

    def _start(self, target: Callable[[socket.socket], None], connection: socket.socket) -> None:
        thread = threading.Thread(target=target, args=(connection,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # `close` shuts the listener down
            while True:
                self._start(self._serve, listener.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        """Forward one connection until it ends."""
        with contextlib.suppress(OSError), self._open_until_close(connection):
            client = self._client_of(connection)
            for direction in BOTH_DIRECTIONS:  # connecting takes a packet in each direction
                self._await_mended(client, direction)
            with self._open_until_close(socket.create_connection(self._target)) as onward:
                back = threading.Thread(
                    target=self._forward, args=(client, Direction.TO_CLIENT, onward, connection)
                )
                back.start()
                self._forward(client, Direction.TO_TARGET, connection, onward)
                back.join()

    @contextlib.contextmanager
    def _open_until_close(self, connection: socket.socket) -> Iterator[socket.socket]:
        """Let `close` shut the connection down during the block, which closes it at its end.

        Raises ConnectionError if the line is closed.
        """
        with connection:
            with self._changed:
                if self._listener is None:
                    raise ConnectionError("The line is closed.")
                self._connections.add(connection)
            try:
                yield connection
            finally:
                with self._changed:
                    self._connections.discard(connection)

    def _forward(
        self, client: int, direction: Direction, source: socket.socket, sink: socket.socket
    ) -> None:
        """Forwards bytes of one direction until the source ends; runs in its own thread.  While the
        direction is cut, it holds the bytes back, and delivers them once the cut is mended."""
        try:
            while data := source.recv(CHUNK_BYTES):
                self._await_mended(client, direction)
                sink.sendall(data)
            self._await_mended(client, direction)
            sink.shutdown(socket.SHUT_WR)
        except OSError:  # one side broke the connection: break it on the other side too
            _shut_down(source)
            _shut_down(sink)

    def _await_mended(self, client: int, direction: Direction) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._cuts[client, direction])


def _shut_down(connection: socket.socket) -> None:
    """Wake the threads that block on the connection, which may have ended by itself."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def process_of(connection: socket.socket, pids: Mapping[int, int]) -> int:
    """The key in `pids` of the process at the other end of a local connection.

    Raises ConnectionError if no process has it any more.
    """
    inode = _inode_of(connection.getpeername()[1], connection.getsockname()[1])
    for key, pid in pids.items():
        if f"socket:[{inode}]" in _open_files(pid):
            return key
    raise ConnectionError("The process that connected has ended.")


def _inode_of(port: int, peer_port: int) -> str:
    """Inode of the local socket on `port` that is connected to `peer_port`."""
    for line in SOCKETS.read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(address.rpartition(":")[2], 16) for address in fields[1:3]]
        if ports == [port, peer_port]:
            return fields[9]
    raise ConnectionError("The process that connected has closed the connection.")


def _open_files(pid: int) -> set[str]:
    """What the file descriptors of a process refer to; empty if the process has ended."""
    names = set()
    with contextlib.suppress(FileNotFoundError):  # the process ends, or closes something
        for path in Path(f"/proc/{pid}/fd").iterdir():
            names.add(str(path.readlink()))
    return names


class Wiring:
    """All lines of one cluster: between its brokers, and from each broker to ZooKeeper.

    `pids` returns the process ids of the running brokers by broker id.
    """

    def __init__(self, pids: Callable[[], Mapping[int, int]]) -> None:
        self._pids = pids
        self._to_broker: dict[int, Line] = {}
        self._to_zookeeper: dict[int, list[Line]] = {}

    def listeners_of(self, broker_id: int, port: int, host: str = HERE) -> dict[str, str]:
        """Settings of a broker that clients reach at `port`, and other brokers through a line."""
        inner_port = free_port()
        line = self._to_broker[broker_id] = Line((HERE, inner_port), self._connecting_broker)
        return {
            "listeners": f"PLAINTEXT://{host}:{port},BROKERS://{HERE}:{inner_port}",
            "advertised.listeners": f"PLAINTEXT://{host}:{port},BROKERS://{HERE}:{line.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
        }

    def zookeeper_of(self, broker_id: int, zookeeper_connect: str) -> dict[str, str]:
        """The `zookeeper.connect` of a broker that reaches ZooKeeper through its own lines."""
        servers, slash, chroot = zookeeper_connect.partition("/")
        lines = [Line(_address(server), lambda _: broker_id) for server in servers.split(",")]
        self._to_zookeeper[broker_id] = lines
        addresses = ",".join(f"{HERE}:{line.port}" for line in lines)
        return {"zookeeper.connect": f"{addresses}{slash}{chroot}"}

    def _connecting_broker(self, connection: socket.socket) -> int:
        return process_of(connection, self._pids())

    @property
    def _lines(self) -> list[Line]:
        to_zookeeper = [line for lines in self._to_zookeeper.values() for line in lines]
        return [*self._to_broker.values(), *to_zookeeper]

    def open(self) -> None:
        for line in self._lines:
            line.open()

    def close(self) -> None:
        for line in self._lines:
            line.close()

    def cut_one_way(self, source: int, target: int) -> None:
        """Hold back what `source` sends to `target`, on connections of either broker."""
        self._to_broker[target].cut(source, Direction.TO_TARGET)
        self._to_broker[source].cut(target, Direction.TO_CLIENT)

    def mend_one_way(self, source: int, target: int) -> None:
        """Undo one `cut_one_way`."""
        self._to_broker[target].mend(source, Direction.TO_TARGET)
        self._to_broker[source].mend(target, Direction.TO_CLIENT)

    def cut(self, one: int, other: int) -> None:
        """Cut two brokers off from each other in both directions."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_from_zookeeper(self, broker_id: int) -> None:
        for line in self._to_zookeeper[broker_id]:
            line.cut(broker_id)

    def mend_all(self) -> None:
        for line in self._lines:
            line.mend_all()


def _address(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return host, int(port)
