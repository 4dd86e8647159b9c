"""Handlers of the HTTP control: they take and return JSON.

GET /openapi.json describes the same API for programs.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import trio

from kwire.server.http.messages import HttpError, HttpReply, HttpRequest, check_local
from kwire.testing.hooks.control.clock import TooFar
from kwire.testing.hooks.control.openapi import document
from kwire.testing.hooks.faults.rules import BadRule, read_filter, read_rule
from kwire.testing.hooks.snapshots.kept import SnapshotError
from kwire.testing.hooks.tracing.traces import TooMany

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.testing.hooks.control.service import Control
    from kwire.testing.hooks.faults.moved import Moved

log = logging.getLogger("kwire.control")

_KINDS: Final = {str: "text", int: "a number", bool: "true or false"}

PORT_MAX: Final = 65_535


HttpAnswer = HttpReply | Awaitable[HttpReply]


async def answer(control: Control, request: HttpRequest) -> HttpReply:
    """The response to any request; errors become responses, too."""
    try:
        reply = _route(control, request)
        return await reply if isinstance(reply, Awaitable) else reply
    except HttpError as refused:
        return refused.reply()
    except SnapshotError as problem:
        return HttpReply(400, {"error": str(problem)})


def _route(control: Control, asked: HttpRequest) -> HttpAnswer:
    """Call the handler of a request.  Raises HttpError, SnapshotError."""
    check_local(asked.host)
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
    routes: dict[str, dict[str, Callable[[], HttpAnswer]]] = {
        "/": {"GET": lambda: HttpReply(200, document())},
        "/openapi.json": {"GET": lambda: HttpReply(200, document())},
        "/faults": {
            "GET": lambda: HttpReply(200, {"faults": control.faults.to_json()}),
            "POST": lambda: _add(control, asked),
            "DELETE": lambda: _clear(control),
        },
        "/faults/happened": {"GET": lambda: _happened(control, asked.query)},
        "/traces": {
            "GET": lambda: HttpReply(200, {"traces": control.traces.to_json()}),
            "POST": lambda: _begin_trace(control, asked),
        },
        "/clock": {
            "GET": lambda: HttpReply(200, _time(control)),
            "POST": lambda: _set_clock(control, _read(asked)),
        },
        "/leaders": {"POST": lambda: _move_leader(control, _read(asked))},
        "/coordinators": {"POST": lambda: _move_coordinator(control, _read(asked))},
        "/snapshots": {
            "GET": lambda: HttpReply(200, control.snapshots.to_json(asked.query.get("folder"))),
            "POST": lambda: _take(control, _read(asked)),
        },
        "/forks": {
            "GET": lambda: _forks(control),
            "POST": lambda: _fork(control, _read(asked)),
        },
        "/death": {"POST": _die},
    }
    if asked.path not in routes:
        raise HttpError(404, f"there is no {asked.path}: the paths are {', '.join(routes)}")
    return _only(asked, routes[asked.path])


def _only(asked: HttpRequest, methods: Mapping[str, Callable[[], HttpAnswer]]) -> HttpAnswer:
    if asked.method not in methods:
        raise HttpError(405, f"{asked.path} takes {' and '.join(methods)}")
    return methods[asked.method]()


def _read(asked: HttpRequest) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON body of a request.  Raises HttpError: 415 for another content type, 400 for
    a body that is not JSON."""
    # A web page can send other content types to this port without a CORS preflight request.
    if asked.content_type.partition(";")[0].strip() != "application/json":
        raise HttpError(415, "the body must be JSON with Content-Type: application/json")
    try:
        return json.loads(asked.body)
    except (ValueError, RecursionError) as problem:
        raise HttpError(400, f"the body is not JSON: {problem}") from None


def _add(control: Control, asked: HttpRequest) -> HttpReply:
    """Add one rule or a list of rules; none of them if one is invalid."""
    said = _read(asked)
    try:
        rules = [read_rule(each) for each in (said if isinstance(said, list) else [said])]
    except BadRule as problem:
        raise HttpError(400, str(problem)) from None
    return HttpReply(201, {"rules": [control.faults.add(rule) for rule in rules]})


