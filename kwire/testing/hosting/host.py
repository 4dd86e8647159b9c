"""Where a process that is started for a test runs, and how it gets there."""

from __future__ import annotations

from typing import Final, NamedTuple


class Host(NamedTuple):
    """An address that the process listens on, and the words that go before its command line.

    The words lead, say, into a network namespace: ("nsenter", "--net=..."). They may not put a
    process between, which would be signalled in its place.
    """

    address: str = "127.0.0.1"
    launcher: tuple[str, ...] = ()


HERE: Final = Host()
