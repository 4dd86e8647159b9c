"""The values of `--only`: parts of the suite, and within them API keys, scenarios or cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kwire.conformance.wire.runner import Selection

WIRE, BEHAVIOUR, HOSTILE = "wire", "behaviour", "hostile"
PARTS = (WIRE, BEHAVIOUR, HOSTILE)


@dataclass(slots=True)
class Chosen:
    """The parts to run, and the text that names of a part's items must contain, if any."""

    parts: set[str] = field(default_factory=set)
    apis: list[Selection] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)

    def takes(self, part: str, name: str) -> bool:
        """Return whether to run the scenario or case of that name in this part."""
        wanted = self.names.get(part, [])
        return part in self.parts and (not wanted or any(text in name for text in wanted))


def parse(values: Iterable[str]) -> Chosen:
    """The selection of `wire`, `behaviour[:NAME]`, `hostile[:NAME]` and `API[:VERSION]` values.

    No value selects all; only APIs select only the wire part. Raises ValueError.
    """
    chosen = Chosen()
    for value in values:
        head, colon, name = value.partition(":")
        if head not in PARTS:
            chosen.apis.append(Selection.parse(value))
            chosen.parts.add(WIRE)
            continue
        chosen.parts.add(head)
        if not colon:
            continue
        if head == WIRE:
            chosen.apis.append(Selection.parse(name))
        else:
            chosen.names.setdefault(head, []).append(name)
    chosen.parts = chosen.parts or set(PARTS)
    return chosen
