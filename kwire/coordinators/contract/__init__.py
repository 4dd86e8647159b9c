"""The contract of all coordinators: what a decision comes to, and how it comes true.

Pure: no clock, no task, no file.  kwire.coordinators.runtime drives machines of this kind on a
broker.
"""
