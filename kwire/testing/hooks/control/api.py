"""What may be asked over HTTP, and the answers: JSON in, JSON out.

GET /openapi.json says the same to programs.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import trio

from kwire.testing.hooks.control.clock import TooFar
from kwire.testing.hooks.control.openapi import document
from kwire.testing.hooks.faults.rules import BadRule, read_rule, read_which
from kwire.testing.hooks.snapshots.kept import SnapshotError
from kwire.testing.hooks.tracing.traces import TooMany

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.testing.hooks.control.service import Control
    from kwire.testing.hooks.faults.moved import Moved

log = logging.getLogger("kwire.control")

_KINDS: Final = {str: "text", int: "a number", bool: "true or false"}

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
"""What a client of this machine calls it.  A page in somebody's browser, whose own name leads here
(DNS rebinding), calls it otherwise."""


PORT_MAX: Final = 65_535


class Reply(NamedTuple):
    """What an answer says; a body of None is no body."""

    status: int
    body: Any = None


Answer = Reply | Awaitable[Reply]


class Refused(Exception):
    """It cannot be answered as asked: the status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Asked(NamedTuple):
    """A request, as far as it is looked at."""

    method: str
    target: str
    host: str
    content_type: str
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path.rstrip("/") or "/"

    @property
    def query(self) -> dict[str, str]:
        """Of each parameter the last value."""
        found = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        return {name: values[-1] for name, values in found.items()}


async def answer(control: Control, asked: Asked) -> Reply:
    """The reply to a request, whatever it is."""
    try:
        reply = _answer(control, asked)
        return await reply if isinstance(reply, Awaitable) else reply
    except Refused as refused:
        return Reply(refused.status, {"error": str(refused)})
    except SnapshotError as problem:
        return Reply(400, {"error": str(problem)})


def _answer(control: Control, asked: Asked) -> Answer:
    name = asked.host.rpartition(":")[0] if asked.host.count(":") == 1 else asked.host
    if name not in LOCAL_NAMES and not asked.host.startswith("[::1]"):
        raise Refused(403, f"it is asked as localhost, and not as {asked.host or 'nobody'}")
    if asked.path.startswith("/snapshots/"):
        return _one_snapshot(control, asked, *asked.path.split("/")[2:])
    path, _, number = asked.path.rpartition("/")
    if path == "/forks" and number.isdigit():
        return _only(asked, {"DELETE": lambda: _end_fork(control, int(number))})
    if path == "/faults" and number.isdigit():
        return _only(asked, {"DELETE": lambda: _remove(control, int(number))})
    if path == "/traces" and number.isdigit():
        return _only(
            asked,
            {
                "GET": lambda: _seen(control, int(number), asked.query),
                "DELETE": lambda: _end_trace(control, int(number)),
            },
        )
    routes: dict[str, dict[str, Callable[[], Answer]]] = {
        "/": {"GET": lambda: Reply(200, document())},
        "/openapi.json": {"GET": lambda: Reply(200, document())},
        "/faults": {
            "GET": lambda: Reply(200, {"faults": control.faults.to_json()}),
            "POST": lambda: _add(control, asked),
            "DELETE": lambda: _clear(control),
        },
        "/faults/happened": {"GET": lambda: _happened(control, asked.query)},
        "/traces": {
            "GET": lambda: Reply(200, {"traces": control.traces.to_json()}),
            "POST": lambda: _begin_trace(control, asked),
        },
        "/clock": {
            "GET": lambda: Reply(200, _time(control)),
            "POST": lambda: _set_clock(control, _read(asked)),
        },
        "/leaders": {"POST": lambda: _move_leader(control, _read(asked))},
        "/coordinators": {"POST": lambda: _move_coordinator(control, _read(asked))},
        "/snapshots": {
            "GET": lambda: Reply(200, control.snapshots.to_json(asked.query.get("folder"))),
            "POST": lambda: _take(control, _read(asked)),
        },
        "/forks": {
            "GET": lambda: _forks(control),
            "POST": lambda: _fork(control, _read(asked)),
        },
        "/death": {"POST": _die},
    }
    if asked.path not in routes:
        raise Refused(404, f"there is no {asked.path}: there are {', '.join(routes)}")
    return _only(asked, routes[asked.path])


