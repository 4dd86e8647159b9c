"""What measured connections, partitions and files count while the broker serves.

Collectors (kwire.server.metrics.collecting) read a `Meters` when somebody scrapes; call `fold`
first.  Counters are plain integers that only grow.  Times are whole nanoseconds, in
`Distribution`s, which have the quantiles of the last two minutes and the count and sum since the
start.

Counting must cost little, so not everything is written at once:

- A connection counts its bytes and its shortcuts' answers itself, and a partition its records.
  `fold` adds them to the meters, and the loop's watch those of connections each second.
- All requests are counted (`RequestCounts`), and all that are slow or wait are timed.  Others are
  timed until a name has `EXACT_MAX` of them in a slice of the window, and then one in
  `SAMPLED_EVERY` or `SAMPLED_RARELY`, on average, which counts as that many.  So are the reads of a
  connection that shortcuts answer: to time one costs more than its answer.
- Writes to log files are timed in a part of the time (kwire.server.metrics.disk).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final, Protocol

from kwire.codecs.api_keys import ApiKey
from kwire.server.metrics.clients import BusyClients, ClientKey, ClientLoad
from kwire.server.metrics.distribution import SLICE_S, SLICES, Distribution, merged_window
from kwire.server.metrics.slowest import SlowestRequests

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "FETCH_CONSUMER",
    "FETCH_FOLLOWER",
    "ClientKey",
    "ClientLoad",
    "ConnectionMeter",
    "DiskMeter",
    "ListenerMeter",
    "LoopMeter",
    "Meters",
    "RequestCounts",
    "RequestMeter",
    "TopicMeter",
    "request_name",
]

SAMPLED_EVERY: Final = 128
"""Of how many fast requests one is timed, on average; see the module."""

SAMPLES_MAX: Final = 250
"""The requests of one name that are timed so in a slice of the window.  Later it is one of
SAMPLED_RARELY: code that runs seldom is not in the processor's cache, and takes three times as long
as it does in a loop."""

SAMPLED_RARELY: Final = 4 * SAMPLED_EVERY

EXACT_MAX: Final = 250
"""The fast requests of one name that are all timed in a slice of the window."""

SLOW_NS: Final = 1_000_000
"""A request that takes the broker longer, 1 ms, is always timed."""

_GAPS: Final = (53, 187, 117, 237, 21, 149, 219, 85, 171, 29, 213, 123, 67, 163, 86)
"""The numbers of requests from one timed request to the next; their mean is SAMPLED_EVERY.  They
differ, because a client may repeat a cycle of requests."""

gaps: Final = cycle(_GAPS)
"""How many requests, or reads of a connection, pass until one is timed again."""

FETCH_CONSUMER: Final = "FetchConsumer"
FETCH_FOLLOWER: Final = "FetchFollower"

LISTED_SLOWEST_MAX: Final = 50
LISTED_CLIENTS_MAX: Final = 100


class RequestMeter:
    """The requests of one name: Kafka's name of the API, or FetchConsumer and FetchFollower.

    name            `Produce`, `FetchConsumer`, ... (`request_name`)
    versions        the number of requests by version
    errors          how often each error code was in a response, by code; 0 is NONE.  As in Apache
                    Kafka a response counts each of its partitions
    shortcuts       the requests that a shortcut answered; they are part of `versions`
    request_bytes   the sizes of the requests, without the size field
    response_bytes  the number of bytes of all responses, with their size fields
    queue           ns in the connection's buffer, behind earlier requests of the same client
    local           ns that the broker worked until the response was ready, or the request waited
    remote          ns that the request waited: for records, replicas, members or the disk
    throttle        ns of the throttle time
    response_queue  ns that the response waited behind those of earlier requests
    response_send   ns until the kernel had taken the whole response
    total           ns from the arrival of the request to that moment

    exact_left      how many more fast requests of this slice are all timed; see the module
    samples_left    how many more are timed as one of SAMPLED_EVERY
    until_timed     how many fast requests pass until one is timed again

    A time of 0 is not observed, except for `local` and `total`: see `window_of`.
    """

    __slots__ = (
        "errors",
        "exact_left",
        "local",
        "name",
        "queue",
        "remote",
        "request_bytes",
        "response_bytes",
        "response_queue",
        "response_send",
        "samples_left",
        "shortcuts",
        "throttle",
        "total",
        "until_timed",
        "versions",
    )

    TIMES: Final = (
        "queue",
        "local",
        "remote",
        "throttle",
        "response_queue",
        "response_send",
        "total",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions: defaultdict[int, int] = defaultdict(int)
        self.errors: defaultdict[int, int] = defaultdict(int)
        self.shortcuts = 0
        self.request_bytes = Distribution()
        self.response_bytes = 0
        self.queue = Distribution()
        self.local = Distribution()
        self.remote = Distribution()
        self.throttle = Distribution()
        self.response_queue = Distribution()
        self.response_send = Distribution()
        self.total = Distribution()
        self.exact_left = EXACT_MAX
        self.samples_left = SAMPLES_MAX
        self.until_timed = 0

    def turn(self) -> None:
        """Begin a new slice of all windows."""
        self.exact_left, self.samples_left, self.until_timed = EXACT_MAX, SAMPLES_MAX, 0
        for distribution in self.distributions():
            distribution.turn()

    def weight(self) -> int:
        """Return how many requests the times of a fast request stand for; 0 if it is not timed."""
        self.until_timed -= 1
        return self.timed_weight() if self.until_timed < 0 else 0

    def timed_weight(self) -> int:
        """Return how many requests the times of a request stand for whose turn it is.

        Call it when `until_timed`, which each fast request takes one off, is below 0.
        """
        if self.exact_left > 0:
            self.exact_left -= 1
            self.until_timed = 0
            return 1
        gap, every = self.next_gap()
        self.until_timed = gap - 1
        return every

    def next_gap(self) -> tuple[int, int]:
        """Return how many fast requests pass until one is timed, and how many this one stands for.

        Call it when all of `exact_left` are timed.
        """
        self.samples_left -= 1
        if self.samples_left >= 0:
            return next(gaps), SAMPLED_EVERY
        return next(gaps) * (SAMPLED_RARELY // SAMPLED_EVERY), SAMPLED_RARELY

    @property
    def count(self) -> int:
        """The number of requests since the start."""
        return sum(self.versions.values())

    def distributions(self) -> Iterator[Distribution]:
        yield self.request_bytes
        for name in self.TIMES:
            yield getattr(self, name)


CountResponse = Callable[[Any, Any], None]
"""Counts the errors in a response, and what it says of topics; gets the request and the response.
"""


class RequestCounts:
    """The requests of one API key and version since the last `fold`: plain numbers, as each
    request writes to them.

    count_response  counts what a response says; it writes to the meters at once
    requests        requests, without those that a shortcut answered
    response_bytes  bytes of their responses, with their size fields
    """

    __slots__ = ("count_response", "meter", "requests", "response_bytes", "version")

    def __init__(self, meter: RequestMeter, version: int, count_response: CountResponse) -> None:
        self.meter = meter
        self.version = version
        self.count_response = count_response
        self.requests = 0
        self.response_bytes = 0

    def fold(self) -> None:
        """Add what was counted to the meter."""
        if self.requests or self.response_bytes:
            self.meter.versions[self.version] += self.requests
            self.meter.response_bytes += self.response_bytes
            self.requests = self.response_bytes = 0


def window_of(
    meters: Iterable[RequestMeter], time_name: str, timed: int
) -> tuple[dict[int, int], int]:
    """Return the window of one of the times of several meters together, and the number of zeros.

    Both are arguments of `distribution.quantiles_of`.  `time_name` is one of RequestMeter.TIMES,
    and `timed` the result of `timed_requests`.
    """
    window = merged_window(getattr(meter, time_name) for meter in meters)
    return window, max(0, timed - sum(window.values()))


def timed_requests(meters: Iterable[RequestMeter]) -> int:
    """Return how many requests of the window the times of several meters stand for."""
    return sum(merged_window(meter.local for meter in meters).values())


class TopicMeter:
    """What this broker appended to and read from one topic.

    messages_in             records appended as the leader; `fold` brings it up to date
    bytes_in                bytes of their batches
    bytes_out               bytes of records sent to consumers
    bytes_rejected          bytes of batches above `max.message.bytes`
    replication_bytes_in    bytes appended as a follower
    replication_bytes_out   bytes of records sent to followers
    produce_requests        appends as the leader, as Apache Kafka counts produce requests: each
                            partition of a request counts
    fetch_requests          partitions that consumers and followers fetched
    failed_produce_requests, failed_fetch_requests
                            those with an error that is not the client's stale metadata
    produce_conversions     records whose batch was compressed again
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "messages_in",
        "produce_conversions",
        "produce_requests",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    messages_in: int
    bytes_in: int
    bytes_out: int
    bytes_rejected: int
    replication_bytes_in: int
    replication_bytes_out: int
    produce_requests: int
    fetch_requests: int
    failed_produce_requests: int
    failed_fetch_requests: int
    produce_conversions: int

    def add(self, other: TopicMeter) -> None:
        """Add the counts of another topic to these."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class ListenerMeter:
    """The connections of one listener.

    open            connections that are open now; the only number here that also falls
    opened, closed  connections that were admitted, and that have ended
    refused         connections above `max.connections.per.ip` or a quota on new connections
    logins          TLS handshakes and SASL logins that succeeded, one for each connection
    failed_logins   those that failed
    renewals        SASL logins on an open connection that succeeded (re-authentication)
    bytes_in        bytes of requests; `fold` brings these three up to date
    bytes_out       bytes of responses
    requests        requests
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "closed",
        "failed_logins",
        "logins",
        "opened",
        "refused",
        "renewals",
        "requests",
    )

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.refused = 0
        self.logins = 0
        self.failed_logins = 0
        self.renewals = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests = 0

    @property
    def open(self) -> int:
        return self.opened - self.closed


