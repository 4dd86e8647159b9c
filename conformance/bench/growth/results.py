"""The results of the growth benchmark, in a file that a partial run only adds to."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from kwire.conformance.bench.growth.greedy import Beside
from kwire.conformance.bench.growth.turns import Cost, MeasuredGrowth
from kwire.conformance.bench.sizes import Waits


@dataclass
class Results:
    """What was measured, by key of the scale or greedy client and by broker.

    machine   (name, value) of each fact about the machine
    note      what else was true of the run, such as its load
    sizes     the full size of each scale
    """

    machine: list[tuple[str, str]] = field(default_factory=list)
    note: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    scales: dict[str, dict[str, MeasuredGrowth]] = field(default_factory=dict)
    greedy: dict[str, dict[str, Beside]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the results in a file; empty ones if there is no file."""
        if not path.exists():
            return cls()
        found = json.loads(path.read_text())
        return cls(
            [(name, value) for name, value in found["machine"]],
            found["note"],
            found["sizes"],
            {key: _growths(brokers) for key, brokers in found["scales"].items()},
            {key: _waits(brokers) for key, brokers in found["greedy"].items()},
        )

    def write(self, path: Path) -> None:
        """Write the file, one value a line, so that changes can be read."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    def brokers(self) -> list[str]:
        """Return the names of all measured brokers, the first measured one first."""
        names = [name for brokers in self.scales.values() for name in brokers]
        names += [name for brokers in self.greedy.values() for name in brokers]
        return list(dict.fromkeys(names))


def _growths(brokers: dict[str, dict[str, Any]]) -> dict[str, MeasuredGrowth]:
    """Return the growths of a scale, by broker."""
    growths = {}
    for name, values in brokers.items():
        costs = {request: Cost(*cost) for request, cost in values.pop("costs").items()}
        growths[name] = MeasuredGrowth(costs, **values)
    return growths


def _waits(brokers: dict[str, list[list[float]]]) -> dict[str, Beside]:
    """Return the honest client's waits, by broker."""
    return {name: Beside(*(Waits(*waits) for waits in both)) for name, both in brokers.items()}
