"""`kwire pipeline query`: streaming SQL over topics."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kwire.cli.grammar.bounds import POSITIVE_COUNT
from kwire.cli.grammar.commands import renamed_option
from kwire.cli.pipeline.job import Job, job
from kwire.cli.pipeline.rows import Rows
from kwire.cli.streams import OutputFailed, ReaderGone
from kwire.cli.text.output import counted, say
from kwire.cli.values import duration_s, instant

if TYPE_CHECKING:
    from kwire.pipeline import Form, Query, View
    from kwire.pipeline.querying.query_settings import Sink

FORMATS = ("json", "avro", "confluent-avro", "text", "binary")
MODES = ("append", "update", "complete")
CONSOLE_BATCH_RECORDS = 100_000
"""Rows of a batch are shown when all of it is done: the first ones should not take long."""
EVERY_TOPIC = ""

Named = tuple[str, str]
"""Topic, or EVERY_TOPIC, and what is said of it."""


def of_topic(text: str) -> Named:
    """`TOPIC=TEXT`, or TEXT alone for every topic that is not named."""
    named = re.match(r"([\w.-]+)=(.*)", text, re.DOTALL)
    return (named[1], named[2]) if named else (EVERY_TOPIC, text)


def of_topic_format(text: str) -> Named:
    """`TOPIC=FORMAT` or FORMAT."""
    topic, kind = of_topic(text)
    if kind not in FORMATS:
        raise click.BadParameter(f"{kind!r} is none of {', '.join(FORMATS)}")
    return topic, kind


def of_topic_schema(text: str) -> Named:
    """`TOPIC=SCHEMA` or SCHEMA, of which `@FILE` is what the file holds."""
    topic, schema = of_topic(text)
    if not schema.startswith("@"):
        return topic, schema
    try:
        return topic, Path(schema[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{schema[1:]} cannot be read: {error}") from error


def watermark(text: str) -> tuple[str, tuple[str, str]]:
    """`TOPIC.COLUMN=DELAY`."""
    named = re.fullmatch(r"(.+)\.(\w+)\s*=\s*'?([^']+)'?", text)
    if named is None:
        raise click.BadParameter(f"{text!r} is not like orders.ts='10 minutes'")
    return named[1], (named[2], named[3].strip())


def starting(text: str) -> dict[str, dict[int, int]] | str | int:
    """`earliest`, `latest`, a time, or offsets as JSON."""
    if text in {"earliest", "latest"}:
        return text
    if not text.startswith("{"):
        return instant(text)
    try:
        topics = json.loads(text)
        return {
            topic: {int(partition): int(offset) for partition, offset in offsets.items()}
            for topic, offsets in topics.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise click.BadParameter(f'{text!r} is not like {{"orders": {{"0": 12}}}}') from error


@dataclass(frozen=True)
class Summary:
    """How a query ended: the records that it read, the dead letters and rows that it wrote."""

    mode: str
    records: int
    dead_letters: int
    skipped: int
    batches: int
    duration_s: float
    lag: int
    stopped: bool
    schemas: dict[str, str]
    rows: int | None = None


@click.command("query")
@click.argument("sql")
@click.option("--to", "to_topic", metavar="TOPIC", help="Write the rows to a topic.")
@click.option("--to-parquet", metavar="DIR", help="Write the rows to Parquet files in DIR.")
@click.option(
    "--to-format", type=click.Choice(["json", "text"]), default="json", show_default=True,
    help="How a row becomes the value of a record: text is one column as it is.",
)  # fmt: skip
@click.option(
    "--partition-by", metavar="COLUMN", multiple=True, help="Directories of the Parquet files."
)
@click.option(
    "-f", "--format", "formats", type=of_topic_format, metavar="[TOPIC=]FORMAT", multiple=True,
    help=f"Of values: {', '.join(FORMATS)}. [default: json]",
)  # fmt: skip
@renamed_option(
    "--schema", "schemas", old=["-s"], type=of_topic_schema, metavar="[TOPIC=]SCHEMA",
    multiple=True,
    help="Of values: 'id INT, at TIMESTAMP', Spark's JSON, an Avro schema, or @FILE with one of"
    " them. [default: inferred from a sample; kept in the checkpoint]",
)  # fmt: skip
@click.option(
    "--key-format", "key_formats", type=of_topic_format, metavar="[TOPIC=]FORMAT", multiple=True,
    help="Of keys. [default: text]",
)  # fmt: skip
@click.option(
    "--key-schema", "key_schemas", type=of_topic_schema, metavar="[TOPIC=]SCHEMA", multiple=True,
    help="Of keys.",
)  # fmt: skip
@click.option(
    "-t", "--table", "tables", metavar="TOPIC", multiple=True,
    help="Read a topic as a table: the latest value of each key, without those that a null value"
    " removed; all of it is read anew for every micro-batch.",
)  # fmt: skip
@click.option(
    "-w", "--watermark", "watermarks", type=watermark, metavar="TOPIC.COLUMN=DELAY", multiple=True,
    help="A stream's event time, and how late rows may come: orders.ts='10 minutes'.",
)  # fmt: skip
@click.option(
    "--dead-letter", "dead_letters", metavar="TOPIC",
    help="Write records that do not parse to a topic, with the headers kwire.topic,"
    " kwire.partition, kwire.offset and kwire.why. [default: the first of them ends the query]",
)  # fmt: skip
@click.option("--skip-bad", is_flag=True, help="Leave records out that do not parse.")
@click.option(
    "--mode", type=click.Choice(MODES),
    help="Spark's output mode. [default: the first that the query allows]",
)  # fmt: skip
@click.option("--once", is_flag=True, hidden=True)  # its former name for what is the default now
@click.option("--continuous", is_flag=True, help="Go on with records that come, until Ctrl-C.")
@click.option(
    "--every", "every_s", type=duration_s, metavar="TIME",
    help="With --continuous: how often records are looked for, 10s say."
    " [default: as soon as the batch before is done]",
)  # fmt: skip
@click.option(
    "-c", "--checkpoint", metavar="DIR",
    help="Remembers how far the query is: needed for topics and Parquet.",
)  # fmt: skip
@click.option(
    "--from", "start", type=starting, metavar="WHERE", default="earliest", show_default=True,
    help="Where to begin without a checkpoint: earliest, latest, a time (2026-03-01T12:00, -2h),"
    """ or offsets ({"orders": {"0": 12}}, -2 is earliest, -1 latest).""",
)  # fmt: skip
@click.option(
    "--batch", "records_per_batch", type=POSITIVE_COUNT, metavar="RECORDS",
    help="At most so many records of a topic in a micro-batch."
    f" [default: {CONSOLE_BATCH_RECORDS:,} on the console]",
)  # fmt: skip
@click.option(
    "--sample", type=POSITIVE_COUNT, metavar="RECORDS", default=1_000, show_default=True,
    help="Infer a schema from the first so many records of a topic.",
)  # fmt: skip
@job("query")
def command(asked: Job, **options: Any) -> None:  # noqa: ANN401 - as the options are typed
    """Run SQL over topics, to the console, a topic or Parquet.

    It ends when what is in the topics now is done; --continuous goes on.

    \b
      kwire pipeline query "SELECT carrier, dest, arr_delay FROM flights WHERE arr_delay > 60"
      kwire pipeline query "SELECT f.*, p.model FROM flights f JOIN planes p USING (tailnum)" \\
          --table planes --to flights-with-models --checkpoint /data/c1 --continuous
      kwire pipeline query "SELECT window, origin, count(*) AS hours FROM weather
          GROUP BY window(time_hour, '1 day'), origin" \\
          --watermark weather.time_hour='1 hour' --to-parquet /data/hours --checkpoint /data/c2

    Each topic that SQL names is a view of its name: the fields of its values (of text: `value`),
    and _key, _partition, _offset, _timestamp and _headers of each record. A name with dots or
    dashes stands in backquotes.

    Rows go to Parquet exactly once, to a topic at least once: after a crash the last batch may be
    written again. In a topic, the columns _key, _headers and _topic are the record's own, others
    that begin with _ are left out, and the rest is a JSON object. On the console, rows are a table,
    in a pipe or with --json a JSON object a line.

    Without --mode the first of append, update and complete that Spark takes is used. In append a
    window's row comes once, when the watermark has passed its end.
    """
    from kwire.pipeline import PipelineError
    from kwire.pipeline.session import AVRO

    if options["once"] and options["continuous"]:
        raise click.UsageError("--once and --continuous are two different things")
    if options["every_s"] is not None and not options["continuous"]:
        raise click.UsageError("--every goes with --continuous: else there are no later batches")
    on_console = options["to_topic"] is None and options["to_parquet"] is None
    rows = Rows(as_lines=asked.as_json or not sys.stdout.isatty())
    try:
        query = _query(asked, options, rows if on_console else None)
    except PipelineError as error:
        raise click.UsageError(str(error)) from error
    if query.needs_avro:
        asked = replace(asked, spark=replace(asked.spark, modules=(AVRO,)))
    summary = _run(asked, query, quiet=on_console and sys.stdout.isatty())
    if on_console:
        summary = replace(summary, rows=rows.count)
    _tell(asked, summary, on_console)


def _query(asked: Job, options: dict[str, Any], rows: Rows | None) -> Query:
    """What the options ask for.  Raises PipelineError where they contradict each other."""
    from kwire.pipeline import Query

    batch = options["records_per_batch"]
    views = _views(options)
    return Query(
        options["sql"],
        _sink(options, rows),
        asked.kafka,
        views=views,
        view=views[EVERY_TOPIC],
        starting=options["start"],
        checkpoint=options["checkpoint"],
        once=not options["continuous"],
        every_s=options["every_s"],
        mode=options["mode"],
        dead_letters=options["dead_letters"],
        skip_bad=options["skip_bad"],
        records_per_batch=batch or (CONSOLE_BATCH_RECORDS if rows is not None else None),
        sample_records=options["sample"],
    )


def _sink(options: dict[str, Any], rows: Rows | None) -> Sink:
    from kwire.pipeline import PipelineError, ToFunction, ToParquet, ToTopic

    topic, directory = options["to_topic"], options["to_parquet"]
    if rows is not None:
        return ToFunction(rows)
    if topic is not None and directory is not None:
        raise PipelineError("rows go to a topic or to Parquet: give one of --to and --to-parquet")
    if topic is not None:
        return ToTopic(topic, options["to_format"])
    return ToParquet(directory, options["partition_by"])


def _views(options: dict[str, Any]) -> dict[str, View]:
    """The view of each topic that an option names, and that of EVERY_TOPIC."""
    from kwire.pipeline import View

    values = dict(options["formats"]), dict(options["schemas"])
    keys = dict(options["key_formats"]), dict(options["key_schemas"])
    watermarks = dict(options["watermarks"])
    tables = set(options["tables"])
    named = {topic for said in (*values, *keys, watermarks) for topic in said}
    return {
        topic: View(
            _form(topic, *values, "json"),
            _form(topic, *keys, "text"),
            table=topic in tables,
            watermark=watermarks.get(topic),
        )
        for topic in {EVERY_TOPIC} | tables | named
    }


def _form(topic: str, kinds: dict[str, str], schemas: dict[str, str], default: str) -> Form:
    """What is said of a topic, else of every topic; a schema goes with a format that has one."""
    from kwire.pipeline import Form

    kind = kinds.get(topic, kinds.get(EVERY_TOPIC, default))
    schema = schemas.get(topic)
    if schema is None and topic not in kinds:
        schema = schemas.get(EVERY_TOPIC)
    return Form(kind, schema)


def _run(asked: Job, query: Query, *, quiet: bool) -> Summary:
    """Start the query and follow it to its end."""
    from kwire import pipeline
    from kwire.pipeline.errors import QueryFailed

    with asked.session() as spark:
        running = pipeline.query(spark, query)
        try:
            with asked.display("query", quiet=quiet) as told:
                done = running.follow(told)
        except QueryFailed as error:
            if isinstance(error.__cause__, ReaderGone | OutputFailed):
                raise error.__cause__ from None
            raise
    return Summary(
        mode=running.mode,
        records=done.rows.records,
        dead_letters=done.letters,
        skipped=done.skipped,
        batches=done.rows.steps,
        duration_s=done.rows.duration_s,
        lag=done.rows.lag,
        stopped=done.rows.stopped,
        schemas=running.schemas,
    )


def _tell(asked: Job, summary: Summary, on_console: bool) -> None:
    """The summary; of a query whose rows are standard output, on standard error."""
    read = counted(summary.records, "record")
    how = "stopped" if summary.stopped else "done"
    letters = f", {counted(summary.dead_letters, 'dead letter')}" if summary.dead_letters else ""
    skipped = f", {counted(summary.skipped, 'bad record')} skipped" if summary.skipped else ""
    rows = f", {counted(summary.rows, 'row')} shown" if summary.rows is not None else ""
    sentence = f"{how}: {read} read in {_batches(summary.batches)}{rows}{letters}{skipped}"
    if on_console and asked.as_json:
        say(json.dumps({"job": asked.name, **asdict(summary)}))
    else:
        asked.summary(summary, sentence)


def _batches(number: int) -> str:
    return "1 batch" if number == 1 else f"{number} batches"
