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
from collections.abc import Iterator
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.client.cluster import parse_bootstrap
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode, error_codes_in, error_name
from kwire.codecs.messages.api_versions import ApiVersionsResponse
from kwire.codecs.messages.fetch import FetchRequest, FetchResponse
from kwire.codecs.messages.metadata import MetadataResponse
from kwire.codecs.messages.produce import ProduceResponse
from kwire.codecs.primitives import Message
from kwire.comparing.differences import Difference, differences
from kwire.comparing.normal import Normaliser
from kwire.testing.replaying.ids import Ids
from kwire.testing.replaying.link import Links, NoAnswer
from kwire.testing.replaying.outcome import Differing, Left, Outcome
from kwire.testing.replaying.recording import Recorded, read_recording
from kwire.testing.replaying.timing import HeldTime, WorldsTime
from kwire.testing.values import Path as AnyPath

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity
    from kwire.testing.clock import Clock

TIMEOUT_S: Final = 30.0
"""For an answer, beyond the time that it had taken."""
ASKED_AGAIN_AFTER_S: Final = 0.1
NOT_YET: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""What a client is told who asks too early, and asks again."""
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
    clock: Clock | None = None,
) -> Outcome:
    """Send the requests of a trace's file to a broker, and compare its answers.

    The broker is to hold what the recorded one held when the trace began: a fresh one nothing.
    With patience one that is not ready (COORDINATOR_NOT_AVAILABLE ...) is asked again for so long.
    `clock` is the broker's, which has time pass as in the trace.
    Raises DamagedTrace, OSError where the file cannot be read, ClientError where no broker is.
    """
    recording = read_recording(Path(path))
    host, port = parse_bootstrap(bootstrap)[0]
    links = Links(host, port, timeout_s, security)
    with ExitStack() as ending:
        ending.callback(links.close)
        timing = WorldsTime(recording[0].time_ms)
        if clock is not None:
            probe = links.opened()
            ending.callback(probe.close)
            ending.enter_context(clock.held())
            timing = HeldTime(recording[0].time_ms, clock, probe)
        return _Replay(recording, links, timing, Pace(pace), patience_s).run()


class _Replay:
    def __init__(
        self,
        recording: list[Recorded],
        links: Links,
        timing: WorldsTime,
        pace: Pace,
        patience_s: float,
    ) -> None:
        self._recording = recording
        self._links = links
        self._timing = timing
        self._pace = pace
        self._patience_s = patience_s
        self._ids = Ids()
        self._common_keys: set[int] = set()
        self._of_recorded = Normaliser("", -1, self._ids.recorded_topics, self._common_keys)
        self._of_answers = Normaliser("", -1, self._ids.topics, self._common_keys)
        self._outcome = Outcome(lacking=max(each.number for each in recording) - len(recording))
        self._sent: dict[int, bytes] = {}
        """The bodies of the requests that are under way, by the line."""

    def run(self) -> Outcome:
        self._first_ms = self._recording[0].time_ms
        self._start_s = time.monotonic()
        last = {each.connection: each.ended for each in self._recording}
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
            if place == last[recorded.connection]:
                self._links.close(recorded.connection)
        return self._outcome

    def _send(self, recorded: Recorded) -> None:
        if self._pace is Pace.RECORDED:
            due_s = self._start_s + (recorded.time_ms - self._first_ms) / 1000
            time.sleep(max(0.0, due_s - time.monotonic()))
        others = self._links.others_awaiting(recorded.connection)
        self._timing.before_sending(recorded.time_ms, others)
        request = recorded.request
        is_other = self._ids.put_into(request)
        in_vain = self._pace is Pace.ANSWERS and _waited_in_vain(recorded.response)
        if in_vain and isinstance(request, FetchRequest):
            is_other, request.max_wait_ms = True, 0
        body = request.encode(recorded.version) if is_other else recorded.body
        self._links.send(recorded, body)
        self._outcome.sent += 1
        self._sent[recorded.line] = body

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

    def _answer(self, recorded: Recorded) -> Message | NoAnswer:
        told_ms = recorded.time_ms + math.ceil(recorded.duration_ms)
        self._timing.before_reading(told_ms, *self._links.awaiting(recorded))
        return self._links.receive(recorded)

    def _compare(self, recorded: Recorded, answer: Message | NoAnswer) -> None:
        if recorded.uncompared or recorded.response is None:
            why = recorded.uncompared or "there was no answer"
            self._outcome.uncompared.append(Left(recorded, why))
            return
        self._outcome.compared += 1
        if isinstance(answer, NoAnswer):
            found = [Difference("", "an answer", answer.why)]
        else:
            self._learn(recorded.response, answer)
            then = self._of_recorded.reply(recorded.response, recorded.request)
            found = list(differences(then, self._of_answers.reply(answer, recorded.request)))
        if found:
            self._outcome.differing.append(Differing(recorded, tuple(found)))

    def _learn(self, response: Message, answer: Message) -> None:
        self._ids.learn(response, answer)
        if isinstance(response, ApiVersionsResponse) and isinstance(answer, ApiVersionsResponse):
            then, now = ({key.api_key for key in each.api_keys} for each in (response, answer))
            self._common_keys |= then & now
        if isinstance(response, MetadataResponse) and isinstance(answer, MetadataResponse):
            for each, normaliser in ((response, self._of_recorded), (answer, self._of_answers)):
                if len(each.brokers) == 1:
                    normaliser.node_id = each.brokers[0].node_id


def _places(recording: list[Recorded]) -> Iterator[tuple[int, Recorded]]:
    places = [(each.begun, each) for each in recording]
    places += [(each.ended, each) for each in recording]
    return iter(sorted(places, key=lambda place: place[0]))


def _waits(recorded: Recorded) -> bool:
    return isinstance(recorded.request, FetchRequest)


def _waited_in_vain(response: Message | None) -> bool:
    if not isinstance(response, FetchResponse):
        return False
    return not any(part.records for topic in response.responses for part in topic.partitions)


def _not_yet(recorded: Recorded, answer: Message | NoAnswer) -> set[int]:
    """The errors by which a broker says that it is asked too early; none where it does not.

    Where the recorded one had said so too it is an answer like others.
    """
    if isinstance(answer, NoAnswer) or recorded.request.API_KEY in DONE_IN_PART:
        return set()
    errors = list(error_codes_in(answer))
    if isinstance(answer, ProduceResponse) and not all(errors):
        return set()  # what went into one partition would go into it again
    then = set() if recorded.response is None else set(error_codes_in(recorded.response))
    return set() if then & NOT_YET else {each for each in errors if each in NOT_YET}
