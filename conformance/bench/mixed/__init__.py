"""`make bench-mixed`: minutes of mixed load on one broker, and each stall of its loop with a cause.

watched.py runs the broker and notes when its loop stands still; load.py has the clients, each in a
process of its own; report.py writes what they waited for and why.
"""
