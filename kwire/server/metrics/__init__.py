"""What `kwire serve --metrics` measures and gives to Prometheus.

`meters` has the counters that measured connections, partitions and files write while the broker
serves.  `declared` states each metric, `collecting` reads the values out of the meters and of the
broker, and `samples` holds the values of one scrape and writes them as text.

A broker without `metrics.port` has none of these objects.
"""
