"""`kwire serve --renewable`: brokers that whoever started it may have anew, for its tests.

This process imports what a broker needs and forks it, so that the next one, with a folder of its
own, is soon there.  It takes orders on standard input, a line each, and answers them with lines on
standard output:

    start PORT CONTROL AHEAD_MS FOLDER
                    the broker at that port, with its data in FOLDER, or in several with commas
                    between; one that runs there is killed first.  CONTROL is its other port, or 0
                    for none, AHEAD_MS how far its clock is ahead of the world's.  The answer is
                    `ready PID`, or `ended STATUS` where it does not start: the log says why
    settings JSON   have brokers go by the settings of this object, in place of those of the
                    command line, which all may see.  Not answered
    stop PORT       end cleanly (SIGTERM); `ended STATUS`
    kill PORT       end at once (SIGKILL); `ended STATUS`
    state PORT      `ready PID`, or `ended STATUS` where it is not there, for what reason ever
    forget PORT     end at once, and hear no more of that port; `ended STATUS`
    prepare PORT CONTROL FOLDER
                    have a broker ready, but for its ports, for the order to start it there with
                    a clock that is right; it is forked while there are no orders.  Not answered
    remove FOLDER   remove it with all that is in it.  Not answered

Statuses are exit statuses, negative where a signal ended it.  When standard input ends, because
whoever holds its other end does, the brokers are ended and the folder `--owns` is removed.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import select
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from kwire.cli.hosting.renewable import Forking, Place, Renewable, Run

log = logging.getLogger("kwire.serve")

AT_ONCE: Final = (
    "kwire.server.server",
    "kwire.cli.hosting.advertised",
    "encodings.idna",  # of names of hosts
    "kwire.requests.handlers.api_versions",
    "kwire.requests.handlers.metadata",
)
"""Modules that the first broker waits for."""

OF_CONTROL: Final = ("kwire.testing.hooks.control.service", "kwire.testing.hooks.control.server")
"""Likewise, where it is controlled."""

IN_TIME_OF_CONTROL: Final = ("kwire.server.network.controlled",)

IN_TIME: Final = (
    "kwire.cluster.metadata.views",
    "kwire.requests.handlers.produce",
    "kwire.requests.handlers.fetch",
    "kwire.requests.handlers.list_offsets",
    "kwire.requests.handlers.create_topics",
    "kwire.requests.handlers.init_producer_id",
    "kwire.requests.handlers.find_coordinator",
    "kwire.coordinators.runtime.groups",
    "kwire.requests.handlers.join_group",
    "kwire.requests.handlers.sync_group",
    "kwire.requests.handlers.heartbeat",
    "kwire.requests.handlers.leave_group",
    "kwire.requests.handlers.offset_commit",
    "kwire.requests.handlers.offset_fetch",
    "kwire.requests.handlers.delete_topics",
    "kwire.coordinators.runtime.transactions",
    "kwire.requests.handlers.add_partitions_to_txn",
    "kwire.requests.handlers.add_offsets_to_txn",
    "kwire.requests.handlers.txn_offset_commit",
    "kwire.requests.handlers.end_txn",
)
"""Modules that brokers import at their first use, in the order that tests come to need them: they
are imported here while nothing else is asked for, and all later brokers have them."""

LISTENING: Final = ("listeners", "advertised.listeners")

Developed = Callable[[Mapping[str, str]], Mapping[str, str]]


def serve_renewable(
    settings: Mapping[str, str],
    run: Run,
    owned: Path | None,
    *,
    is_controlled: bool,
    developed: Developed,
) -> None:
    """Take orders until standard input ends; `owned` is a folder that goes with this process.

    `developed` gives settings that are ordered with those to develop against.
    """
    gc.disable()  # what is imported stays, and this process does little else
    for module in (*AT_ONCE, *(OF_CONTROL if is_controlled else ())):
        import_module(module)
    later = iter((*(IN_TIME_OF_CONTROL if is_controlled else ()), *IN_TIME))
    renewables = Renewables(settings, run, developed)
    try:
        for order in orders(lambda: import_one(later) or renewables.prepare_one()):
            if answer := renewables.obey(order):
                os.write(1, f"{answer}\n".encode())
    except BrokenPipeError:
        log.info("nobody reads the answers any more: shutting down")
    finally:
        renewables.end(signal.SIGKILL if owned is not None else signal.SIGTERM)
        if owned is not None:
            shutil.rmtree(owned, ignore_errors=True)


def orders(meanwhile: Callable[[], bool]) -> Iterator[str]:
    """The lines of standard input; while none is there a piece of work is done, if there is one."""
    pending = b""
    while True:
        while not select.select([0], [], [], 0)[0] and meanwhile():
            pass
        received = os.read(0, 4096)
        if not received:
            return
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            yield os.fsdecode(line)


def import_one(modules: Iterator[str]) -> bool:
    """Whether there was one left."""
    module = next(modules, None)
    if module is not None:
        import_module(module)
    return module is not None


class Renewables:
    """The brokers of the moment, by their ports."""

    def __init__(self, settings: Mapping[str, str], run: Run, developed: Developed) -> None:
        self._settings = settings
        self._developed = developed
        self._forking = Forking(run, os.pipe(), set())
        self._brokers: dict[int, Renewable] = {}
        """The first one is where the settings say; for others its port is replaced in them."""

    def obey(self, order: str) -> str:
        """The answer to an order, empty for none: see the module."""
        word, _, rest = order.partition(" ")
        if word == "settings":
            self._settings = self._developed(json.loads(rest))
            return ""
        if word == "remove":
            shutil.rmtree(rest, ignore_errors=True)
            return ""
        port, _, rest = rest.partition(" ")
        broker = self._brokers.setdefault(int(port), Renewable(self._forking))
        if word == "start":
            control, ahead_ms, folder = rest.split(" ", 2)
            place = Place(int(port), int(control) or None, int(ahead_ms), folder)
            return broker.start(place, self._settings_at(place.port))
        if word == "prepare":
            control, folder = rest.split(" ", 1)
            broker.want(Place(int(port), int(control) or None, 0, folder))
            return ""
        if word in ("stop", "kill"):
            broker.end(signal.SIGTERM if word == "stop" else signal.SIGKILL)
        if word == "forget":
            broker.forget()
        return broker.state()

    def prepare_one(self) -> bool:
        """Whether there was one to be prepared."""
        return any(
            broker.prepare(self._settings_at(port)) for port, broker in self._brokers.items()
        )

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
            broker.forget()
