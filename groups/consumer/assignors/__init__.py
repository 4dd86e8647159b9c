"""Apache Kafka's server-side assignors: from subscriptions to who is to have which partitions.

`assign` of `uniform` and `range` are the ways in; both give exactly what Apache Kafka's classes do,
which depends here and there on the order in which Java walks a HashMap (kwire.groups.java).  Racks
of members and replicas are of no account: Apache Kafka's assignors took them out in 4.0.
"""
