"""Stores of the cluster's metadata, where brokers register too.

`contract.MetadataStore` is the interface.  `local` keeps the metadata of a single-node broker in a
file, `zookeeper` in the znodes of Apache Kafka 3.9, `shared` in a process that the brokers of one
machine connect to.  No code outside this package depends on which store it is.
"""
