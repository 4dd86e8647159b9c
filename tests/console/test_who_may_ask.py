"""Who may ask the console what, over plain HTTP: hosts, origins, the token, paths, limits."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import pytest

from kwire.testing import Kafka, free_port
from tests.console.conftest import ConsoleFactory
from tests.console.consoles import Answer, ConsoleProcess, ask

pytestmark = pytest.mark.slow

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}
"""The content security policy, by directive."""


@pytest.fixture(autouse=True)
def _no_error_is_logged(console: ConsoleProcess) -> Iterator[None]:
    yield
    console.check_log()


def authority_of(console: ConsoleProcess) -> str:
    """Host and port of the console."""
    return urlsplit(console.origin).netloc


def post(console: ConsoleProcess, target: str, **headers: str) -> Answer:
    """Send an empty form with these headers, whose names have _ in place of -."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    form = {"Content-Type": "application/x-www-form-urlencoded", **named}
    return ask(console.origin, target, "POST", form, b"theme=dark&back=%2Ftopics")


# -- hosts and origins


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost.evil.example",
        "127.0.0.1@evil.example",
        "evil.example, 127.0.0.1:{port}",
        "0x7f000001.example",
        "",
    ],
)
def test_a_request_that_names_another_host_is_refused(console: ConsoleProcess, host: str) -> None:
    port = urlsplit(console.origin).port
    answer = ask(console.origin, "/topics", headers={"Host": host.format(port=port)})
    assert 400 <= answer.status < 500
    assert b"orders" not in answer.body


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
def test_a_request_that_names_this_machine_is_answered(console: ConsoleProcess, host: str) -> None:
    port = urlsplit(console.origin).port
    answer = ask(console.origin, "/topics", headers={"Host": host.format(port=port)})
    assert answer.status == 200
    assert "orders" in answer.text


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://127.0.0.1:1",
        "http://localhost",
        "http://{authority}.evil.example",
        "http://evil.example@{authority}",
        "ftp://{authority}",
        "null",
        "",
    ],
)
def test_a_change_that_comes_from_another_origin_is_refused(
    console: ConsoleProcess, origin: str
) -> None:
    answer = post(console, "/theme", origin=origin.format(authority=authority_of(console)))
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_a_change_without_an_origin_is_refused(console: ConsoleProcess) -> None:
    assert post(console, "/theme").status == 403


def test_a_change_that_the_browser_calls_cross_site_is_refused(console: ConsoleProcess) -> None:
    answer = post(console, "/theme", origin=console.origin, sec_fetch_site="cross-site")
    assert answer.status == 403


def test_a_change_from_a_page_of_the_console_is_made(console: ConsoleProcess) -> None:
    answer = post(console, "/theme", origin=console.origin, sec_fetch_site="same-origin")
    assert (answer.status, answer.headers["location"]) == (303, "/topics")
    assert "dark" in answer.headers["set-cookie"]


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "/\\evil.example", "x"])
def test_a_form_does_not_lead_to_another_site(console: ConsoleProcess, back: str) -> None:
    form = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": console.origin,
    }
    body = f"theme=dark&back={quote(back, safe='')}".encode()
    answer = ask(console.origin, "/theme", "POST", form, body)
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_a_method_that_no_page_has_is_refused(console: ConsoleProcess, method: str) -> None:
    answer = ask(console.origin, "/topics", method, {"Origin": console.origin})
    assert answer.status == 405


def test_a_page_is_not_changed_by_a_get(console: ConsoleProcess) -> None:
    assert ask(console.origin, "/theme?theme=dark").status == 405


# -- what a page may load


@pytest.mark.parametrize(
    "target", ["/topics", "/", "/static/console.css", "/no/such/page", "/topics/no-such-topic"]
)
def test_each_response_limits_what_a_page_loads(console: ConsoleProcess, target: str) -> None:
    headers = ask(console.origin, target).headers
    directives = (each.strip() for each in headers["content-security-policy"].split(";"))
    assert dict(each.split(" ", 1) for each in directives if each) == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers
    wanted = "private, max-age=60" if target.startswith("/static/") else "no-store"
    assert headers["cache-control"] == wanted


