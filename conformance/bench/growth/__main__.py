"""`python -m kwire.conformance.bench.growth`: measures a broker as things grow."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from kwire.conformance.apache_kafka import ApacheKafkaError
from kwire.conformance.bench import machine
from kwire.conformance.bench.brokers import Apache, BrokerFailed, Kwire, running
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.growth import greedy, plot, report, turns
from kwire.conformance.bench.growth.results import Results
from kwire.conformance.bench.growth.rows import SCALES
from kwire.conformance.java import JavaMissing

BESIDE_RESULTS = Path(__file__).resolve().parents[1]
OPEN_FILES = 65_536
"""For both ends of 10,000 connections, and the files of 10,000 partitions."""
WARM_S, WARM_JAVA_S = 0.5, 8.0
"""How long each request is sent before it is measured; a JIT compiler needs longer."""
KEYS = [scale.key for scale in SCALES] + [greed.key for greed in greedy.GREEDS]
FAILURES = (ApacheKafkaError, BrokerFailed, JavaMissing, RequestFailed)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--only", multiple=True, type=click.Choice(KEYS), help="Measure only these rows.")
@click.option("--rounds", default=15, help="Turns at each size.")
@click.option("--seconds", default=0.3, help="Length of a turn.")
@click.option("--beside", default=8.0, help="Seconds beside a greedy client.")
@click.option("--share", default=1.0, help="The full size as a share of the usual one.")
@click.option("--apache/--no-apache", default=True, help="Measure Apache Kafka too.")
@click.option("--kwire/--no-kwire", default=True, help="Measure kwire.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=BESIDE_RESULTS,
    help="Folder of the report; rows that it has already are replaced.",
    show_default="beside RESULTS.md",
)
def main(
    only: tuple[str, ...],
    rounds: int,
    seconds: float,
    beside: float,
    share: float,
    apache: bool,
    kwire: bool,
    output: Path,
) -> None:
    """Measure what requests, memory and starts cost at a tenth and at full size."""
    machine.allow_open_files(OPEN_FILES)
    kinds: list[type[turns.Measured]] = [Kwire] * kwire + [Apache] * apache
    output.mkdir(parents=True, exist_ok=True)
    results = Results.read(output / "growth.json")
    results.machine = machine.facts()
    with tempfile.TemporaryDirectory(prefix="kwire-growth-") as folder:
        for kind in kinds:
            for key in only or KEYS:
                click.echo(f"{key}: {kind.name}, load {os.getloadavg()[0]:.1f}")
                try:
                    _measure(results, key, kind, Path(folder), rounds, seconds, beside, share)
                except FAILURES as failure:
                    raise click.ClickException(f"{key}: {failure}") from failure
                results.write(output / "growth.json")
    (output / "GROWTH.md").write_text(report.markdown(results))
    plot.draw(results, output / report.PLOT)
    click.echo(f"written: {output / 'GROWTH.md'}, {output / report.PLOT}")


def _measure(
    results: Results,
    key: str,
    kind: type[turns.Measured],
    root: Path,
    rounds: int,
    seconds: float,
    beside: float,
    share: float,
) -> None:
    """Measure one row on new brokers of one kind, and put it into the results."""
    for scale in SCALES:
        if scale.key == key:
            full = max(20, int(scale.full * share))
            results.sizes[key] = full
            results.scales.setdefault(key, {})[kind.name] = turns.measure(
                scale,
                kind,
                root,
                full=full,
                rounds=rounds,
                seconds=seconds,
                warm_s=WARM_S if kind is Kwire else WARM_JAVA_S,
            )
    for greed in greedy.GREEDS:
        if greed.key == key:
            broker = kind(root / "greedy")
            with running(broker):
                results.greedy.setdefault(key, {})[kind.name] = greedy.measure(
                    greed, broker, beside
                )


if __name__ == "__main__":
    main()
