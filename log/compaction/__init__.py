"""Compaction: a log keeps the last record of each key, by the rules of Apache Kafka's cleaner.

    cleaner.py, cleanable.py    on the loop: which log is cleaned next, and how far
    round.py, swap.py           on the loop: one cleaning, and putting its segments in their places
    worker.py, worker_process.py  the process that does the rewriting, and the broker's end of it
    rewrite.py                  the rewriting: keys are noted, then groups of segments are filtered
    offset_map.py, key_scan.py  the last offset of each key
    batch_filter.py, batch_edit.py, transactions.py  what stays of a batch
    source.py, cleaned_segment.py  the files read and written

Offsets never change.  The cleaner keeps the same records as `Cleaner.java` of Apache Kafka 4.4;
tests let both clean the same files.
"""

from __future__ import annotations
