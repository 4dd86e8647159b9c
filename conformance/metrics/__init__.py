"""Compares the metrics of kwire with those of Apache Kafka after the same requests.

`python -m kwire.conformance.metrics` starts both, sends both the same load, and compares the
metrics that mean the same.  Enter at `comparing.py`.
"""
