"""A broker and a cluster that are not well, and what their operator can read about them."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.fetch import FetchRequest
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.conformance.metrics import coordinated, load
from kwire.conformance.metrics.load import SETTINGS, Load
from kwire.conformance.metrics.scrape import Keep, Scrape, keep_all, read
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases import consumer_group
from kwire.conformance.wire.cases.build import batch, commit, fetch, fill, produce
from kwire.conformance.wire.peer import ClientConnection
from kwire.testing import BrokerProcess, SharedClusterProcess
from kwire.testing.hosting.ports import free_port, free_ports
from tests.commands.forked import run_kwire
from tests.console.consoles import ConsoleProcess

HOST: Final = "127.0.0.1"
RECORDS_IN_ORDERS: Final = 4_000
COMMITTED: Final = 100
BUSY_REQUESTS: Final = 400
SLOW_MS: Final = 800
"""How long the slowest request waits for records that do not come."""


@dataclass(frozen=True)
class Operator:
    """Reads what the brokers of a cluster tell, by their metrics endpoints."""

    bootstrap: str
    ports: tuple[int, ...]

    def metrics(self) -> Scrape:
        """Scrape all brokers that answer."""
        return read(f"http://{HOST}:{port}/metrics" for port in self.ports)

    def slow(self) -> dict[str, Any]:
        """The slowest requests and the busiest clients of the first broker."""
        url = f"http://{HOST}:{self.ports[0]}/slow"
        with urllib.request.urlopen(url, timeout=60) as response:
            found: dict[str, Any] = json.load(response)
        return found


def largest(
    scrape: Scrape, metric: str, by: Iterable[str], keep: Keep = keep_all
) -> tuple[tuple[str, ...], float]:
    """The labels with the largest sum of a metric, and this sum."""
    sums = scrape.sums(metric, by, keep)
    key = max(sums, key=sums.__getitem__)
    return key, sums[key]


def of_group(group: str) -> Keep:
    """Keep the series of one group, by either of the labels for it."""
    return lambda labels: group in (labels.get("consumergroup"), labels.get("group"))


class Top:
    """What `kwire top --once --json` printed, by the names of its tables."""

    def __init__(self, text: str) -> None:
        self.view: dict[str, Any] = json.loads(text)

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.view[table]
        return rows

    def row(self, table: str, column: str, value: object) -> dict[str, Any]:
        """The only row with this value in a column."""
        (found,) = [row for row in self.rows(table) if row[column] == value]
        return found


def largest_row(rows: list[dict[str, Any]], column: str) -> dict[str, Any]:
    """The row with the largest number in a column; unknown numbers count as 0."""
    return max(rows, key=lambda row: float(row[column] or 0))


def top_of(operator: Operator, go_on: Callable[[], None]) -> Top:
    """Run `kwire top` once; meanwhile, the clients do again and again what `go_on` does."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_kwire, "top", "--once", "--json", "-b", operator.bootstrap)
        while not running.done():
            go_on()
    done = running.result()
    assert done.returncode == 0, done.stderr
    return Top(done.stdout)


UNKNOWN: Final = "\N{EN DASH}"
"""What a page shows for a value that is unknown."""


def shown_number(text: str) -> float:
    """A number below a million as a page shows it; 0 if it is unknown."""
    if text == UNKNOWN:
        return 0.0
    number, _, unit = text.partition(" ")
    return float(number.replace(",", "")) * {"": 1, "k": 1000}[unit]


