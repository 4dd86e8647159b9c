"""Faults that a test asks for, and what they did: see kwire.testing.hooks.faults.rules for what
there is.

with kafka.faults.add(api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=2) as it:
    ...                                # what is tested
    it.assert_happened(times=2)
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
"""A request that was befallen: rule, time_ms, api, version, client, partitions, error ...; or a
call of the log: rule, time_ms, disk, on, file, partitions."""


class Happening(Protocol):
    """What has befallen something."""

    @property
    def happened(self) -> list[Happened]: ...


def asserted(fault: Happening, times: int | None, within_s: float) -> list[Happened]:
    """See Fault.assert_happened."""
    __tracebackhide__ = True
    deadline = time.monotonic() + within_s
    while True:
        found = fault.happened
        if len(found) == times or (times is None and found):
            return found
        if time.monotonic() >= deadline or (times is not None and len(found) > times):
            break
        time.sleep(LOOK_AGAIN_S)
    wanted = "any request" if times is None else f"{times} requests"
    told = "".join(f"\n  {json.dumps(each)}" for each in found)
    raise AssertionError(f"{fault!r} was to befall {wanted}, and befell {len(found)}{told}")


class Fault(Removable):
    """One rule at a broker; it ends with its `with` block."""

    def __init__(self, control: ControlClient, number: int, said: Mapping[str, Any]) -> None:
        self._control = control
        self.number = number
        self.said = said

    def __repr__(self) -> str:
        return f"Fault({json.dumps(self.said)})"

    @property
    def happened(self) -> list[Happened]:
        """The requests it has befallen, the oldest first."""
        found: list[Happened] = self._control.get(f"/faults/happened?rule={self.number}")[
            "happened"
        ]
        return found

    def remove(self) -> None:
        """Have it hold no longer; what happened stays known.  Raises ControlError."""
        self._control.delete(f"/faults/{self.number}")

    def assert_happened(self, times: int | None = None, *, within_s: float = 0.0) -> list[Happened]:
        """Fail unless it befell so many requests, None for any; `within_s` waits for that.

        Returns them.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        return asserted(self, times, within_s)


class Faults:
    """Those of one broker."""

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
        """Have a rule hold from now on: the fields are those of kwire.testing.hooks.faults.rules,
        and of
        kwire.testing.hooks.faults.disk.

        Raises ControlError, whose message says what of it cannot be.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        said = {
            name: list(value)
            if isinstance(value, Sequence) and not isinstance(value, str)
            else value
            for name, value in given.items()
            if value is not None
        }
        return self._add([said])[0]

    def load(self, path: AnyPath) -> list[Fault]:
        """Have the rules of a file hold, a JSON list of them.  Raises NotARecord, ControlError."""
        try:
            said = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as problem:
            raise NotARecord(f"{path}: not JSON: {problem}") from None
        return self._add(said if isinstance(said, list) else [said])

    def _add(self, said: Sequence[Mapping[str, Any]]) -> list[Fault]:
        numbers = self._control.post("/faults", said)["rules"]
        return [
            Fault(self._control, number, each) for number, each in zip(numbers, said, strict=True)
        ]

    def clear(self) -> None:
        """Have none, and forget what happened."""
        self._control.delete("/faults")

    @property
    def happened(self) -> list[Happened]:
        """All requests that were befallen, the oldest first."""
        found: list[Happened] = self._control.get("/faults/happened")["happened"]
        return found
