"""Lines between processes of one machine that can be cut as cables can, by anybody.

A `Line` is what others connect to in place of a process; threads of this one pass on what is said.
While a caller is cut off nothing of his connections is passed on, in one direction or in both, and
none is ended: his requests find no answer.  What was said meanwhile arrives once the line is
mended, as TCP sees to on a network.  In one thing it differs from a cable: connecting succeeds.
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
PASSED_BYTES: Final = 65536


class Way(Enum):
    """Of what goes over a line: what a caller says, and what he is told."""

    SAID = "said"
    TOLD = "told"


BOTH_WAYS: Final = (Way.SAID, Way.TOLD)


class Line:
    """To `target`; `caller_of` says who has called, or raises ConnectionError.

    `port` stays the same through `close` and `open`.
    """

    def __init__(self, target: Address, caller_of: Callable[[socket.socket], int]) -> None:
        self.port = free_port()
        self._target = target
        self._caller_of = caller_of
        self._changed = threading.Condition()
        self._cuts: Counter[tuple[int, Way]] = Counter()
        """So that cuts may overlap."""
        self._listener: socket.socket | None = None
        self._links: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        """Take calls."""
        assert self._listener is None, "it is open"
        self._listener = socket.create_server((HERE, self.port))
        self._start(self._answer, self._listener)

    def close(self) -> None:
        """End all calls, and take none."""
        if self._listener is None:
            return
        with self._changed:
            listener, self._listener = self._listener, None
            self._cuts.clear()
            self._changed.notify_all()
            for each in (listener, *self._links):
                _shut(each)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        listener.close()

    def cut(self, caller: int, *ways: Way) -> None:
        """Pass on nothing more of what this caller says, nor of what he is told; or one of them.

        A line that is closed has nothing to be cut, and opens whole.
        """
        with self._changed:
            if self._listener is not None:
                self._cuts.update((caller, way) for way in ways or BOTH_WAYS)

    def mend(self, caller: int, *ways: Way) -> None:
        """Undo one such `cut`; what was held is passed on.  One that `close` has ended is none."""
        with self._changed:
            for way in ways or BOTH_WAYS:
                self._cuts[caller, way] = max(0, self._cuts[caller, way] - 1)
            self._changed.notify_all()

    def mend_all(self) -> None:
        """Pass on all that was held, and all that is said."""
        with self._changed:
            self._cuts.clear()
            self._changed.notify_all()

    # -- the threads

    def _start(self, work: Callable[[socket.socket], None], link: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(link,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _answer(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it is closed: that is the end
            while True:
                self._start(self._serve, listener.accept()[0])

    def _serve(self, link: socket.socket) -> None:
        """One call, to its end."""
        with contextlib.suppress(OSError), self._known(link):  # either side may break it off
            caller = self._caller_of(link)
            for way in BOTH_WAYS:  # neither a call nor its acceptance gets through else
                self._await_whole(caller, way)
            with self._known(socket.create_connection(self._target)) as onward:
                back = threading.Thread(target=self._pass_on, args=(caller, Way.TOLD, onward, link))
                back.start()
                self._pass_on(caller, Way.SAID, link, onward)
                back.join()

    @contextlib.contextmanager
    def _known(self, link: socket.socket) -> Iterator[socket.socket]:
        """While it is used `close` ends it.  ConnectionError if it is closed already."""
        with link:
            with self._changed:
                if self._listener is None:
                    raise ConnectionError("the line is closed")
                self._links.add(link)
            try:
                yield link
            finally:
                with self._changed:
                    self._links.discard(link)

    def _pass_on(self, caller: int, way: Way, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(PASSED_BYTES):
                self._await_whole(caller, way)
                sink.sendall(data)
            self._await_whole(caller, way)
            sink.shutdown(socket.SHUT_WR)
        except OSError:  # broken off on one side: on the other as well
            _shut(source)
            _shut(sink)

    def _await_whole(self, caller: int, way: Way) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._cuts[caller, way])


def _shut(link: socket.socket) -> None:
    """Wake who waits for it; it may have ended by itself."""
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


def process_of(link: socket.socket, pids: Mapping[int, int]) -> int:
    """Whose process has the other end of a connection, of those with these ids.

    ConnectionError where none of them has: it was one that has ended.
    """
    inode = _inode_of(link.getpeername()[1], link.getsockname()[1])
    for whose, pid in pids.items():
        if f"socket:[{inode}]" in _open_files(pid):
            return whose
    raise ConnectionError("who called has gone")


def _inode_of(port: int, peers_port: int) -> str:
    """Of the socket on `port` that is connected to the other."""
    for line in SOCKETS.read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(each.rpartition(":")[2], 16) for each in fields[1:3]]
        if ports == [port, peers_port]:
            return fields[9]
    raise ConnectionError("who called has closed the connection")


def _open_files(pid: int) -> set[str]:
    names = set()
    with contextlib.suppress(FileNotFoundError):  # the process ends, or closes something
        for path in Path(f"/proc/{pid}/fd").iterdir():
            names.add(str(path.readlink()))
    return names


class Wiring:
    """The lines of one cluster: between its brokers, and from each of them to a ZooKeeper.

    `pids` are the processes of those that run.
    """

    def __init__(self, pids: Callable[[], Mapping[int, int]]) -> None:
        self._pids = pids
        self._to_broker: dict[int, Line] = {}
        self._to_zookeeper: dict[int, list[Line]] = {}

    def listeners_of(self, broker_id: int, port: int, host: str = HERE) -> dict[str, str]:
        """Settings of a broker that clients reach at `port`, and others by a line."""
        inner = free_port()
        line = self._to_broker[broker_id] = Line((HERE, inner), self._calling)
        return {
            "listeners": f"PLAINTEXT://{host}:{port},BROKERS://{HERE}:{inner}",
            "advertised.listeners": f"PLAINTEXT://{host}:{port},BROKERS://{HERE}:{line.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
        }

    def zookeeper_of(self, broker_id: int, zookeeper_connect: str) -> dict[str, str]:
        """The setting by which a broker reaches ZooKeeper by lines of its own."""
        servers, slash, chroot = zookeeper_connect.partition("/")
        lines = [Line(_address(each), lambda _: broker_id) for each in servers.split(",")]
        self._to_zookeeper[broker_id] = lines
        through = ",".join(f"{HERE}:{each.port}" for each in lines)
        return {"zookeeper.connect": f"{through}{slash}{chroot}"}

    def _calling(self, link: socket.socket) -> int:
        return process_of(link, self._pids())

    @property
    def _lines(self) -> list[Line]:
        to_zookeeper = [each for lines in self._to_zookeeper.values() for each in lines]
        return [*self._to_broker.values(), *to_zookeeper]

    def open(self) -> None:
        for each in self._lines:
            each.open()

    def close(self) -> None:
        for each in self._lines:
            each.close()

    def cut_one_way(self, source: int, target: int) -> None:
        """Nothing that one broker says reaches the other, whichever of them has called."""
        self._to_broker[target].cut(source, Way.SAID)
        self._to_broker[source].cut(target, Way.TOLD)

    def mend_one_way(self, source: int, target: int) -> None:
        """Undo one such cut."""
        self._to_broker[target].mend(source, Way.SAID)
        self._to_broker[source].mend(target, Way.TOLD)

    def cut(self, one: int, other: int) -> None:
        """Neither broker hears of the other."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_from_zookeeper(self, broker_id: int) -> None:
        for each in self._to_zookeeper[broker_id]:
            each.cut(broker_id)

    def mend_all(self) -> None:
        for each in self._lines:
            each.mend_all()


def _address(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return host, int(port)