class DiskMeter:
    """The time that calls on log files take.

    append   ns of a write to a log or an index file
    flush    ns of an fsync of one file
    read     ns of a read that did not come from a consumer's fetch by sendfile
    """

    __slots__ = ("append", "flush", "read")

    def __init__(self) -> None:
        self.append = Distribution()
        self.flush = Distribution()
        self.read = Distribution()


class LoopMeter:
    """How late the broker's loop runs a task that is due.

    late           ns between the moment at which the watch was due and its run
    stalls         how often that was more than STALL_NS
    stalled        ns of all stalls
    longest        ns of the longest stall since the start
    awake_ns       the clock at the last run of the watch: the loop was alive then
    """

    __slots__ = ("awake_ns", "late", "longest", "stalled", "stalls")

    STALL_NS: Final = 100_000_000
    """100 ms: clients notice it, and heartbeats do not yet."""

    def __init__(self, now_ns: int) -> None:
        self.late = Distribution()
        self.stalls = 0
        self.stalled = 0
        self.longest = 0
        self.awake_ns = now_ns

    def woke(self, now_ns: int, late_ns: int) -> None:
        """Note that the watch runs, `late_ns` after it was due."""
        self.awake_ns = now_ns
        self.late.observe(late_ns)
        if late_ns > self.STALL_NS:
            self.stalls += 1
            self.stalled += late_ns
            self.longest = max(self.longest, late_ns)


