"""Runs the blocks of a guide in their order, as its reader does, on free ports."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from kwire.testing.hosting.ports import free_ports
from tests.test_snippets import Block, blocks
from tests.typed import serving, typed

SKIPPED = {
    "python3 -m venv .venv": "tests/test_install_lines.py",
    "kafka-server-stop.sh": "tests/log/interchange and tests/storage/takeover",
    "problems: broker 2": "tests/guides/test_guides.py, after a kill",
}
"""By the beginning of a block: what shows that it is true."""
ADDRESS = "localhost:9092"
"""Where the broker of a page listens, if the page does not say otherwise."""
_FILE = re.compile(r"# ([\w-]+\.(?:py|properties|yaml))\n")
_SERVE = re.compile(r"(?:^|\s)kwire serve\b.*$", re.MULTILINE)
_EXPORT = re.compile(r"^export (\w+)=(\S+)$", re.MULTILINE)
_PORT = re.compile(r" --port (\d+)")


class GuideRun:
    """A page that is carried out in a folder, with the brokers that it has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed: list[str] = []
        """What each block of commands printed."""
        self._addresses = {ADDRESS: ADDRESS}
        """Where a broker listens in this run, by its address on the page."""
        self._exported: dict[str, str] = {}
        """What blocks have exported: each is a shell of its own here, and one for the reader."""
        self._servers = contextlib.ExitStack()

    @property
    def address(self) -> str:
        """Where the page's broker listens in this run; of several, the one that began last."""
        return self._addresses[ADDRESS]

    def run(self, block: Block) -> None:
        """Write the file of a block, or start its broker, or type its commands."""
        if block.first_line.startswith(tuple(SKIPPED)):
            return
        if name := _FILE.match(block.text):
            self._write(name[1], block.text)
        elif line := _SERVE.search(block.text):
            assert block.text.count("\n") == 1, f"a broker has a block of its own: {block}"
            self._serve(block.text.strip(), with_port=".properties" not in line[0])
        else:
            assert block.language == "sh", f"nothing runs {block}"
            environment = {"KWIRE_BOOTSTRAP_SERVERS": self.address, **self._exported}
            self.printed.append(typed(self._here(block.text), self.folder, environment))
            self._exported |= dict(_EXPORT.findall(block.text))

    def stop(self) -> None:
        """Stop the brokers."""
        self._servers.close()

    def _here(self, text: str) -> str:
        """A text of the page with the addresses of this run."""
        for on_the_page, here in self._addresses.items():
            text = text.replace(on_the_page, here)
        return text

    def _write(self, name: str, text: str) -> None:
        if name.endswith(".properties"):  # of a broker that is started later, beside an earlier one
            self._addresses[ADDRESS] = f"localhost:{free_ports(1)}"
        (self.folder / name).write_text(self._here(text))

    def _serve(self, command: str, *, with_port: bool) -> None:
        if not with_port:
            self._servers.enter_context(serving(command, self.folder, address=self.address))
            return
        port = _PORT.search(command)
        on_the_page = f"localhost:{port[1]}" if port else ADDRESS
        command = _PORT.sub("", command)
        command = command.replace("--console", f"--console {free_ports(1)}")
        server = serving(command, self.folder, ports=3 if "--brokers 3" in command else 1)
        self._addresses[on_the_page] = self._servers.enter_context(server)


@contextlib.contextmanager
def followed(page: str, folder: Path) -> Iterator[GuideRun]:
    """Carry out all blocks of a page; its brokers run until the end of the context."""
    run = GuideRun(folder)
    try:
        for block in blocks():
            if block.page == page:
                run.run(block)
        yield run
    finally:
        run.stop()
