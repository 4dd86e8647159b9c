"""Answers of two brokers as trees in which only what may differ is gone, and where those differ.

`rules` is the table of what may differ and why, `normal` brings an answer into that form, and
`differences` compares two.  kwire.conformance asks two brokers side by side, a replay of a trace
(kwire.testing.replaying) has the answers of one on file.
"""

from __future__ import annotations