class ConnectionMeter(Protocol):
    """The part of a measured connection that `Meters.fold` uses."""

    def fold(self) -> None:
        """Add what the connection has counted since the last call to the meters."""


class PartitionMeter(Protocol):
    """The part of a measured partition that `Meters.fold` uses."""

    def fold(self) -> None:
        """Add the records appended since the last call to the topic's meter."""


class PoolMeter(Protocol):
    """The part of the memory pool of requests (`queued.max.request.bytes`) that metrics show."""

    limit_bytes: int
    used_bytes: int


class Meters:
    """Everything that is counted; see the module and each class.

    requests      RequestMeter by name (`Produce`, `FetchConsumer`, ...), of those that came
    topics        TopicMeter by topic, of the topics that this broker hosts a partition of
    gone          the sums of topics that it no longer hosts
    corrupt_batches, records_without_key
                  what logs refused of producers: batches with a wrong CRC, and records without a
                  key for compacted topics
    listeners     ListenerMeter by listener name
    disk, loop    DiskMeter, LoopMeter
    slowest       the slowest requests of the last two minutes
    clients       the load of clients in the last two minutes
    counts        the requests since the last `fold`, by `key_of` of kwire.server.metrics.counting
    connections   the measured connections that are open; each has `context`
                  (kwire.requests.context.Context)
    turns         how many slices of the windows have begun
    pool          the memory of large requests that are being received; None before the listeners
    started_ns    the clock when the broker started
    """

    def __init__(self, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        """Count from now on; `clock_ns` never goes back."""
        self.clock_ns = clock_ns
        self.started_ns = clock_ns()
        self.requests: dict[str, RequestMeter] = {}
        self.counts: dict[int, RequestCounts] = {}
        self.topics: dict[str, TopicMeter] = {}
        self.gone = TopicMeter()
        self.corrupt_batches = 0
        self.records_without_key = 0
        self.listeners: dict[str, ListenerMeter] = {}
        self.disk = DiskMeter()
        self.loop = LoopMeter(self.started_ns)
        self.slowest = SlowestRequests()
        self.clients = BusyClients()
        self.connections: set[ConnectionMeter] = set()
        self.turns = 0
        self.pool: PoolMeter | None = None
        self.hosted: Mapping[str, Mapping[int, PartitionMeter]] = {}
        """The measured partitions of the broker, by topic and partition number."""
        self._turned_ns = self.started_ns

    def request(self, name: str) -> RequestMeter:
        """The meter of the requests with this name; a new one at its first request."""
        meter = self.requests.get(name)
        if meter is None:
            meter = self.requests[name] = RequestMeter(name)
        return meter

    def topic(self, name: str) -> TopicMeter:
        """The meter of a topic; a new one at its first use."""
        meter = self.topics.get(name)
        if meter is None:
            meter = self.topics[name] = TopicMeter()
        return meter

    def listener(self, name: str) -> ListenerMeter:
        """The meter of a listener; a new one at its first use."""
        meter = self.listeners.get(name)
        if meter is None:
            meter = self.listeners[name] = ListenerMeter()
        return meter

    def all_topics(self) -> TopicMeter:
        """The sums of all topics, also of those that are gone."""
        total = TopicMeter()
        for meter in (self.gone, *self.topics.values()):
            total.add(meter)
        return total

    def fold(self) -> None:
        """Bring all counters up to date; call it before they are read.

        The meters of topics that the broker no longer hosts are dropped; their sums are in `gone`.
        """
        self.fold_connections()
        for counts in self.counts.values():
            counts.fold()
        for partitions in self.hosted.values():
            for partition in partitions.values():
                partition.fold()
        for name in self.topics.keys() - self.hosted.keys():
            self.gone.add(self.topics.pop(name))

    def window_s(self) -> float:
        """The seconds that the windows hold now: up to two minutes."""
        now_ns = self.clock_ns()
        ran_s = (now_ns - self.started_ns) / 1e9
        return min(ran_s, (now_ns - self._turned_ns) / 1e9 + (SLICES - 1) * SLICE_S)

    def fold_connections(self) -> None:
        """Add what connections have counted, and move the windows when their slices are over."""
        for connection in self.connections:
            connection.fold()
        now_ns = self.clock_ns()
        slices = (now_ns - self._turned_ns) // (SLICE_S * 1_000_000_000)
        if slices:
            self._turned_ns += slices * SLICE_S * 1_000_000_000
            for _ in range(min(slices, SLICES)):
                self._turn()

    def _turn(self) -> None:
        self.turns += 1
        for meter in self.requests.values():
            meter.turn()
        disk = self.disk
        for distribution in (disk.append, disk.flush, disk.read, self.loop.late):
            distribution.turn()
        self.slowest.turn()
        self.clients.turn()


_NAMES: Final[dict[int, str]] = {}


def request_name(api_key: int) -> str:
    """Kafka's name of an API in its metrics: `Produce`, `ListOffsets`, `SaslHandshake`, ..."""
    name = _NAMES.get(api_key)
    if name is None:
        name = _NAMES[api_key] = "".join(
            word.capitalize() for word in ApiKey(api_key).name.split("_")
        )
    return name
