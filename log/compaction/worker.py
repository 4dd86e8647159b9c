"""The process that cleans: `python -m kwire.log.compaction.worker`, started by the broker.

It reads tasks from its standard input, a line each, and writes answers to its standard output.
When the input ends, because the broker closed it or is dead, the process ends at once.
"""

from __future__ import annotations

import gc
import os
import sys
from queue import SimpleQueue
from threading import Thread

from kwire.log.compaction.rewrite import clean
from kwire.log.compaction.task import CleaningTask, encode_answer
from kwire.log.directory.files import Files

NICENESS = 19
"""The lowest priority: all other processes run first."""


def _read_tasks(tasks: SimpleQueue[bytes]) -> None:
    """Read tasks in a thread, so that the end of the input is noticed during a task."""
    for line in sys.stdin.buffer:
        tasks.put(line)
    os._exit(0)


def main() -> None:
    """Carry out tasks until the input ends."""
    os.nice(NICENESS)
    gc.disable()  # nothing here makes cycles, and millions of keys would be walked
    tasks: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_read_tasks, args=(tasks,), daemon=True).start()
    while True:
        task = CleaningTask.decode(tasks.get())
        for answer in clean(task, Files()):
            sys.stdout.buffer.write(encode_answer(answer))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
