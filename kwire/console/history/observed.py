"""What brokers of kwire observe of their clients and groups, which only their endpoints tell.

It is in `/slow` beside the metrics (`kwire serve --metrics`).  Apache Kafka has nothing like it, so
the answer of a JMX exporter is a trouble that pages show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kwire.client.metrics.rebalances import LastRebalance, last_rebalances
from kwire.client.metrics.scrape import METRICS_PATH, ScrapeFailed, slow
from kwire.console.history.in_flight import TIMEOUT_S

NS_PER_MS: Final = 1e6
NS_PER_S: Final = 1e9
PHASES: Final = ("queue", "local", "remote", "throttle")
"""Where the time of a request went: behind earlier ones of its client, in the broker's work, in a
wait, in the delay of a quota."""


class ObservedClient(NamedTuple):
    """What a client has had one broker do, over the last two minutes."""

    client_id: str
    principal: str
    address: str
    requests_per_s: float
    busy_percent: float
    """The share of the time in which the broker worked for it."""
    throttled_ms_per_s: float
    """How long its answers were delayed, in ms for each second."""


class SlowestRequest(NamedTuple):
    """One of the slowest requests of the last two minutes."""

    name: str
    """Kafka's name of the request."""
    client_id: str
    address: str
    at_ms: int
    blamed_ms: float
    """The total without the delay of a quota, and without a wait that the client wanted."""
    total_ms: float
    phases_ms: Mapping[str, float]


@dataclass(slots=True)
class Observed:
    """What the endpoints of all brokers tell."""

    clients: list[ObservedClient] = field(default_factory=list)
    """Those first for which a broker worked longest."""
    slowest: list[SlowestRequest] = field(default_factory=list)
    """The slowest first."""
    rebalances: dict[str, LastRebalance] = field(default_factory=dict)
    """By group."""
    trouble: str | None = None
    """Why one of the endpoints cannot be read, or None."""

    @property
    def throttled(self) -> Sequence[ObservedClient]:
        """The clients whose answers were delayed, those first that were delayed most."""
        found = [client for client in self.clients if client.throttled_ms_per_s > 0]
        return sorted(found, key=lambda client: -client.throttled_ms_per_s)


def observed_by(urls: Sequence[str]) -> Observed:
    """What the brokers with these metrics endpoints have observed; blocks until all answered."""
    found, answers = Observed(), []
    for url in urls:
        try:
            answer = slow(url.removesuffix("/").removesuffix(METRICS_PATH), TIMEOUT_S)
            clients, slowest = list(_clients_in(answer)), list(_slowest_in(answer))
            last_rebalances([answer])
        except ScrapeFailed as error:
            found.trouble = str(error)
            continue
        except (AttributeError, KeyError, TypeError, ValueError):
            found.trouble = f"{url}: its /slow is not that of a broker of kwire"
            continue
        found.clients += clients
        found.slowest += slowest
        answers.append(answer)
    found.rebalances = last_rebalances(answers)
    found.clients.sort(key=lambda client: -client.busy_percent)
    found.slowest.sort(key=lambda request: -request.blamed_ms)
    return found


def _clients_in(answer: Mapping[str, Any]) -> Iterator[ObservedClient]:
    window_s = float(answer.get("window_s", 0))
    for each in answer.get("clients", ()) if window_s > 0 else ():
        yield ObservedClient(
            _text(each, "client_id"),
            _text(each, "principal"),
            _text(each, "client_host"),
            each["requests"] / window_s,
            100 * each["busy_ns"] / NS_PER_S / window_s,
            each["throttle_ns"] / NS_PER_MS / window_s,
        )


def _slowest_in(answer: Mapping[str, Any]) -> Iterator[SlowestRequest]:
    for each in answer.get("requests", ()):
        yield SlowestRequest(
            _text(each, "name"),
            _text(each, "client_id"),
            _text(each, "client_host"),
            int(each["at_ms"]),
            each["blamed"] / NS_PER_MS,
            each["total"] / NS_PER_MS,
            {phase: each[phase] / NS_PER_MS for phase in PHASES},
        )


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry[name]
    return "" if value is None else str(value)
