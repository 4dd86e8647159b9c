"""The HTTP control of a broker (`kwire serve --control`): faults, requests, clock and snapshots.

Functions take a `ControlClient` in place of a Cluster.  They raise ControlError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from kwire.client.errors import Misuse
from kwire.testing.control import ControlClient, ControlError

PRESETS: Final[Mapping[str, str]] = {
    "leader-moved": "clients must look up the leader again (NOT_LEADER_OR_FOLLOWER)",
    "coordinator-moved": "groups and transactions must look up the coordinator again",
    "coordinator-loading": "the coordinator is not ready yet",
    "stale-metadata": "the broker does not know the topic yet",
    "lost-reply": "the request is carried out, and its response is lost",
    "full-disk": "the log cannot be written: no space",
    "failed-disk": "the log's disk gives errors: the directory goes offline",
    "slow-disk": "each call of the log takes longer",
    "death": "the broker is killed",
}
"""Faults with names, and what a client or the broker meets."""
FILTER_FIELDS: Final = ("api", "topic", "partition", "client", "group", "transactional_id")
NUMBERS: Final = {"partition", "times", "skip", "seed", "delay_ms", "throttle_ms", "truncate"}
SWITCHES: Final = ("disconnect", "silence", "die", "carried_out")
VALUES: Final = (
    "times",
    "skip",
    "probability",
    "seed",
    "error",
    "delay_ms",
    "throttle_ms",
    "truncate",
)
SHOWN_OF_RULE: Final = ("rule", "matched", "happened", "used_up")
HAPPENED_MAX: Final = 50
"""Injections on the page, the newest first."""


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A fault rule, and how often it was injected."""

    number: int
    matched: int
    happened: int
    is_used_up: bool
    fields: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The rule as text, such as `api=Produce error=NOT_LEADER_OR_FOLLOWER`."""
        return " ".join(f"{name}={_plain(value)}" for name, value in self.fields.items())


@dataclass(frozen=True, slots=True)
class ControlState:
    """What the control tells of a broker."""

    address: str
    now_ms: int
    ahead_ms: int
    is_held: bool
    faults: Sequence[FaultRow]
    happened: Sequence[Mapping[str, Any]]
    """The newest injections, with the newest first."""
    happened_count: int
    snapshots: Sequence[Mapping[str, Any]]
    forks: Sequence[Mapping[str, Any]]
    traces: Sequence[Mapping[str, int]]


def control_state(control: ControlClient) -> ControlState:
    """Everything that the pages show of a controlled broker.  Raises ControlError."""
    clock = control.get("/clock")
    happened = control.get("/faults/happened")["happened"]
    return ControlState(
        control.address,
        clock["now_ms"],
        clock["ahead_ms"],
        clock["held"],
        [
            FaultRow(
                rule["rule"],
                rule["matched"],
                rule["happened"],
                rule["used_up"],
                {name: value for name, value in rule.items() if name not in SHOWN_OF_RULE},
            )
            for rule in control.get("/faults")["faults"]
        ],
        list(reversed(happened[-HAPPENED_MAX:])),
        len(happened),
        control.get("/snapshots")["snapshots"],
        control.get("/forks")["forks"],
        control.get("/traces")["traces"],
    )


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# -- faults


def fault_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """The rule of a form's fields, which the broker checks.  Raises Misuse."""
    rule: dict[str, Any] = {}
    if preset := fields.get("preset", ""):
        rule["preset"] = preset
    rule |= filter_of(fields)
    for name in VALUES:
        text = fields.get(name, "").strip()
        if text:
            rule[name] = _number(name, text) if name != "error" else text
    for name in SWITCHES:
        if fields.get(name):
            rule[name] = True
    return rule


def filter_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """The filter of requests of a form's fields.  Raises Misuse."""
    wanted: dict[str, Any] = {}
    for name in FILTER_FIELDS:
        text = fields.get(name, "").strip()
        if text:
            wanted[name] = _number(name, text) if name in NUMBERS else text
    return wanted


def _number(name: str, text: str) -> float | int:
    try:
        return float(text) if name == "probability" else int(text)
    except ValueError:
        raise Misuse(f"{name} is a number, not {text[:60]!r}") from None


def add_fault(control: ControlClient, rule: Mapping[str, Any]) -> int:
    """Add a rule; returns its number.  Raises ControlError."""
    numbers: list[int] = control.post("/faults", dict(rule))["rules"]
    return numbers[0]


def remove_fault(control: ControlClient, number: int | None) -> None:
    """Remove a rule, or all rules with None.  Raises ControlError."""
    control.delete("/faults" if number is None else f"/faults/{number}")


