"""Snapshots of a broker's whole state, as folders.

`kept` names them, lists and removes them; `laying` makes the data of another broker out of one.
What takes one of a running broker is kwire.control.snapshots.  No more than the standard library in
here: tests and commands use it without a broker.
"""

from __future__ import annotations