def _only(asked: Asked, methods: Mapping[str, Callable[[], Answer]]) -> Answer:
    if asked.method not in methods:
        raise Refused(405, f"{asked.path} takes {' and '.join(methods)}")
    return methods[asked.method]()


def _read(asked: Asked) -> Any:  # noqa: ANN401 - any JSON
    # A page in a browser may send anything else to another site without asking it first.
    if asked.content_type.partition(";")[0].strip() != "application/json":
        raise Refused(415, "the body is JSON: Content-Type: application/json")
    try:
        return json.loads(asked.body)
    except (ValueError, RecursionError) as problem:
        raise Refused(400, f"the body is no JSON: {problem}") from None


def _add(control: Control, asked: Asked) -> Reply:
    """One rule or a list of them; all, or none where one of them cannot be."""
    said = _read(asked)
    try:
        rules = [read_rule(each) for each in (said if isinstance(said, list) else [said])]
    except BadRule as problem:
        raise Refused(400, str(problem)) from None
    return Reply(201, {"rules": [control.faults.add(rule) for rule in rules]})


def _remove(control: Control, number: int) -> Reply:
    if not control.faults.remove(number):
        raise Refused(404, f"there is no rule {number}")
    return Reply(204)


def _clear(control: Control) -> Reply:
    control.faults.clear()
    return Reply(204)


def _happened(control: Control, query: Mapping[str, str]) -> Reply:
    wanted = query.get("rule")
    if wanted is not None and not wanted.isdigit():
        raise Refused(400, f"rule is the number of one, and not {wanted!r}")
    found = [
        each.to_json()
        for each in control.faults.happened
        if wanted is None or each.rule == int(wanted)
    ]
    return Reply(200, {"happened": found})


def _begin_trace(control: Control, asked: Asked) -> Reply:
    said = _read(asked)
    keeps_bytes = said.pop("bytes", False) if isinstance(said, dict) else False
    if not isinstance(keeps_bytes, bool):
        raise Refused(400, f"bytes is true or false, and not {keeps_bytes!r}")
    try:
        number = control.traces.begin(read_which(said), keeps_bytes=keeps_bytes)
        return Reply(201, {"trace": number})
    except (BadRule, TooMany) as problem:
        raise Refused(400, str(problem)) from None


def _seen(control: Control, number: int, query: Mapping[str, str]) -> Reply:
    trace = control.traces.get(number)
    if trace is None:
        raise Refused(404, f"there is no trace {number}")
    after = query.get("after", "0")
    if not after.isdigit():
        raise Refused(400, f"after is the number of an event, and not {after!r}")
    return Reply(200, trace.after(int(after)))


def _end_trace(control: Control, number: int) -> Reply:
    if not control.traces.end(number):
        raise Refused(404, f"there is no trace {number}")
    return Reply(204)


def _time(control: Control) -> dict[str, int | bool]:
    clock = control.clock
    return {"now_ms": clock.now_ms(), "ahead_ms": clock.ahead_ms, "held": clock.is_held}


async def _set_clock(control: Control, said: object) -> Reply:
    fields = _fields(said, {"advance_ms": int, "held": bool})
    if not fields:
        raise Refused(400, 'the time that passes is said as {"advance_ms": 60000}')
    if "held" in fields:
        (control.clock.hold if fields["held"] else control.clock.release)()
    try:
        await control.clock.advance(fields.get("advance_ms", 0))
    except TooFar as problem:
        raise Refused(400, str(problem)) from None
    return Reply(200, _time(control))


async def _move_leader(control: Control, said: object) -> Reply:
    fields = _fields(said, {"topic": str, "partition": int, "to": int})
    if "topic" not in fields:
        raise Refused(400, 'whose leader moves is said as {"topic": "orders", "partition": 0}')
    from kwire.testing.hooks.control.moves import move_leader

    moving = move_leader(
        _broker(control), fields["topic"], fields.get("partition", 0), fields.get("to")
    )
    return await _moved(control, moving)


