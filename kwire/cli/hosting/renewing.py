"""`kwire serve --renewable`: starts and replaces brokers as kwire.testing orders.

This process imports what a broker needs and forks each broker, so that a new one, with its own
folder, is ready within milliseconds.  It reads orders from standard input, one per line, and writes
answers to standard output, one per line:

    start PORT CONTROL AHEAD_MS FOLDER
                    Starts a broker at PORT with its data in FOLDER (or several, separated by
                    commas).  A broker that runs at PORT is killed first.  CONTROL is the port of
                    its HTTP control, or 0 for none.  Its clock is AHEAD_MS ahead of the real time.
                    The answer is `ready PID`, or `ended STATUS` if it does not start: see the log.
    settings JSON   Replaces the settings of the command line, which all users of the machine can
                    read, by those of the JSON object.  No answer.
    stop PORT       Ends the broker cleanly (SIGTERM); `ended STATUS`.
    kill PORT       Kills the broker (SIGKILL); `ended STATUS`.
    state PORT      `ready PID` if the broker runs, else `ended STATUS`.
    forget PORT     Kills the broker at PORT and the one prepared for it; `ended STATUS`.
    prepare PORT CONTROL FOLDER
                    Forks a broker in advance that does not bind its ports yet, as soon as there
                    are no orders.  A later `start` with the same values uses it, if its clock is
                    not ahead.  No answer.
    remove FOLDER   Removes the folder with its contents.  No answer.

STATUS is an exit status, or the negative number of the signal that ended the broker.  When standard
input ends, because its other end is closed, all brokers are ended and the folder `--owns` is
removed.
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
    "encodings.idna",  # for host names
    "kwire.requests.handlers.api_versions",
    "kwire.requests.handlers.metadata",
)
"""Modules that the first broker needs; they are imported before it is forked."""

OF_CONTROL: Final = ("kwire.testing.hooks.control.service", "kwire.testing.hooks.control.server")
"""Further ones that a broker with an HTTP control needs."""

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
"""Modules that brokers import at their first use, in the order in which tests usually need them.
They are imported here while there are no orders, so that brokers forked later have them."""

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
    """Carries out orders until standard input ends, then ends all brokers.

    `owned` is a folder that is removed then.  `developed` adds the defaults for development to
    settings that an order gives.
    """
    gc.disable()  # imported modules stay, so there is hardly any garbage
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
    """Yield the lines of standard input.  While there are none, it calls `meanwhile`, which does
    one piece of work and returns False if there is none left."""
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
    """Imports the next module; returns False if none is left."""
    module = next(modules, None)
    if module is not None:
        import_module(module)
    return module is not None


class Renewables:
    """The running and prepared brokers, by port."""

    def __init__(self, settings: Mapping[str, str], run: Run, developed: Developed) -> None:
        """`settings` are those of the command line, and `run` runs a broker in a forked process."""
        self._settings = settings
        self._developed = developed
        self._forking = Forking(run, os.pipe(), set())
        self._brokers: dict[int, Renewable] = {}
        """The first broker has the port of the settings; for others that port is replaced."""

    def obey(self, order: str) -> str:
        """Carries out an order (see the module); returns the answer, or "" if it has none."""
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
        """Forks one of the wanted brokers; returns False if none is wanted."""
        return any(
            broker.prepare(self._settings_at(port)) for port, broker in self._brokers.items()
        )

    def _settings_at(self, port: int) -> dict[str, str]:
        """Return the settings of the broker at `port`: the common ones, with that port in the
        listeners."""
        first = next(iter(self._brokers))
        return {
            name: re.sub(rf":{first}\b", f":{port}", value) if name in LISTENING else value
            for name, value in self._settings.items()
        }

    def end(self, number: signal.Signals) -> None:
        """Ends all brokers: sends `number` to the running ones, and kills the prepared ones."""
        for broker in self._brokers.values():
            broker.end(number)
            broker.forget()