def fault_words(rule: Mapping[str, Any]) -> list[str]:
    """The words of the `kwire` command that adds a rule."""
    words = ["fault", "add"]
    if "preset" in rule:
        words.append(str(rule["preset"]))
    for name, value in rule.items():
        option = f"--{name.replace('_', '-')}"
        if name == "preset":
            continue
        words += [option] if value is True else [option, _plain(value)]
    return words


# -- clock, snapshots, forks


def advance(control: ControlClient, by_ms: int) -> None:
    """Advance the broker's clock; its timers fire.  Raises ControlError."""
    control.post("/clock", {"advance_ms": by_ms})


def hold(control: ControlClient, *, is_held: bool) -> None:
    """Hold the broker's clock, or let it run again.  Raises ControlError."""
    control.post("/clock", {"held": is_held})


def take_snapshot(control: ControlClient, name: str) -> None:
    """Take a snapshot of the broker.  Raises ControlError."""
    control.post("/snapshots", {"name": name})


def restore_snapshot(control: ControlClient, name: str) -> None:
    """Shut the broker down, and start it with a snapshot.  Raises ControlError."""
    control.post(f"/snapshots/{quote(name, safe='')}/restore")


def remove_snapshot(control: ControlClient, name: str) -> None:
    """Remove a snapshot.  Raises ControlError."""
    control.delete(f"/snapshots/{quote(name, safe='')}")


def begin_fork(control: ControlClient, snapshot: str) -> Mapping[str, Any]:
    """Start a broker with a snapshot, or with what the broker holds now.  Raises ControlError."""
    fork: Mapping[str, Any] = control.post("/forks", {"snapshot": snapshot} if snapshot else {})
    return fork


def end_fork(control: ControlClient, number: int) -> None:
    """End a fork, and remove its data.  Raises ControlError."""
    control.delete(f"/forks/{number}")


# -- requests as they arrive


@dataclass(frozen=True, slots=True)
class TracedRequestRow:
    """A request with its response, as the page shows it."""

    number: int
    time_ms: int
    client: str
    api: str
    version: int
    connection: str
    partitions: Sequence[str]
    duration_ms: float
    errors: Sequence[str]
    fault: int | None
    ending: str | None
    request: str
    """The decoded request as indented JSON."""
    response: str


@dataclass(frozen=True, slots=True)
class TracedRequests:
    """The newest requests of a trace."""

    rows: Sequence[TracedRequestRow]
    last: int
    """The number of the newest request, from which the next look goes on."""
    dropped: int
    """Requests that came between, and are not shown."""


EVENTS_MAX: Final = 200
"""Requests of one look; of more only the newest are shown."""
JSON_LENGTH_MAX: Final = 20_000


def begin_trace(control: ControlClient, wanted: Mapping[str, Any]) -> int:
    """Begin a trace of the requests that match; returns its number.  Raises ControlError."""
    number: int = control.post("/traces", dict(wanted))["trace"]
    return number


def end_trace(control: ControlClient, number: int) -> None:
    """End a trace, if it exists.  Raises ControlError."""
    try:
        control.delete(f"/traces/{number}")
    except ControlError as error:
        if "there is no trace" not in str(error):
            raise


def traced_requests(control: ControlClient, number: int, after: int) -> TracedRequests:
    """The requests of a trace after the given one.  Raises ControlError."""
    reply = control.get(f"/traces/{number}?after={after}")
    events = reply["events"]
    left_out = max(0, len(events) - EVENTS_MAX)
    rows = [_traced(event) for event in events[-EVENTS_MAX:]]
    last = rows[-1].number if rows else after
    return TracedRequests(rows, last, reply["dropped"] + left_out)


def _traced(event: Mapping[str, Any]) -> TracedRequestRow:
    return TracedRequestRow(
        event["number"],
        event["timeMs"],
        event["client"] or "",
        event["api"],
        event["version"],
        str(event["connection"]),
        [
            each["topic"] if each["partition"] is None else f"{each['topic']}-{each['partition']}"
            for each in event["partitions"]
        ],
        event["durationMs"],
        event["errors"],
        event.get("fault"),
        event.get("ending"),
        _indented(event.get("request")),
        _indented(event.get("response")),
    )


def _indented(message: object) -> str:
    """A message as JSON; a long one is cut."""
    if message is None:
        return ""
    text = json.dumps(message, indent=2, ensure_ascii=False)
    if len(text) <= JSON_LENGTH_MAX:
        return text
    return f"{text[:JSON_LENGTH_MAX]}… ({len(text):,} characters)"


def trace_words(wanted: Mapping[str, Any]) -> list[str]:
    """The words of the `kwire` command that follows the same requests."""
    words = ["trace"]
    for name, value in wanted.items():
        words += [f"--{name.replace('_', '-')}", _plain(value)]
    return words
