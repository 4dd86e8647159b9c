"""Forks: further brokers that begin with this broker's contents or a snapshot, and end with it.

They are forked from a helper process that has everything imported (`kwire serve --renewable`).  It
starts with the first fork and holds the other end of a pipe to this process: whenever this process
ends, the helper notices it, kills the forks and removes their data.  The data is in a folder beside
this broker's, so that full segments are shared by hard links
(kwire.testing.hooks.snapshots.laying).
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
"""How many forks may run at a time; each takes processor time and some 30 MB."""
SHOWN_LINES_MAX: Final = 3
"""Lines of the log in the error about a fork that does not start."""


class ForkPorts(NamedTuple):
    """The ports of a new fork; 0 stands for a free one."""

    port: int = 0
    control: int = 0


@dataclass(frozen=True, slots=True)
class RunningFork:
    """A fork that was started and not ended since; its process may have died."""

    number: int
    snapshot: str | None
    """Name of the snapshot that it began with; None for the contents of the broker."""
    port: int
    control: int
    folder: Path

    def to_json(self, pid: int | None) -> dict[str, Any]:
        """The fork as GET /forks returns it; a `pid` of None means that it died by itself."""
        return {
            "fork": self.number,
            "snapshot": self.snapshot,
            "bootstrap": f"{HOST}:{self.port}",
            "control": f"http://{HOST}:{self.control}",
            "running": pid is not None,
            **({} if pid is None else {"pid": pid}),
        }


class Forks:
    """The forks of one broker; they stay when the broker restores a snapshot."""

    def __init__(self, versions: Sequence[str]) -> None:
        """`versions` are this broker's --max-version options, which the forks get, too."""
        self._options = ["--control=0", *(f"--max-version={each}" for each in versions)]
        self._forker: Forker | None = None
        self._forks: dict[int, RunningFork] = {}
        self._numbers = count(1)
        self._starting = trio.Lock()

    async def start(
        self, snapshots: Snapshotting, name: str | None, folder: str | None, ports: ForkPorts
    ) -> dict[str, Any]:
        """Start a fork with the snapshot `name`, or with what the broker holds now.

        Returns the fork as JSON.  Raises SnapshotError.
        """
        snapshots.check_whole()
        async with self._starting:
            self._check_limits(ports)
            path = None if name is None else snapshots.kept(folder).find(name)
            try:
                fork = await self._start_fork(snapshots, name, path, ports)
            except OSError as problem:
                raise SnapshotError(f"the snapshot cannot be laid out: {problem}") from problem
            self._forks[fork.number] = fork
        log.info("Fork %d serves at %s:%d", fork.number, HOST, fork.port)
        return await self._to_json(fork)

    def _check_limits(self, ports: ForkPorts) -> None:
        """Raise SnapshotError if there are too many forks, or if a fork has one of the ports."""
        if len(self._forks) >= FORKS_MAX:
            raise SnapshotError(f"there are {FORKS_MAX} forks already: end one first")
        for fork in self._forks.values():
            for port in {fork.port, fork.control} & {*ports}:
                raise SnapshotError(f"fork {fork.number} is at port {port}")

    async def _start_fork(
        self, snapshots: Snapshotting, name: str | None, path: Path | None, ports: ForkPorts
    ) -> RunningFork:
        """Starts a fork with the snapshot in `path`, or with the present contents if it is None.

        Raises SnapshotError, OSError.
        """
        number, config = next(self._numbers), snapshots.broker.config
        if self._forker is None or self._forker.is_closed:
            below = beside(Path(config.log_dirs[0])).parent
            self._forker = await trio.to_thread.run_sync(Forker, self._options, below)
        forker = self._forker
        port, control = ports.port or free_port(), ports.control or free_port()
        fork = RunningFork(number, name, port, control, forker.path / f"fork-{number}")
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
        """All forks, as GET /forks returns them."""
        return {"forks": [await self._to_json(fork) for fork in list(self._forks.values())]}

    async def _to_json(self, fork: RunningFork) -> dict[str, Any]:
        """Return a fork as the HTTP API describes it, with the id of its process, or null if that
        is gone."""
        assert self._forker is not None
        try:
            pid = await trio.to_thread.run_sync(self._forker.pid, fork.port)
        except BrokerStartError:  # the helper process has died, and the forks with it
            pid = None
        return fork.to_json(pid)

    async def end(self, number: int) -> bool:
        """End a fork at once and remove its data; returns whether it existed."""
        fork = self._forks.pop(number, None)
        if fork is None or self._forker is None:
            return False
        await trio.to_thread.run_sync(_end, self._forker, fork)
        return True

    def close(self) -> None:
        """End all forks, because their broker ends."""
        self._forks.clear()
        if self._forker is not None:
            self._forker.close()


def _start(forker: Forker, snapshot: Path, fork: RunningFork, settings: Mapping[str, str]) -> None:
    """Start a fork with a snapshot; runs in a thread.  Raises SnapshotError, OSError."""
    description = description_of(snapshot)
    folders = [fork.folder]
    if description.log_dirs > 1:
        folders = [fork.folder / str(number) for number in range(description.log_dirs)]
    log_start = forker.log_size_bytes
    try:
        lay_out(snapshot, folders)
        # Not on a command line, which all users can read: settings may contain passwords.
        forker.set_up({**settings, "listeners": f"PLAINTEXT://{HOST}:{fork.port}"})
        forker.start(fork.port, fork.control, description.ahead_ms, ",".join(map(str, folders)))
    except BrokerStartError:
        last_lines = forker.log_since(log_start).splitlines()[-SHOWN_LINES_MAX:]
        _end(forker, fork)
        raise SnapshotError(f"the fork did not start: {' / '.join(last_lines)}") from None
    except BaseException:
        forker.remove(fork.folder)
        raise


def _end(forker: Forker, fork: RunningFork) -> None:
    """End a fork's process and remove its folder in the background; runs in a thread."""
    if not forker.is_closed:
        with suppress(BrokerStartError):  # the helper process has died
            forker.ended("forget", fork.port)
        forker.remove(fork.folder)
