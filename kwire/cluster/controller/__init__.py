"""The controller of a cluster as a state machine without I/O.

It behaves as the controller of Apache Kafka 3.9 in ZooKeeper mode.  `ClusterController`
(machine.py) is the entry point: it receives events and returns `ControllerEffects` (effects.py),
which a driver carries out.  Its state (state.py) is the metadata image and a few facts that no
image holds.  The requests to brokers (propagation.py) follow from how the image changes.  The other
modules do one job each:

    liveness        brokers that registered, left or restarted; log directories that failed
    elections       elections of leaders: automatic, preferred, and by ElectLeaders
    isr             AlterPartition: leaders change their in-sync replicas
    reassignment    new replicas for a partition (KIP-455)
    deletion        deletion of topics: first on all their brokers, then in the store
    shutdown        ControlledShutdown
"""
