"""Where a test's server process runs: an address, and a launcher for another network namespace."""

from __future__ import annotations

from typing import Final, NamedTuple


class Host(NamedTuple):
    """The address that a process listens on, and a launcher that is put before its command line.

    A launcher enters, for example, a network namespace: ("nsenter", "--net=...").  It must replace
    itself by the process (exec): signals go to the process that was started.
    """

    address: str = "127.0.0.1"
    launcher: tuple[str, ...] = ()


HERE: Final = Host()
