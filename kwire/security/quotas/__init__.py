"""How much clients may ask for (KIP-13, KIP-124, KIP-599, KIP-612), and what holds them to it.

What is set is a config of an entity (kwire.cluster.metadata.entities).  Machines with the time as
argument: `kinds` is what can be set, `asking` finds it, `rates` measures, `clients` and `mutations`
say how long a client is to be held.  `enforcing` is the part that the broker's connections pass.
"""
