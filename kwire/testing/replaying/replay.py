"""A trace's requests in the order in which they came and were answered.

A request is sent once all those are answered that had been answered before it came; so those that
were under way together are so again.  They arrive in their order, and the broker's time is that of
the trace, as far as `timing` can see to it.

A Fetch is sent when its turn to be answered has come, and not before: what it told is what was
there then, and how many batches had come when it was woken is chance.  At the pace of the answers
one that had waited in vain does not wait again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.client.connection import Connection
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import error_codes_in, error_name
from kwire.codecs.messages.api_versions import ApiVersionsResponse
from kwire.codecs.messages.fetch import FetchRequest
from kwire.codecs.messages.metadata import MetadataResponse
from kwire.codecs.messages.produce import ProduceResponse
from kwire.codecs.primitives import Message
from kwire.testing.comparing.differences import Difference, differences
from kwire.testing.comparing.normal import Normaliser
from kwire.testing.replaying.brokers import counterparts
from kwire.testing.replaying.early import (
    NOT_YET,
    as_far_as_told,
    came_too_early,
    did_nothing,
    told_bytes,
    told_then,
)
from kwire.testing.replaying.ids import Ids
from kwire.testing.replaying.link import Links, NoAnswer
from kwire.testing.replaying.outcome import Differing, Left, Outcome
from kwire.testing.replaying.recording import Recorded, read_recording
from kwire.testing.replaying.settling import Settling
from kwire.testing.replaying.timing import Held, HeldTime, WorldsTime
from kwire.testing.values import Path as AnyPath

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity
    from kwire.testing.clock import Clock

TIMEOUT_S: Final = 30.0
"""For an answer, beyond the time that it had taken."""
ASKED_AGAIN_AFTER_S: Final = 0.1
DONE_IN_PART: Final = frozenset({ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
"""What does something even where the answer has such an error."""


class Pace(Enum):
    """When a request is sent whose turn has come."""

    ANSWERS = "answers"
    """At once."""
    RECORDED = "recorded"
    """No sooner after the first one than in the trace."""


def replay(
    path: AnyPath,
    bootstrap: str,
    *,
    pace: Pace | str = Pace.ANSWERS,
    patience_s: float = 0.0,
    timeout_s: float = TIMEOUT_S,
    security: ClientSecurity | None = None,
    clocks: Callable[[int | None], Clock] | None = None,
) -> Outcome:
    """Send the requests of a trace's file to a broker or a cluster, and compare the answers.

    They are to hold what the recorded ones held when the trace began: fresh ones nothing.
    With patience one that is not ready (COORDINATOR_NOT_AVAILABLE ...) is asked again for so long.
    `clocks` gives that of a broker by its id, of one alone by None, and has time pass as in the
    trace.
    Raises DamagedTrace, NoCounterpart, OSError where the file cannot be read, ClientError where no
    broker is.
    """
    recording = read_recording(Path(path))
    brokers = counterparts(recording, bootstrap, timeout_s, security)
    links = Links(brokers, timeout_s, security)
    with ExitStack() as ending:
        ending.callback(links.close)
        timing = WorldsTime(recording[0].time_ms)
        probes: dict[int, Connection] = {}
        if brokers.are_several or clocks is not None:
            for node in brokers.all:
                probes[node.node_id] = links.opened(node)
                ending.callback(probes[node.node_id].close)
        if clocks is not None:
            held: list[Held] = []
            for node_id, probe in probes.items():
                clock = clocks(node_id if brokers.are_several else None)
                ending.enter_context(clock.held())
                held.append(Held(clock, probe))
            timing = HeldTime(recording[0].time_ms, held)
        settling = None
        if brokers.are_several:
            settling = Settling(list(probes.values()), timing, patience_s)
        return _Replay(recording, links, timing, settling, Pace(pace), patience_s).run()


class _Replay:
    def __init__(
        self,
        recording: list[Recorded],
        links: Links,
        timing: WorldsTime,
        settling: Settling | None,
        pace: Pace,
        patience_s: float,
    ) -> None:
        """`settling` is there where it is about several brokers."""
        self._recording = recording
        self._links = links
        self._timing = timing
        self._settling = settling
        self._pace = pace
        self._patience_s = patience_s
        self._ids = Ids()
        self._common_keys: set[int] = set()
        self._of_recorded = Normaliser("", -1, self._ids.recorded_topics, self._common_keys)
        self._of_answers = Normaliser("", -1, self._ids.topics, self._common_keys)
        if settling is not None:
            self._of_recorded.is_of_cluster = self._of_answers.is_of_cluster = True
        self._outcome = Outcome(lacking=_lacking(recording))
        self._sent: dict[int, bytes] = {}
        """The bodies of the requests that are under way, by the line."""

    def run(self) -> Outcome:
        self._first_ms = self._recording[0].time_ms
        self._start_s = time.monotonic()
        last = {(each.broker, each.connection): place for place, each in _places(self._recording)}
        for recorded in self._recording if self._settling is not None else ():
            recorded.unsent = recorded.unsent or did_nothing(recorded)
        for place, recorded in _places(self._recording):
            if recorded.unsent:
                if place == recorded.begun:
                    self._outcome.unsent.append(Left(recorded, recorded.unsent))
            elif place == recorded.begun:
                if not _waits(recorded):
                    self._send(recorded)
            else:
                if _waits(recorded):
                    self._send(recorded)
                self._receive(recorded)
            if place == last[recorded.broker, recorded.connection]:
                self._links.close(recorded)
        return self._outcome

    def _send(self, recorded: Recorded) -> None:
        if self._pace is Pace.RECORDED:
            due_s = self._start_s + (recorded.time_ms - self._first_ms) / 1000
            time.sleep(max(0.0, due_s - time.monotonic()))
        others = self._links.others_awaiting(recorded)
        self._timing.before_sending(recorded.time_ms, others)
        is_other = self._ids.put_into(recorded.request)
        is_other |= self._waits_otherwise(recorded)
        body = recorded.request.encode(recorded.version) if is_other else recorded.body
        self._links.send(recorded, body)
        self._outcome.sent += 1
        self._sent[recorded.line] = body

    def _waits_otherwise(self, recorded: Recorded) -> bool:
        """Have a Fetch wait for what it had been told, or not at all; whether that is other."""
        request, size_bytes = recorded.request, told_bytes(recorded.response)
        if not isinstance(request, FetchRequest) or recorded.response is None:
            return False
        if not size_bytes:
            if self._pace is Pace.RECORDED:
                return False
            request.max_wait_ms = 0
            return True
        if self._settling is None:
            return False
        request.min_bytes = min(size_bytes, request.max_bytes)
        request.max_wait_ms = max(request.max_wait_ms, round(self._patience_s * 1000))
        return True

    def _receive(self, recorded: Recorded) -> None:
        body = self._sent.pop(recorded.line)
        if not recorded.answered:
            return
        answer = self._answer(recorded)
        deadline = time.monotonic() + self._patience_s
        refused: set[int] = set()
        while (why := _not_yet(recorded, answer)) and time.monotonic() < deadline:
            refused |= why
            self._timing.wait(ASKED_AGAIN_AFTER_S)
            self._links.send(recorded, body)
            answer = self._answer(recorded)
        if refused:
            names = ", ".join(sorted(map(error_name, refused)))
            self._outcome.asked_again.append(Left(recorded, names))
        self._compare(recorded, answer)
        if self._settling is not None and not isinstance(answer, NoAnswer):
            self._settling.after(recorded.request, answer)

    def _answer(self, recorded: Recorded) -> Message | NoAnswer:
        told_ms = recorded.time_ms + math.ceil(recorded.duration_ms)
        self._timing.before_reading(told_ms, *self._links.awaiting(recorded))
        return self._links.receive(recorded)

    def _compare(self, recorded: Recorded, answer: Message | NoAnswer) -> None:
        if recorded.uncompared or recorded.response is None:
            why = recorded.uncompared or "there was no answer"
            self._outcome.uncompared.append(Left(recorded, why))
            return
        found = self._differences(recorded, recorded.response, answer)
        if found and self._settling is not None and (told := told_then(recorded)):
            self._outcome.uncompared.append(Left(recorded, came_too_early(told)))
            return
        self._outcome.compared += 1
        if found:
            self._outcome.differing.append(Differing(recorded, found))

    def _differences(
        self, recorded: Recorded, response: Message, answer: Message | NoAnswer
    ) -> tuple[Difference, ...]:
        if isinstance(answer, NoAnswer):
            return (Difference("", "an answer", answer.why),)
        self._learn(response, answer)
        if self._settling is not None:
            names = self._ids.recorded_topics, self._ids.topics
            response, answer = as_far_as_told(recorded, answer, *names)
        then = self._of_recorded.reply(response, recorded.request)
        return tuple(differences(then, self._of_answers.reply(answer, recorded.request)))

    def _learn(self, response: Message, answer: Message) -> None:
        self._ids.learn(response, answer)
        if isinstance(response, ApiVersionsResponse) and isinstance(answer, ApiVersionsResponse):
            then, now = ({key.api_key for key in each.api_keys} for each in (response, answer))
            self._common_keys |= then & now
        if self._settling is not None:
            return
        if isinstance(response, MetadataResponse) and isinstance(answer, MetadataResponse):
            for each, normaliser in ((response, self._of_recorded), (answer, self._of_answers)):
                if len(each.brokers) == 1:
                    normaliser.node_id = each.brokers[0].node_id


def _lacking(recording: list[Recorded]) -> int:
    """How many requests the trace had seen and does not hold, of all brokers together."""
    last: dict[int | None, int] = {}
    for each in recording:
        last[each.broker] = max(each.number, last.get(each.broker, 0))
    return sum(last.values()) - len(recording)


def _places(recording: list[Recorded]) -> Iterator[tuple[int, Recorded]]:
    """All comings and answers in their order: of two at once at two brokers, first the answer."""
    places = [(each.begun, True, each.broker or 0, each) for each in recording]
    places += [(each.ended, False, each.broker or 0, each) for each in recording]
    return ((place, each) for place, *_, each in sorted(places, key=lambda found: found[:3]))


def _waits(recorded: Recorded) -> bool:
    return isinstance(recorded.request, FetchRequest)


def _not_yet(recorded: Recorded, answer: Message | NoAnswer) -> set[int]:
    """The errors by which a broker says that it is asked too early; none where it does not.

    Where the recorded one had said so too it is an answer like others.
    """
    if isinstance(answer, NoAnswer) or recorded.request.API_KEY in DONE_IN_PART:
        return set()
    errors = list(error_codes_in(answer))
    if isinstance(answer, ProduceResponse) and not all(errors):
        return set()  # what went into one partition would go into it again
    return set() if told_then(recorded) else {each for each in errors if each in NOT_YET}
