"""The console over HTTP, on a broker: its pages, and what it refuses."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kwire.client.cluster import Cluster
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess
from tests.console.consoles import ConsoleProcess, visit
from tests.inside import PATIENCE_S


@pytest.fixture(scope="module")
def console(
    shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(shared_broker.bootstrap, tmp_path_factory.mktemp("console")) as started:
        yield started


@pytest.fixture
def topic(shared_broker: BrokerProcess, unique: str) -> str:
    with Cluster(shared_broker.bootstrap) as cluster:
        create_topic(cluster, unique, partitions=3, configs={"retention.ms": "3600000"})
        producer = Producer(cluster)
        for number in range(7):
            producer.send(unique, b"value", partition=number % 3)
        producer.flush()
    return unique


def test_list_shows_a_topic_with_its_numbers(console: ConsoleProcess, topic: str) -> None:
    answer = visit(console, f"/topics?q={topic}")
    assert answer.status == 200
    row = answer.text.partition("<tbody>")[2].partition("</tbody>")[0]
    assert f'href="/topics/{topic}"' in row
    assert re.findall(r'<span title="([\d,]+)">', row) == ["3", "7"], "partitions and records"


def test_topic_that_is_created_after_a_list_is_found_by_its_name_at_once(
    console: ConsoleProcess, shared_broker: BrokerProcess, unique: str
) -> None:
    for number in range(3):
        visit(console, "/topics")
        with Cluster(shared_broker.bootstrap) as cluster:
            create_topic(cluster, f"{unique}-{number}")
        text = visit(console, f"/topics?q={unique}-{number}").text
        assert f'href="/topics/{unique}-{number}"' in text


def test_topics_sorted_by_size_are_in_the_order_of_the_sizes_that_are_shown(
    console: ConsoleProcess, shared_broker: BrokerProcess, unique: str
) -> None:
    with Cluster(shared_broker.bootstrap) as cluster:
        producer = Producer(cluster)
        for name, count in (("a", 3), ("b", 9), ("c", 0), ("d", 6)):
            create_topic(cluster, f"{unique}-{name}")
            for _ in range(count):
                producer.send(f"{unique}-{name}", b"value")
        producer.flush()
    orders = []
    for sort in ("-size", "size"):
        rows = visit(console, f"/topics?sort={sort}&q={unique}").text
        sizes = [int(size.replace(",", "")) for size in re.findall(r'title="([\d,]+) bytes"', rows)]
        assert sizes == sorted(sizes, reverse=sort == "-size")
        orders.append("".join(re.findall(rf'href="/topics/{unique}-(.)"', rows)))
    assert orders == ["bdac", "cadb"]


def test_static_file_is_sent_once_while_the_browser_keeps_it(console: ConsoleProcess) -> None:
    first = visit(console, "/static/console.css")
    assert (first.status, first.headers["content-type"]) == (200, "text/css; charset=utf-8")
    again = visit(console, "/static/console.css", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    other = visit(console, "/static/console.js", headers={"If-None-Match": first.headers["etag"]})
    assert other.status == 200
    assert "javascript" in other.headers["content-type"]


def test_page_of_clients_without_metrics_says_how_to_get_them(console: ConsoleProcess) -> None:
    answer = visit(console, "/clients")
    assert answer.status == 200
    assert "--metrics URL" in answer.text
    assert 'href="/clients"' not in visit(console, "/topics").text, "it is not in the menu"


def test_pages_of_a_topic_show_partitions_and_configs(console: ConsoleProcess, topic: str) -> None:
    page = visit(console, f"/topics/{topic}").text
    assert page.count('<th scope="row"') == 3
    assert "delete" in page
    configs = visit(console, f"/topics/{topic}/configs?changed=yes").text
    assert configs.count('<th scope="row"') == 1
    assert "3600000" in configs


def test_each_response_has_the_content_security_policy(console: ConsoleProcess) -> None:
    for path in ("/topics", "/nothing", "/static/console.css", "/topics/no-such-topic"):
        policy = visit(console, path).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'"), path


@pytest.mark.parametrize("path", ["/nothing", "/topics/no-such-topic", "/topics/%00/configs"])
def test_what_does_not_exist_is_a_page_that_says_so(console: ConsoleProcess, path: str) -> None:
    answer = visit(console, path)
    assert answer.status == 404
    assert "Not found" in answer.text


def test_forged_host_and_another_origin_are_refused(console: ConsoleProcess) -> None:
    assert visit(console, "/topics", headers={"Host": "evil.example"}).status == 421
    form = {"theme": "dark", "back": "/topics"}
    assert visit(console, "/theme", form, {"Origin": "http://evil.example"}).status == 403
    assert visit(console, "/theme", form).status == 303


def test_theme_is_kept_in_a_cookie_and_goes_back_to_the_page(console: ConsoleProcess) -> None:
    answer = visit(console, "/theme", {"theme": "dark", "back": "/topics?q=a"})
    assert answer.headers["location"] == "/topics?q=a"
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert 'data-theme="dark"' in visit(console, "/topics", headers={"Cookie": cookie}).text


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "/\\evil.example", ""])
def test_theme_goes_to_no_other_site(console: ConsoleProcess, back: str) -> None:
    assert visit(console, "/theme", {"theme": "dark", "back": back}).headers["location"] == "/"


def test_too_large_a_request_is_refused(console: ConsoleProcess) -> None:
    # The answer comes before the body, which need not be sent.
    length = {"Content-Length": "8500000"}
    assert visit(console, "/theme", headers=length).status == 413
    assert visit(console, f"/topics?q={'x' * 17_000}").status == 414


def test_cluster_that_is_away_is_a_page_that_says_so(tmp_path: Path) -> None:
    with ConsoleProcess(f"127.0.0.1:{free_port()}", tmp_path) as console:
        answer = visit(console, "/topics")
    assert answer.status == 503
    assert "The cluster does not answer" in answer.text
    assert "kwire ping -b 127.0.0.1:" in answer.text


def test_console_elsewhere_than_on_loopback_needs_its_token(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    with ConsoleProcess(shared_broker.bootstrap, tmp_path, "--host", "0.0.0.0") as console:
        assert visit(console, "/topics").status == 401
        assert visit(console, "/topics?token=wrong").status == 401
        first = visit(console, f"/topics?q=a&{urlsplit(console.url).query}")
        assert (first.status, first.headers["location"]) == (303, "/topics?q=a")
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        answer = visit(console, "/topics", headers={"Cookie": cookie.partition(";")[0]})
        assert answer.status == 200


def test_client_that_stops_sending_too_early_leaves_no_error(console: ConsoleProcess) -> None:
    """A body that is too short, and requests behind the last one that is answered.

    The server may keep a connection whose requests it all answered as an idle one, so the client
    goes on after the third answer.
    """
    _, _, port = console.address.partition(":")
    answer_ends = visit(console, "/static/console.css").text[-30:].encode()
    head = f"Host: {console.address}\r\n"
    requests = (
        f"POST /topics HTTP/1.1\r\n{head}Content-Length: 100\r\n\r\nshort",
        f"GET /static/console.css HTTP/1.1\r\n{head}\r\n" * 3,
    )
    for request in requests * 40:
        with socket.create_connection(("127.0.0.1", int(port)), PATIENCE_S) as client:
            client.sendall(request.encode())
            client.shutdown(socket.SHUT_WR)
            received = bytearray()
            while received.count(answer_ends) < 3 and (data := client.recv(65_536)):
                received += data
    assert visit(console, "/topics").status == 200
    console.check_log()
