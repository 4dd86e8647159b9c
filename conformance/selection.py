"""What `--only` names: parts of the suite, and within them API keys, scenarios or cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kwire.conformance.wire.runner import Selection

WIRE, BEHAVIOUR, HOSTILE = "wire", "behaviour", "hostile"
PARTS = (WIRE, BEHAVIOUR, HOSTILE)


@dataclass(slots=True)
class Chosen:
    """The parts to run; of each, what its items' names must contain one of, if there is any."""

    parts: set[str] = field(default_factory=set)
    apis: list[Selection] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)

    def takes(self, part: str, name: str) -> bool:
        """Whether a scenario or a case of that name is to be played."""
        wanted = self.names.get(part, [])
        return part in self.parts and (not wanted or any(each in name for each in wanted))


def parse(values: Iterable[str]) -> Chosen:
    """`wire`, `behaviour[:NAME]`, `hostile[:NAME]` and `API[:VERSION]`; nothing means all.

    An API alone means the wire part alone. Raises ValueError.
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
