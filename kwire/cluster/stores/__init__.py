"""Where the metadata of a cluster are kept, and who registers there.

The way in is `contract.MetadataStore`.  `local` is a file beside the logs of a broker that is
alone, `zookeeper` has Apache Kafka 3.9's znodes, `shared` is a process that brokers of one machine
are connected to.  Nothing outside this room asks which of them it is.
"""
