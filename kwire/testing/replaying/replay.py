"""Sends a trace's requests in the recorded order of requests and responses.

A request is sent once all requests have been answered that were answered before it in the trace.
So requests that were in flight together are in flight together again.  They arrive in the recorded
order, and the broker's time is the trace's, as far as `timing` can achieve it.

A Fetch is sent only when its response is next: its response has what the log held when it was
answered, and how many batches had arrived when a waiting Fetch woke up is chance.  With
Pace.ANSWERS, a Fetch that waited in vain in the trace does not wait again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.client.connection import BrokerConnection
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
    RETRIABLE,
    came_too_early,
    comparable,
    did_nothing,
    fetched_bytes,
    recorded_retriable_errors,
)
from kwire.testing.replaying.ids import Ids
from kwire.testing.replaying.link import Links, NoResponse
from kwire.testing.replaying.outcome import Differing, Left, Outcome
from kwire.testing.replaying.recording import Recorded, read_recording
from kwire.testing.replaying.settling import Settling
from kwire.testing.replaying.timing import HeldBroker, HeldTime, RealTime
from kwire.testing.values import Path as AnyPath

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity
    from kwire.testing.clock import Clock

TIMEOUT_S: Final = 30.0
"""How long to wait for a response, in addition to the time that it took in the trace."""
RETRY_AFTER_S: Final = 0.1
NEVER_RETRIED: Final = frozenset({ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
"""Requests that may have changed something although their response has a retriable error."""


class Pace(Enum):
    """When the next request is sent."""

    ANSWERS = "answers"
    """As soon as the responses before it have arrived."""
    RECORDED = "recorded"
    """Not before its time in the trace, relative to the first request."""


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
    """Send the requests in a trace's file to a broker or a cluster, and compare the responses.

    The brokers must hold what the recorded brokers held when the trace began.  A request that fails
    with a retriable error such as COORDINATOR_NOT_AVAILABLE is sent again for up to `patience_s`.
    `timeout_s` is how long to wait for a response, in addition to its recorded duration.  `clocks`
    returns a broker's clock by its id (None for a single broker); with it, the brokers' time
    follows the trace.
    Raises DamagedTrace, NoCounterpart, OSError if the file cannot be read, ClientError if no broker
    can be reached.
    """
    recording = read_recording(Path(path))
    brokers = counterparts(recording, bootstrap, timeout_s, security)
    links = Links(brokers, timeout_s, security)
    with ExitStack() as ending:
        ending.callback(links.close)
        timing = RealTime(recording[0].time_ms)
        probes: dict[int, BrokerConnection] = {}
        if brokers.are_several or clocks is not None:
            for node in brokers.all:
                probes[node.node_id] = links.opened(node)
                ending.callback(probes[node.node_id].close)
        if clocks is not None:
            held: list[HeldBroker] = []
            for node_id, probe in probes.items():
                clock = clocks(node_id if brokers.are_several else None)
                ending.enter_context(clock.held())
                held.append(HeldBroker(clock, probe))
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
        timing: RealTime,
        settling: Settling | None,
        pace: Pace,
        patience_s: float,
    ) -> None:
        """`settling` is None for a single broker."""
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
        """The bodies of the requests in flight, by their line in the file."""

    def run(self) -> Outcome:
        """Sends the requests and receives the responses in the order of the trace, and returns the
        outcome.  A position is the place of a request or of a response in that order."""
        self._first_ms = self._recording[0].time_ms
        self._start_s = time.monotonic()
        last_position = {
            (recorded.broker, recorded.connection): position
            for position, recorded in _positions(self._recording)
        }
        for recorded in self._recording if self._settling is not None else ():
            recorded.unsent = recorded.unsent or did_nothing(recorded)
        for position, recorded in _positions(self._recording):
            if recorded.unsent:
                if position == recorded.begun:
                    self._outcome.unsent.append(Left(recorded, recorded.unsent))
            elif position == recorded.begun:
                if not _is_fetch(recorded):
                    self._send(recorded)
            else:
                if _is_fetch(recorded):
                    self._send(recorded)
                self._receive(recorded)
            if position == last_position[recorded.broker, recorded.connection]:
                self._links.close(recorded)
        return self._outcome

    def _send(self, recorded: Recorded) -> None:
        """Sends a request with the ids of the new broker in place of the recorded ones.  At the
        recorded pace, it first waits until the request is due."""
        if self._pace is Pace.RECORDED:
            due_s = self._start_s + (recorded.time_ms - self._first_ms) / 1000
            time.sleep(max(0.0, due_s - time.monotonic()))
        others = self._links.others_awaiting(recorded)
        self._timing.before_sending(recorded.time_ms, others)
        is_changed = self._ids.put_into(recorded.request)
        is_changed |= self._change_wait(recorded)
        body = recorded.request.encode(recorded.version) if is_changed else recorded.body
        self._links.send(recorded, body)
        self._outcome.sent += 1
        self._sent[recorded.line] = body

    def _change_wait(self, recorded: Recorded) -> bool:
        """Make a Fetch wait for as many bytes as its recorded response had, or not at all.

        Returns whether that changed the request.
        """
        request, size_bytes = recorded.request, fetched_bytes(recorded.response)
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
        """Waits for the response to a request and compares it with the recorded one.  As long as it
        has a retriable error that the recorded response has not, the request is sent again."""
        body = self._sent.pop(recorded.line)
        if not recorded.answered:
            return
        answer = self._await_response(recorded)
        deadline = time.monotonic() + self._patience_s
        retried: set[int] = set()
        while (errors := _retriable_errors(recorded, answer)) and time.monotonic() < deadline:
            retried |= errors
            self._timing.wait(RETRY_AFTER_S)
            self._links.send(recorded, body)
            answer = self._await_response(recorded)
        if retried:
            names = ", ".join(sorted(map(error_name, retried)))
            self._outcome.asked_again.append(Left(recorded, names))
        self._compare(recorded, answer)
        if self._settling is not None and not isinstance(answer, NoResponse):
            self._settling.after(recorded.request, answer)

    def _await_response(self, recorded: Recorded) -> Message | NoResponse:
        responded_ms = recorded.time_ms + math.ceil(recorded.duration_ms)
        self._timing.before_reading(responded_ms, *self._links.awaiting(recorded))
        return self._links.receive(recorded)

    def _compare(self, recorded: Recorded, answer: Message | NoResponse) -> None:
        """Adds a response to the outcome: equal, different, or not compared.  In a cluster a
        difference does not count if the recorded response has a retriable error, since the new
        cluster may be faster."""
        if recorded.uncompared or recorded.response is None:
            why = recorded.uncompared or "there was no answer"
            self._outcome.uncompared.append(Left(recorded, why))
            return
        found = self._differences(recorded, recorded.response, answer)
        if found and self._settling is not None and (errors := recorded_retriable_errors(recorded)):
            self._outcome.uncompared.append(Left(recorded, came_too_early(errors)))
            return
        self._outcome.compared += 1
        if found:
            self._outcome.differing.append(Differing(recorded, found))

    def _differences(
        self, recorded: Recorded, response: Message, answer: Message | NoResponse
    ) -> tuple[Difference, ...]:
        """Return the differences between the recorded response and the answer, after ids are
        learned from both.  A missing answer is one difference."""
        if isinstance(answer, NoResponse):
            return (Difference("", "an answer", answer.why),)
        self._learn(response, answer)
        if self._settling is not None:
            names = self._ids.recorded_topics, self._ids.topics
            response, answer = comparable(recorded, answer, *names)
        then = self._of_recorded.reply(response, recorded.request)
        return tuple(differences(then, self._of_answers.reply(answer, recorded.request)))

    def _learn(self, response: Message, answer: Message) -> None:
        """Learns from two responses to the same request: the ids, the API keys that both brokers
        serve, and the broker's own node id."""
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
    """How many events the trace dropped, at all brokers together: gaps in their numbers."""
    last_numbers: dict[int | None, int] = {}
    for recorded in recording:
        last_number = last_numbers.get(recorded.broker, 0)
        last_numbers[recorded.broker] = max(recorded.number, last_number)
    return sum(last_numbers.values()) - len(recording)


def _positions(recording: list[Recorded]) -> Iterator[tuple[int, Recorded]]:
    """The positions of all requests and responses in their order, each with its request.

    If two brokers have the same position, a response comes before a request.
    """
    positions = [(each.begun, True, each.broker or 0, each) for each in recording]
    positions += [(each.ended, False, each.broker or 0, each) for each in recording]
    positions.sort(key=lambda entry: entry[:3])
    return ((position, recorded) for position, *_, recorded in positions)


def _is_fetch(recorded: Recorded) -> bool:
    return isinstance(recorded.request, FetchRequest)


def _retriable_errors(recorded: Recorded, answer: Message | NoResponse) -> set[int]:
    """The errors in a response because of which the request is sent again.

    None if the recorded response has a retriable error, too: then it is compared as it is.
    """
    if isinstance(answer, NoResponse) or recorded.request.API_KEY in NEVER_RETRIED:
        return set()
    errors = list(error_codes_in(answer))
    if isinstance(answer, ProduceResponse) and not all(errors):
        return set()  # a retry would append again to the partitions that succeeded
    if recorded_retriable_errors(recorded):
        return set()
    return {error for error in errors if error in RETRIABLE}