def test_a_refused_request_gets_the_same_limits(console: ConsoleProcess) -> None:
    headers = ask(console.origin, "/topics", headers={"Host": "evil.example"}).headers
    assert "default-src 'none'" in headers["content-security-policy"]


def test_pages_have_no_script_or_style_of_their_own(console: ConsoleProcess) -> None:
    text = ask(console.origin, "/topics").text
    assert "<style" not in text
    assert " style=" not in text
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", text)


# -- paths

PATHS = [
    "/static/../app.py",
    "/static/../../cli/app.py",
    "/static/..%2fapp.py",
    "/static/%2e%2e/app.py",
    "/static/%2e%2e%2fapp.py",
    "/static/..%5capp.py",
    "/static/....//app.py",
    "/static//etc/passwd",
    "/static/%2fetc/passwd",
    "/static/..%252fapp.py",
    "/static/console.css%00.py",
    "/static/console.css/../../app.py",
    "/static/",
    "/static",
    "/../app.py",
    "//etc/passwd",
    "/templates/base.html",
    "/static/../templates/base.html",
    "http://evil.example/",
    "*",
    "/%",
    "/%zz",
    "/%ff%fe",
    "/topics/%00",
    "/topics/..%2f..%2fetc%2fpasswd",
    "/topics/" + "%F0%9F%A6%89" * 20,
]


@pytest.mark.parametrize("target", PATHS)
def test_a_path_leads_to_no_file_outside_of_the_static_ones(
    console: ConsoleProcess, target: str
) -> None:
    answer = ask(console.origin, target)
    assert answer.status < 500
    for sign in (b"import ", b"root:", b"{% block", b"Traceback"):
        assert sign not in answer.body


# -- limits


@pytest.mark.parametrize(
    "target", ["/topics?q=" + "a" * 100_000, "/topics/" + "a" * 20_000, "/topics?" + "a=1&" * 9_000]
)
def test_a_long_url_is_refused(console: ConsoleProcess, target: str) -> None:
    assert ask(console.origin, target).status in (400, 414, 431)


def test_long_headers_are_refused(console: ConsoleProcess) -> None:
    try:
        answer = ask(console.origin, "/topics", headers={"X-Long": "a" * 200_000})
    except (ConnectionError, http.client.HTTPException):  # closed before all of it was sent
        return
    assert answer.status in (400, 431)


def test_a_body_that_is_too_large_is_refused(console: ConsoleProcess) -> None:
    headers = {"Origin": console.origin, "Content-Length": str(10**9)}
    assert ask(console.origin, "/theme", "POST", headers).status == 413


def test_a_body_that_grows_too_large_is_refused(console: ConsoleProcess) -> None:
    headers = [
        "POST /theme HTTP/1.1",
        f"Host: {authority_of(console)}",
        f"Origin: {console.origin}",
        "Content-Type: application/x-www-form-urlencoded",
        "Transfer-Encoding: chunked",
    ]
    url = urlsplit(console.origin)
    chunk = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
    with socket.create_connection((url.hostname, url.port), 60) as connection:
        try:
            connection.sendall("\r\n".join([*headers, "", ""]).encode() + chunk * 12)
            connection.sendall(b"0\r\n\r\n")
        except ConnectionError:
            return
        assert b" 413 " in connection.recv(4096).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /topics HTTP/1.1\r\n\r\n",
        b"GET /topics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /theme HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET\x00 / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /topics HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        b"GET /topics HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n",
        b"\r\n\r\n\r\n",
        b"\xff" * 5_000,
    ],
)
def test_what_is_no_request_ends_its_own_connection_only(
    console: ConsoleProcess, raw: bytes
) -> None:
    url = urlsplit(console.origin)
    with socket.create_connection((url.hostname, url.port), 60) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        try:
            answered = connection.recv(4096)
        except ConnectionError:
            answered = b""
    assert b"500" not in answered.split(b"\r\n")[0]
    assert ask(console.origin, "/topics").status == 200


