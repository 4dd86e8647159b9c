"""Scenarios in which brokers that speak Kafka went wrong, played on two of them and compared.

Where `kwire.conformance.wire` asks each API key at each version, a scenario here is a short story
over several keys at their newest versions: what is written, waited for, altered, and then seen.
Most of them are traps that other brokers fell into; docstrings give their numbers.
"""