async def _move_coordinator(control: Control, said: object) -> Reply:
    fields = _fields(said, {"group": str, "transactional_id": str, "to": int})
    kinds = [name for name in ("group", "transactional_id") if name in fields]
    if len(kinds) != 1:
        raise Refused(
            400, 'whose coordinator moves is said as {"group": ...} or {"transactional_id": ...}'
        )
    from kwire.testing.hooks.control.moves import move_coordinator

    moving = move_coordinator(_broker(control), kinds[0], fields[kinds[0]], fields.get("to"))
    return await _moved(control, moving)


async def _moved(control: Control, moving: Awaitable[Moved]) -> Reply:
    from kwire.testing.hooks.control.moves import CannotMove

    try:
        moved = await moving
    except CannotMove as why:
        raise Refused(409, str(why)) from None
    control.faults.happened.append(moved)
    return Reply(200, moved.to_json())


def _broker(control: Control) -> Broker:
    if control.broker is None:
        raise Refused(409, "the broker has not begun yet")
    return control.broker


def _fields(said: object, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Those of a JSON object, each of its kind.  Raises Refused."""
    if not isinstance(said, dict):
        raise Refused(400, "the body is a JSON object")
    for name, value in said.items():
        if name not in kinds:
            raise Refused(400, f"unknown field {name!r}: there are {', '.join(kinds)}")
        if type(value) is not kinds[name] or (isinstance(value, int) and value < 0):
            raise Refused(400, f"{name} is {_KINDS[kinds[name]]}, and not {value!r}")
    return said


def _take(control: Control, said: object) -> Reply:
    """A snapshot under a name, beside the data or in a folder."""
    fields = _fields(said, {"name": str, "folder": str})
    if "name" not in fields:
        raise Refused(400, 'a snapshot takes a name, as {"name": "seeded"}')
    return Reply(201, control.snapshots.take(**fields))


def _one_snapshot(control: Control, asked: Asked, name: str, *rest: str) -> Answer:
    folder = asked.query.get("folder")
    if rest == ("restore",):
        return _only(asked, {"POST": lambda: _restore(control, name, folder)})
    if rest:
        raise Refused(404, f"there is no {asked.path}")
    return _only(asked, {"DELETE": lambda: _remove_snapshot(control, name, folder)})


async def _restore(control: Control, name: str, folder: str | None) -> Reply:
    """It is over when GET /snapshots tells of one more."""
    await control.snapshots.restore(name, folder)
    return Reply(202, {"restored": control.snapshots.restored})


async def _remove_snapshot(control: Control, name: str, folder: str | None) -> Reply:
    await trio.to_thread.run_sync(control.snapshots.kept(folder).remove, name)
    return Reply(204)


async def _forks(control: Control) -> Reply:
    return Reply(200, await control.forks.to_json())


async def _fork(control: Control, said: object) -> Reply:
    """A second broker, with what a snapshot holds or what this one does."""
    from kwire.testing.hooks.control.forks import Ports

    fields = _fields(said, {"snapshot": str, "folder": str, "port": int, "control": int})
    ports = Ports(fields.get("port", 0), fields.get("control", 0))
    if max(ports) > PORT_MAX:
        raise Refused(400, f"a port is a number up to {PORT_MAX}")
    if "folder" in fields and "snapshot" not in fields:
        raise Refused(400, "folder is where a snapshot is: it takes its name")
    told = await control.forks.start(
        control.snapshots, fields.get("snapshot"), fields.get("folder"), ports
    )
    return Reply(201, told)


async def _end_fork(control: Control, number: int) -> Reply:
    if not await control.forks.end(number):
        raise Refused(404, f"there is no fork {number}")
    return Reply(204)


def _die() -> Reply:
    log.critical("it was asked to die")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives SIGKILL")
