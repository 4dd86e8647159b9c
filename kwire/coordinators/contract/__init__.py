"""The contract of all coordinators: what a machine decides, and how a driver carries that out.

Pure: no clock, no task, no file.  kwire.coordinators.runtime drives such machines on a broker.

    effects    what one decision contains: records, replies, timers
    machine    the methods that a coordinator machine has
    driver     carries out effects, on a broker and in tests alike
    replaying  reads records from the log when a partition is loaded
    pattern    regular expressions that clients send
"""
