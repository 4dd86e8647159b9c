"""Scenarios of several requests, run on two brokers to compare their behaviour.

kwire.conformance.wire tests each API key in each version.  A scenario here uses several API keys in
their newest versions: it writes, waits, changes something, and records what the broker returns.
Most scenarios are about bugs of other Kafka-compatible brokers; docstrings name the issues.
"""
