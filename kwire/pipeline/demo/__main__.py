"""The command of the demo: runs all stages and prints the results."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from kwire.pipeline import PipelineError
from kwire.pipeline.demo import flights, group, produce, reduce, results
from kwire.pipeline.demo.flights import DataMissing, Statistics
from kwire.testing import BrokerProcess, BrokerStartError

PARTITIONS = 6
RESULT_PARTITIONS = 3
FILE_COLUMNS = 140  # the width of a table in a file or pipe
FAILURES = (
    BrokerStartError,
    DataMissing,
    group.GroupError,
    PipelineError,
    produce.ProduceError,
    reduce.SparkFailed,
)
OWN_ENTRIES = ("broker", "checkpoint", "delays.parquet", "spark.log")
"""The entries of a run in its directory, which the next run removes."""


class DemoSteps:
    """A progress bar for each stage of the demo."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Shows a stage.  The yielded function takes the number of records that are done."""
        task = self.progress.add_task(title, total=total)
        yield lambda done: self.progress.update(task, completed=done)
        self.progress.update(task, completed=total)
        self.progress.stop_task(task)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--bootstrap", help="HOST:PORT of a broker that runs. [default: kwire, started here]")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-data"),
    show_default=True,
    help="For the broker's data, Spark's checkpoint and the Parquet files.",
)
@click.option("--every", default=1, show_default=True, help="Take only every n-th flight.")
def main(bootstrap: str | None, directory: Path, every: int) -> None:
    """Send a year of flights through kwire, a consumer group and Spark, and compare the figures.

    The exit status is not 0 if they differ from the figures of the file itself.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    _clear(directory)
    own = BrokerProcess(directory / "broker") if bootstrap is None else nullcontext()
    columns = (
        SpinnerColumn(finished_text="[green]ok[/]"),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    try:
        with own as broker, Progress(*columns, console=console) as progress:
            address = broker.bootstrap if broker is not None else str(bootstrap)
            expected, wrong, notes = run(address, directory, every, DemoSteps(progress))
    except FAILURES as failure:
        raise click.ClickException(str(failure)) from failure
    console.print(results.table(expected))
    for note in notes:
        console.print(note)
    for difference in wrong:
        console.print(f"[red]{difference}[/]")
    if wrong:
        raise SystemExit(1)
    console.print(f"[green]All {len(expected)} groups have the figures of the file itself.[/]")


def _clear(directory: Path) -> None:
    """Makes the directory empty of what an earlier run of the demo left.  Other entries stay."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in OWN_ENTRIES:
        entry = directory / name
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)


def run(
    bootstrap: str, directory: Path, every: int, steps: DemoSteps
) -> tuple[Statistics, list[str], list[str]]:
    """Run all stages.  Returns the expected figures, the differences from them, and notes."""
    stamp = time.time_ns() // 1_000_000  # a running broker may have topics of an earlier run
    source, result = f"flights-{stamp}", f"flight-delays-{stamp}"
    with steps.step("read the file", 0):
        rows = list(flights.rows(every))
        expected = flights.statistics(rows)
    produce.create_topics(bootstrap, {source: PARTITIONS, result: RESULT_PARTITIONS})
    with steps.step("produce: confluent-kafka, zstd", len(rows)) as done:
        count = produce.produce(bootstrap, source, rows, done)
    with steps.step("consume: group of kafka-python, kafka-python, confluent-kafka", count) as done:
        members = group.consume(bootstrap, source, f"{source}-group", count, PARTITIONS, done)
    if (committed := group.committed(bootstrap, source, f"{source}-group")) != count:
        raise group.GroupError(f"{committed} offsets are committed of {count} records consumed")
    job = reduce.DelayJob(bootstrap, source, result, directory, count)
    with (
        steps.step("Spark: delays by carrier and month", count) as done,
        reduce.session(directory / "spark.log") as spark,
    ):
        before, after = reduce.run(spark, job, done)
        parquet = reduce.read_parquet(spark, job)
    topic = results.read_topic(bootstrap, result)
    wrong = results.differences(expected, parquet, "Parquet")
    wrong += results.differences(expected, topic, f"topic {result}")
    shares = ", ".join(
        f"{member.library} {len(member.positions):,} of"
        f" partitions {', '.join(map(str, sorted(member.partitions)))}"
        for member in members
    )
    notes = [
        f"{count:,} flights produced to {source}, each consumed once: {shares}.",
        f"Spark read {before:,}, was stopped, and then read {after:,} from its checkpoint on.",
        f"The figures are in the topic {result} and in {job.parquet}.",
    ]
    return expected, wrong, notes


if __name__ == "__main__":
    main()
