"""What the commands of `kwire pipeline` share: options, the display, the summary, failures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli.app import (
    bootstrap_of,
    bootstrap_option,
    client_properties,
    command_config_option,
    in_words,
)
from kwire.cli.grammar.bounds import POSITIVE_COUNT
from kwire.cli.grammar.statuses import failure_status
from kwire.cli.text.output import print_json, say
from kwire.cli.values import duration_s, settings_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kwire.pipeline import Ended, Kafka, SparkOptions, Topics
    from kwire.pipeline.listening import Step

R = TypeVar("R")


@dataclass(frozen=True)
class Job:
    """A job as its command line asks for it.

    name      Of the command.
    kafka     The cluster of `-b`.
    spark     How it runs on Spark.
    as_json   Whether standard output takes the summary, and nothing else.
    quiet     Whether the display is left out.
    steps     The file that is told of each micro-batch, a JSON object a line.
    """

    name: str
    kafka: Kafka
    spark: SparkOptions
    as_json: bool
    quiet: bool
    steps: Path | None = None

    @contextmanager
    def session(self, *needed: tuple[Kafka, Topics]) -> Iterator[SparkSession]:
        """A Spark session; that it takes some seconds to start is told.

        The topics that are needed have to be there before: Spark says too late that one is not.
        """
        from kwire.pipeline import session
        from kwire.pipeline.presence import must_have
        from kwire.pipeline.source import must_answer

        must_answer(self.kafka)
        for kafka, topics in needed:
            must_have(kafka, topics)
        started = time.monotonic()
        if not self.quiet:
            say(f"starting Spark on {self.spark.where} ...")
        with session(self.name, self.spark) as spark:
            if not self.quiet:
                say(f"Spark {spark.version} is up after {time.monotonic() - started:.1f} s")
            yield spark

    def follow(self, query: StreamingQuery, title: str) -> Ended:
        """Show a streaming query on its way until it ends, or is stopped with Ctrl-C."""
        from kwire.pipeline import follow

        with self.display(title) as told:
            return follow(query, told)

    def summary(self, what: Mapping[str, object] | object, sentence: str) -> None:
        """Tell how the job ended: a sentence for people, or all of it as JSON."""
        if not self.as_json:
            say(sentence)
            return
        facts = asdict(what) if is_dataclass(what) and not isinstance(what, type) else what
        print_json({"job": self.name, **json.loads(json.dumps(facts, default=str))})

    @contextmanager
    def display(self, title: str, *, quiet: bool = False) -> Iterator[Callable[[Step], None]]:
        """A line that says how far the query is; in a pipe or file a line every ten seconds."""
        from kwire.cli.pipeline.display import display

        with display(title, quiet=quiet or self.quiet) as told:
            if self.steps is None:
                yield told
                return
            with open(self.steps, "a") as file:

                def told_twice(step: Step) -> None:
                    told(step)
                    print(_line(step), file=file, flush=True)

                yield told_twice


def _line(step: Step) -> str:
    """A micro-batch as it is written to the file of steps, with the time that it ended at."""
    facts = {name: value for name, value in asdict(step).items() if name != "event"}
    return json.dumps({"at_ms": time.time_ns() // 1_000_000, **facts})


STEPS = click.option(
    "--steps", type=click.Path(dir_okay=False, path_type=Path),
    help="File that gets a line of JSON for each micro-batch, or second of a replay: records, lag.",
)  # fmt: skip


def job(name: str, *, has_steps: bool = True) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Make a command of a function that takes a Job first, with the options all jobs have.

    `has_steps` says that it shows its steps by `Job.follow` or `Job.display`: --steps is theirs.
    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @bootstrap_option
        @command_config_option
        @settings_option("--kafka", "kafka", help="Set a property of Spark's Kafka clients.")
        @click.option(
            "--master", metavar="URL",
            help="Spark's master. [default: $SPARK_MASTER, else local[*]]",
        )  # fmt: skip
        @settings_option("--spark", "spark", help="Set a setting of Spark.")
        @click.option(
            "--log", type=click.Path(dir_okay=False, path_type=Path),
            help="File for Spark's own messages. [default: none is kept of a job that ends well]",
        )  # fmt: skip
        @click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
        @click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
        def run(
            *args: Any,  # noqa: ANN401 - whatever the command takes
            bootstrap_server: str | None,
            command_config: Path | None,
            kafka: tuple[tuple[str, str], ...],
            master: str | None,
            spark: tuple[tuple[str, str], ...],
            log: Path | None,
            as_json: bool,
            quiet: bool,
            steps: Path | None = None,
            **kwargs: Any,  # noqa: ANN401 - whatever the command takes
        ) -> R:
            from kwire.pipeline import Kafka, SparkOptions

            def asked() -> R:
                properties = client_properties(command_config, kafka)
                options = SparkOptions(master, dict(spark), log)
                cluster = Kafka(bootstrap_of(bootstrap_server, properties), properties)
                return command(Job(name, cluster, options, as_json, quiet, steps), *args, **kwargs)

            return failures_told(asked)

        made = update_wrapper(run, command)
        return STEPS(made) if has_steps else made

    return decorate


def failures_told(run: Callable[[], R]) -> R:
    """Turn a job's failures into one sentence on stderr and an exit status."""
    from kwire.pipeline import PipelineError

    try:
        return in_words(run)
    except PipelineError as error:
        click.echo(f"kwire: {error}", err=True)
        raise SystemExit(failure_status()) from error


def topics_options(command: Callable[..., R]) -> Callable[..., R]:
    """TOPIC arguments, or `--pattern` instead; the function is given `topics`."""

    def run(
        *args: Any,  # noqa: ANN401 - whatever the command takes
        names: tuple[str, ...],
        pattern: str | None,
        **kwargs: Any,  # noqa: ANN401 - whatever the command takes
    ) -> R:
        from kwire.pipeline import PipelineError, Topics

        try:
            topics = Topics(names, pattern)
        except PipelineError as error:
            raise click.UsageError(str(error)) from error
        return command(*args, topics=topics, **kwargs)

    option = click.option("--pattern", metavar="REGEX", help="All topics whose whole name matches.")
    argument = click.argument("names", metavar="[TOPIC]...", nargs=-1)
    return argument(option(update_wrapper(run, command)))  # it brings the options of `command`


def batches_options(*, every: str, lost: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """--continuous, --every, --batch and --skip-lost, of a job that reads topics in micro-batches.

    The function is given `every_s`, None for a run that ends by itself, `batch_records` and
    `skip_lost`.  `every` is how often it looks by default, `lost` where --skip-lost goes on.
    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        def run(
            *args: Any,  # noqa: ANN401 - whatever the command takes
            continuous: bool,
            every_s: float,
            **kwargs: Any,  # noqa: ANN401 - whatever the command takes
        ) -> R:
            return command(*args, every_s=every_s if continuous else None, **kwargs)

        made: Callable[..., R] = update_wrapper(run, command)  # it brings the options of `command`
        for option in (
            click.option("--skip-lost", is_flag=True, help=f"Go on where {lost}."),
            click.option(
                "--batch", "batch_records", type=POSITIVE_COUNT, metavar="RECORDS",
                default=1_000_000, help="That a micro-batch takes at most.",
            ),
            click.option(
                "--every", "every_s", type=duration_s, metavar="TIME", default=every,
                help="With --continuous: how often records are looked for.",
            ),
            click.option(
                "--continuous", is_flag=True, help="Go on with records that come, until Ctrl-C."
            ),
        ):  # fmt: skip
            made = option(made)
        return made

    return decorate
