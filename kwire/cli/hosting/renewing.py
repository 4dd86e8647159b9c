"""`kwire serve --renewable`: brokers that whoever started it may have anew, for its tests.

This process imports what a broker needs and forks it, so that the next one, with a folder of its
own, is there in some 20 ms.  It takes orders on standard input, a line each, and answers each with
a line on standard output:

    start PORT CONTROL AHEAD_MS FOLDER
                    the broker at that port, with its data in FOLDER; one that runs there is killed
                    first.  CONTROL is its other port, or 0 for none, AHEAD_MS how far its clock is
                    ahead of the world's.  The answer is `ready PID`, or `ended STATUS` where it
                    does not start: the log says why
    stop PORT       end cleanly (SIGTERM); `ended STATUS`
    kill PORT       end at once (SIGKILL); `ended STATUS`
    state PORT      `ready PID`, or `ended STATUS` where it is not there, for what reason ever
    remove FOLDER   remove it with all that is in it, which is not answered

Statuses are exit statuses, negative where a signal ended it.  When standard input ends, because
whoever holds its other end does, the brokers are ended and the folder `--owns` is removed.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import select
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.cli.hosting.forking import fork

if TYPE_CHECKING:
    from kwire.broker import Broker

log = logging.getLogger("kwire.serve")

AT_ONCE: Final = (
    "kwire.server",
    "kwire.cli.advertised",
    "encodings.idna",  # of names of hosts
    "kwire.handlers.api_versions",
    "kwire.handlers.metadata",
)
"""Modules that the first broker waits for."""

OF_CONTROL: Final = ("kwire.control.service", "kwire.control.server")
"""Likewise, where it is controlled."""

IN_TIME_OF_CONTROL: Final = ("kwire.network.controlled",)

IN_TIME: Final = (
    "kwire.metadata_view",
    "kwire.handlers.produce",
    "kwire.handlers.fetch",
    "kwire.handlers.list_offsets",
    "kwire.handlers.create_topics",
    "kwire.handlers.init_producer_id",
    "kwire.handlers.find_coordinator",
    "kwire.coordinators.groups",
    "kwire.handlers.join_group",
    "kwire.handlers.sync_group",
    "kwire.handlers.heartbeat",
    "kwire.handlers.leave_group",
    "kwire.handlers.offset_commit",
    "kwire.handlers.offset_fetch",
    "kwire.handlers.delete_topics",
    "kwire.coordinators.transactions",
    "kwire.handlers.add_partitions_to_txn",
    "kwire.handlers.add_offsets_to_txn",
    "kwire.handlers.txn_offset_commit",
    "kwire.handlers.end_txn",
)
"""Modules that brokers import at their first use, in the order that tests come to need them: they
are imported here while nothing else is asked for, and all later brokers have them."""

LISTENING: Final = ("listeners", "advertised.listeners")

Run = Callable[["Place", Mapping[str, str], Callable[["Broker"], None]], None]
"""Serve there by these settings to the end, and call that when all is ready."""


class Place(NamedTuple):
    """What one broker of several has of its own."""

    port: int
    control: int | None
    """The port at which tests ask for faults, if they may."""
    ahead_ms: int
    """How far its clock is ahead."""
    folder: str


def serve_renewable(
    settings: Mapping[str, str], run: Run, owned: Path | None, *, is_controlled: bool
) -> None:
    """Take orders until standard input ends; `owned` is a folder that goes with this process."""
    gc.disable()  # what is imported stays, and this process does little else
    for module in (*AT_ONCE, *(OF_CONTROL if is_controlled else ())):
        import_module(module)
    later = (*(IN_TIME_OF_CONTROL if is_controlled else ()), *IN_TIME)
    renewables = Renewables(settings, run)
    try:
        for order in orders(iter(later)):
            if answer := renewables.obey(order):
                os.write(1, f"{answer}\n".encode())
    except BrokenPipeError:
        log.info("nobody reads the answers any more: shutting down")
    finally:
        renewables.end(signal.SIGKILL if owned is not None else signal.SIGTERM)
        if owned is not None:
            shutil.rmtree(owned, ignore_errors=True)


def orders(modules: Iterator[str]) -> Iterator[str]:
    """The lines of standard input; while none is there `modules` are imported, one by one."""
    pending, module = b"", next(modules, None)
    while True:
        while module is not None and not select.select([0], [], [], 0)[0]:
            import_module(module)
            module = next(modules, None)
        received = os.read(0, 4096)
        if not received:
            return
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            yield os.fsdecode(line)


class Renewables:
    """The brokers of the moment, by their ports."""

    def __init__(self, settings: Mapping[str, str], run: Run) -> None:
        self._settings = settings
        self._run = run
        self._alive = os.pipe()
        self._brokers: dict[int, Renewable] = {}
        """The first one is where the settings say; for others its port is replaced in them."""

    def obey(self, order: str) -> str:
        """The answer to an order, empty for none: see the module."""
        word, _, rest = order.partition(" ")
        if word == "remove":
            shutil.rmtree(rest, ignore_errors=True)
            return ""
        port, _, rest = rest.partition(" ")
        broker = self._brokers.setdefault(int(port), Renewable(self._run, self._alive))
        if word == "start":
            control, ahead_ms, folder = rest.split(" ", 2)
            place = Place(int(port), int(control) or None, int(ahead_ms), folder)
            return broker.start(place, self._settings_at(place.port))
        if word in ("stop", "kill"):
            broker.end(signal.SIGTERM if word == "stop" else signal.SIGKILL)
        return broker.state()

    def _settings_at(self, port: int) -> dict[str, str]:
        first = next(iter(self._brokers))
        return {
            name: re.sub(rf":{first}\b", f":{port}", value) if name in LISTENING else value
            for name, value in self._settings.items()
        }

    def end(self, number: signal.Signals) -> None:
        """Have all end."""
        for broker in self._brokers.values():
            broker.end(number)


class Renewable:
    """One of them; `alive` ends with the process that forks."""

    def __init__(self, run: Run, alive: tuple[int, int]) -> None:
        self._run = run
        self._alive = alive
        self._pid = 0
        self._status = 0

    def state(self) -> str:
        """The answer to what it is about."""
        if self._pid:
            self._reap(os.WNOHANG)
        return f"ready {self._pid}" if self._pid else f"ended {self._status}"

    def start(self, place: Place, settings: Mapping[str, str]) -> str:
        """A new one, in the place of the one that is there; the answer."""
        self.end(signal.SIGKILL)
        gc.freeze()  # a collection would write to each object's page, and have it copied
        ready = os.pipe()
        work = partial(self._serve, place, settings, ready[1])
        self._pid = fork(work, "the broker", self._alive[0], (*self._alive, ready[0], 1))
        os.close(ready[1])
        is_ready = bool(os.read(ready[0], 1))  # it ends where the broker does
        os.close(ready[0])
        if not is_ready:
            self._reap(0)
        return self.state()

    def _serve(self, place: Place, settings: Mapping[str, str], ready: int) -> None:
        def tell(_: Broker) -> None:
            os.write(ready, b"x")
            os.close(ready)

        gc.enable()
        self._run(place, {**settings, "log.dirs": place.folder}, tell)

    def end(self, number: signal.Signals) -> None:
        """Have the broker end, if there is one, and wait for that."""
        if not self._pid:
            return
        self._reap(os.WNOHANG)  # who has ended by itself is signalled no more
        if self._pid:
            os.kill(self._pid, signal.SIGCONT)  # it may be paused
            os.kill(self._pid, number)
            self._reap(0)

    def _reap(self, options: int) -> None:
        found, status = os.waitpid(self._pid, options)
        if found:
            self._pid, self._status = 0, os.waitstatus_to_exitcode(status)
