"""What only a broker with `--control` offers: requests, faults, clock, snapshots, forks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar
from urllib.parse import urlencode

import trio
from starlette.responses import Response

from kwire.client.errors import BrokerUnreachable, ClientError, Misuse, RequestTimedOut
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import API_NAMES
from kwire.console.cluster import control as controls
from kwire.console.cluster.commands import command_line, quoted
from kwire.console.site import Site, SitePage, Visit
from kwire.testing.control import ControlClient, ControlError, ControlUnanswered

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
"""How long a page waits for the control: a fork takes seconds to start."""
IDLE_TRACE_S: Final = 60.0
"""A trace that no page has read for so long ends, because it costs the broker time."""
TRACES: Final = "traces"
DURATION: Final = re.compile(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|h|d)?\s*")
UNITS_MS: Final = {"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
ERRORS: Final = tuple(error.name for error in ErrorCode if error)


async def ask(call: Callable[..., T], *arguments: object) -> T:
    """The result of a call of the control, run in a thread.  Its errors become the client's."""
    try:
        with trio.move_on_after(TIMEOUT_S):
            return await trio.to_thread.run_sync(call, *arguments, abandon_on_cancel=True)
    except ControlUnanswered as error:
        raise BrokerUnreachable(str(error)) from error
    except ControlError as error:
        if "no answer from" in str(error):
            raise BrokerUnreachable(str(error)) from error
        raise Misuse(str(error)) from error
    raise RequestTimedOut(f"the control did not answer in {TIMEOUT_S:g} s")


def control_of(visit: Visit, chosen: str) -> tuple[int, ControlClient]:
    """The number of the control that a URL or a form has chosen, and its client.  Raises Misuse."""
    number = int(chosen) if chosen.isdecimal() and len(chosen) < 6 else 0
    if not visit.site.controls:
        raise Misuse("the console was started without --control")
    if number >= len(visit.site.controls):
        raise Misuse(f"there is no control {number}")
    try:
        return number, ControlClient(visit.site.controls[number])
    except ControlError as error:
        raise Misuse(str(error)) from None


def control_command(control: ControlClient, words: list[str]) -> str:
    """A `kwire` command for the control."""
    return command_line(words, f" --control {quoted(control.address)}")


async def overview(visit: Visit) -> Response:
    """Faults, clock, snapshots and forks of a controlled broker."""
    number, control = control_of(visit, visit.query.get("broker", ""))
    state = await ask(controls.control_state, control)
    return visit.page(
        "control.html",
        state=state,
        number=number,
        presets=controls.PRESETS,
        apis=sorted(API_NAMES.values()),
        errors=ERRORS,
        commands={
            "happened": control_command(control, ["fault", "happened"]),
            "clear": control_command(control, ["fault", "clear"]),
            "clock": control_command(control, ["clock", "describe"]),
            "snapshots": control_command(control, ["snapshot", "list"]),
            "forks": control_command(control, ["snapshot", "forks"]),
        },
    )


def back(number: int) -> str:
    """The path of a broker's control page."""
    return f"/control?broker={number}"


async def change(visit: Visit) -> Response:
    """Carry out the action that a form of the page names."""
    form = await visit.form()
    number, control = control_of(visit, form.get("broker", ""))
    action = ACTIONS.get(form.get("action", ""))
    if action is None:
        raise Misuse(f"the actions are {', '.join(ACTIONS)}")
    try:
        done, words = await action(control, form)
    except ClientError as error:
        return visit.done(back(number), str(error), is_error=True)
    visit.site.pool.forget_results()
    command = f" The same: {control_command(control, words)}" if words else ""
    return visit.done(back(number), done + command)


Done = tuple[str, list[str]]
"""What an action has done, and the words of the command that does the same."""


async def _add_fault(control: ControlClient, form: Mapping[str, str]) -> Done:
    rule = controls.fault_of(form)
    number = await ask(controls.add_fault, control, rule)
    return f"Rule {number} is added.", controls.fault_words(rule)


async def _remove_fault(control: ControlClient, form: Mapping[str, str]) -> Done:
    number = _number(form, "rule")
    await ask(controls.remove_fault, control, number)
    return f"Rule {number} is removed.", ["fault", "remove", str(number)]


async def _clear_faults(control: ControlClient, _: Mapping[str, str]) -> Done:
    await ask(controls.remove_fault, control, None)
    return "All rules are removed.", ["fault", "clear"]


async def _advance(control: ControlClient, form: Mapping[str, str]) -> Done:
    by_ms = duration_ms(form.get("duration", ""))
    await ask(controls.advance, control, by_ms)
    words = ["clock", "advance", form.get("duration", "").strip()]
    return f"The clock is advanced by {by_ms / 1000:g} s.", words


async def _hold(control: ControlClient, _: Mapping[str, str]) -> Done:
    await ask(_set_held, control, True)
    return "The clock is held.", []


async def _release(control: ControlClient, _: Mapping[str, str]) -> Done:
    await ask(_set_held, control, False)
    return "The clock runs again.", []


def _set_held(control: ControlClient, is_held: bool) -> None:
    controls.hold(control, is_held=is_held)


async def _take(control: ControlClient, form: Mapping[str, str]) -> Done:
    name = form.get("name", "").strip()
    await ask(controls.take_snapshot, control, name)
    return f"Snapshot {name} is taken.", ["snapshot", "take", name]


async def _restore(control: ControlClient, form: Mapping[str, str]) -> Done:
    name = form.get("name", "")
    await ask(controls.restore_snapshot, control, name)
    return (
        f"The broker shuts down, and starts again with snapshot {name}.",
        ["snapshot", "restore", name],
    )


