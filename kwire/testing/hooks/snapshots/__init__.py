"""Snapshots of a broker's whole state, stored as folders.

`kept` lists, finds and removes them; `laying` makes a broker's data out of one.
kwire.testing.hooks.control.snapshots takes a snapshot of a running broker.  This package imports
only the standard library: tests and commands use it without a broker.
"""

from __future__ import annotations

from pathlib import Path


def journal_of(log_dir: Path) -> Path:
    """The file that exists while a restore exchanges the folders of a broker's data.

    `log_dir` is the broker's first log directory.  If the process is killed meanwhile, the file
    stays, and `laying.finish` completes the exchange.
    """
    path = log_dir.absolute()
    return path.with_name(f".{path.name}-restore")
