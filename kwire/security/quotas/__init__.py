"""Client quotas (KIP-13, KIP-124, KIP-599, KIP-612) and their throttle times.

A quota is a config of an entity (kwire.cluster.metadata.entities).  The modules take the time as an
argument: `kinds` has the quotas and their values, `asking` the filters of DescribeClientQuotas,
`rates` measures, `clients`, `mutations` and `addresses` compute throttle times.  `enforced` has all
quotas of one broker.
"""
