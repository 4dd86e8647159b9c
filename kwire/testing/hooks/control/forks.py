"""Second brokers that begin with what this one holds, or held, and end with it.

They are forked from a process that has everything imported (`kwire serve --renewable`), which is
started for the first of them and holds the other end of a pipe to this process: however this one
ends, that one sees it, kills them and removes their data.  That lies beside this broker's, so that
what no broker appends to is shared by hard links (kwire.testing.hooks.snapshots.laying).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from kwire.testing.hooks.control.snapshots import held_settings
from kwire.testing.hooks.snapshots.kept import SnapshotError, beside, description_of
from kwire.testing.hooks.snapshots.laying import lay_out
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerStartError, Forker

if TYPE_CHECKING:
    from kwire.testing.hooks.control.snapshots import Snapshotting

log = logging.getLogger("kwire.control")

HOST: Final = "127.0.0.1"
FORKS_MAX: Final = 16
"""At a time: each takes a processor's time and some 30 MB."""
SHOWN_LINES_MAX: Final = 3
"""Of the log of one that does not start."""


class Ports(NamedTuple):
    """Where a fork is to be; 0 for any that is free."""

    port: int = 0
    control: int = 0


@dataclass(frozen=True, slots=True)
class Fork:
    """One that was started, and not ended since."""

    number: int
    snapshot: str | None
    """What it began with; None for what the broker held then."""
    port: int
    control: int
    folder: Path

    def to_json(self, pid: int | None) -> dict[str, Any]:
        """As it is told over HTTP; without `pid` it has died by itself."""
        return {
            "fork": self.number,
            "snapshot": self.snapshot,
            "bootstrap": f"{HOST}:{self.port}",
            "control": f"http://{HOST}:{self.control}",
            "running": pid is not None,
            **({} if pid is None else {"pid": pid}),
        }


class Forks:
    """Those of one broker, also when it goes on with what a snapshot holds."""

    def __init__(self, versions: Sequence[str]) -> None:
        """`versions` are those that clients of this broker, and of its forks, are told of."""
        self._options = ["--control=0", *(f"--max-version={each}" for each in versions)]
        self._forker: Forker | None = None
        self._forks: dict[int, Fork] = {}
        self._numbers = count(1)
        self._starting = trio.Lock()

    async def start(
        self, snapshots: Snapshotting, name: str | None, folder: str | None, ports: Ports
    ) -> dict[str, Any]:
        """Begin one with a snapshot, or with what the broker holds now; what is told of it.

        SnapshotError, which says why not.
        """
        snapshots.check_whole()
        async with self._starting:
            self._check_room(ports)
            found = None if name is None else snapshots.kept(folder).find(name)
            try:
                fork = await self._begun(snapshots, name, found, ports)
            except OSError as problem:
                raise SnapshotError(f"it cannot be laid out: {problem}") from problem
            self._forks[fork.number] = fork
        log.info("fork %d is at %s:%d", fork.number, HOST, fork.port)
        return await self._told(fork)

    def _check_room(self, ports: Ports) -> None:
        if len(self._forks) >= FORKS_MAX:
            raise SnapshotError(f"there are {FORKS_MAX} forks already: end one first")
        for fork in self._forks.values():
            for port in {fork.port, fork.control} & {*ports}:
                raise SnapshotError(f"fork {fork.number} is at port {port}")

    async def _begun(
        self, snapshots: Snapshotting, name: str | None, path: Path | None, ports: Ports
    ) -> Fork:
        """Raises SnapshotError, OSError."""
        number, config = next(self._numbers), snapshots.broker.config
        if self._forker is None or self._forker.is_closed:
            below = beside(Path(config.log_dirs[0])).parent
            self._forker = await trio.to_thread.run_sync(Forker, self._options, below)
        forker = self._forker
        port, control = ports.port or free_port(), ports.control or free_port()
        fork = Fork(number, name, port, control, forker.path / f"fork-{number}")
        settings = held_settings(config.explicit)
        if path is not None:
            await trio.to_thread.run_sync(_start, forker, path, fork, settings)
            return fork
        taken = Path(snapshots.take(f"of-{number}", str(forker.path))["path"])
        try:
            await trio.to_thread.run_sync(_start, forker, taken, fork, settings)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(shutil.rmtree, taken)
        return fork

    async def to_json(self) -> dict[str, Any]:
        """All of them."""
        return {"forks": [await self._told(fork) for fork in list(self._forks.values())]}

    async def _told(self, fork: Fork) -> dict[str, Any]:
        assert self._forker is not None
        try:
            pid = await trio.to_thread.run_sync(self._forker.pid, fork.port)
        except BrokerStartError:  # what it was forked from has died, and it died of that
            pid = None
        return fork.to_json(pid)

    async def end(self, number: int) -> bool:
        """Have one end at once, and remove its data; whether there was such a fork."""
        fork = self._forks.pop(number, None)
        if fork is None or self._forker is None:
            return False
        await trio.to_thread.run_sync(_end, self._forker, fork)
        return True

    def close(self) -> None:
        """End all, as their broker does."""
        self._forks.clear()
        if self._forker is not None:
            self._forker.close()


def _start(forker: Forker, snapshot: Path, fork: Fork, settings: Mapping[str, str]) -> None:
    """In a thread.  SnapshotError, OSError."""
    said = description_of(snapshot)
    folders = [fork.folder]
    if said.log_dirs > 1:
        folders = [fork.folder / str(number) for number in range(said.log_dirs)]
    before = forker.log_size_bytes
    try:
        lay_out(snapshot, folders)
        # Not on a command line, where all could read them: there may be passwords among them.
        forker.set_up({**settings, "listeners": f"PLAINTEXT://{HOST}:{fork.port}"})
        forker.start(fork.port, fork.control, said.ahead_ms, ",".join(map(str, folders)))
    except BrokerStartError:
        last = forker.log_since(before).splitlines()[-SHOWN_LINES_MAX:]
        _end(forker, fork)
        raise SnapshotError(f"the fork did not start: {' / '.join(last)}") from None
    except BaseException:
        forker.remove(fork.folder)
        raise


def _end(forker: Forker, fork: Fork) -> None:
    """In a thread: its process is gone when this returns, and its folder soon."""
    if not forker.is_closed:
        with suppress(BrokerStartError):  # what it was forked from has died
            forker.ended("forget", fork.port)
        forker.remove(fork.folder)
