"""`kwire conformance`: compare a broker with Apache Kafka, or with any other."""

from __future__ import annotations

from kwire.cli.grammar.listing import Listing
from kwire.conformance.command import command

LISTING = Listing(
    230,
    "Compare a broker with Apache Kafka, request by request.",
    "send the same requests to a broker and to Apache Kafka, and compare the answers",
)

__all__ = ["command"]
