"""What a metrics endpoint answers, and how that is read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kwire.client.metrics.scrape import (
    ScrapeFailed,
    get,
    not_ready,
    parse,
    scrape,
    scrape_page,
    slow,
)

TEXT = """\
# HELP a_total Help
# TYPE a_total counter
a_total{topic="t",x="1"} 2
a_total{topic="u",x="1"} 3.5
a_total 6
b{quantile="0.99"} 7
other{topic="t"} 9
"""


def test_parse_takes_the_wanted_metrics_with_their_labels() -> None:
    found = parse(TEXT, {"a_total", "b"})
    assert [(dict(each.labels), each.value) for each in found["a_total"]] == [
        ({"topic": "t", "x": "1"}, 2.0), ({"topic": "u", "x": "1"}, 3.5), ({}, 6.0),
    ]  # fmt: skip
    assert set(found) == {"a_total", "b"}


def test_parse_keeps_line_separators_and_escapes_in_labels() -> None:
    """Names of clients may hold anything; only the line feed ends a line."""
    found = parse('a{client="x\u2028y\\"z\\n"} 1\n', {"a"})
    assert found["a"][0].labels == {"client": 'x\u2028y"z\n'}


@pytest.mark.parametrize(
    "line",
    [
        "a 1", "a 1.5e-07", "a NaN", "a +Inf", "a -Inf", "a -3", "a{} 4", 'a{x=""} 5',
        'a{x="1",y="}"} 6', 'a{x="1",} 7', 'a{x="1", y="2"} 8', "a  9", "a 1 1395066363000",
        'a{x=" 1 "} 10', 'a{x="a\\"b"} 11', 'a{x="{",y="="} 12', "a 0x1F", "a 1_000",
    ],
)  # fmt: skip
def test_parse_reads_each_form_of_a_line_as_the_library_does(line: str) -> None:
    def library() -> list[tuple[dict[str, str], float]]:
        families = text_string_to_metric_families(f"{line}\n")
        return [(each.labels, float(each.value)) for family in families for each in family.samples]

    try:
        expected = repr(library())
    except ValueError:
        with pytest.raises(ValueError, match=r"\S"):
            parse(line, {"a"})
        return
    found = [(dict(each.labels), each.value) for each in parse(line, {"a"}).get("a", [])]
    assert repr(found) == expected


@pytest.mark.parametrize("line", ['a{x="1"y="2"} 1', "a 1e", "a ..", "a{x=1} 2"])
def test_parse_refuses_a_wanted_line_that_is_no_metric(line: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse(line, {"a"})


ANSWERS = {
    "/metrics": (200, TEXT),
    "/slow": (200, '{"requests": [], "clients": []}'),
    "/list/slow": (200, "[]"),
    "/readyz": (200, '{"ready": true, "reasons": []}'),
    "/starting/readyz": (503, '{"ready": false, "reasons": ["it starts"]}'),
    "/html/readyz": (200, "<html>"),
    "/list/readyz": (200, "[]"),
    "/html/metrics": (200, "a_total <html>"),
    "/html/slow": (200, "<html>"),
    "/failing/metrics": (500, "no"),
    "/broken": (200, "a_total{ not a metric\n"),
}


ASKED: list[str] = []
"""The query of each request."""


class AnsweringHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        ASKED.append(query)
        status, text = ANSWERS.get(path, (404, ""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), AnsweringHandler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_scrape_has_values_totals_and_the_clock_of_the_server(url: str) -> None:
    found = scrape(url, {"a_total", "b"}, 60)
    assert parse_qs(ASKED[-1]) == {"name[]": ["a_total", "b"]}
    assert found.total("a_total", topic="t") == 2.0
    assert found.total("a_total", x="1") == 5.5
    assert found.total("nothing") is None
    assert [each.value for each in found.of("b", quantile="0.99")] == [7.0]
    assert found.server_ahead_s is not None
    assert abs(found.server_ahead_s) <= 1 + found.taken_s


def test_slow_is_the_json_of_the_endpoint(url: str) -> None:
    assert slow(url, 60) == {"requests": [], "clients": []}


@pytest.mark.parametrize("path", ["/html", "/list", "/nothing"])
def test_slow_that_is_no_json_object_fails(url: str, path: str) -> None:
    with pytest.raises(ScrapeFailed):
        slow(url + path, 60)


@pytest.mark.parametrize(
    ("path", "reason"), [("/html", "not Prometheus"), ("/failing", "500"), ("/nothing", "404")]
)
def test_scrape_fails_with_the_reason(url: str, path: str, reason: str) -> None:
    with pytest.raises(ScrapeFailed, match=reason):
        scrape(url + path, {"a_total"}, 60)


@pytest.mark.parametrize("path", ["", "/", "/metrics"])
def test_page_of_metrics_is_read_at_its_path_or_at_metrics(url: str, path: str) -> None:
    found = scrape_page(url + path, ["other"], 60)
    assert set(found.values) == {"other"}
    assert [(dict(each.labels), each.value) for each in found.of("other")] == [
        ({"topic": "t"}, 9.0)
    ]


@pytest.mark.parametrize(
    ("path", "reason"), [("/other", "404"), ("/broken", "not Prometheus' text")]
)
def test_page_of_something_else_fails_with_the_reason(url: str, path: str, reason: str) -> None:
    with pytest.raises(ScrapeFailed, match=reason):
        scrape_page(url + path, ["a_total"], 60)


def test_page_without_a_scheme_is_refused() -> None:
    with pytest.raises(ScrapeFailed, match="is not like"):
        scrape_page("localhost:9404", ["a_total"], 60)


@pytest.mark.parametrize("wrong", ["ftp://h", "http://", "nothing", "http://h:port"])
def test_get_refuses_what_is_no_url_of_an_endpoint(wrong: str) -> None:
    with pytest.raises(ScrapeFailed, match="is not like"):
        get(wrong, "/metrics", 60)


def test_not_ready_has_the_reasons_of_a_broker_whatever_the_status(url: str) -> None:
    assert not_ready(url, 60) == []
    assert not_ready(f"{url}/starting", 60) == ["it starts"]
    for path in ("/html", "/list"):
        with pytest.raises(ScrapeFailed, match="no reasons"):
            not_ready(url + path, 60)
    with pytest.raises(ScrapeFailed, match="404"):
        not_ready(f"{url}/nothing", 60)


def test_get_of_a_closed_port_fails_with_the_reason() -> None:
    with pytest.raises(ScrapeFailed, match="refused"):
        get("http://127.0.0.1:1", "/metrics", 60)
