"""Runs a scenario on one broker: sends its requests, takes notes, measures and waits."""

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
"""Limit for what a broker does within a second or two; a busy machine may take far longer."""
TOO_LATE = "too late"


class Note(NamedTuple):
    """An observation of a scenario that is not a response, made after `after` steps."""

    after: int
    what: str
    value: Tree


class TranscriptEntry(NamedTuple):
    """A line of the transcript: a request or an observation, and its outcome."""

    what: str
    value: Tree


@dataclass
class ScenarioStage(Stage):
    """A stage that can also take notes, measure times and wait."""

    notes: list[Note] = field(default_factory=list)
    _awaited: int = 0

    def note(self, what: str, value: Tree) -> None:
        """Record an observation that responses do not show; it is compared."""
        self.notes.append(Note(len(self.steps), what, value))

    @contextmanager
    def lasts(self, what: str, at_least_s: float, at_most_s: float) -> Iterator[None]:
        """Note whether the block takes between `at_least_s` and `at_most_s` seconds.

        If it takes too long on one broker only, the runner repeats the scenario, because the
        machine may have been busy with other things.
        """
        start = time.monotonic()
        yield
        took_s = time.monotonic() - start
        word = "too soon" if took_s < at_least_s else TOO_LATE if took_s > at_most_s else "in time"
        self.note(what, word)

    def until(self, what: str, is_so: Callable[[], bool], timeout_s: float = UNTIL_S) -> None:
        """Wait for what a broker does by itself, and note whether it does; `is_so` sends with
        `ask`."""
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > deadline:
                self.note(what, "never")
                raise NotReady(f"{self.broker.bootstrap}: never {what}")
            time.sleep(POLL_S)
        self.note(what, "done")

    def await_controller(self) -> None:
        """Wait until the broker has applied all decisions of its controller so far.

        The controller replies before the broker has applied a decision. Brokers apply decisions in
        order, so a topic that is created now comes last. If it arrives together with earlier
        configs, they may take effect a moment after the topic; they have done so before a second
        new topic arrives.
        """
        for _ in range(2):
            self._awaited += 1
            self.topic(f"settled{self._awaited}")

    def pause(self) -> None:
        """Sleep between two checks of something that takes its time."""
        time.sleep(POLL_S)

    def transcript(self, common_keys: set[int], shared_prefix: str) -> list[TranscriptEntry]:
        """Return all requests and notes with their outcomes, without what may differ between
        brokers."""
        normaliser = Normaliser(
            self.prefix, self.broker.node_id, self.topics, common_keys, shared_prefix
        )
        entries: list[TranscriptEntry] = []
        notes = list(self.notes)
        for number, step in enumerate(self.steps):
            while notes and notes[0].after <= number:
                entries.append(_entry_of_note(notes.pop(0)))
            entries.append(
                TranscriptEntry(_request_name(step.request), outcome_tree(step, normaliser))
            )
        return entries + [_entry_of_note(note) for note in notes]


def _entry_of_note(note: Note) -> TranscriptEntry:
    return TranscriptEntry(note.what, note.value)


def _request_name(request: object) -> str:
    return "bytes" if isinstance(request, bytes) else type(request).__name__
