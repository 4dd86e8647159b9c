"""Brokers whose process has ended: what clients that notice it are answered.

EndedBrokers: the image may still name them as leaders.  librdkafka and Java's clients ask for
metadata as soon as a connection breaks, which is some milliseconds before the controller has
elected new leaders.  An answer with the former leader costs them much time: librdkafka asks again
only once a second then.  So the answer waits for the election (kwire.requests.handlers.metadata).

Only a store that notices the end of a process at once reports it (BrokerEnded).  Beside such a
store, a broken connection to a leader counts, too: the first question of a client may come before
the report.  With sessions the election is seconds away, and no answer waits for it.

DepartedBrokers: the image no longer has them, and others lead.  librdkafka gives up a broker that
an answer does not name, and forgets the new leaders of its partitions if the same answer has them:
it reads them again at its next topic scan, up to a second later.  So answers about given topics
name a broker a little longer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.cluster.metadata.delta import ClusterDelta
    from kwire.cluster.metadata.image import BrokerImage, ClusterImage

ELECTION_MS: Final = 500
"""How long answers wait for an election.

An election takes 10 to 50 ms, on a busy machine a few hundred.  A later answer would not help:
clients ask again after their backoff, and the requests behind this one on its connection wait,
too."""

DEPARTED_MS: Final = 2_000
"""How long answers name a broker that has left; longer than librdkafka's topic scan takes to come,
each second."""


class EndedBrokers:
    """See the module.  A broker is in it for ELECTION_MS after its end."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def note(self, broker_id: int) -> None:
        """Note that the process of this broker has ended now."""
        self._until[broker_id] = trio.current_time() + ELECTION_MS / 1000

    @property
    def ids(self) -> Collection[int]:
        """The brokers that ended within the last ELECTION_MS."""
        if self._until:
            now = trio.current_time()
            self._until = {each: until for each, until in self._until.items() if until > now}
        return self._until.keys()


class DepartedBrokers:
    """See the module.  A broker is in it for DEPARTED_MS after it left, unless it comes back."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: dict[int, tuple[BrokerImage, float]] = {}

    def follow(self, before: ClusterImage, delta: ClusterDelta) -> None:
        """Note which brokers of the image `before` are gone after `delta`."""
        for broker_id, broker in delta.brokers.items():
            left = before.brokers.get(broker_id)
            if broker is not None or left is None:
                self._left.pop(broker_id, None)
            else:
                self._left[broker_id] = left, trio.current_time() + DEPARTED_MS / 1000

    @property
    def brokers(self) -> Collection[BrokerImage]:
        """The brokers that left within the last DEPARTED_MS."""
        if not self._left:
            return ()
        now = trio.current_time()
        self._left = {each: left for each, left in self._left.items() if left[1] > now}
        return [broker for broker, _ in self._left.values()]


def is_election_pending(membership: ClusterMembership, topics: Iterable[str]) -> bool:
    """Whether a broker that has just ended still leads a partition of these topics."""
    ended = membership.ended_brokers
    return bool(ended) and _leads_any(ended, membership.image, topics)


async def wait_for_election(membership: ClusterMembership, topics: Collection[str]) -> None:
    """Return once no partition of these topics has a leader that ended, or after ELECTION_MS."""
    ended = frozenset(membership.ended_brokers)
    await membership.wait_until(lambda image: not _leads_any(ended, image, topics), ELECTION_MS)


def _leads_any(brokers: Collection[int], image: ClusterImage, topics: Iterable[str]) -> bool:
    """Whether one of the brokers leads a partition of these topics in the image."""
    return any(
        partition.leader in brokers
        for name in topics
        if (topic := image.topics.get(name)) is not None
        for partition in topic.partitions
    )
