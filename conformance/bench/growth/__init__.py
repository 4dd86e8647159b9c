"""`make bench-growth`: measures what a broker costs as topics, groups, connections and data grow.

scales.py and held.py say what grows, turns.py measures it at a tenth and at its full size, and
greedy.py measures how long other clients wait beside one greedy client. The results are kept in a
file (results.py), from which report.py and plot.py write the report and its plot.
"""
