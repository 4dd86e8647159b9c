"""The rows of `kwire top`, one class for each table.  A field is None if it is unknown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TopTopic:
    """What happens in one topic."""

    topic: str
    partitions: int
    records_in_per_s: float | None
    bytes_in_per_s: float | None
    """Produced bytes; from metrics."""
    bytes_out_per_s: float | None
    """Bytes that consumers fetched; from metrics."""
    size_bytes: int | None
    """Of all replicas on all brokers."""
    growth_bytes_per_s: float | None
    """How fast the size changes; negative if more is deleted than written."""
    lag: int | None
    """The sum of the lags of all groups that read it; None if none does."""
    groups: int


@dataclass(frozen=True, slots=True)
class TopGroup:
    """How far one group is behind, and whether it catches up."""

    group: str
    type: str
    state: str
    members: int | None
    lag: int | None
    """Records; None if the group has no committed offsets."""
    read_per_s: float | None
    """How fast its committed offsets move, in records per second."""
    lag_per_s: float | None
    """How fast the lag changes; negative if the group catches up."""
    seconds_left: float | None
    """When it has caught up if it goes on like this; None if it does not catch up."""
    worst: str | None
    """The partition with the largest lag, if there is any lag."""
    worst_lag: int | None
    coordinator: int
    rebalanced_s_ago: float | None = None
    """When its last rebalance began; from metrics."""
    rebalance_reason: str | None = None


@dataclass(frozen=True, slots=True)
class TopBroker:
    """What one broker does."""

    broker: int
    address: str
    is_controller: bool
    leaders: int
    size_bytes: int | None
    usable_bytes: int | None
    """The free bytes of the fullest disk."""
    records_in_per_s: float | None
    """Of the partitions that it led in both samples."""
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None
    requests_per_s: float | None = None
    errors_per_s: float | None = None
    connections: int | None = None
    cpu_share: float | None = None
    """Processor seconds for each second: 1.0 is one processor."""
    memory_bytes: int | None = None
    open_files: int | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class TopRequest:
    """The requests of one API key, of all brokers; from metrics.

    A quantile is that of the slowest broker, since quantiles of several brokers cannot be added.
    """

    api: str
    per_s: float
    errors_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    p999_ms: float | None


@dataclass(frozen=True, slots=True)
class TopSlowest:
    """One of the slowest requests of the last minutes; from metrics."""

    broker: int
    total_ms: float
    blamed_ms: float
    """The total without the throttle time, and without a wait that the client wanted, as a fetch
    waits for records."""
    api: str
    version: int | None
    client: str
    """The client id."""
    principal: str
    address: str
    seconds_ago: float
    phases_ms: dict[str, float] = field(default_factory=dict)
    """Where the time went: queue (behind earlier requests of the client), local (the broker's
    work), remote (waiting), throttle."""


@dataclass(frozen=True, slots=True)
class TopClient:
    """A client of one broker, over the last two minutes; from metrics."""

    broker: int
    client: str
    """The client id."""
    principal: str
    address: str
    requests_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float
    busy_share: float
    """The share of the time in which the broker worked for it."""
    throttled_ms_per_s: float


@dataclass(frozen=True, slots=True)
class TopTotals:
    """The sums of the cluster, and its partitions that are not well."""

    topics: int
    partitions: int
    offline: int
    under_replicated: int
    records_in_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    requests_per_s: float | None
    errors_per_s: float | None
    size_bytes: int | None
    lag: int
    """Of all groups."""


TopRow = TopTopic | TopGroup | TopBroker | TopRequest | TopSlowest | TopClient


@dataclass(frozen=True, slots=True)
class TopView:
    """Everything that `kwire top` shows at one moment."""

    cluster: str | None
    controller: int | None
    time_s: float
    interval_s: float
    """The time between the two samples."""
    totals: TopTotals
    brokers: list[TopBroker]
    topics: list[TopTopic]
    groups: list[TopGroup]
    requests: list[TopRequest]
    slow: list[TopSlowest]
    clients: list[TopClient]
    offline: list[str]
    """The partitions without a leader, as TOPIC-NUMBER."""
    with_metrics: int
    """The number of brokers whose metrics endpoints answered."""
    metrics_trouble: dict[int, str]
    """Why the endpoint of a broker did not answer, by its id."""
