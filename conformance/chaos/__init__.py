"""Chaos tests: clients work while their broker is killed, paused, restarted or starved.

The seed determines a round: `plan` draws what the clients do and which faults are injected when.
`rounds` runs the round and records every operation in a `history`.  The `checks` are pure functions
that find what a correct Kafka broker must not do in that history, as Jepsen does.
"""
