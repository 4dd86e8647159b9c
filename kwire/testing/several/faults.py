"""Fault rules that are added to several brokers at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.testing.faults import Fault, Faults, Happened, assert_injections
from kwire.testing.hosting.lifetime import Removable


class SpreadFault(Removable):
    """One rule at several brokers; its `with` block ends with the removal of the rule.

    Each broker counts `skip` and `times` by itself.
    """

    def __init__(self, at: Mapping[int, Fault]) -> None:
        self.at = dict(at)
        """The rule at each broker, by broker id."""

    def __repr__(self) -> str:
        return f"at brokers {', '.join(map(str, self.at))}: {next(iter(self.at.values()))!r}"

    @property
    def happened(self) -> list[Happened]:
        """The rule's injections at all brokers, oldest first; `broker` is the broker's id."""
        return merged({broker_id: fault.happened for broker_id, fault in self.at.items()})

    def assert_happened(self, times: int | None = None, *, within_s: float = 0.0) -> list[Happened]:
        """Does what `Fault.assert_happened` does, with the injections of all brokers together."""
        __tracebackhide__ = True  # pytest shows the line of the test
        return assert_injections(self, times, within_s)

    def remove(self) -> None:
        """Remove the rule from all brokers.  Raises ControlError."""
        for fault in self.at.values():
            fault.remove()


class SpreadFaults:
    """The fault rules of several brokers."""

    def __init__(self, at: Mapping[int, Faults]) -> None:
        self._at = at

    def add(self, preset: str | None = None, **rule: Any) -> SpreadFault:  # noqa: ANN401 - as of Faults
        """Add a rule to all brokers; the arguments are those of `Faults.add`."""
        return SpreadFault(
            {broker_id: faults.add(preset, **rule) for broker_id, faults in self._at.items()}
        )

    def clear(self) -> None:
        """Remove all rules from all brokers and forget their injections."""
        for faults in self._at.values():
            faults.clear()

    @property
    def happened(self) -> list[Happened]:
        """The injections at all brokers, oldest first; `broker` is the broker's id."""
        return merged({broker_id: faults.happened for broker_id, faults in self._at.items()})


def merged(at: Mapping[int, list[Happened]]) -> list[Happened]:
    """The injections at several brokers in the order of time, each with its broker's id."""
    injections = [
        {"broker": broker_id, **injection}
        for broker_id, of_broker in at.items()
        for injection in of_broker
    ]
    return sorted(injections, key=lambda injection: int(injection["time_ms"]))
