"""`kwire conformance`: compare a broker with Apache Kafka, or with any other."""

from __future__ import annotations

from kwire.conformance.command import command

__all__ = ["command"]