# -- the token


@pytest.fixture(scope="module")
def for_others(
    cluster: Kafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """A console that other machines reach, so that it has a token."""
    folder = tmp_path_factory.mktemp("console")
    with ConsoleProcess(cluster.bootstrap, folder, "--host=0.0.0.0") as started:
        yield started


def local(console: ConsoleProcess) -> str:
    """The origin of a console at this machine's own address."""
    return f"http://127.0.0.1:{urlsplit(console.url).port}"


def token_of(console: ConsoleProcess) -> str:
    """The query of the link that was printed."""
    return urlsplit(console.url).query


def test_a_console_for_other_machines_prints_a_link_with_a_token(
    for_others: ConsoleProcess,
) -> None:
    name, _, token = token_of(for_others).partition("=")
    assert name == "token"
    assert len(token) >= 32
    assert token not in for_others.log


@pytest.mark.parametrize("target", ["/", "/topics", "/static/console.css", "/no/such/page"])
@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token=%00", "?Token={token}"])
def test_a_request_without_the_token_is_refused(
    for_others: ConsoleProcess, target: str, query: str
) -> None:
    given = query.format(token=token_of(for_others).partition("=")[2])
    answer = ask(local(for_others), target + given)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "cookie", ["", "x", "={token}", "{name}=", "{name}=wrong", "{name}={token}a"]
)
def test_a_request_with_another_cookie_is_refused(for_others: ConsoleProcess, cookie: str) -> None:
    token = token_of(for_others).partition("=")[2]
    name = f"kwire-console-{urlsplit(for_others.url).port}"
    given = cookie.format(name=name, token=token)
    assert ask(local(for_others), "/topics", headers={"Cookie": given}).status == 401


def test_the_link_puts_the_token_into_a_cookie_that_scripts_and_sites_do_not_get(
    for_others: ConsoleProcess,
) -> None:
    answer = ask(local(for_others), f"/topics?{token_of(for_others)}&q=ord")
    assert (answer.status, answer.headers["location"]) == (303, "/topics?q=ord")
    cookie, *attributes = (part.strip() for part in answer.headers["set-cookie"].split(";"))
    assert {"httponly", "samesite=strict"} <= {each.lower() for each in attributes}
    shown = ask(local(for_others), "/topics", headers={"Cookie": cookie})
    assert shown.status == 200
    assert cookie.partition("=")[2] not in shown.text


def test_a_change_needs_the_token_too(for_others: ConsoleProcess) -> None:
    assert post(for_others, "/theme", origin=local(for_others)).status in (401, 403)
    answer = ask(
        local(for_others),
        f"/theme?{token_of(for_others)}",
        "POST",
        {"Origin": local(for_others), "Content-Type": "application/x-www-form-urlencoded"},
        b"theme=dark&back=%2F",
    )
    assert answer.status == 401


def test_a_forged_host_is_refused_with_the_token_too(for_others: ConsoleProcess) -> None:
    target = f"/topics?{token_of(for_others)}"
    answer = ask(local(for_others), target, headers={"Host": "evil.example"})
    assert 400 <= answer.status < 500
    assert "set-cookie" not in answer.headers


# -- what the cluster denies

DENYING = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:nobody",
}


def test_what_the_cluster_denies_is_not_shown(console_factory: ConsoleFactory) -> None:
    with Kafka(DENYING) as kafka:
        denied = console_factory(kafka.bootstrap)
        for target in ("/topics", "/topics/orders"):
            answer = ask(denied.origin, target)
            assert answer.status in (200, 403, 404)
            assert "orders-" not in answer.text


def test_a_cluster_that_is_away_gives_a_page_that_says_so(console_factory: ConsoleFactory) -> None:
    port = free_port()
    lonely = console_factory(f"127.0.0.1:{port}")
    answer = ask(lonely.origin, "/topics")
    assert answer.status == 503
    assert f"127.0.0.1:{port}" in answer.text
