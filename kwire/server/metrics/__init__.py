"""What `kwire serve --metrics` measures and gives to Prometheus.

`declared` states each metric, `collecting` reads the values out of a broker, and `samples` holds
the values of one scrape and writes them as text.
"""
