"""What the commands of `kwire pipeline` share: options, progress, summary, error messages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass, replace
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

NO_EXTENSIONS = {"spark.sql.extensions.test.loadFromCp": "false"}
"""Spark does not look for extensions of its SQL among its jars.  It has one there, two functions of
its machine learning, which takes a fifth of a start.  No job calls them."""
OF_JARS = ("spark.jars", "spark.driver.extraClassPath")
"""Settings that may add a jar with an extension."""


@dataclass(frozen=True)
class SparkJob:
    """The options that all jobs have.

    name      The name of the command.
    kafka     The cluster of `-b`.
    spark     The options of Spark.
    as_json   Whether standard output gets the summary as JSON, and nothing else.
    quiet     Whether no progress is shown.
    steps     The file that gets a JSON object a line for each micro-batch.
    """

    name: str
    kafka: Kafka
    spark: SparkOptions
    as_json: bool
    quiet: bool
    steps: Path | None = None

    @contextmanager
    def session(
        self, *needed: tuple[Kafka, Topics], records: Callable[[], int | None] | None = None
    ) -> Iterator[SparkSession]:
        """A Spark session.  Says that Spark is starting, which takes some seconds.

        Checks first that the needed topics exist, since Spark would report that late.  `records`
        asks the cluster for the most records that the job reads: see SparkOptions.
        """
        from kwire.pipeline import session
        from kwire.pipeline.presence import must_have
        from kwire.pipeline.source import must_answer

        must_answer(self.kafka)
        for kafka, topics in needed:
            must_have(kafka, topics)
        spark_options = replace(self.spark, records=records()) if records else self.spark
        started = time.monotonic()
        if not self.quiet:
            say(f"starting Spark on {self.spark.where} ...")
        with session(self.name, spark_options) as spark:
            if not self.quiet:
                say(f"Spark {spark.version} is up after {time.monotonic() - started:.1f} s")
            yield spark

    def follow(self, query: StreamingQuery, title: str) -> Ended:
        """Show the progress of a streaming query until it ends or Ctrl-C stops it."""
        from kwire.pipeline import follow

        with self.display(title) as told:
            return follow(query, told)

    def summary(self, what: Mapping[str, object] | object, sentence: str) -> None:
        """Print the result of the job: a sentence, or all facts as JSON."""
        if not self.as_json:
            say(sentence)
            return
        facts = asdict(what) if is_dataclass(what) and not isinstance(what, type) else what
        print_json({"job": self.name, **json.loads(json.dumps(facts, default=str))})

    @contextmanager
    def display(self, title: str, *, quiet: bool = False) -> Iterator[Callable[[Step], None]]:
        """Yields a function that shows progress, and writes the steps to the file of --steps."""
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
    """A micro-batch as a line of the file of steps, with the time of its end."""
    facts = {name: value for name, value in asdict(step).items() if name != "event"}
    return json.dumps({"at_ms": time.time_ns() // 1_000_000, **facts})


STEPS = click.option(
    "--steps", type=click.Path(dir_okay=False, path_type=Path),
    help="Write a line of JSON (records, lag) for each micro-batch, or second of a replay.",
)  # fmt: skip


def job(name: str, *, has_steps: bool = True) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add the options that all jobs have, and pass them to the function as a SparkJob.

    `has_steps` adds --steps, for a job that calls `SparkJob.follow` or `SparkJob.display`.
    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        """Adds the options of a Spark job to a command, and passes a SparkJob as its first
        argument."""

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
            help="File for Spark's messages. [default: kept only if the job fails]",
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
            """Runs the command with a SparkJob; errors become a message and an exit status."""
            from kwire.pipeline import Kafka, SparkOptions

            def asked() -> R:
                """Runs the command with the properties and options from the command line."""
                properties = client_properties(command_config, kafka)
                options = SparkOptions(master, settings_of_spark(dict(spark)), log)
                cluster = Kafka(bootstrap_of(bootstrap_server, properties), properties)
                return command(
                    SparkJob(name, cluster, options, as_json, quiet, steps), *args, **kwargs
                )

            return failures_told(asked)

        made = update_wrapper(run, command)
        return STEPS(made) if has_steps else made

    return decorate


def settings_of_spark(given: dict[str, str]) -> dict[str, str]:
    """The settings of a job's session: those of --spark, and defaults with which it starts sooner.

    The user's jars may have extensions, so Spark looks for them if a setting adds jars.
    """
    adds_jars = any(name.startswith(OF_JARS) for name in given)
    return given if adds_jars else NO_EXTENSIONS | given


def failures_told(run: Callable[[], R]) -> R:
    """The result of `run`.  A failure of the job becomes a message and an exit status."""
    from kwire.pipeline import PipelineError

    try:
        return in_words(run)
    except PipelineError as error:
        click.echo(f"kwire: {error}", err=True)
        raise SystemExit(failure_status()) from error


def topics_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add TOPIC arguments and --pattern; the function gets them as `topics`."""

    def run(
        *args: Any,  # noqa: ANN401 - whatever the command takes
        names: tuple[str, ...],
        pattern: str | None,
        **kwargs: Any,  # noqa: ANN401 - whatever the command takes
    ) -> R:
        """Runs the command with `topics` instead of the two options.  Raises a usage error if they
        contradict each other."""
        from kwire.pipeline import PipelineError, Topics

        try:
            topics = Topics(names, pattern)
        except PipelineError as error:
            raise click.UsageError(str(error)) from error
        return command(*args, topics=topics, **kwargs)

    option = click.option("--pattern", metavar="REGEX", help="All topics whose whole name matches.")
    argument = click.argument("names", metavar="[TOPIC]...", nargs=-1)
    return argument(option(update_wrapper(run, command)))  # It also copies the options.


def batches_options(*, every: str, lost: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add --continuous, --every, --batch and --skip-lost, for a job that runs in micro-batches.

    The function gets `every_s` (None for a run that ends by itself), `batch_records` and
    `skip_lost`.  `every` is the default of --every.  `lost` ends the help of --skip-lost.
    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        """Adds the options to a command."""

        def run(
            *args: Any,  # noqa: ANN401 - whatever the command takes
            continuous: bool,
            every_s: float,
            **kwargs: Any,  # noqa: ANN401 - whatever the command takes
        ) -> R:
            """Runs the command with the interval of --every, or None without --continuous."""
            return command(*args, every_s=every_s if continuous else None, **kwargs)

        made: Callable[..., R] = update_wrapper(run, command)  # it brings the options of `command`
        for option in (
            click.option("--skip-lost", is_flag=True, help=f"Continue if {lost}."),
            click.option(
                "--batch", "batch_records", type=POSITIVE_COUNT, metavar="RECORDS",
                default=1_000_000, help="The most records of a micro-batch.",
            ),
            click.option(
                "--every", "every_s", type=duration_s, metavar="TIME", default=every,
                help="With --continuous: how often to look for new records.",
            ),
            click.option(
                "--continuous", is_flag=True, help="Continue with new records, until Ctrl-C."
            ),
        ):  # fmt: skip
            made = option(made)
        return made

    return decorate
