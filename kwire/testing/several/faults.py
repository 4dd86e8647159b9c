"""Rules that hold at several brokers, as if they were one's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.testing.faults import Fault, Faults, Happened, asserted
from kwire.testing.hosting.lifetime import Removable


class SpreadFault(Removable):
    """One rule at each of several brokers, which counts at each of them; it ends with its block."""

    def __init__(self, at: Mapping[int, Fault]) -> None:
        self.at = dict(at)
        """By the broker's id."""

    def __repr__(self) -> str:
        return f"at brokers {', '.join(map(str, self.at))}: {next(iter(self.at.values()))!r}"

    @property
    def happened(self) -> list[Happened]:
        """What it has befallen, the oldest first, with the `broker`."""
        return merged({broker_id: fault.happened for broker_id, fault in self.at.items()})

    def assert_happened(self, times: int | None = None, *, within_s: float = 0.0) -> list[Happened]:
        """As of `Fault`, of all brokers together."""
        __tracebackhide__ = True  # pytest shows the line of the test
        return asserted(self, times, within_s)

    def remove(self) -> None:
        """Have it hold no longer.  Raises ControlError."""
        for fault in self.at.values():
            fault.remove()


class SpreadFaults:
    """Those of several brokers."""

    def __init__(self, at: Mapping[int, Faults]) -> None:
        self._at = at

    def add(self, preset: str | None = None, **rule: Any) -> SpreadFault:  # noqa: ANN401 - as of Faults
        """Have a rule hold at all of them: the arguments are those of `Faults.add`."""
        return SpreadFault({each: faults.add(preset, **rule) for each, faults in self._at.items()})

    def clear(self) -> None:
        """Have none, and forget what happened."""
        for faults in self._at.values():
            faults.clear()

    @property
    def happened(self) -> list[Happened]:
        """All that happened at all of them, the oldest first, with the `broker`."""
        return merged({broker_id: faults.happened for broker_id, faults in self._at.items()})


def merged(at: Mapping[int, list[Happened]]) -> list[Happened]:
    """What happened at several brokers, in the order of time."""
    found = [{"broker": broker_id, **each} for broker_id, all_ in at.items() for each in all_]
    return sorted(found, key=lambda each: int(each["time_ms"]))
