"""A metrics endpoint with a text of the test's own."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def served(text: str | Callable[[], str], path: str = "/metrics") -> Iterator[str]:
    """The URL of an endpoint whose `path` answers with a text until the end of the block."""

    class Endpoint(http.server.BaseHTTPRequestHandler):
        """Answers `path` with the text, and all other paths with 404."""

        def do_GET(self) -> None:
            self.send_response(200 if self.path.partition("?")[0] == path else 404)
            self.end_headers()
            self.wfile.write((text if isinstance(text, str) else text()).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
            del format, args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
