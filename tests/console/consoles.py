"""`kwire console` as a child process, and plain HTTP requests to it."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from kwire.testing.hosting.lifetime import Startable

UNHANDLED = ("Traceback (most recent call last)", " ERROR ", " CRITICAL ")
"""What no console may have logged by the end of a test."""
FORM = "application/x-www-form-urlencoded"
STOP_S = 60.0
TIMEOUT_S = 60.0


class ConsoleProcess(Startable):
    """A console on a free port of this machine.  It ends with this process.

    At the end of a `with` block it must end well.
    """

    def __init__(self, bootstrap: str, folder: Path, *options: str) -> None:
        """`bootstrap` is the cluster; `folder` gets the log; `options` are further ones of
        `kwire console`."""
        self.bootstrap = bootstrap
        self.log_path = folder / "console.log"
        self.options = options
        self.url = ""
        """The address that the console has printed, with the token if there is one."""
        self._process: subprocess.Popen[str] | None = None

    @property
    def origin(self) -> str:
        """The scheme, host and port of the console."""
        return self.url.partition("?")[0].rstrip("/")

    @property
    def address(self) -> str:
        """`127.0.0.1:PORT`, whatever host it listens on."""
        return f"127.0.0.1:{urlsplit(self.url).port}"

    @property
    def pid(self) -> int:
        """Id of the running process."""
        assert self._process is not None, "The console is not running."
        return self._process.pid

    @property
    def log(self) -> str:
        """What the console has logged."""
        return self.log_path.read_text(errors="replace")

    def start(self) -> None:
        """Start it; returns once it has printed its address, and accepts connections."""
        command = [sys.executable, "-m", "kwire.cli", "console", "-b", self.bootstrap]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port=0", "--exit-on-eof", *self.options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for pytest, which ends it after the tests
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.url = line.partition("kwire console: ")[2].strip()
        if not self.url:
            self.stop()
            raise AssertionError(f"the console printed {line!r}:\n{self.log}")

    def __exit__(self, *_: object) -> None:
        self.finish()

    def stop(self) -> int:
        """Let it end as its parent would, by the end of its standard input; the exit status."""
        process, self._process = self._process, None
        assert process is not None, "The console is not running."
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            return process.wait(STOP_S)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def finish(self) -> None:
        """Stop it and see that it ended well."""
        status = self.stop()
        print(self.log)  # shown with a test that failed
        self.check_log()
        assert status == 0, f"the console ended with status {status}:\n{self.log}"

    def check_log(self) -> None:
        """Fail if the console has logged an error."""
        log = self.log
        assert not any(sign in log for sign in UNHANDLED), log


@dataclass(frozen=True)
class Answer:
    """The response to a request."""

    status: int
    headers: Mapping[str, str]
    """By lower-case names; several cookies are one value."""
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


def ask(
    origin: str,
    target: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Answer:
    """Send one request as it is, without a client's own headers except Host, and read the answer.

    `headers` may have a Host.  The target is neither escaped nor normalized.  Of a live tail, which
    never ends, only the first piece is read.
    """
    url = urlsplit(origin)
    assert url.hostname is not None
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=TIMEOUT_S)
    given = {"Host": url.netloc, **(headers or {})}
    if body is not None:
        given.setdefault("Content-Length", str(len(body)))
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        found: dict[str, str] = {}
        for name, value in response.getheaders():
            lower = name.lower()
            found[lower] = f"{found[lower]}, {value}" if lower in found else value
        is_tail = "chunked" in found.get("transfer-encoding", "")
        return Answer(response.status, found, response.read1() if is_tail else response.read())
    finally:
        connection.close()


def visit(
    console: ConsoleProcess,
    path: str,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send a GET, or a POST as a page of the console does.  Redirects are not followed.

    `headers` replace those of a browser.
    """
    origin = f"http://{console.address}"
    if form is None:
        return ask(origin, path, headers=headers)
    sent = {"Origin": origin, "Content-Type": FORM, **(headers or {})}
    return ask(origin, path, "POST", sent, urlencode(form).encode())
