"""The pages of messages over HTTP: reading, one message, producing, copying, the live tail."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

from kwire.client.cluster import Cluster
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.testing.hosting.process import BrokerProcess
from tests.console.consoles import Answer, ConsoleProcess, visit

HOSTILE = "<script>alert(1)</script>\u202e\x1b"
BINARY = bytes(range(256))


@pytest.fixture(scope="module")
def console(
    shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(shared_broker.bootstrap, tmp_path_factory.mktemp("console")) as started:
        yield started


@pytest.fixture
def topic(shared_broker: BrokerProcess, unique: str) -> str:
    """A topic with a JSON value, a hostile one, a tombstone, a binary and a large one."""
    with Cluster(shared_broker.bootstrap) as cluster:
        create_topic(cluster, unique, partitions=1)
        producer = Producer(cluster)
        producer.send(unique, b'{"name": "Ada"}', b"k0", headers=[("trace", b"t-0")])
        producer.send(unique, HOSTILE.encode(), HOSTILE.encode(), headers=[(HOSTILE, None)])
        producer.send(unique, None, b"k2")
        producer.send(unique, BINARY, None)
        producer.send(unique, b"x" * 500_000, b"k4")
        producer.flush()
    return unique


def rows_of(answer: Answer) -> list[str]:
    """The rows of the table of messages."""
    body = answer.text.partition('<tbody id="rows">')[2].partition("</tbody>")[0]
    return body.split("<tr>")[1:]


def test_page_shows_each_kind_of_value(console: ConsoleProcess, topic: str) -> None:
    answer = visit(console, f"/topics/{topic}/messages?from=oldest")
    text, hostile, tombstone, binary, large = rows_of(answer)
    assert "{&#34;name&#34;: &#34;Ada&#34;}" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\u27e8U+202E\u27e9\u241b" in hostile
    assert "tombstone" in tombstone
    assert '<span class="null">null</span>' in binary
    assert "00 01 02 03" in binary
    assert "(500,000 characters)" in large
    assert len(large) < 3000
    assert "<script>alert" not in answer.text
    assert "\u202e" not in answer.text
    assert "That is all." in answer.text


def test_filter_in_the_url_selects_messages(console: ConsoleProcess, topic: str) -> None:
    answer = visit(console, f"/topics/{topic}/messages?where=value.name+%3D+%22Ada%22")
    assert len(rows_of(answer)) == 1
    assert "value.name = &#34;Ada&#34;" in answer.text, "it stays in the form"
    assert len(rows_of(visit(console, f"/topics/{topic}/messages?where=value+is+null"))) == 1


@pytest.mark.parametrize("query", ["where=value+%3D", "from=offset&offset=x", "at=x", "values=xml"])
def test_query_with_a_mistake_is_answered_with_the_reason(
    console: ConsoleProcess, topic: str, query: str
) -> None:
    answer = visit(console, f"/topics/{topic}/messages?{query}")
    assert answer.status == 400
    assert 'role="alert"' in answer.text


def test_one_message_has_all_of_it(console: ConsoleProcess, topic: str) -> None:
    page = f"/topics/{topic}/messages/0"
    whole = visit(console, f"{page}/0").text
    assert "{\n  &#34;name&#34;: &#34;Ada&#34;\n}" in whole
    assert "t-0" in whole
    large = visit(console, f"{page}/4")
    assert large.text.count("x") > 200_000
    assert "Show all of it" in large.text
    assert visit(console, f"{page}/4?all=yes").text.count("x") > 500_000
    assert visit(console, f"{page}/3/value").body == BINARY
    assert "attachment" in visit(console, f"{page}/3/value").headers["content-disposition"]
    as_base64 = visit(console, f"{page}/3?values=base64").text
    assert "AAECAwQF" in as_base64
    assert "<script>alert" not in visit(console, f"{page}/1").text


@pytest.mark.parametrize(
    ("place", "status"),
    [
        ("0/99", 404),
        ("7/0", 404),
        ("0/x", 400),
        ("0/-1", 400),
        (f"0/{'9' * 4000}", 400),
        ("0/0/top", 400),
    ],
)
def test_place_that_no_message_has_is_a_page_that_says_so(
    console: ConsoleProcess, topic: str, place: str, status: int
) -> None:
    assert visit(console, f"/topics/{topic}/messages/{place}").status == status


def test_message_is_written_and_shown(console: ConsoleProcess, topic: str) -> None:
    form = {
        "key": "61 00", "key_form": "hex", "value": "line\r\nend", "value_form": "text",
        "headers": "a: 1\r\nb", "partition": "0",
    }  # fmt: skip
    answer = visit(console, f"/topics/{topic}/produce", form)
    assert answer.status == 303
    place, _, _ = answer.headers["location"].partition("?")
    assert place == f"/topics/{topic}/messages/0/5"
    assert "Written to partition 0 at offset 5." in visit(console, answer.headers["location"]).text
    assert visit(console, f"{place}/key").body == b"a\x00"
    assert visit(console, f"{place}/value").body == b"line\nend"


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"key_form": "hex", "key": "zz"}, "The key is not hex."),
        ({"headers": ": x"}, "A header is a line"),
        ({"partition": "-1"}, "The partition is a whole number"),
        ({"partition": "9"}, "has no partition 9"),
        ({"value_form": "base64", "value": "*"}, "The value is not base64."),
    ],
)
def test_message_that_cannot_be_written_keeps_the_form(
    console: ConsoleProcess, topic: str, form: dict[str, str], reason: str
) -> None:
    answer = visit(console, f"/topics/{topic}/produce", {"value": "typed", **form})
    assert answer.status == 400
    assert reason in answer.text
    assert form.get("value", "typed") in answer.text


def test_copy_has_the_same_bytes(console: ConsoleProcess, topic: str) -> None:
    page = f"/topics/{topic}/messages/0"
    for offset in (1, 2, 3):
        copied = visit(console, f"{page}/{offset}/copy", {"to": topic, "to_partition": "0"})
        place = copied.headers["location"].partition("?")[0]
        assert place == f"{page}/{4 + offset}"
        for part in ("key", "value"):
            own = visit(console, f"{place}/{part}").body
            assert own == visit(console, f"{page}/{offset}/{part}").body
    filled = visit(console, f"/topics/{topic}/produce?from=0:0").text
    assert "{&#34;name&#34;: &#34;Ada&#34;}" in filled
    assert "trace: t-0" in filled


def test_copy_to_a_topic_that_does_not_exist_is_refused(
    console: ConsoleProcess, topic: str
) -> None:
    answer = visit(console, f"/topics/{topic}/messages/0/0/copy", {"to": f"{topic}-missing"})
    assert "The message was not copied" in visit(console, answer.headers["location"]).text
    assert visit(console, f"/topics/{topic}-missing").status == 404, "it was not created"


def test_what_is_seen_is_downloaded(console: ConsoleProcess, topic: str) -> None:
    path = f"/topics/{topic}/messages/download?from=oldest"
    lines = [json.loads(line) for line in visit(console, f"{path}&as=jsonl").text.splitlines()]
    assert [line["offset"] for line in lines] == [0, 1, 2, 3, 4]
    assert (lines[2]["value"], lines[3]["value_encoding"]) == (None, "base64")
    table = visit(console, f"{path}&as=csv")
    assert table.text.startswith("topic,partition,offset,timestamp,key,key_encoding,value")
    assert "filename=" in table.headers["content-disposition"]


def test_live_tail_sends_what_arrives_and_only_what_passes_the_filter(
    console: ConsoleProcess, topic: str, shared_broker: BrokerProcess
) -> None:
    connection = http.client.HTTPConnection(console.address, timeout=60)
    connection.request("GET", f"/topics/{topic}/messages/live?key=k1")
    response = connection.getresponse()
    assert json.loads(response.readline())["seen"] == 0, "it is at the end now"
    with Cluster(shared_broker.bootstrap) as cluster:
        producer = Producer(cluster)
        for number in range(1000):
            producer.send(topic, b"<b>", b"k%d" % (number % 10))
        producer.flush()
    seen = found = shown = 0
    while seen < 1000:
        piece = json.loads(response.readline())
        seen, found = seen + piece["seen"], found + piece["found"]
        shown += len(piece["rows"]) + piece["left_out"]
        assert {row["key"] for row in piece["rows"]} <= {"k1"}
    assert (seen, found, shown) == (1000, 100, 100)
    connection.close()


def test_live_tail_of_a_topic_that_does_not_exist_says_so(console: ConsoleProcess) -> None:
    answer = visit(console, "/topics/no-such-topic/messages/live")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in json.loads(answer.text.splitlines()[-1])["error"]
