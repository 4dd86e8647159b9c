"""Tests how metrics are read and compared, and that the load has the effects that it should."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kwire.codecs.errors import ErrorCode
from kwire.conformance.metrics import coordinated, load
from kwire.conformance.metrics.agent import RULES
from kwire.conformance.metrics.compared import COMPARED, Compared, Measure
from kwire.conformance.metrics.comparing import ScrapedLoad, Verdict, compare
from kwire.conformance.metrics.dashboard import selectors
from kwire.conformance.metrics.load import PARTITIONS, PREFIX, SETTINGS, Load
from kwire.conformance.metrics.reporting import write_report
from kwire.conformance.metrics.scrape import Matcher, Scrape
from kwire.conformance.wire.peer import Reply
from tests.conftest import BrokerFactory

TEXT = """# HELP requests_total Requests
# TYPE requests_total counter
requests_total{api="Fetch",version="1"} 4
requests_total{api="Fetch",version="2"} 6
requests_total{api="Produce",version="2"} 5
# HELP size Size
# TYPE size gauge
size 7
"""
BY_API = Compared("requests_total", Measure.GROWTH, ("api",))
SIZE = Compared("size", Measure.VALUE)


def with_values(fetches: int, size: float) -> Scrape:
    more = TEXT.replace('version="2"} 6', f'version="2"}} {fetches}').replace(
        "size 7", f"size {size}"
    )
    return Scrape([more])


def test_scrape_sums_over_the_labels_that_are_not_asked_for() -> None:
    scrape = Scrape([TEXT, TEXT])
    assert scrape.sums("requests_total", ["api"]) == {("Fetch",): 20, ("Produce",): 10}
    assert scrape.sums("requests_total", []) == {(): 30}
    assert scrape.sums("size", ["topic"]) == {("",): 14}
    assert scrape.sums("missing", []) == {}
    assert scrape.types == {"requests": "counter", "size": "gauge"}


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [("=", "Fetch", 2), ("!=", "Fetch", 1), ("=~", "Fe.*|None", 2), ("!~", "F", 3), ("=~", "", 0)],
)
def test_matchers_choose_series_as_in_promql(operator: str, value: str, expected: int) -> None:
    chosen = Scrape([TEXT]).matching("requests_total", [Matcher("api", operator, value)])
    assert len(chosen) == expected


def test_missing_label_counts_as_empty_for_matchers() -> None:
    assert Matcher("topic", "=", "").matches({})
    assert not Matcher("topic", "!=", "").matches({})


def test_selectors_of_a_query_have_metrics_and_conditions() -> None:
    query = (
        'topk(10, sum by (topic) (rate(kafka_a_total{topic=~"a|b",error!="NONE"}[1m])))'
        " / process_open_fds"
    )
    first, second = selectors(query)
    assert (first.metric, second.metric) == ("kafka_a_total", "process_open_fds")
    conditions = [(each.label, each.operator, each.value) for each in first.matchers]
    assert conditions == [("topic", "=~", "a|b"), ("error", "!=", "NONE")]
    assert second.matchers == ()


def test_values_within_two_per_cent_agree() -> None:
    before = with_values(0, 1)
    subject = ScrapedLoad(before, with_values(100, 1000))
    oracle = ScrapedLoad(before, with_values(101, 1019))
    assert [verdict.problem for verdict in compare(subject, oracle, [BY_API, SIZE])] == ["", ""]


def test_values_further_apart_differ_and_growth_counts_only_the_load() -> None:
    subject = ScrapedLoad(with_values(50, 1), with_values(150, 1000))
    oracle = ScrapedLoad(with_values(0, 1), with_values(103, 900))
    requests, size = compare(subject, oracle, [BY_API, SIZE])
    assert (requests.subject, requests.oracle, requests.problem) == (100, 103, "2.9 % apart")
    assert (size.labels, size.problem) == ("", "10.0 % apart")


def test_series_that_one_side_lacks_counts_as_zero_and_a_missing_metric_differs() -> None:
    more = ScrapedLoad(Scrape([""]), Scrape([TEXT]))
    less = ScrapedLoad(Scrape([""]), Scrape(['requests_total{api="Fetch"} 10\n']))
    verdicts = list(compare(less, more, [BY_API, SIZE]))
    assert verdicts[1] == Verdict("requests_total", "api=Produce", 0, 5, "100.0 % apart")
    assert verdicts[2].problem == "kwire lacks it"
    assert math.isnan(verdicts[2].subject)


def test_report_names_what_differs(tmp_path: Path) -> None:
    verdicts = [Verdict("a", "x=1", 1, 1), Verdict("a", "x=2", 1, 2, "50.0 % apart")]
    write_report(tmp_path / "new" / "report.md", verdicts, 1)
    report = (tmp_path / "new" / "report.md").read_text()
    assert "2 values were compared, 1 differ." in report
    assert "| `a` | 2 | 2 | 3 | 1 |" in report
    assert "| `a` | x=2 | 1 | 2 | 50.0 % apart |" in report


def test_each_metric_is_compared_once() -> None:
    assert max(Counter(row.metric for row in COMPARED).values()) == 1


def test_rules_of_the_exporter_are_yaml_and_name_kafka_metrics() -> None:
    rules = yaml.safe_load(RULES.read_text())
    assert rules["lowercaseOutputName"] is True
    assert all(rule["name"].startswith("kafka_") for rule in rules["rules"])


def errors(sender: Load) -> Counter[tuple[str, str]]:
    """How often each request of the load got each error code, per partition where it has some."""
    found: Counter[tuple[str, str]] = Counter()
    for stage in sender.stages.values():
        for step in stage.steps:
            assert isinstance(step.outcome, Reply), step
            for code in codes(step.outcome.message):
                found[type(step.request).__name__, ErrorCode(code).name] += 1
    return found


def codes(message: object) -> Iterator[int]:
    """The error codes of a response, and of its partitions."""
    if hasattr(message, "error_code"):
        yield message.error_code
    for name in ("responses", "topics", "partitions", "partition_responses"):
        for part in getattr(message, name, None) or ():
            yield from codes(part)


@pytest.mark.slow
def test_load_gets_errors_only_where_it_makes_mistakes(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(SETTINGS)
    sender = Load(broker.bootstrap)
    sender.prepare()
    for step in (*load.STEPS, *coordinated.STEPS):
        step(sender)
    mistakes = {key: count for key, count in errors(sender).items() if key[1] != "NONE"}
    sender.finish()
    assert mistakes == {
        ("ProduceRequest", "INVALID_RECORD"): 10,
        ("ProduceRequest", "MESSAGE_TOO_LARGE"): 10,
        ("ProduceRequest", "CORRUPT_MESSAGE"): 10,
        ("FetchRequest", "OFFSET_OUT_OF_RANGE"): 10,
        ("FetchRequest", "UNKNOWN_TOPIC_OR_PARTITION"): 10,
    }
    assert sender.plain.name == f"{PREFIX}-plain"
    assert sender.plain.partitions == PARTITIONS
