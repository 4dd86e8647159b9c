"""Chaos: clients at work while their broker is killed, paused, restarted or starved.

A round follows from its seed: `plan` says what the clients do and which faults come when, `rounds`
carries it out and records every operation in a `history`, and the `checks`, which are pure, say
what in that history a Kafka may not do. The manner is that of Jepsen.
"""
