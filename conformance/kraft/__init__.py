"""Compares the metadata records that Apache Kafka's controllers write beside either kind of broker.

`python -m kwire.conformance.kraft` runs it.

    metadata_log.py   the records of `__cluster_metadata`
    naming.py         records as text, with names instead of ids, times and epochs
    state.py          the state of the cluster that records make
    outcome.py        what each step wrote, and how two runs differ
    asking.py         requests of the steps to brokers
    stage.py          a controller and three brokers, step by step
    steps/            the steps: topics, configs, users, losses of brokers
"""
