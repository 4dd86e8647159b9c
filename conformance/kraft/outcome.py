"""What each step of a run made the controllers write, and how two runs differ (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kwire.conformance.kraft.naming import RecordLine

NOTHING = "(nothing)"
EXCUSED = {
    # kwire works from 3.9 on, which is the release to come from ZooKeeper with.
    "(name='metadata.version' min_supported_version=21 ": (
        "(name='metadata.version' min_supported_version=7 "
    ),
}
"""What kwire's brokers tell controllers on purpose, and what Apache Kafka's tell them."""


@dataclass
class StepOutcome:
    """The lines that were written in a step, in their order, by subject."""

    step: str
    written: dict[str, list[str]] = field(default_factory=dict)

    def add(self, lines: Iterable[RecordLine]) -> None:
        for line in lines:
            self.written.setdefault(line.subject, []).append(line.text)


@dataclass(frozen=True)
class RunOutcome:
    """The outcomes of all steps with brokers of these kinds."""

    kinds: str
    steps: list[StepOutcome]

    def to_json(self) -> str:
        content = {
            "kinds": self.kinds,
            "steps": [{"step": each.step, "written": each.written} for each in self.steps],
        }
        return json.dumps(content, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunOutcome:
        content: dict[str, Any] = json.loads(text)
        steps = [StepOutcome(each["step"], each["written"]) for each in content["steps"]]
        return cls(content["kinds"], steps)

    @property
    def record_count(self) -> int:
        """The number of lines."""
        return sum(len(lines) for step in self.steps for lines in step.written.values())


def differences(ours: RunOutcome, theirs: RunOutcome) -> Iterator[str]:
    """Yield a paragraph for each subject of a step that was written differently."""
    expected = {step.step: step.written for step in theirs.steps}
    for step in ours.steps:
        other = expected.get(step.step, {})
        for subject in sorted({*step.written, *other}):
            left, right = step.written.get(subject, []), other.get(subject, [])
            if [*map(_excused, left)] != [*map(_excused, right)]:
                yield "\n".join(
                    (
                        f"{step.step}: {subject}",
                        *(f"    {ours.kinds}: {line}" for line in left or [NOTHING]),
                        *(f"    {theirs.kinds}: {line}" for line in right or [NOTHING]),
                    )
                )
    missing = [name for name in expected if name not in {step.step for step in ours.steps}]
    for name in missing:
        yield f"{name}: not run with {ours.kinds}"


def _excused(line: str) -> str:
    """Return a line in which intended differences are replaced."""
    for ours, theirs in EXCUSED.items():
        line = line.replace(ours, theirs)
    return line
