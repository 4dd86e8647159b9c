"""`python -m kwire.conformance.bench.mixed`: mixed load on one broker, and its loop's stalls."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import click

from kwire.conformance.bench.brokers import BrokerFailed, running
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.mixed.driving import WatchedKwire, measure
from kwire.conformance.bench.mixed.report import markdown

REPORT = Path(__file__).resolve().parents[1] / "MIXED.md"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--minutes", default=10.0, help="How long the clients act.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=REPORT,
    help="The report.",
    show_default="MIXED.md beside RESULTS.md",
)
def main(minutes: float, output: Path) -> None:
    """Measure the waits of all kinds of clients together, and the stalls of the broker's loop."""
    if not sys.platform.startswith("linux"):
        raise click.ClickException("this needs Linux: the run queue is read from /proc")
    with tempfile.TemporaryDirectory(prefix="kwire-mixed-") as folder:
        broker = WatchedKwire(Path(folder) / "kwire")
        try:
            with running(broker):
                waits, passes = measure(broker, minutes * 60)
        except (BrokerFailed, RequestFailed) as failure:
            raise click.ClickException(str(failure)) from failure
    text = markdown(waits, passes, minutes, f"{os.getloadavg()[0]:.1f}")
    output.write_text(text)
    click.echo(text)
    click.echo(f"written: {output}")


if __name__ == "__main__":
    main()
