"""`python -m kwire.conformance.bench.encrypted`: measures both brokers with TLS.

Each broker has one SSL listener with the same certificate (ECDSA, P-256). The client encrypts on
the same cores; its share is the same for both brokers, and part of each figure.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter_ns, sleep

import click
from rich.console import Console

from kwire.conformance.bench import frames, load, report
from kwire.conformance.bench.brokers import Apache, BenchBroker, Kwire, running
from kwire.conformance.bench.load import Address, Encrypted, Sample
from kwire.conformance.bench.measure import SETTLE_S, Series, new_topic
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import (
    Figure,
    Figures,
    HotFetch,
    ProduceBytes,
    Row,
    ScanFetch,
)
from kwire.conformance.certificates import Certificates
from kwire.testing.hosting.ports import free_port

HEADING = "Inside TLS"
RESULTS = Path(__file__).with_name("RESULTS.md")
FILE_COLUMNS = 190
WARM_S = 4.0


def settings_of(certificates: Certificates, *listeners: str) -> dict[str, str]:
    """Return the broker settings for these listeners, with TLS on the one of clients."""
    return {
        "listeners": ",".join(listeners),
        "inter.broker.listener.name": "SSL",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        **certificates.settings(),
    }


class EncryptedKwire(Kwire):
    """`kwire serve` with one SSL listener."""

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        super().__init__(directory)
        port = self.address[1]
        self.settings = settings_of(certificates, f"SSL://localhost:{port}")
        self.address = Encrypted("localhost", port, certificates.context)


class EncryptedApache(Apache):
    """Apache Kafka with one SSL listener beside that of its controller."""

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        """Give the node a TLS listener for clients and a plain one for its controller."""
        super().__init__(directory)
        port, controller = self._node.port, f"localhost:{free_port()}"
        given = settings_of(certificates, f"SSL://localhost:{port}", f"CONTROLLER://{controller}")
        own = {
            "advertised.listeners": f"SSL://localhost:{port}",
            "controller.quorum.voters": f"1@{controller}",
        }
        self._node.settings |= given | own
        self.address = Encrypted("localhost", port, certificates.context)


class NewConnections(Row):
    """Opens connections one after another, each with a handshake and one request."""

    key = "handshakes"
    title = "new connections one after another, each with one request"
    figures = (Figure("connections", "a second", target=1.0),)

    def sample(self, address: Address, topic: str, seconds: float) -> Sample:
        """Open one connection after another, each with a TLS handshake and one request."""
        frame, count = frames.api_versions(), 0
        start = perf_counter_ns()
        deadline = start + int(seconds * 1e9)
        while (now := perf_counter_ns()) < deadline:
            load.ask(address, frame)
            count += 1
        return Sample(count, (now - start) / 1e9, 0)

    def figures_of(self, sample: Sample) -> Figures:
        return {"connections": sample.per_second}


ROWS: tuple[Row, ...] = (
    ProduceBytes("produce-16k", "produce 150 x 100 B, five in flight", (150, 100), 1.0),
    ProduceBytes("produce-1m", "produce 1000 x 1 kB, five in flight", (1000, 1000), 1.0),
    HotFetch(),
    ScanFetch(),
    NewConnections(),
)


def measure_series(
    row: Row, brokers: list[BenchBroker], rounds: int, seconds: float
) -> list[Series]:
    """Return the series of a row; after a warm-up, the brokers take turns (A B, B A, ...)."""
    all_series = [Series(row.key, row.title, figure, figure.target) for figure in row.figures]
    for number in range(rounds + 1):
        for broker in brokers if number % 2 else brokers[::-1]:
            topic = new_topic()
            row.prepare(broker, topic)
            figures = row.measure(broker, topic, seconds if number else WARM_S)
            broker.delete_topic(topic)
            sleep(SETTLE_S)
            for series in all_series if number else ():
                series.add(broker.name, figures[series.figure.name])
    return all_series


def section(rounds: int, seconds: float, series: list[Series]) -> Section:
    """Return the section of the report, with a note on how it was measured."""
    note = (
        "Each broker has one listener, of SSL; TLS 1.3, a certificate of ECDSA P-256. The client"
        f" encrypts on the same cores. {rounds} rounds of {seconds:g} s after {WARM_S:g} s to warm"
        " up. `python -m kwire.conformance.bench.encrypted` repeats it."
    )
    return Section(HEADING, note, series)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=5, show_default=True, help="Turns of each broker in each row.")
@click.option("--seconds", default=2.0, show_default=True, help="Length of a turn in seconds.")
@click.option("--only", multiple=True, type=click.Choice([row.key for row in ROWS]))
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The report to update. [default: RESULTS.md beside the code, for a whole run]",
)
def main(rounds: int, seconds: float, only: tuple[str, ...], output: Path | None) -> None:
    """Measure kwire and Apache Kafka with TLS, in turns."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    with tempfile.TemporaryDirectory(prefix="kwire-tls-") as folder:
        root = Path(folder)
        certificates = Certificates(root)
        brokers: list[BenchBroker] = [
            EncryptedKwire(root / "kwire", certificates),
            EncryptedApache(root / "apache", certificates),
        ]
        series: list[Series] = []
        with running(*brokers):
            for row in ROWS:
                if not only or row.key in only:
                    series += measure_series(row, brokers, rounds, seconds)
                    console.print(f"{row.title}: {_medians(series[-1])}")
    new_section = section(rounds, seconds, series)
    report.print_section(console, new_section, Apache.name)
    if output is None and not only:
        output = RESULTS
    if output is not None:
        report.update_report(console, output, new_section, Apache.name)


def _medians(series: Series) -> str:
    return ", ".join(f"{name} {median(values):,.0f}" for name, values in series.values.items())


if __name__ == "__main__":
    main()
