"""`python -m kwire.conformance.bench.mixed`: mixed load on one broker, and its loop's stalls."""

from __future__ import annotations

import sys
import tempfile
from math import ceil
from pathlib import Path

import click

from kwire.conformance.bench.blocks import file as kept
from kwire.conformance.bench.brokers import BrokerFailed, running
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.mixed import driving
from kwire.conformance.bench.mixed.driving import MixedBlock, WatchedKwire
from kwire.conformance.bench.mixed.report import markdown

REPORT = Path(__file__).resolve().parents[1] / "MIXED.md"
BLOCKS = Path("artifacts", "bench-mixed.jsonl")


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--minutes", default=10.0, help="How long the clients act.")
@click.option("--block", default=2.0, help="Minutes of a block, which is kept in the file.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    default=BLOCKS,
    metavar="FILE",
    help="File with a line for each block.  Blocks that it has of these sources, this machine and"
    " this length are not measured again.",
)
@click.option("--fresh", is_flag=True, help="Measure the blocks again that the file has.")
@click.option("--page", is_flag=True, help="Measure nothing: write what the file has so far.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=REPORT,
    help="The report.",
    show_default="MIXED.md beside RESULTS.md",
)
def main(
    minutes: float, block: float, results: Path, fresh: bool, page: bool, output: Path
) -> None:
    """Measure the waits of all kinds of clients together, and the stalls of the broker's loop.

    The same broker serves all blocks.  After an interruption the same command goes on with the
    blocks that are missing, on a new broker.
    """
    if not sys.platform.startswith("linux"):
        raise click.ClickException("this needs Linux: the run queue is read from /proc")
    keys = [f"block {number}" for number in range(1, ceil(minutes / block) + 1)]
    file = kept.opened(results, {"minutes": block}, keys, fresh=fresh)
    missing = [key for key in keys if key not in file]
    if missing and not page:
        with tempfile.TemporaryDirectory(prefix="kwire-mixed-") as folder:
            broker = WatchedKwire(Path(folder) / "kwire")
            try:
                with running(broker):
                    driving.prepare(broker)
                    for key in missing:
                        click.echo(f"{key} of {len(keys)}", err=True)
                        file.add(key, driving.measure(broker, block * 60).as_json())
            except (BrokerFailed, RequestFailed) as failure:
                raise click.ClickException(str(failure)) from failure
            finally:
                kept.say_progress(file, keys)
    present = [key for key in keys if key in file]
    if not present:
        raise click.ClickException(f"{results} has no block yet: measure without --page")
    measured = driving.together(MixedBlock.read(file.outcome(key)) for key in present)
    text = markdown(measured, block * len(present), block, file.facts(present))
    output.write_text(text)
    click.echo(text)
    click.echo(f"written: {output}")


if __name__ == "__main__":
    main()
