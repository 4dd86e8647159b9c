"""`kwire pipeline query`: runs streaming SQL over topics."""

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
from kwire.cli.pipeline.job import SparkJob, job
from kwire.cli.pipeline.rows import Rows
from kwire.cli.schemas.options import registry_option
from kwire.cli.streams import OutputFailed, ReaderGone
from kwire.cli.text.output import counted, say
from kwire.cli.values import duration_s, instant

if TYPE_CHECKING:
    from kwire.pipeline import Form, Query, View
    from kwire.pipeline.querying.query_settings import Sink

FORMATS = ("json", "avro", "confluent-avro", "registry", "text", "binary")
MODES = ("append", "update", "complete")
CONSOLE_BATCH_RECORDS = 100_000
"""The batch size on the console, which shows rows when their batch is done."""
EVERY_TOPIC = ""

Named = tuple[str, str]
"""(topic or EVERY_TOPIC, option value)."""


def of_topic(text: str) -> Named:
    """(topic, text) of `TOPIC=TEXT`; TEXT alone is for every topic that is not named."""
    named = re.match(r"([\w.-]+)=(.*)", text, re.DOTALL)
    return (named[1], named[2]) if named else (EVERY_TOPIC, text)


def of_topic_format(text: str) -> Named:
    """(topic, format) of `TOPIC=FORMAT` or FORMAT."""
    topic, kind = of_topic(text)
    if kind not in FORMATS:
        raise click.BadParameter(f"{kind!r} is none of {', '.join(FORMATS)}")
    return topic, kind


