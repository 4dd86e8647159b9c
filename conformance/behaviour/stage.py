"""Where a scenario is played: connections, topics and requests, and what it noticed itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.conformance.wire.broker import NotReady
from kwire.conformance.wire.compare import outcome_tree
from kwire.conformance.wire.stage import Stage
from kwire.testing.comparing.normal import Normaliser, Tree

POLL_S = 0.05
UNTIL_S = 120.0
"""For what a broker does within a second or two; the machine may be at work on other things."""
TOO_LATE = "too late"


class Note(NamedTuple):
    """Something a scenario noticed that is no reply: `after` so many steps."""

    after: int
    what: str
    value: Tree


class Entry(NamedTuple):
    """A line of the transcript: what was asked or noticed, and what came of it."""

    what: str
    value: Tree


@dataclass
class ScenarioStage(Stage):
    """A stage that can also take notes, measure and wait."""

    notes: list[Note] = field(default_factory=list)
    _settled: int = 0

    def note(self, what: str, value: Tree) -> None:
        """Write down what replies alone do not show; it is compared."""
        self.notes.append(Note(len(self.steps), what, value))

    @contextmanager
    def lasts(self, what: str, at_least_s: float, at_most_s: float) -> Iterator[None]:
        """Note whether the block takes its time: a broker's clock is coarser than ours by `SLACK`.

        What comes too late at one broker alone is played again (see the runner): the machine may
        have been at work on other things.
        """
        before = time.monotonic()
        yield
        took_s = time.monotonic() - before
        word = "too soon" if took_s < at_least_s else TOO_LATE if took_s > at_most_s else "in time"
        self.note(what, word)

    def until(self, what: str, is_so: Callable[[], bool], timeout_s: float = UNTIL_S) -> None:
        """Wait for what a broker does by itself; noted if it does not. `is_so` asks by `ask`."""
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > deadline:
                self.note(what, "never")
                raise NotReady(f"{self.broker.bootstrap}: never {what}")
            time.sleep(POLL_S)
        self.note(what, "done")

    def settle(self) -> None:
        """Wait until the broker knows what its controller has decided so far: it replies before.

        What a controller decides is learned in its order, so a topic that is made now comes last.
        Where it is learned together with what came before, configs are in force a moment after the
        topic is there; but before another one is, that is made then.
        """
        for _ in range(2):
            self._settled += 1
            self.topic(f"settled{self._settled}")

    def pause(self) -> None:
        """Between two looks at what takes its time."""
        time.sleep(POLL_S)

    def transcript(self, common_keys: set[int], shared_prefix: str) -> list[Entry]:
        """All that was seen, without what may differ between brokers."""
        normaliser = Normaliser(
            self.prefix, self.broker.node_id, self.topics, common_keys, shared_prefix
        )
        entries: list[Entry] = []
        notes = list(self.notes)
        for number, step in enumerate(self.steps):
            while notes and notes[0].after <= number:
                entries.append(_of_note(notes.pop(0)))
            entries.append(Entry(_asked(step.request), outcome_tree(step, normaliser)))
        return entries + [_of_note(note) for note in notes]


def _of_note(note: Note) -> Entry:
    return Entry(note.what, note.value)


def _asked(request: object) -> str:
    return "bytes" if isinstance(request, bytes) else type(request).__name__
