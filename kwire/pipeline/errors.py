"""What stops a job, each in a sentence that names the mend."""

from __future__ import annotations

import re

CONDITION = re.compile(r"^((?:[A-Z]\w*: )?)\[[A-Z][A-Z0-9_.]*\] ")
SQLSTATE = re.compile(r"[.\s]*\bSQLSTATE: \w+")
"""Spark's names of an error, for programs, on either side of the sentence for people."""
RAISED = re.compile(r"^(?P<module>(?:\w+\.)*)(?P<name>[A-Z]\w*): (?P<said>.+)$", re.MULTILINE)
"""The end of a Python traceback; what runs in Spark's workers comes back as one."""
SPARK_CLASS = re.compile(r"^(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error)):\s*", re.MULTILINE)

NO_MODULE = re.compile(r"^No module named '(?P<module>[\w.]+)'$")
"""What Python says where a package is missing: ours are there, so it is the workers' Python."""

LOST = ("KAFKA_DATA_LOSS", "KafkaIllegalStateException: Some data may have been lost")
"""What Spark's Kafka source says under failOnDataLoss; its tasks say it in the second way."""


class PipelineError(RuntimeError):
    """A job cannot begin, or ended before its work was done; the message is one for people."""


class SparkMissing(PipelineError):
    """PySpark is not installed, or Java is missing or too old for it."""


class QueryFailed(PipelineError):
    """Spark ended a query with an error."""


class RecordsLost(QueryFailed):
    """Records were gone from the cluster before a query had read them."""


def failure(error: BaseException) -> QueryFailed:
    """What ended a query, of Spark's own error."""
    if any(sign in str(error) for sign in LOST):
        return RecordsLost(f"records were removed before they were read: {sentence_of(error)}")
    return QueryFailed(sentence_of(error))


def sentence_of(error: BaseException) -> str:
    """The first line of the innermost cause that a Spark error names.

    Spark's errors are pages long: the traces of its threads, each cause with its own.
    """
    text = str(error)
    causes = [line.split(":", 1)[1] for line in text.splitlines() if line.startswith("Caused by:")]
    if not causes and (said := _raised(text)):
        return said
    line = next(iter((causes[-1:] or [text])[0].strip().splitlines()), type(error).__name__)
    line = CONDITION.sub(r"\1", SPARK_CLASS.sub(r"\1: ", line.strip()))
    return SQLSTATE.sub("", line).strip(" ;")


def _raised(text: str) -> str | None:
    """What the last Python error of a text says; ours are sentences already."""
    _, _, trace = text.partition("Traceback (most recent call last)")
    raised = list(RAISED.finditer(trace.partition("=== Streaming Query ===")[0]))
    if not raised:
        return None
    last = raised[-1]
    if last["name"] == ModuleNotFoundError.__name__ and (missing := NO_MODULE.match(last["said"])):
        return (
            f"the Python of Spark's workers has no {missing['module']}: install it there, or name"
            " a Python that has it in PYSPARK_PYTHON before the session is made"
        )
    return (
        last["said"] if last["module"].startswith("kwire.") else f"{last['name']}: {last['said']}"
    )
