"""`kwire serve --renewable`: a broker that whoever started it may have anew, for its tests.

This process imports what a broker needs and forks it, so that the next one, with a folder of its
own, is there in some 20 ms.  It takes orders on standard input, a line each, and answers each with
a line on standard output:

    start FOLDER    a broker with its data in FOLDER; one that runs is killed first.  The answer is
                    `ready PID`, or `ended STATUS` where it does not start: the log says why
    stop            end cleanly (SIGTERM); `ended STATUS`
    kill            end at once (SIGKILL); `ended STATUS`
    state           `ready PID`, or `ended STATUS` where it is not there, for what reason ever
    remove FOLDER   remove it with all that is in it, which is not answered

Statuses are exit statuses, negative where a signal ended it.  When standard input ends, because
whoever holds its other end does, the broker is ended and the folder `--owns` is removed.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

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

Run = Callable[[Mapping[str, str], Callable[["Broker"], None]], None]
"""Serve by these settings to the end, and call that when all is ready."""


def serve_renewable(
    settings: Mapping[str, str], run: Run, owned: Path | None, *, is_controlled: bool
) -> None:
    """Take orders until standard input ends; `owned` is a folder that goes with this process."""
    gc.disable()  # what is imported stays, and this process does little else
    for module in (*AT_ONCE, *(OF_CONTROL if is_controlled else ())):
        import_module(module)
    later = (*(IN_TIME_OF_CONTROL if is_controlled else ()), *IN_TIME)
    renewable = Renewable(settings, run)
    try:
        for order in orders(iter(later)):
            if answer := renewable.obey(order):
                os.write(1, f"{answer}\n".encode())
    except BrokenPipeError:
        log.info("nobody reads the answers any more: shutting down")
    finally:
        renewable.end(signal.SIGKILL if owned is not None else signal.SIGTERM)
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


class Renewable:
    """The broker of the moment."""

    def __init__(self, settings: Mapping[str, str], run: Run) -> None:
        self._settings = settings
        self._run = run
        self._alive = os.pipe()
        self._pid = 0
        self._status = 0

    def obey(self, order: str) -> str:
        """The answer to an order, empty for none: see the module."""
        word, _, folder = order.partition(" ")
        if word == "start":
            return self._start(folder)
        if word == "remove":
            shutil.rmtree(folder, ignore_errors=True)
            return ""
        if word in ("stop", "kill"):
            self.end(signal.SIGTERM if word == "stop" else signal.SIGKILL)
        return self._state()

    def _state(self) -> str:
        if self._pid:
            self._reap(os.WNOHANG)
        return f"ready {self._pid}" if self._pid else f"ended {self._status}"

    def _start(self, folder: str) -> str:
        self.end(signal.SIGKILL)
        gc.freeze()  # a collection would write to each object's page, and have it copied
        ready = os.pipe()
        work = partial(self._serve, folder, ready[1])
        self._pid = fork(work, "the broker", self._alive[0], (*self._alive, ready[0], 1))
        os.close(ready[1])
        is_ready = bool(os.read(ready[0], 1))  # it ends where the broker does
        os.close(ready[0])
        if not is_ready:
            self._reap(0)
        return self._state()

    def _serve(self, folder: str, ready: int) -> None:
        def tell(_: Broker) -> None:
            os.write(ready, b"x")
            os.close(ready)

        gc.enable()
        self._run({**self._settings, "log.dirs": folder}, tell)

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
