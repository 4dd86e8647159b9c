"""Snapshots of a broker's whole state, as folders.

`kept` names them, lists and removes them; `laying` makes the data of another broker out of one.
What takes one of a running broker is kwire.testing.hooks.control.snapshots.  No more than the
standard library in here: tests and commands use it without a broker.
"""

from __future__ import annotations

from pathlib import Path


def journal_of(log_dir: Path) -> Path:
    """The file that is there while a broker's data is exchanged whose first log directory that is:
    whoever is killed then leaves it, and `laying.finish` has what was begun be done."""
    path = log_dir.absolute()
    return path.with_name(f".{path.name}-restore")