async def _remove_snapshot(control: ControlClient, form: Mapping[str, str]) -> Done:
    name = form.get("name", "")
    await ask(controls.remove_snapshot, control, name)
    return f"Snapshot {name} is removed.", ["snapshot", "remove", name]


async def _fork(control: ControlClient, form: Mapping[str, str]) -> Done:
    snapshot = form.get("snapshot", "")
    fork = await ask(controls.begin_fork, control, snapshot)
    words = ["snapshot", "fork", snapshot, "--beside"] if snapshot else []
    return f"Fork {fork['fork']} serves at {fork['bootstrap']}.", words


async def _end_fork(control: ControlClient, form: Mapping[str, str]) -> Done:
    number = _number(form, "fork")
    await ask(controls.end_fork, control, number)
    return f"Fork {number} is ended.", ["snapshot", "end", str(number)]


ACTIONS: Final = {
    "add-fault": _add_fault,
    "remove-fault": _remove_fault,
    "clear-faults": _clear_faults,
    "advance": _advance,
    "hold": _hold,
    "release": _release,
    "take": _take,
    "restore": _restore,
    "remove-snapshot": _remove_snapshot,
    "fork": _fork,
    "end-fork": _end_fork,
}


def _number(form: Mapping[str, str], name: str) -> int:
    text = form.get(name, "")
    if not text.isdecimal() or len(text) > 12:
        raise Misuse(f"{name} is a number, not {text[:60]!r}")
    return int(text)


def duration_ms(text: str) -> int:
    """The ms of `30s`, `90m` or `1.5h`; a number alone means seconds.  Raises Misuse."""
    found = DURATION.fullmatch(text)
    if found is None:
        raise Misuse(f"{text[:60]!r} is not a duration like 30s, 90m or 1.5h")
    return round(float(found[1]) * UNITS_MS[found[2] or ""])


# -- requests as they arrive


async def requests(visit: Visit) -> Response:
    """The requests of a trace, or the form that begins one.

    A page that follows a trace asks for the rows `after` the last request that it has.
    """
    number, control = control_of(visit, visit.query.get("broker", ""))
    wanted = controls.filter_of(visit.query)
    trace = visit.query.get("trace", "")
    after, seen = visit.query.get("after"), None
    if trace.isdecimal() and len(trace) < 10:
        touch(visit.site, number, int(trace))
        last = int(after) if after and after.isdecimal() and len(after) < 18 else 0
        seen = await ask(controls.traced_requests, control, int(trace), last)
    if after is not None:
        if seen is None:
            raise Misuse("the URL names no trace")
        return visit.page("request_rows.html", seen=seen)
    return visit.page(
        "requests.html",
        number=number,
        trace=trace if seen is not None else "",
        seen=seen,
        wanted=wanted,
        others=urlencode({"broker": number, "trace": trace}),
        apis=sorted(API_NAMES.values()),
        command=control_command(control, controls.trace_words(wanted)),
    )


async def begin(visit: Visit) -> Response:
    """Begin a trace, and go to the page that follows it."""
    form = await visit.form()
    number, control = control_of(visit, form.get("broker", ""))
    wanted = controls.filter_of(form)
    path = f"/requests?{urlencode({'broker': number, **wanted}, errors='replace')}"
    try:
        trace = await ask(controls.begin_trace, control, wanted)
    except ClientError as error:
        return visit.done(path, str(error), is_error=True)
    touch(visit.site, number, trace)
    return visit.done(f"{path}&trace={trace}", "Requests are recorded from now on.")


async def end(visit: Visit) -> Response:
    """End a trace."""
    form = await visit.form()
    number, control = control_of(visit, form.get("broker", ""))
    trace = _number(form, "trace")
    traces_of(visit.site).pop((number, trace), None)
    await ask(controls.end_trace, control, trace)
    return visit.done(f"/requests?broker={number}", "The recording has ended.")


Traces = dict[tuple[int, int], float]
"""When each trace, by control and number, was last read."""


def traces_of(site: Site) -> Traces:
    """The traces that this console has begun."""
    found: Traces = site.parts.setdefault(TRACES, {})
    return found


def touch(site: Site, number: int, trace: int) -> None:
    """Note that a page reads a trace."""
    traces_of(site)[number, trace] = time.monotonic()


async def end_idle_traces(site: Site) -> None:
    """End the traces that no page reads any more, as long as the console runs."""
    while True:
        await trio.sleep(IDLE_TRACE_S / 4)
        idle_since = time.monotonic() - IDLE_TRACE_S
        for (number, trace), read_at in list(traces_of(site).items()):
            if read_at < idle_since:
                del traces_of(site)[number, trace]
                await _end_quietly(site, number, trace)


async def _end_quietly(site: Site, number: int, trace: int) -> None:
    try:
        await ask(controls.end_trace, ControlClient(site.controls[number]), trace)
    except ClientError:
        return  # The broker is gone, and the trace with it.


def has_control(site: Site) -> bool:
    return bool(site.controls)


PAGES = (
    SitePage("/requests", requests, "Requests", 90, is_shown=has_control),
    SitePage("/requests/begin", begin, methods=("POST",)),
    SitePage("/requests/end", end, methods=("POST",)),
    SitePage("/control", overview, "Control", 100, is_shown=has_control),
    SitePage("/control/change", change, methods=("POST",)),
)
BACKGROUND = (end_idle_traces,)
