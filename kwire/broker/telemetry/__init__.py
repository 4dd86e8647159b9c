"""Client telemetry (KIP-714): which metrics clients are asked to push, and what becomes of those.

`subscriptions` says who is asked for what, `instances` is the machine that answers clients (no
clock, no socket), `topic` keeps what was pushed, and `service` holds them together for a
broker, which imports it when a client first asks.
"""