def _remove(control: Control, number: int) -> HttpReply:
    if not control.faults.remove(number):
        raise HttpError(404, f"there is no rule {number}")
    return HttpReply(204)


def _clear(control: Control) -> HttpReply:
    control.faults.clear()
    return HttpReply(204)


def _happened(control: Control, query: Mapping[str, str]) -> HttpReply:
    """Answers GET /faults/happened: the injections and moves so far, or the injections of one
    rule."""
    wanted = query.get("rule")
    if wanted is not None and not wanted.isdigit():
        raise HttpError(400, f"rule must be the number of a rule, not {wanted!r}")
    injections = [
        injection.to_json()
        for injection in control.faults.happened
        if wanted is None or injection.rule == int(wanted)
    ]
    return HttpReply(200, {"happened": injections})


def _begin_trace(control: Control, asked: HttpRequest) -> HttpReply:
    """Answers POST /traces: begins a trace of the requests that match the filter in the body, and
    returns its number.  With `bytes: true` the trace also stores the messages as they were sent."""
    said = _read(asked)
    keeps_bytes = said.pop("bytes", False) if isinstance(said, dict) else False
    if not isinstance(keeps_bytes, bool):
        raise HttpError(400, f"bytes must be true or false, not {keeps_bytes!r}")
    try:
        number = control.traces.begin(read_filter(said), keeps_bytes=keeps_bytes)
        return HttpReply(201, {"trace": number})
    except (BadRule, TooMany) as problem:
        raise HttpError(400, str(problem)) from None


def _seen(control: Control, number: int, query: Mapping[str, str]) -> HttpReply:
    """Answers GET /traces/NUMBER: the events of the trace after the event number `after` (default
    0, all)."""
    trace = control.traces.get(number)
    if trace is None:
        raise HttpError(404, f"there is no trace {number}")
    after = query.get("after", "0")
    if not after.isdigit():
        raise HttpError(400, f"after must be the number of an event, not {after!r}")
    return HttpReply(200, trace.after(int(after)))


def _end_trace(control: Control, number: int) -> HttpReply:
    if not control.traces.end(number):
        raise HttpError(404, f"there is no trace {number}")
    return HttpReply(204)


def _time(control: Control) -> dict[str, int | bool]:
    clock = control.clock
    return {"now_ms": clock.now_ms(), "ahead_ms": clock.ahead_ms, "held": clock.is_held}


async def _set_clock(control: Control, said: object) -> HttpReply:
    """Answers POST /clock: holds or releases the broker's clock, then advances it.  Returns the new
    time."""
    fields = _fields(said, {"advance_ms": int, "held": bool})
    if not fields:
        raise HttpError(400, 'the body must have advance_ms or held, as {"advance_ms": 60000}')
    if "held" in fields:
        (control.clock.hold if fields["held"] else control.clock.release)()
    try:
        await control.clock.advance(fields.get("advance_ms", 0))
    except TooFar as problem:
        raise HttpError(400, str(problem)) from None
    return HttpReply(200, _time(control))


async def _move_leader(control: Control, said: object) -> HttpReply:
    """Answers POST /leaders: moves the leader of a partition to the broker `to`, or without `to` to
    the next in-sync replica.  Returns the move once it is complete."""
    fields = _fields(said, {"topic": str, "partition": int, "to": int})
    if "topic" not in fields:
        raise HttpError(400, 'the body must have topic, as {"topic": "orders", "partition": 0}')
    from kwire.testing.hooks.control.moves import move_leader

    moving = move_leader(
        _broker(control), fields["topic"], fields.get("partition", 0), fields.get("to")
    )
    return await _moved(control, moving)


