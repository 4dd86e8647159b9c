"""Compares the responses of two brokers, except for values that may differ.

`rules` is the table of what may differ and why, `normal` converts a response to a tree without such
values, and `differences` compares two trees.  kwire.conformance compares responses of two running
brokers; a replay (kwire.testing.replaying) compares responses with those in a trace.
"""

from __future__ import annotations
