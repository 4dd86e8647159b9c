"""Checks of a running cluster, as any of its clients can make them.

`examine` (examine.py) collects the facts and returns the findings.  Facts become findings in
functions without I/O, one module for each subject.
"""
