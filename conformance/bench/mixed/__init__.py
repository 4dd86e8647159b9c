"""`make bench-mixed`: minutes of mixed load on one broker, and each stall of its loop with a cause.

watched.py runs the broker and notes when its loop stands still; clients.py has the clients, each in
a process of its own; waits.py adds up how long they waited in each block; report.py writes for what
they waited and why.
"""