def of_topic_schema(text: str) -> Named:
    """(topic, schema) of `TOPIC=SCHEMA` or SCHEMA; `@FILE` reads the schema from a file."""
    topic, schema = of_topic(text)
    if not schema.startswith("@"):
        return topic, schema
    try:
        return topic, Path(schema[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{schema[1:]} cannot be read: {error}") from error


def watermark(text: str) -> tuple[str, tuple[str, str]]:
    """(topic, (column, delay)) of `TOPIC.COLUMN=DELAY`."""
    named = re.fullmatch(r"(.+)\.(\w+)\s*=\s*'?([^']+)'?", text)
    if named is None:
        raise click.BadParameter(f"{text!r} is not like orders.ts='10 minutes'")
    return named[1], (named[2], named[3].strip())


def starting(text: str) -> dict[str, dict[int, int]] | str | int:
    """The start of a query: `earliest`, `latest`, a time in ms, or offsets from JSON."""
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
class QuerySummary:
    """The result of a query: records read, dead letters and rows written."""

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
    help="How a row becomes the value of a record: a JSON object, or its only column as text.",
)  # fmt: skip
@click.option(
    "--partition-by",
    metavar="COLUMN",
    multiple=True,
    help="Column that divides the Parquet files into directories.",
)
@click.option(
    "-f", "--format", "formats", type=of_topic_format, metavar="[TOPIC=]FORMAT", multiple=True,
    help=f"Format of values: {', '.join(FORMATS)}. [default: json]",
)  # fmt: skip
@renamed_option(
    "--schema", "schemas", old=["-s"], type=of_topic_schema, metavar="[TOPIC=]SCHEMA",
    multiple=True,
    help="Schema of values: 'id INT, at TIMESTAMP', Spark's JSON, an Avro schema, or @FILE with one"
    " of them; with --format registry the id of one. [default: inferred from a sample, or the"
    " latest version of the subject; kept in the checkpoint]",
)  # fmt: skip
@click.option(
    "--key-format", "key_formats", type=of_topic_format, metavar="[TOPIC=]FORMAT", multiple=True,
    help="Format of keys. [default: text]",
)  # fmt: skip
@click.option(
    "--key-schema", "key_schemas", type=of_topic_schema, metavar="[TOPIC=]SCHEMA", multiple=True,
    help="Schema of keys.",
)  # fmt: skip
@registry_option
@click.option(
    "-t", "--table", "tables", metavar="TOPIC", multiple=True,
    help="Read a topic as a table: the latest value of each key, without keys that a null value"
    " removed. The whole topic is read again for every micro-batch.",
)  # fmt: skip
@click.option(
    "-w", "--watermark", "watermarks", type=watermark, metavar="TOPIC.COLUMN=DELAY", multiple=True,
    help="The event time of a topic, and how late its rows may be: orders.ts='10 minutes'.",
)  # fmt: skip
@click.option(
    "--dead-letter", "dead_letters", metavar="TOPIC",
    help="Write records that cannot be parsed to TOPIC, with the headers kwire.topic,"
    " kwire.partition, kwire.offset and kwire.why. [default: the first of them ends the query]",
)  # fmt: skip
@click.option("--skip-bad", is_flag=True, help="Skip records that cannot be parsed.")
@click.option(
    "--mode", type=click.Choice(MODES),
    help="Spark's output mode. [default: the first that the query allows]",
)  # fmt: skip
@click.option("--once", is_flag=True, hidden=True)  # The former option for what is the default now.
@click.option("--continuous", is_flag=True, help="Continue with new records, until Ctrl-C.")
@click.option(
    "--every", "every_s", type=duration_s, metavar="TIME",
    help="With --continuous: how often to look for new records, as in 10s."
    " [default: when the previous batch is done]",
)  # fmt: skip
@click.option(
    "-c", "--checkpoint", metavar="DIR",
    help="Directory that stores the progress of the query; required for topics and Parquet.",
)  # fmt: skip
@click.option(
    "--from", "start", type=starting, metavar="WHERE", default="earliest", show_default=True,
    help="Where to start without a checkpoint: earliest, latest, a time (2026-03-01T12:00, -2h),"
    """ or offsets ({"orders": {"0": 12}}, -2 is earliest, -1 latest).""",
)  # fmt: skip
@click.option(
    "--batch", "records_per_batch", type=POSITIVE_COUNT, metavar="RECORDS",
    help="The most records of a topic in a micro-batch."
    f" [default: {CONSOLE_BATCH_RECORDS:,} on the console]",
)  # fmt: skip
@click.option(
    "--sample", type=POSITIVE_COUNT, metavar="RECORDS", default=1_000, show_default=True,
    help="Number of records of a topic from which a schema is inferred.",
)  # fmt: skip
@job("query")
def command(asked: SparkJob, **options: Any) -> None:  # noqa: ANN401 - as the options are typed
    """Run SQL over topics, with output to the console, a topic or Parquet.

    The query ends when it has processed the records that the topics hold now; --continuous goes on
    with new records.

    \b
      kwire pipeline query "SELECT carrier, dest, arr_delay FROM flights WHERE arr_delay > 60"
      kwire pipeline query "SELECT f.*, p.model FROM flights f JOIN planes p USING (tailnum)" \\
          --table planes --to flights-with-models --checkpoint /data/c1 --continuous
      kwire pipeline query "SELECT window, origin, count(*) AS hours FROM weather
          GROUP BY window(time_hour, '1 day'), origin" \\
          --watermark weather.time_hour='1 hour' --to-parquet /data/hours --checkpoint /data/c2

    Each topic in the SQL is a view. Its columns are the fields of the values (`value` for text),
    and _key, _partition, _offset, _timestamp and _headers of each record. Put a name with dots or
    dashes in backquotes.

    Rows are written to Parquet exactly once, and to a topic at least once: after a crash the last
    batch may be written again. In a topic, the columns _key, _headers and _topic set the parts of
    the record, other columns that begin with _ are left out, and the rest is a JSON object. The
    console shows rows as a table; in a pipe or with --json each row is a line of JSON.

    Without --mode, the first of append, update and complete that Spark accepts is used. In append
    mode the row of a window is written once, when the watermark has passed its end.
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


def _query(asked: SparkJob, options: dict[str, Any], rows: Rows | None) -> Query:
    """The query that the options describe.  Raises PipelineError if they contradict each other."""
    from kwire.pipeline import Query, SchemaRegistry

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
        registry=SchemaRegistry(options["registry"], asked.kafka.properties),
    )


def _sink(options: dict[str, Any], rows: Rows | None) -> Sink:
    """Return where the rows of the query go: to the function `rows`, which prints them, to a
    topic, or to Parquet files.  Raises PipelineError if the options name both of the latter."""
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
    """The form for a topic, or that for every topic."""
    from kwire.pipeline import Form

    kind = kinds.get(topic, kinds.get(EVERY_TOPIC, default))
    schema = schemas.get(topic)
    if schema is None and topic not in kinds:
        schema = schemas.get(EVERY_TOPIC)
    return Form(kind, schema)


def _run(asked: SparkJob, query: Query, *, quiet: bool) -> QuerySummary:
    """Start the query, show its progress, and return the result."""
    from kwire import pipeline
    from kwire.pipeline.errors import QueryFailed
    from kwire.pipeline.querying.extent import records_max

    with asked.session(records=lambda: records_max(query)) as spark:
        running = pipeline.query(spark, query)
        try:
            with asked.display("query", quiet=quiet) as told:
                done = running.follow(told)
        except QueryFailed as error:
            if isinstance(error.__cause__, ReaderGone | OutputFailed):
                raise error.__cause__ from None
            raise
    return QuerySummary(
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


def _tell(asked: SparkJob, summary: QuerySummary, on_console: bool) -> None:
    """Print the summary; on standard error if the rows are on standard output."""
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
