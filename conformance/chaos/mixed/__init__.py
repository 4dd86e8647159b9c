"""Chaos tests of brokers of kwire and Apache Kafka 4.4.0 in one cluster on Kafka's controllers.

The seed determines a round.  `plan` draws the kinds of the brokers and the faults: brokers and
controllers are killed, paused and restarted, brokers are replaced by the other kind on their own
data, and replicas move.  `nemesis` injects the faults, several at a time.  The workloads and
checks are those of the cluster on ZooKeeper.
"""
