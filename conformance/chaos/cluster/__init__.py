"""Chaos in a cluster: three brokers that are killed, paused, cut off and starved under load.

As with a lone broker a round follows from its seed.  `plan` draws the faults, `nemesis` brings them
(several at a time), `network` and `clock` are what brokers are cut off and misled with, and in the
end `replicas` asks whether all copies are in sync and the same, before the checkers of the clients'
history are asked.
"""