class Pages(HTMLParser):
    """The pages of a console, as text."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self._origin = origin
        self._tables: list[list[list[str]]] = []
        self._texts: list[str] = []
        self._in_body = False

    def text(self, path: str) -> str:
        """The whole text of a page, with single spaces."""
        self._read(path)
        return " ".join("".join(self._texts).split())

    def rows(self, path: str) -> list[list[str]]:
        """The texts of the cells of all tables of a page, without their heads."""
        return [row for table in self.tables(path) for row in table]

    def tables(self, path: str) -> list[list[list[str]]]:
        """The texts of the cells of each table of a page, without their heads."""
        self._read(path)
        return [
            [[" ".join(cell.split()) for cell in row] for row in table] for table in self._tables
        ]

    def _read(self, path: str) -> None:
        self.reset()
        self._tables, self._texts, self._in_body = [], [], False
        with urllib.request.urlopen(self._origin + path, timeout=60) as response:
            self.feed(response.read().decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag == "tbody":
            self._in_body = True
            self._tables.append([])
        elif tag == "tr" and self._in_body:
            self._tables[-1].append([])
        elif tag in ("td", "th") and self._in_body:
            self._tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "tbody":
            self._in_body = False

    def handle_data(self, data: str) -> None:
        self._texts.append(data)
        if self._in_body and self._tables[-1] and self._tables[-1][-1]:
            self._tables[-1][-1][-1] += data


@contextmanager
def console_of(operator: Operator, directory: Path) -> Iterator[Pages]:
    """Run a console of the operator's cluster, which knows the brokers' metrics endpoints."""
    urls = [f"--metrics=http://{HOST}:{port}" for port in operator.ports]
    with ConsoleProcess(operator.bootstrap, directory, *urls) as started:
        yield Pages(started.origin)


# -- one broker


class TroubledBroker:
    """A broker on which something is wrong for each question, and what its clients did."""

    def __init__(self, broker: BrokerProcess, operator: Operator, sasl_port: int) -> None:
        self.operator = operator
        self.begun_s = time.time()
        self.sasl_port = sasl_port
        self.load = Load(broker.bootstrap)
        self.load.prepare()
        self.before = operator.metrics()
        for step in (*load.STEPS, *coordinated.STEPS):
            step(self.load)
        self.stage = self.load.first
        self.billing = self._leave_a_group_behind()
        self.restless = self._rebalance_a_group()
        self.send_many_requests(BUSY_REQUESTS)
        self._let_a_fetch_wait()
        self._fail_to_log_in()
        self.after = operator.metrics()

    def _leave_a_group_behind(self) -> str:
        """Write many records, and commit an early offset for a group without members."""
        self.orders: CaseTopic = self.load.topic("orders")
        for _ in range(RECORDS_IN_ORDERS // 500):
            fill(self.stage, self.orders, batch(self.stage, *[load.VALUE] * 500))
        group = self.stage.name("billing")
        self.stage.ask(commit(group, self.orders, COMMITTED))
        return group

    def write_to_orders(self) -> None:
        """Write some more records."""
        fill(self.stage, self.orders, batch(self.stage, *[load.VALUE] * 10))

    def _rebalance_a_group(self) -> str:
        """Let three members join a consumer group, one after the other."""
        group = self.stage.name("restless")
        for member in ("a", "b", "c"):
            self.stage.ask(consumer_group.join(group, member, self.orders))
        return group

    def send_many_requests(self, count: int) -> None:
        """Ask for metadata again and again, as a client does that has no cache."""
        request = MetadataRequest(topics=[])
        version = self.stage.broker.version_of(request)
        body = request.encode(version)
        for _ in range(count):
            self.stage.send_bytes(
                body, version, api_key=ApiKey.METADATA, client_id="busy", on="busy"
            )

    def make_mistakes(self, count: int) -> None:
        """Produce records without a key to a compacted topic."""
        for _ in range(count):
            self.stage.ask(produce(self.load.compacted, batch(self.stage, b"without a key")))

    def _let_a_fetch_wait(self) -> None:
        """Wait for records of a topic that gets none."""
        request: FetchRequest = fetch(self.load.small, max_wait_ms=SLOW_MS, min_bytes=1)
        version = self.stage.broker.version_of(request)
        self.stage.send_bytes(
            request.encode(version),
            version,
            api_key=ApiKey.FETCH,
            client_id="patient",
            on="patient",
        )

    def _fail_to_log_in(self) -> None:
        """Present a user that does not exist."""
        peer = ClientConnection((HOST, self.sasl_port))
        for request in (
            SaslHandshakeRequest("SCRAM-SHA-256"),
            SaslAuthenticateRequest(b"n,,n=nobody,r=nonce"),
        ):
            self.stage.broker.ask(peer, request)
        peer.close()

    def grown(self, metric: str, by: Iterable[str], keep: Keep = keep_all) -> dict[Any, float]:
        """How much a metric grew, by labels."""
        labels = tuple(by)
        before = self.before.sums(metric, labels, keep)
        after = self.after.sums(metric, labels, keep)
        return {key: value - before.get(key, 0.0) for key, value in after.items()}


@contextmanager
def troubled_broker(directory: Path) -> Iterator[TroubledBroker]:
    """Run a broker with everything that an operator asks about."""
    port, sasl_port, metrics = free_port(), free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:{port},SASL://{HOST}:{sasl_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port},SASL://{HOST}:{sasl_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "metrics.port": str(metrics),
    }
    with BrokerProcess(directory, SETTINGS | settings, port=port) as broker:
        scene = TroubledBroker(broker, Operator(broker.bootstrap, (metrics,)), sasl_port)
        yield scene
        scene.load.finish()


# -- three brokers


class BrokenCluster:
    """Three brokers of which the third is killed.

    `single` had its only replica there, and `tripled` has one of three replicas there.
    """

    LOST: Final = 3

    def __init__(self, cluster: SharedClusterProcess, operator: Operator) -> None:
        self.operator = operator
        self.load = Load(cluster.bootstrap)
        self.tripled = self.load.topic("tripled")
        self.single = self.load.topic_on("single", self.LOST)
        self.stage = self.load.first
        for _ in range(10):
            self.stage.ask(produce(self.tripled, batch(self.stage, b"value")))
        self.before = operator.metrics()
        cluster.brokers[self.LOST].kill()
        self.after = self._metrics_when(self._shows_the_loss)

    def _shows_the_loss(self, scrape: Scrape) -> bool:
        """Whether the brokers that are left lead all partitions that they can, and say so."""

        def total(metrics: Scrape, name: str) -> float:
            return metrics.sums(name, [])[()]

        leading = "kafka_server_replicamanager_leadercount"
        can_lead = total(self.before, leading) - self.single.partitions
        return (
            total(scrape, leading) == can_lead
            and total(scrape, "kafka_server_replicamanager_underreplicatedpartitions") > 0
            and total(scrape, "kafka_controller_kafkacontroller_offlinepartitionscount") > 0
        )

    def _metrics_when(self, condition: Callable[[Scrape], bool]) -> Scrape:
        """Scrape the brokers that are left until they show what happened."""
        left = Operator(self.operator.bootstrap, self.operator.ports[: self.LOST - 1])
        deadline = time.monotonic() + 300
        while True:
            scrape = left.metrics()
            if condition(scrape):
                return scrape
            assert time.monotonic() < deadline, "the metrics do not show the lost broker"
            time.sleep(0.05)


@contextmanager
def broken_cluster(directory: Path) -> Iterator[BrokenCluster]:
    """Run three brokers, and kill one."""
    first = free_ports(3)
    settings = SETTINGS | {"metrics.port": str(first), "replica.lag.time.max.ms": "2000"}
    with SharedClusterProcess(directory, 3, settings) as cluster:
        operator = Operator(cluster.bootstrap, (first, first + 1, first + 2))
        scene = BrokenCluster(cluster, operator)
        yield scene
        scene.load.finish()
