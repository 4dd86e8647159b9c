"""The controller of a cluster, as a machine without I/O: Apache Kafka 3.9's in ZooKeeper mode.

`ClusterController` (machine.py) is the way in: it is told what happened and gives `Effects`
(effects.py), which a driver makes come true.  Its state is the image, and little that no image
holds (state.py); what brokers are told follows from how the image changes (propagation.py).  A
module a job:

    liveness        brokers that came, went and were replaced; disks that failed
    elections       leaders: for partitions without one, the preferred ones, those asked for
    isr             AlterPartition: what leaders say of their replicas
    reassignment    other replicas for a partition (KIP-455)
    deletion        topics that go, on all their brokers first
    shutdown        ControlledShutdown
"""
