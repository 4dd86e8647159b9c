"""Adds faults to a broker and reports which requests they were injected into.

with kafka.faults.add(api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=2) as f:
    ...                                # the code under test
    f.assert_happened(times=2)

kwire.testing.hooks.faults.rules documents the fields of a rule; kwire.testing.hooks.faults.disk
documents those of a rule about the disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from kwire.testing.control import ControlClient
from kwire.testing.hosting.lifetime import Removable
from kwire.testing.values import NotARecord
from kwire.testing.values import Path as AnyPath

LOOK_AGAIN_S: Final = 0.01
Happened = Mapping[str, Any]
"""One injection of a fault, as JSON.  Into a request: rule, time_ms, api, version, client,
partitions, error and so on.  Into a disk operation of the log: rule, time_ms, disk, on, file,
partitions."""


class HasInjections(Protocol):
    """A rule, at one broker or several, that reports its injections."""

    @property
    def happened(self) -> list[Happened]: ...


def assert_injections(fault: HasInjections, times: int | None, within_s: float) -> list[Happened]:
    """The implementation of `Fault.assert_happened`."""
    __tracebackhide__ = True
    deadline = time.monotonic() + within_s
    while True:
        injections = fault.happened
        count = len(injections)
        if count == times or (times is None and injections):
            return injections
        if time.monotonic() >= deadline or (times is not None and count > times):
            break
        time.sleep(LOOK_AGAIN_S)
    expected = "at least once" if times is None else f"{times} times"
    listing = "".join(f"\n  {json.dumps(injection)}" for injection in injections)
    raise AssertionError(
        f"Expected {fault!r} to happen {expected}; it happened {count} times.{listing}"
    )


class Fault(Removable):
    """One rule at a broker; its `with` block ends with the removal of the rule."""

    def __init__(self, control: ControlClient, number: int, said: Mapping[str, Any]) -> None:
        self._control = control
        self.number = number
        self.said = said

    def __repr__(self) -> str:
        return f"Fault({json.dumps(self.said)})"

    @property
    def happened(self) -> list[Happened]:
        """The rule's injections, oldest first.  Raises ControlError."""
        reply = self._control.get(f"/faults/happened?rule={self.number}")
        injections: list[Happened] = reply["happened"]
        return injections

    def remove(self) -> None:
        """Remove the rule; `happened` still returns its injections.  Raises ControlError."""
        self._control.delete(f"/faults/{self.number}")

    def assert_happened(self, times: int | None = None, *, within_s: float = 0.0) -> list[Happened]:
        """Fail unless the fault was injected `times` times, or at least once for None.

        Waits for that for up to `within_s` seconds.  Returns the injections.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        return assert_injections(self, times, within_s)


class Faults:
    """The fault rules of one broker."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    def add(
        self,
        preset: str | None = None,
        *,
        api: str | Sequence[str] | None = None,
        topic: str | None = None,
        partition: int | None = None,
        client: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        skip: int | None = None,
        times: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        error: str | None = None,
        delay_ms: int | None = None,
        throttle_ms: int | None = None,
        disconnect: bool | None = None,
        truncate: int | None = None,
        silence: bool | None = None,
        die: bool | None = None,
        carried_out: bool | None = None,
        script: Sequence[Mapping[str, Any]] | None = None,
        disk: str | None = None,
        on: str | Sequence[str] | None = None,
    ) -> Fault:
        """Add a rule.

        The arguments are the fields that kwire.testing.hooks.faults.rules and, for a rule about the
        disk, kwire.testing.hooks.faults.disk document.  Raises ControlError if the rule is invalid.
        """
        arguments = {name: value for name, value in locals().items() if name != "self"}
        rule = {
            name: list(value)
            if isinstance(value, Sequence) and not isinstance(value, str)
            else value
            for name, value in arguments.items()
            if value is not None
        }
        return self._add([rule])[0]

    def load(self, path: AnyPath) -> list[Fault]:
        """Add the rule or the JSON list of rules in a file.  Raises NotARecord, ControlError."""
        try:
            rules = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as problem:
            raise NotARecord(f"{path}: not JSON: {problem}") from None
        return self._add(rules if isinstance(rules, list) else [rules])

    def _add(self, rules: Sequence[Mapping[str, Any]]) -> list[Fault]:
        """Adds rules at the broker; returns a Fault for each."""
        numbers = self._control.post("/faults", rules)["rules"]
        return [
            Fault(self._control, number, rule) for number, rule in zip(numbers, rules, strict=True)
        ]

    def clear(self) -> None:
        """Remove all rules and forget their injections."""
        self._control.delete("/faults")

    @property
    def happened(self) -> list[Happened]:
        """The injections of all rules, oldest first.  Raises ControlError."""
        injections: list[Happened] = self._control.get("/faults/happened")["happened"]
        return injections
