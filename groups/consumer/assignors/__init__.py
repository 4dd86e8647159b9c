"""Apache Kafka's server-side assignors: they compute a target assignment from subscriptions.

Call `assign` of `uniform` or `range`.  Both return exactly what Apache Kafka's classes return,
which sometimes depends on the iteration order of Java's HashMap (kwire.groups.java).  Racks of
members and replicas have no effect: Apache Kafka removed rack awareness in 4.0.
"""