async def _move_coordinator(control: Control, said: object) -> HttpReply:
    """Answers POST /coordinators: moves the coordinator of a group or of a transactional id to the
    broker `to`, or without `to` to the next in-sync replica of its partition."""
    fields = _fields(said, {"group": str, "transactional_id": str, "to": int})
    kinds = [name for name in ("group", "transactional_id") if name in fields]
    if len(kinds) != 1:
        raise HttpError(
            400, 'the body must have either {"group": ...} or {"transactional_id": ...}'
        )
    from kwire.testing.hooks.control.moves import move_coordinator

    moving = move_coordinator(_broker(control), kinds[0], fields[kinds[0]], fields.get("to"))
    return await _moved(control, moving)


async def _moved(control: Control, moving: Awaitable[Moved]) -> HttpReply:
    """Waits for a move, records it among the injections, and returns it.  Raises HttpError 409 if
    the cluster refuses it."""
    from kwire.testing.hooks.control.moves import CannotMove

    try:
        moved = await moving
    except CannotMove as why:
        raise HttpError(409, str(why)) from None
    control.faults.happened.append(moved)
    return HttpReply(200, moved.to_json())


def _broker(control: Control) -> Broker:
    if control.broker is None:
        raise HttpError(409, "the broker has not started yet")
    return control.broker


def _fields(said: object, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The fields of a JSON object, after a check of their names and types.  Raises HttpError."""
    if not isinstance(said, dict):
        raise HttpError(400, "the body must be a JSON object")
    for name, value in said.items():
        if name not in kinds:
            raise HttpError(400, f"unknown field {name!r}: the fields are {', '.join(kinds)}")
        if type(value) is not kinds[name] or (isinstance(value, int) and value < 0):
            raise HttpError(400, f"{name} must be {_KINDS[kinds[name]]}, not {value!r}")
    return said


def _take(control: Control, said: object) -> HttpReply:
    """Take a snapshot, beside the data or in the given folder."""
    fields = _fields(said, {"name": str, "folder": str})
    if "name" not in fields:
        raise HttpError(400, 'the body must have name, as {"name": "seeded"}')
    return HttpReply(201, control.snapshots.take(**fields))


def _one_snapshot(control: Control, asked: HttpRequest, name: str, *rest: str) -> HttpAnswer:
    """Answers DELETE /snapshots/NAME and POST /snapshots/NAME/restore.  `rest` is the path after
    the name."""
    folder = asked.query.get("folder")
    if rest == ("restore",):
        return _only(asked, {"POST": lambda: _restore(control, name, folder)})
    if rest:
        raise HttpError(404, f"there is no {asked.path}")
    return _only(asked, {"DELETE": lambda: _remove_snapshot(control, name, folder)})


async def _restore(control: Control, name: str, folder: str | None) -> HttpReply:
    """Begin to restore; it is finished once `restored` of GET /snapshots has grown by one."""
    await control.snapshots.restore(name, folder)
    return HttpReply(202, {"restored": control.snapshots.restored})


async def _remove_snapshot(control: Control, name: str, folder: str | None) -> HttpReply:
    await trio.to_thread.run_sync(control.snapshots.kept(folder).remove, name)
    return HttpReply(204)


async def _forks(control: Control) -> HttpReply:
    return HttpReply(200, await control.forks.to_json())


async def _fork(control: Control, said: object) -> HttpReply:
    """Start a fork that begins with a snapshot, or with what this broker holds now."""
    from kwire.testing.hooks.control.forks import ForkPorts

    fields = _fields(said, {"snapshot": str, "folder": str, "port": int, "control": int})
    ports = ForkPorts(fields.get("port", 0), fields.get("control", 0))
    if max(ports) > PORT_MAX:
        raise HttpError(400, f"a port must be a number up to {PORT_MAX}")
    if "folder" in fields and "snapshot" not in fields:
        raise HttpError(400, "folder takes effect only together with snapshot")
    fork = await control.forks.start(
        control.snapshots, fields.get("snapshot"), fields.get("folder"), ports
    )
    return HttpReply(201, fork)


async def _end_fork(control: Control, number: int) -> HttpReply:
    if not await control.forks.end(number):
        raise HttpError(404, f"there is no fork {number}")
    return HttpReply(204)


def _die() -> HttpReply:
    log.critical("The control received POST /death: killing this process")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL did not end the process")
