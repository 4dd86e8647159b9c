"""The text of a scrape, judged by prometheus_client's parsers."""

from __future__ import annotations

from math import inf, isnan

import pytest
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kwire.server.metrics.declared import METRICS, SECTIONS
from kwire.server.metrics.metric import Kind, counter, gauge
from kwire.server.metrics.samples import LINES_PER_PIECE, Samples, content_type, is_open_metrics

MESSAGES_IN = "kafka_server_brokertopicmetrics_messagesin_total"
TIMES = "kafka_network_requestmetrics_totaltimems"
SIZE = "kafka_log_log_size"
LEADERS = "kafka_server_replicamanager_leadercount"
FORMATS = pytest.mark.parametrize("open_metrics", [False, True])


def families(samples: Samples, *, open_metrics: bool) -> dict[str, Family]:
    text = b"".join(samples.text(open_metrics=open_metrics)).decode()
    parse = parse_open_metrics if open_metrics else parse_text
    return {family.name: family for family in parse(text)}


def values(family: Family) -> dict[tuple[str, ...], float]:
    """The values of a family by the sample's name and the values of its labels."""
    return {(each.name, *each.labels.values()): each.value for each in family.samples}


@FORMATS
def test_text_has_the_values_that_were_given(open_metrics: bool) -> None:
    samples = Samples()
    samples.set(MESSAGES_IN, 12, "")
    samples.set(MESSAGES_IN, 7, "flights")
    samples.set(LEADERS, 2.5)
    samples.set(SIZE, 2**53, "flights", "0")
    samples.summary(TIMES, {0.5: 1.25, 0.999: inf}, 4, 9.5, "Produce")
    found = families(samples, open_metrics=open_metrics)
    assert {family.type for family in found.values()} == {"counter", "gauge", "summary"}
    assert values(found[MESSAGES_IN.removesuffix("_total")]) == {
        (MESSAGES_IN,): 12,
        (MESSAGES_IN, "flights"): 7,
    }
    assert values(found[LEADERS]) == {(LEADERS,): 2.5}
    assert values(found[SIZE]) == {(SIZE, "flights", "0"): 2**53}
    assert values(found[TIMES]) == {
        (TIMES, "Produce", "0.5"): 1.25,
        (TIMES, "Produce", "0.999"): inf,
        (f"{TIMES}_count", "Produce"): 4,
        (f"{TIMES}_sum", "Produce"): 9.5,
    }


@FORMATS
def test_value_that_is_no_number_is_nan(open_metrics: bool) -> None:
    samples = Samples()
    samples.set(LEADERS, float("nan"))
    (sample,) = families(samples, open_metrics=open_metrics)[LEADERS].samples
    assert isnan(sample.value)


@FORMATS
def test_labels_keep_quotes_backslashes_lines_and_controls(open_metrics: bool) -> None:
    names = ['a"b', "a\\nb", "a\nb", "\\", "\u202eevil", "\x00\x1b[31m", "ü" * 200, '{x="y"} 1']
    samples = Samples()
    for number, name in enumerate(names):
        samples.set(SIZE, number, name, "0")
    found = families(samples, open_metrics=open_metrics)[SIZE].samples
    assert [each.labels["topic"] for each in found] == names


@FORMATS
def test_label_that_is_no_unicode_is_still_given(open_metrics: bool) -> None:
    samples = Samples()
    samples.set(SIZE, 1, "a\udc80b", "0")
    (sample,) = families(samples, open_metrics=open_metrics)[SIZE].samples
    assert sample.labels["topic"] == "a?b"


@FORMATS
def test_help_of_each_family_is_the_declared_one(open_metrics: bool) -> None:
    samples = Samples()
    samples.set(LEADERS, 1)
    assert families(samples, open_metrics=open_metrics)[LEADERS].documentation == (
        METRICS[LEADERS].help
    )


def test_long_text_comes_in_pieces_that_together_are_one_text() -> None:
    samples = Samples()
    series = samples.series(SIZE)
    for number in range(2 * LINES_PER_PIECE + 1):
        series["flights", str(number)] = number
    pieces = list(samples.text(open_metrics=False))
    assert max(piece.count(b"\n") for piece in pieces) <= LINES_PER_PIECE + 1
    lines = b"".join(pieces).splitlines()
    assert len(lines) == 2 * LINES_PER_PIECE + 3  # help and type
    assert lines[-1] == b'kafka_log_log_size{topic="flights",partition="2000"} 2000'


def test_metric_without_values_is_not_in_the_text() -> None:
    samples = Samples()
    samples.series(SIZE)
    assert b"".join(samples.text(open_metrics=False)) == b""
    assert samples.names() == set()


def test_samples_refuse_what_is_not_declared() -> None:
    samples = Samples()
    with pytest.raises(KeyError):
        samples.set("kafka_log_log_weight", 1)
    with pytest.raises(KeyError):
        samples.summary("kafka_log_log_weight", {}, 0, 0)
    with pytest.raises(ValueError, match="too few"):
        samples.set(SIZE, 1, "flights")
    with pytest.raises(ValueError, match="too many"):
        samples.summary(TIMES, {}, 0, 0, "Produce", "11")
    with pytest.raises(ValueError, match="is a summary"):
        samples.set(TIMES, 1, "Produce")
    with pytest.raises(ValueError, match="is no summary"):
        samples.summary(LEADERS, {}, 0, 0)


def test_samples_refuse_a_second_value_of_the_same_labels() -> None:
    samples = Samples()
    samples.set(SIZE, 1, "flights", "0")
    samples.summary(TIMES, {}, 0, 0, "Produce")
    with pytest.raises(ValueError, match="given twice"):
        samples.set(SIZE, 1, "flights", "0")
    with pytest.raises(ValueError, match="given twice"):
        samples.summary(TIMES, {}, 0, 0, "Produce")


def test_text_refuses_a_series_with_too_few_labels() -> None:
    samples = Samples()
    samples.series(SIZE)["flights",] = 1
    with pytest.raises(ValueError, match="shorter"):
        list(samples.text(open_metrics=False))


def test_accept_header_chooses_the_format() -> None:
    prometheus = (
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    )
    assert is_open_metrics(prometheus)
    assert not is_open_metrics("*/*")
    assert not is_open_metrics("")
    assert content_type("").startswith("text/plain")


def test_metrics_are_declared_once_and_in_one_style() -> None:
    declared = [metric for section in SECTIONS.values() for metric in section]
    assert len(METRICS) == len(declared)
    for metric in declared:
        assert metric.name == metric.name.lower(), metric
        assert metric.name.startswith(("kafka_", "kwire_", "process_")), metric
        assert metric.name.startswith("kwire_") == (metric.source == "kwire"), metric
        assert metric.help[0].isupper() or metric.help[0].isdigit(), metric
        assert not metric.help.endswith("."), metric
        assert "quantile" not in metric.labels, metric
        assert len(set(metric.labels)) == len(metric.labels), metric


def test_declaration_refuses_a_counter_without_total_and_a_gauge_with_it() -> None:
    with pytest.raises(ValueError, match="ends in _total"):
        counter("kwire_things", "", "", "Things")
    with pytest.raises(ValueError, match="ends in _total"):
        gauge("kwire_things_total", "", "", "Things")
    assert counter("kwire_things_total", "", "", "Things").kind is Kind.COUNTER
